/* Judges the commands of the process; see costs.h. */
#include "simulation/costs.h"

#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/process.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"
#include "support/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* The figures of docs/design.md, "What an answer costs Redis". */
enum {
    HANDSHAKE_MAX = 20,      /* commands of a connection until it is in use */
    READ_BYTES_MAX = 400,    /* of the command that reads a card, and of any other that names no API keys */
    RANGE_MAX = 101,         /* members that a page reads of the index */
    KEYS_PER_CHECK = 64,     /* API keys of one check, and requests of one */
    CHECKS_AT_ONCE = 2,      /* of keys: one for requests, and the worker's own */
    CHECKS_AT_ONCE_MAX = 10, /* where each of the others has as many requests as it has room for */
    PORTION = 24,            /* members that a portion of the set of keys asks for */
    BACKLOG_MIN = 4096,      /* bytes of input that may have waited, which another PING follows */
    WINDOW_FIRST = 102,      /* of a new connection */
    WINDOW_AFTER_LOSS = 1,   /* of one that follows one that was lost with reads */
    WINDOW_STEP = 4,         /* its growth in a round trip */
    FETCH_MAX = 4,           /* commands of the request that takes the last room, and of those ahead of it */
    PAGE_READS_LACKING = 2,  /* of a page with a member without card */
    READS_MAX = 17,          /* for a request: the first and 16 repetitions */
    LARGEST_ENTRY = 3 * 1024 /* by which the cache may exceed its size, with a sixteenth of it */
};

enum { SMALL_CACHE = 1 << 16 }; /* in which entries give way to each other */

/* Between the worker's own reads of keys: the pause of a second may be shortened by late turns of the loop.
 */
static const uint64_t PACE_NS = 900 * (uint64_t)MS;

/* So long after a disturbance heartbeats have their pace again. */
static const uint64_t CALM_NS = 12 * UINT64_C(1000000000);

/* Somewhat shorter than it is. */
static const uint64_t LEASE_NS = 2500 * (uint64_t)MS;

/* Within which an invalidation arrives, where nothing is disturbed. */
static const uint64_t TRANSIT_NS = 200 * (uint64_t)MS;

/* Kinds of commands. */
enum kind {
    CARD,
    SUMMARY, /* of a card, for a page */
    LINK,
    RANGE,     /* of the index: a page */
    SIZE,      /* of the index */
    KEY_INFOS, /* the commands of a check of keys */
    MEMBERS,
    SCAN,
    COUNT, /* of the keys: a check of the catalogue */
    PING,
    ASKING,
    OTHER
};

/* A command under way. */
struct sent {
    enum kind kind;
    int64_t number; /* of the card, the link or the page; the API keys that are checked, as bits */
    bool is_shared; /* requests for the same have to share it */
    bool is_own;    /* the worker reads it for itself, */
    bool is_unsure; /* or may do so */
    bool has_data;  /* when it is executed */
    bool replied;
    uint64_t at_ns, made_ns; /* when it was written, and when its reply was made */
};

enum { WIRES = 64, UNDER_WAY = 16384 };

/* A connection of the process. */
static struct wire {
    unsigned number;       /* 0: there is none */
    unsigned handshake;    /* commands before it came into use */
    unsigned behind;       /* the turn since which it keeps something back; 0: it does not */
    unsigned behind_until; /* the turn in which that ended */
    unsigned read;         /* the last turn in which replies were read */
    bool is_used;          /* it has come into use */
    enum kind last;
    struct bytes in;              /* what makes no whole command yet */
    struct sent sent[UNDER_WAY];  /* a ring */
    size_t first, executed, next; /* the oldest under way, the next to be executed, and to be written */
} wires[WIRES];

/* The numbers of the connections, which are found here. */
static unsigned wire_numbers[WIRES];

/* A request: it waits, or has ended so lately that commands for it may be written. */
struct want {
    const struct asked *asked; /* while it waits; another one may be there afterwards */
    enum cache_query_type type;
    int64_t number;    /* of the card, the link or the page */
    int key_number;    /* of its API key (catalogue.h) */
    uint64_t key;      /* a part of the digest */
    unsigned ended;    /* in this turn; UINT_MAX: it waits */
    unsigned reads;    /* that were written for it, on this connection, */
    bool may_read;     /* or may have been written for it */
    bool may_be_valid; /* its key; nothing is read for one that has never been one */
    bool is_certain;   /* it came in ordinary times: an absence needs no second read */
};

enum { WANTS = 2048 };
static struct want wants[WANTS];
static size_t want_count;

/* What the process has read and holds since then. */
struct copy {
    bool read;
    uint64_t made_ns; /* of the reply */
    unsigned turn;    /* in which it had been read at the latest; 0: it is under way */
};

/* Of the keys of others the first few, and of pages all that an index may have, and one behind them. */
enum { IDS = CARDS + FIXED_MAX, OTHERS = 16, COPIED_KEYS = KEYS + OTHERS };

/* The commands of pages that are so far behind the end, or farther, are the same. */
static const int64_t FARTHEST = INT64_MAX / PAGE;

/* Times that are kept: if the last ones of a ring span less than a second (of PINGs: ten), that is too many.
 */
enum { PAGES = 5, HEARTBEATS = 3, PINGS = 12, SCANS = 4, CHECKS = 3, COUNTS = 40 };

static bool is_watched;
static const struct cache_metrics *metrics;

/* Of the connection in use. */
static struct wire *in_use; /* NULL: there is none */
static const struct redis *server;
static uint64_t connected_ns;
static unsigned connected_turn;
static uint64_t
    pong_ns[HEARTBEATS];         /* when the last PINGs that were answered had been written; the last first */
static unsigned pong_turn;       /* when the last reply was read; 0: it is under way */
static bool own_read, own_count; /* that the last heartbeat allows */
static unsigned own_checks;      /* that the last two allow: the first may have had to wait */
static uint64_t ping_ns[PINGS], scan_ns[SCANS], check_ns[CHECKS], count_ns[COUNTS]; /* that were written */
static uint64_t input_bytes,
    ping_bytes[2];          /* that Redis has sent, and had sent at the last PINGs; the last first */
static uint64_t scanned_ns; /* when a portion was last asked for */
static uint64_t all_ns, index_ns, keys_ns, card_ns; /* the last invalidations of these */
static uint64_t checked_ns[COPIED_KEYS];            /* when Redis last checked a key */
static struct copy cards[IDS + 1], summaries[IDS + 1], pages[PAGES], keys[COPIED_KEYS];
static int64_t summary_page[IDS + 1];    /* the page that has it */
static int last_with_link[LINKS];        /* the card with this link that was read last; 0: none was */
static uint64_t page_ns[PAGES];          /* when a range was last written */
static uint64_t told_card_ns[CARDS + 1]; /* the last invalidation of each */
static int64_t linked;                   /* links that were read, less the cards that were read by them */
static uint64_t check[KEYS_PER_CHECK];
static size_t check_count; /* keys of the check that is being written */
static unsigned window, most_due;
static bool window_grew;
static bool has_lost; /* reads, with the last connection */

/* --- times --- */

/* Three heartbeats were begun and answered since then: what was under way has had its effect. */
static bool is_settled(uint64_t at_ns)
{
    return pong_ns[HEARTBEATS - 1] > at_ns;
}

static bool is_undisturbed(void)
{
    return is_settled(scenario.disturbed_until_ns) && is_settled(scenario.slow_until_ns) &&
           is_settled(process_last_stop_ns()) && is_settled(process_stop_behind_ends_ns());
}

static bool is_tracked(void)
{
    const struct redis_faults *f = &server->faults;
    return scenario.settings.cache_size != 0 && scenario.topology->truth == NULL && !f->deaf &&
           !f->disordered && !f->refuses_tracking;
}

static bool is_ordinary(void)
{
    return is_tracked() && now_ns() - pong_ns[0] < LEASE_NS && is_settled(connected_ns) &&
           is_settled(all_ns) && is_undisturbed();
}

/* Besides, nothing that is cached gives way to anything else. */
static bool keeps_all(void)
{
    return scenario.settings.cache_size > SMALL_CACHE && is_ordinary();
}

/* The first turn in which what is written now can have been made. */
static unsigned made_since(const struct wire *w)
{
    return (w->behind != 0 ? w->behind : loop_turn()) - 1;
}

/* The process has had it, when it made what is written now. */
static bool is_held(const struct copy *c, const struct wire *w)
{
    return c->read && c->turn != 0 && c->turn < made_since(w);
}

/* --- the catalogue of the server in use --- */

static int64_t value_of(int object)
{
    return catalogue_value(&server->catalogue, object);
}

static uint64_t changed_ns(int object)
{
    const struct history *h = &server->catalogue.history[object];
    return h->count == 0 ? 0 : h->entry[(h->count - 1) % HISTORY].at_ns;
}

static bool has_changed(int object)
{
    return !is_settled(changed_ns(object));
}

/* What a key of another type replies is an error, and not an absence: nothing has to confirm it. */
static bool was_absent(int object)
{
    struct walk w = walk_begin(&server->catalogue, object, pong_ns[HEARTBEATS - 1], now_ns());
    int64_t value = 0;
    bool absent = value_of(object) == 0;
    while (!absent && walk_next(&w, &value))
        absent = value == 0;
    return absent || w.forgotten;
}

/* A card that never changes exists while the catalogue does. */
static bool is_fixed(int64_t id)
{
    return id > CARDS && id <= CARDS + server->catalogue.fixed && !server->catalogue.lost;
}

/* It does not exist, or did not some time ago. */
static bool card_was_absent(int64_t id)
{
    return id >= 1 && id <= CARDS ? was_absent(OBJECT_CARD + (int)id - 1) : !is_fixed(id);
}

/* A member of this page has no card, or there is no index: such a page is read twice. */
static bool page_may_lack(int64_t page)
{
    int ids[MEMBERS_MAX];
    int64_t index = value_of(OBJECT_INDEX);
    if (index == 0 || has_changed(OBJECT_INDEX))
        return true;
    int count = catalogue_members(&server->catalogue, index, ids);
    bool lacks = false;
    for (int64_t i = (page - 1) * PAGE; i < count && i < page * PAGE && !lacks; i++)
        lacks = card_was_absent(ids[i]);
    return lacks;
}

static bool link_may_lack(int64_t link)
{
    int64_t id = value_of(OBJECT_LINK + (int)link);
    if (has_changed(OBJECT_LINK + (int)link) || id == 0)
        return true;
    if (value_is_broken(id))
        return false;
    int64_t card = value_of(OBJECT_CARD + (int)id - 1);
    bool is_other = card == 0 || (!value_is_broken(card) && card_link(card) != link);
    return is_other || has_changed(OBJECT_CARD + (int)id - 1);
}

/* It is no member, or may have expired. */
static bool key_may_lack(int key)
{
    if (key < KEYS) {
        int64_t value = value_of(OBJECT_KEY + key);
        bool expires = key_info(value) != 0 && catalogue_expires[key_info(value)] != INT64_MAX;
        return !key_is_member(value) || expires || has_changed(OBJECT_KEY + key);
    }
    return key <= OTHER_KEYS || key >= OTHER_KEYS + server->other_keys || server->catalogue.lost;
}

/* Of one whose copies are known. */
static int key_number(int copied)
{
    return copied < KEYS ? copied : OTHER_KEYS + copied - KEYS;
}

/* There is one that is a member for some time already: the set exists. */
static bool has_keys(void)
{
    bool found = !server->catalogue.lost && server->other_keys > 1;
    for (int key = 0; key < KEYS && !found; key++)
        found = !key_may_lack(key);
    return found;
}

/* Its answer, or its key, may be an absence. */
static bool may_lack(const struct want *w)
{
    if (key_may_lack(w->key_number))
        return true;
    switch (w->type) {
    case QUERY_CARD:
        return card_was_absent(w->number);
    case QUERY_CARD_BY_LINK:
        return link_may_lack(w->number);
    case QUERY_PAGE:
        return page_may_lack(w->number);
    case QUERY_AUTH_ONLY:
        break;
    }
    return false;
}

/* --- requests --- */

static uint64_t part_of(const unsigned char *bytes)
{
    uint64_t part = 0;
    for (int i = 0; i < 5; i++)
        part = part << 8 | bytes[i];
    return part;
}

static void forget_ended(void)
{
    size_t kept = 0;
    unsigned turn = in_use == NULL ? loop_turn() : made_since(in_use);
    for (size_t i = 0; i < want_count; i++)
        if (wants[i].ended == UINT_MAX || wants[i].ended + 1 >= turn)
            wants[kept++] = wants[i];
    want_count = kept;
}

/* As its commands name it. */
static int64_t number_of(const struct asked *a)
{
    int64_t number = a->query.number;
    if (a->query.type == QUERY_CARD_BY_LINK)
        number = strtol(a->link + 1, NULL, 10);
    return a->query.type == QUERY_PAGE && number > FARTHEST ? FARTHEST : number;
}

static bool may_be_valid(int key)
{
    return key < KEYS || (key > OTHER_KEYS && key < OTHER_KEYS + scenario.server[0].other_keys);
}

void costs_asked(const struct asked *a)
{
    if (!is_watched)
        return;
    forget_ended();
    if (want_count ==
        WANTS) { /* a connection has kept commands back for long: the next one is judged again */
        in_use = NULL;
        forget_ended();
    }
    assert(want_count < WANTS);
    wants[want_count++] = (struct want){
        .asked = a,
        .type = a->query.type,
        .number = number_of(a),
        .key_number = a->key,
        .key = part_of(a->query.key.bytes),
        .may_be_valid = may_be_valid(a->key),
        .ended = UINT_MAX,
        .is_certain = in_use != NULL && is_ordinary() && is_settled(keys_ns),
    };
}

static bool is_card(int64_t id)
{
    return is_fixed(id) || (id >= 1 && id <= CARDS && value_of(OBJECT_CARD + (int)id - 1) > 0);
}

/* Also if that is not announced yet. */
static uint64_t card_changed_ns(int64_t id)
{
    bool is_known = id >= 1 && id <= CARDS;
    uint64_t changed = is_known ? changed_ns(OBJECT_CARD + (int)id - 1) : 0;
    uint64_t told_ns = is_known ? told_card_ns[id] : 0;
    return changed > told_ns ? changed : told_ns;
}

/* The summaries of its members are held from now on, as far as they have not changed lately. */
static void learn_summaries(int64_t page)
{
    int ids[MEMBERS_MAX];
    int count = catalogue_members(&server->catalogue, value_of(OBJECT_INDEX), ids);
    for (int64_t i = (page - 1) * PAGE; i < count && i < page * PAGE; i++) {
        int id = ids[i];
        if (!is_card(id) || summaries[id].read || !is_settled(card_changed_ns(id)))
            continue;
        summaries[id] = (struct copy){.read = true, .turn = loop_turn()};
        summary_page[id] = page;
    }
}

/* Its members are known from now on, until the index changes: it was read, and nothing of it has changed
 * since. */
static void learn_page(int64_t number, enum cache_source source)
{
    if (in_use == NULL || number >= PAGES || !keeps_all() || !is_settled(index_ns))
        return;
    bool was_read = page_ns[number] > index_ns && is_settled(index_ns) && page_ns[number] > card_ns;
    bool is_held = source == CACHE_SOURCE_HIT || (source >= CACHE_SOURCE_MISS && was_read);
    if (!is_held || value_of(OBJECT_INDEX) <= 0)
        return;
    if (!pages[number].read)
        pages[number] = (struct copy){.read = true, .turn = loop_turn()};
    if (!has_changed(OBJECT_INDEX)) /* or the process has another list still */
        learn_summaries(number);
}

static struct copy *copy_of_key(uint64_t key)
{
    for (int i = 0; i < COPIED_KEYS; i++) {
        unsigned char digest[DIGEST];
        catalogue_digest(key_number(i), digest);
        if (key == part_of(digest))
            return &keys[i];
    }
    return NULL;
}

/* It is known from now on that this is no key, or one that has expired. Where there is no set, that is not
 * kept. */
static void learn_invalid(uint64_t key)
{
    struct copy *copy = copy_of_key(key);
    if (copy != NULL && in_use != NULL && is_ordinary() && is_settled(keys_ns) && has_keys())
        *copy = (struct copy){.read = true, .turn = loop_turn()};
}

static void check_memory(void)
{
    uint64_t limit = scenario.settings.cache_size + scenario.settings.cache_size / 16 + LARGEST_ENTRY;
    if (metrics->cache_bytes > limit)
        trace_fail("the cache is larger than it may be: %" PRIu64 " bytes of %zu", metrics->cache_bytes,
                   scenario.settings.cache_size);
    if (metrics->cache_entries > 0 && metrics->cache_bytes == 0)
        trace_fail("the cache has entries that take no bytes");
}

/* What was read for a request that has ended may count for another one: its key was not checked yet. */
static void give_back_read(const struct want *ended)
{
    struct want *w = wants;
    while (w < wants + want_count && (w == ended || w->type != ended->type || w->number != ended->number ||
                                      w->ended != UINT_MAX || w->reads == 0))
        w++;
    if (w < wants + want_count && ended->reads == 0)
        w->reads--;
}

void costs_ended(const struct asked *a, const struct cache_result *result)
{
    struct want *w = wants;
    if (!is_watched)
        return;
    while (w < wants + want_count && (w->asked != a || w->ended != UINT_MAX))
        w++;
    if (w == wants + want_count)
        trace_fail("a request that is not watched was answered");
    w->ended = loop_turn();
    give_back_read(w);
    if (result != NULL && result->status == CACHE_FOUND && w->type == QUERY_PAGE)
        learn_page(w->number, result->source);
    if (result != NULL && result->status == CACHE_KEY_INVALID)
        learn_invalid(w->key);
    check_memory();
}

static bool is_waiting(const struct want *want, const struct wire *w)
{
    return want->ended == UINT_MAX || want->ended >= made_since(w);
}

static unsigned count_waiting(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < want_count; i++)
        n += wants[i].ended == UINT_MAX;
    return n;
}

static bool waits_for_data(const struct want *want, const struct wire *w, enum cache_query_type type)
{
    return want->type == type && is_waiting(want, w) && want->may_be_valid;
}

static bool any_waits_for(const struct wire *w, enum cache_query_type type)
{
    bool waits = false;
    for (size_t i = 0; i < want_count && !waits; i++)
        waits = waits_for_data(&wants[i], w, type);
    return waits;
}

/* Those that wait for this object: how many, and of them the one for which the least was read; NULL: none. */
struct waiting {
    struct want *least;
    bool is_first;   /* nothing was read for any of them */
    bool is_certain; /* they all came in ordinary times */
};

static struct waiting waiting_for(const struct wire *w, enum cache_query_type type, int64_t number)
{
    struct waiting found = {.is_first = true, .is_certain = true};
    for (size_t i = 0; i < want_count; i++) {
        struct want *want = &wants[i];
        if (want->number != number || !waits_for_data(want, w, type))
            continue;
        found.is_first = found.is_first && want->reads == 0 && !want->may_read;
        found.is_certain = found.is_certain && want->is_certain;
        /* What was read for one that was cancelled in this turn is no read for the others. */
        bool is_less = found.least == NULL || want->reads < found.least->reads;
        if (is_less || (want->reads == found.least->reads && want->ended != UINT_MAX))
            found.least = want;
    }
    return found;
}

static bool any_waits_with_key(const struct wire *w, uint64_t key)
{
    bool waits = false;
    for (size_t i = 0; i < want_count && !waits; i++)
        waits = wants[i].key == key && is_waiting(&wants[i], w);
    return waits;
}

/* --- rules about the reads of data --- */

__attribute__((noreturn)) static void reject(const char *rule, const struct wire *w, const struct sent *s)
{
    static const char *const kinds[] = {"HMGET of a card",
                                        "HMGET of a summary",
                                        "GET",
                                        "ZRANGE",
                                        "ZCARD",
                                        "HMGET",
                                        "SMISMEMBER",
                                        "SSCAN",
                                        "SCARD",
                                        "PING",
                                        "ASKING",
                                        "another"};
    trace_fail("%s: %s %" PRId64 " on connection %u", rule, kinds[s->kind], s->number, w->number);
}

/* The audit reads one entry after each heartbeat, and does not keep what it reads. */
static bool may_be_own(const struct wire *w)
{
    return own_read && (pong_turn == 0 || made_since(w) <= pong_turn + 1);
}

static bool take_own_read(const struct wire *w, struct sent *s)
{
    s->is_own = may_be_own(w);
    own_read = false;
    return s->is_own;
}

/* "What is cached is not read": but for the audit. */
static void check_not_held(const struct wire *w, struct sent *s, const struct copy *held, const char *rule)
{
    if (is_held(held, w) && !take_own_read(w, s))
        reject(rule, w, s);
}

/* "Requests share a read": none is under way whose reply the process cannot have, and which counts still. */
static void check_sharing(const struct wire *w, const struct sent *s, uint64_t invalidated_ns)
{
    for (size_t i = w->first; i < w->next; i++) {
        const struct sent *other = &w->sent[i % UNDER_WAY];
        if (other->kind == s->kind && other->number == s->number && other->is_shared && !other->replied &&
            (invalidated_ns == 0 || other->at_ns > invalidated_ns + TRANSIT_NS))
            reject("a read is not shared", w, s);
    }
}

static bool is_due(const struct sent *s, enum kind kind)
{
    return s->kind == kind && !s->is_own && !s->is_unsure && !s->replied;
}

/* Reads that requests wait for, as far as they are surely under way. A page counts as one, and so does a card
 * that is read together with a link. */
static unsigned count_due(const struct wire *w)
{
    unsigned due = 0;
    for (size_t i = w->first; i < w->next; i++) {
        const struct sent *s = &w->sent[i % UNDER_WAY];
        bool has_card = i > w->first && is_due(&w->sent[(i - 1) % UNDER_WAY], CARD);
        due += is_due(s, CARD) || is_due(s, RANGE) || (is_due(s, LINK) && !has_card);
    }
    return due;
}

unsigned costs_under_way(void)
{
    unsigned n = 0;
    for (size_t i = in_use == NULL ? 0 : in_use->first; in_use != NULL && i < in_use->next; i++) {
        enum kind kind = in_use->sent[i % UNDER_WAY].kind;
        n += kind == CARD || kind == LINK || kind == RANGE;
    }
    return n;
}

static unsigned count_under_way(const struct wire *w, enum kind kind)
{
    unsigned n = 0;
    for (size_t i = w->first; i < w->next; i++)
        n += w->sent[i % UNDER_WAY].kind == kind && !w->sent[i % UNDER_WAY].replied;
    return n;
}

/* "The window": a request begins to read only if there is room. One that has checked its key by itself has
 * begun. */
static void check_window(const struct wire *w)
{
    unsigned due = count_due(w);
    unsigned most = window + (window < FETCH_MAX ? 1 : FETCH_MAX);
    if (!window_grew && due >= most && scenario.topology->truth == NULL)
        trace_fail("more commands are under way than the window has room for: %u of %u", due, window);
}

/* A read may be for each of the requests that wait for the same. */
static void note_read_for(const struct wire *w, const struct want *one)
{
    for (struct want *want = wants; want < wants + want_count; want++)
        if (want->type == one->type && want->number == one->number && is_waiting(want, w))
            want->may_read = true;
}

/* It may be read so often for these requests: once, if nothing is uncertain. */
static void count_read(const struct wire *w, const struct sent *s, const struct waiting *waiting,
                       unsigned most)
{
    if (waiting->least->reads >= most)
        reject("a request reads more than it needs", w, s);
    waiting->least->reads += !s->is_unsure;
    note_read_for(w, waiting->least);
}

static bool is_counted(int64_t id)
{
    return id >= 1 && id <= IDS;
}

/* A link and its card agree, and are not read again. */
static bool links_are_steady(void)
{
    bool steady = is_ordinary() && is_settled(card_ns);
    for (int link = 0; link < LINKS && steady; link++)
        steady = !has_changed(OBJECT_LINK + link);
    return steady;
}

static void judge_card(const struct wire *w, struct sent *s)
{
    struct waiting waiting = waiting_for(w, QUERY_CARD, s->number);
    bool by_link = any_waits_for(w, QUERY_CARD_BY_LINK);
    if (s->number < 1)
        reject("a card is read that no link leads to", w, s);
    /* An absence is read once more, although another request may have found the card in between. */
    if (is_counted(s->number) && !by_link && keeps_all() && !card_was_absent(s->number))
        check_not_held(w, s, &cards[s->number], "a card is read that is cached");
    if (s->is_own)
        return;
    if (waiting.least == NULL && !by_link && !take_own_read(w, s))
        reject("nobody waits for a card that is read", w, s);
    if (s->is_own)
        return;
    if (waiting.least == NULL || by_link) {
        bool may_be_audit = own_read && may_be_own(w);
        if (waiting.least == NULL && linked == 0 && links_are_steady() && !take_own_read(w, s))
            reject("more cards are read than their links lead to", w, s);
        linked -= waiting.least == NULL && linked > 0 && !may_be_audit;
        if (waiting.least != NULL)
            note_read_for(w, waiting.least);
        return;
    }
    bool is_certain = is_ordinary() && is_settled(keys_ns);
    if (!s->is_unsure && (is_certain || (is_ordinary() && is_card(s->number))))
        check_sharing(w, s, card_changed_ns(s->number));
    if (waiting.is_first)
        check_window(w);
    count_read(w, s, &waiting, waiting.is_certain && is_certain && !s->is_unsure ? 1 : READS_MAX);
    s->is_shared = !s->is_unsure;
}

/* The card that has this link is cached, and no other one that had it was read since: the link leads to the
 * last one. */
static bool is_link_held(const struct wire *w, int64_t link)
{
    int id = link >= 0 && link < LINKS ? last_with_link[link] : 0;
    if (id == 0 || !is_held(&cards[id], w) || changed_ns(OBJECT_CARD + id - 1) >= cards[id].made_ns)
        return false;
    int64_t value = value_of(OBJECT_CARD + id - 1);
    return value > 0 && card_link(value) == link;
}

static void judge_link(const struct wire *w, struct sent *s)
{
    struct waiting waiting = waiting_for(w, QUERY_CARD_BY_LINK, s->number);
    if (waiting.least == NULL)
        reject("nobody waits for a link that is read", w, s);
    bool may_repeat = link_may_lack(s->number);
    bool is_steady = links_are_steady() && !may_repeat;
    if (!may_repeat && waiting.is_first && keeps_all() && is_link_held(w, s->number))
        reject("a link is read whose card is cached", w, s);
    if (is_steady)
        check_sharing(w, s, card_ns);
    count_read(w, s, &waiting, waiting.is_certain && is_steady ? 1 : READS_MAX);
    linked++;
    s->is_shared = is_steady;
}

static void judge_summary(const struct wire *w, struct sent *s)
{
    if (is_counted(s->number) && keeps_all())
        check_not_held(w, s, &summaries[s->number], "a summary is read that is cached");
    if (!s->is_own && !any_waits_for(w, QUERY_PAGE) && !take_own_read(w, s))
        reject("nobody waits for a summary that is read", w, s);
}

static void check_range(const struct wire *w, const struct sent *s, const struct command *m)
{
    uint64_t from = number_at(m->word[2].text, m->word[2].len);
    uint64_t to = number_at(m->word[3].text, m->word[3].len);
    if (m->count != 4 || from % PAGE != 0 || to < from || to - from >= RANGE_MAX)
        reject("a page reads more of the index than it shows", w, s);
}

/* What it lacks has been away for some time, so two reads lack the same. */
static bool is_unchanged_page(void)
{
    bool changed = has_changed(OBJECT_INDEX);
    for (int card = 0; card < CARDS && !changed; card++)
        changed = has_changed(OBJECT_CARD + card);
    return !changed && is_ordinary() && is_settled(index_ns) && is_settled(keys_ns) && has_keys();
}

static void judge_page(const struct wire *w, struct sent *s)
{
    struct waiting waiting = waiting_for(w, QUERY_PAGE, s->number);
    bool lacks = page_may_lack(s->number);
    bool is_steady = is_ordinary() && is_settled(index_ns) && is_settled(keys_ns) && !lacks;
    bool is_known = is_settled(index_ns) && keeps_all() && !lacks;
    if (is_known && s->number < PAGES)
        check_not_held(w, s, &pages[s->number], "a page is read whose index has not changed");
    if (!s->is_own && waiting.least == NULL && !take_own_read(w, s))
        reject("nobody waits for a page that is read", w, s);
    if (s->is_own)
        return;
    if (s->number < PAGES)
        page_ns[s->number] = now_ns();
    if (is_steady && !s->is_unsure)
        check_sharing(w, s, card_ns);
    if (waiting.is_first && !s->is_unsure)
        check_window(w);
    bool is_certain = waiting.is_certain && is_settled(card_ns) && !s->is_unsure;
    count_read(w, s, &waiting,
               is_certain && is_steady             ? 1
               : is_certain && is_unchanged_page() ? PAGE_READS_LACKING
                                                   : READS_MAX);
    s->is_shared = is_steady && !s->is_unsure && s->number < FARTHEST;
}

/* --- rules about the reads of keys and of the whole --- */

static void push_time(uint64_t *times, size_t count)
{
    memmove(times + 1, times, (count - 1) * sizeof *times);
    times[0] = process_monotonic_ns();
}

/* The last ones were written one after the other in less than a second, by a process that was not stopped. */
static bool is_hurried(const uint64_t *times, size_t count)
{
    uint64_t oldest_ns = times[count - 1];
    return oldest_ns != 0 && times[0] - oldest_ns < PACE_NS && is_undisturbed() && is_settled(all_ns);
}

/* A record of a key lasts until the next change, unless many keys displace each other. */
static bool keeps_keys(void)
{
    return is_settled(keys_ns) && is_ordinary() && !scenario_has(FAULT_burst);
}

/* Whether a request waits for one of its keys; and one that is not known to be valid, or to be none. */
static bool check_is_wanted(const struct wire *w)
{
    bool wanted = false;
    for (size_t i = 0; i < check_count && !wanted; i++) {
        const struct copy *copy = copy_of_key(check[i]);
        bool confirmed = keeps_keys() && copy != NULL && is_held(copy, w);
        wanted = !confirmed && any_waits_with_key(w, check[i]);
    }
    return wanted;
}

static unsigned most_checks(void)
{
    return is_ordinary() ? CHECKS_AT_ONCE + count_waiting() / KEYS_PER_CHECK : CHECKS_AT_ONCE_MAX;
}

static void judge_check(const struct wire *w, struct sent *s)
{
    for (size_t i = 0; i < check_count; i++)
        s->number |= copy_of_key(check[i]) == NULL ? 0 : INT64_C(1) << (copy_of_key(check[i]) - keys);
    if (count_under_way(w, MEMBERS) >= most_checks())
        reject("too many checks of keys are under way", w, s);
    if (check_is_wanted(w))
        return;
    if (own_checks == 0 && is_ordinary() && is_settled(keys_ns))
        reject("nobody waits for a key that is checked", w, s);
    own_checks -= own_checks > 0;
    push_time(check_ns, CHECKS);
    if (is_hurried(check_ns, CHECKS))
        reject("keys are checked without a pause", w, s);
}

static void judge_scan(const struct wire *w, const struct sent *s, const struct command *m)
{
    push_time(scan_ns, SCANS);
    scanned_ns = now_ns();
    if (is_hurried(scan_ns, SCANS))
        reject("the set of keys is read without a pause", w, s);
    if (m->count != 5 || number_at(m->word[4].text, m->word[4].len) != PORTION)
        reject("a portion of the set of keys has another size", w, s);
}

/* An answer that may be an absence waits for such a probe. */
static void judge_count(const struct wire *w, const struct sent *s)
{
    bool is_quiet = is_ordinary() && is_settled(keys_ns) && is_settled(index_ns);
    bool lacks = false;
    for (size_t i = 0; i < want_count && !lacks; i++)
        lacks = is_waiting(&wants[i], w) && may_lack(&wants[i]);
    if (count_under_way(w, COUNT) > 0)
        reject("two checks of the catalogue are under way", w, s);
    if (is_quiet && !own_count && !lacks)
        reject("the catalogue is checked without a reason", w, s);
    own_count = false;
    if (lacks)
        return;
    push_time(count_ns, COUNTS);
    if (is_hurried(count_ns, COUNTS))
        reject("each invalidation is answered by a check of the catalogue", w, s);
}

static bool is_member(const struct redis *r, int key)
{
    if (key < KEYS)
        return key_is_member(catalogue_value(&r->catalogue, OBJECT_KEY + key));
    return key > OTHER_KEYS && key < OTHER_KEYS + r->other_keys && !r->catalogue.lost;
}

/* Whether a member of the set was not checked since the keys changed. */
static bool has_unchecked(uint64_t since_ns)
{
    for (int i = 0; i < COPIED_KEYS; i++)
        if (is_member(server, key_number(i)) && checked_ns[i] < since_ns)
            return true;
    return false;
}

/* Three heartbeats after a change the set of keys is scanned again, if it has keys that were not checked. A
 * portion that failed has a long pause. */
static void judge_scanning(const struct wire *w, const struct sent *s)
{
    uint64_t since_ns = keys_ns > connected_ns ? keys_ns : connected_ns;
    bool may_fail = scenario_has(FAULT_error) || scenario_has(FAULT_memory) || scenario_has(FAULT_broken);
    if (scanned_ns > since_ns || may_fail)
        return;
    if (is_ordinary() && is_settled(keys_ns) && has_unchecked(since_ns))
        reject("keys that nobody uses are not looked for", w, s);
}

/* A PING that may be for input that has waited does not count. That input came since the one before the last.
 */
static void judge_ping(const struct wire *w, const struct sent *s)
{
    bool has_waited = input_bytes - ping_bytes[1] >= BACKLOG_MIN;
    ping_bytes[1] = ping_bytes[0];
    ping_bytes[0] = input_bytes;
    if (has_waited)
        return;
    judge_scanning(w, s);
    push_time(ping_ns, PINGS);
    bool is_hurried = ping_ns[PINGS - 1] != 0 && ping_ns[0] - ping_ns[PINGS - 1] < 10 * SECOND;
    uint64_t since_ns = now_ns() > CALM_NS ? now_ns() - CALM_NS : 0;
    if (is_hurried && !scenario_has(FAULT_flood) && is_undisturbed() && process_last_stop_ns() < since_ns &&
        scenario.disturbed_until_ns < since_ns && all_ns < since_ns)
        reject("heartbeats come without a pause", w, s);
}

/* --- commands --- */

static int64_t number_behind(const struct word *name)
{
    const char *at = name->text + name->len;
    while (at > name->text && at[-1] != ':' && at[-1] != 'l')
        at--;
    return (int64_t)number_at(at, (size_t)(name->text + name->len - at));
}

static bool ends_with(const struct word *name, const char *end)
{
    size_t len = strlen(end);
    return name->len >= len && memcmp(name->text + name->len - len, end, len) == 0;
}

static struct sent sent_of(const struct command *m)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {{"GET", LINK},    {"ZRANGE", RANGE},       {"ZCARD", SIZE}, {"SSCAN", SCAN},
                 {"SCARD", COUNT}, {"SMISMEMBER", MEMBERS}, {"PING", PING},  {"ASKING", ASKING}};
    struct sent s = {.kind = OTHER, .at_ns = now_ns()};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (word_is(&m->word[0], kinds[i].name))
            s.kind = kinds[i].kind;
    if (word_is(&m->word[0], "HMGET"))
        s.kind = ends_with(&m->word[1], "api_key_info") ? KEY_INFOS
                 : m->count - 2 < CHANNEL_FIELD_COUNT   ? SUMMARY
                                                        : CARD;
    if (s.kind == CARD || s.kind == SUMMARY || s.kind == LINK)
        s.number = number_behind(&m->word[1]);
    if (s.kind == RANGE)
        s.number = (int64_t)number_at(m->word[2].text, m->word[2].len) / PAGE + 1;
    return s;
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void note_keys(const struct wire *w, const struct command *m, const struct sent *s)
{
    check_count = 0;
    if (m->count - 2 > (size_t)KEYS_PER_CHECK)
        reject("a check has too many keys", w, s);
    for (size_t i = 2; i < m->count; i++) {
        unsigned char bytes[5];
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] =
                (unsigned char)(digit(m->word[i].text[2 * b]) << 4 | digit(m->word[i].text[2 * b + 1]));
        check[check_count++] = part_of(bytes);
    }
}

/* The size of the index is a part of a check of the catalogue, or of a page, unless memory ends behind it. */
static void judge_last(struct wire *w, const struct sent *s)
{
    if (w->last == SIZE && s->kind != RANGE && !scenario_has(FAULT_memory))
        reject("nobody waits for the size of the index", w, s);
}

static void judge(struct wire *w, struct sent *s, const struct command *m, size_t bytes)
{
    judge_last(w, s);
    s->is_unsure = may_be_own(w);
    if (bytes > READ_BYTES_MAX && s->kind != KEY_INFOS && s->kind != MEMBERS)
        reject("a command has too many bytes", w, s);
    switch (s->kind) {
    case CARD:
        judge_card(w, s);
        break;
    case SUMMARY:
        judge_summary(w, s);
        break;
    case LINK:
        judge_link(w, s);
        break;
    case RANGE:
        check_range(w, s, m);
        judge_page(w, s);
        break;
    case KEY_INFOS:
        note_keys(w, m, s);
        break;
    case MEMBERS:
        judge_check(w, s);
        break;
    case SCAN:
        judge_scan(w, s, m);
        break;
    case COUNT:
        judge_count(w, s);
        break;
    case PING:
        judge_ping(w, s);
        break;
    case SIZE:
    case ASKING:
    case OTHER:
        break;
    }
}

/* "A connection": what it costs until it is in use. Those to other nodes and Sentinels stay. */
static void judge_handshake(struct wire *w)
{
    if (++w->handshake > HANDSHAKE_MAX && scenario.topology == &topology_plain)
        trace_fail("a connection costs too many commands: connection %u", w->number);
}

/* A reply to a full window lets it grow: how often depends on when the process reads. So it is judged until
 * then. */
static void note_growth(void)
{
    window_grew = window_grew || most_due + WINDOW_STEP > window;
}

static void add_command(struct wire *w, const struct command *m, size_t bytes)
{
    struct sent s = sent_of(m);
    /* without memory for a probe it comes into use before its permissions are checked */
    bool is_handshake = scenario_has(FAULT_memory) && loop_turn() <= connected_turn + 1;
    if (w == in_use && !is_handshake)
        judge(w, &s, m, bytes);
    else if (!w->is_used)
        judge_handshake(w);
    if (w->next - w->first == UNDER_WAY)
        trace_fail("too many commands are under way: connection %u", w->number);
    w->sent[w->next++ % UNDER_WAY] = s;
    w->last = s.kind == SIZE && w->last == COUNT ? COUNT : s.kind;
    most_due = w == in_use && w->next - w->first > most_due ? (unsigned)(w->next - w->first) : most_due;
    if (w == in_use && w->read >= made_since(w)) /* before or behind it, in the same turn */
        note_growth();
}

/* --- events --- */

static struct wire *wire_of(unsigned number)
{
    for (int i = 0; i < WIRES && is_watched; i++)
        if (wire_numbers[i] == number)
            return &wires[i];
    return NULL;
}

static void set_number(struct wire *w, unsigned number)
{
    w->number = wire_numbers[w - wires] = number;
}

static struct wire *begin_wire(unsigned number)
{
    struct wire *w = wire_of(number);
    if (w != NULL)
        return w;
    w = wire_of(0);
    assert(w != NULL); /* the process has no more open (net.c) */
    set_number(w, number);
    w->handshake = w->behind = w->behind_until = w->read = 0;
    w->is_used = false;
    w->last = OTHER;
    bytes_clear(&w->in);
    w->first = w->executed = w->next = 0;
    return w;
}

void costs_wrote(unsigned number, const char *data, size_t n, bool whole)
{
    struct command m;
    struct wire *w = is_watched ? begin_wire(number) : NULL;
    if (w == NULL)
        return;
    if (w->behind_until != 0 && w->behind_until != loop_turn())
        w->behind = w->behind_until = 0;
    if (!whole) {
        w->behind = w->behind != 0 ? w->behind : loop_turn();
        w->behind_until = 0;
    } else if (w->behind != 0) {
        w->behind_until = loop_turn();
    }
    bytes_add(&w->in, data, n);
    for (size_t len; bytes_count(&w->in) > 0 && (len = redis_parse(&w->in, &m)) > 0;) {
        add_command(w, &m, len);
        bytes_drop(&w->in, len);
    }
}

static void learn(struct copy *c, const struct redis *r)
{
    if (!c->read)
        *c = (struct copy){.read = true, .made_ns = r->turn_ns};
}

/* What a worker may do when it has the reply to this PING. */
static void allow_own(void)
{
    own_read = own_count = true;
    own_checks += own_checks < 2;
    pong_turn = 0;
}

/* A request keeps what is there, unless it fails or has an invalid key, or memory runs out. */
static bool keeps(const struct sent *s)
{
    return s->has_data && !s->is_own && !s->is_unsure && is_ordinary();
}

/* One that may have been kept may have the link since. */
static void note_link(int id, bool is_kept)
{
    int64_t value = value_of(OBJECT_CARD + id - 1);
    if (value > 0 && card_link(value) >= 0)
        last_with_link[card_link(value)] = is_kept ? id : 0;
}

static int64_t page_of(int64_t id)
{
    int ids[MEMBERS_MAX];
    int count = catalogue_members(&server->catalogue, value_of(OBJECT_INDEX), ids);
    for (int i = 0; i < count; i++)
        if (ids[i] == id)
            return i / PAGE + 1;
    return 0;
}

/* A summary stays on its page only. */
static void forget_moved(void)
{
    for (int id = 1; id <= IDS; id++)
        if (summaries[id].read && summary_page[id] != page_of(id))
            summaries[id] = (struct copy){0};
}

static void learn_from(const struct sent *s, const struct redis *r)
{
    bool is_card_read = s->kind == CARD && keeps(s) && is_card(s->number);
    if (is_card_read)
        learn(&cards[s->number], r);
    if (s->kind == CARD && !s->is_own && is_card(s->number) && s->number <= CARDS)
        note_link((int)s->number, is_card_read);
    /* Else the process may apply a change that it has read, behind a check of the catalogue. */
    bool is_kept = s->has_data && is_ordinary() && is_settled(keys_ns);
    for (int i = 0; s->kind == MEMBERS && i < COPIED_KEYS; i++) {
        if ((s->number & INT64_C(1) << i) == 0 || !is_member(r, key_number(i)))
            continue;
        checked_ns[i] = now_ns();
        if (is_kept)
            learn(&keys[i], r);
    }
    if (s->kind == PING)
        allow_own();
    if (s->kind == RANGE)
        forget_moved();
}

void costs_executed(const struct redis_client *c, bool has_data)
{
    struct wire *w = wire_of(c->number);
    if (w == NULL)
        return;
    if (w->executed == w->next)
        trace_fail("a command is executed that was not written");
    struct sent *s = &w->sent[w->executed++ % UNDER_WAY];
    s->has_data = has_data;
    if (w == in_use)
        learn_from(s, c->redis);
}

void costs_replied(const struct redis_client *c, size_t n)
{
    struct wire *w = wire_of(c->number);
    input_bytes += w != NULL && w == in_use ? n : 0;
    for (size_t i = w == NULL ? 0 : w->first; w != NULL && i < w->executed; i++) {
        struct sent *s = &w->sent[i % UNDER_WAY];
        if (s->replied)
            continue;
        s->replied = true;
        s->made_ns = c->redis->turn_ns;
        if (w == in_use)
            note_growth();
    }
}

/* A PING between two heartbeats, for input that has waited, is none of them. */
static void note_pong(const struct sent *s)
{
    if (s->kind != PING)
        return;
    pong_turn = loop_turn();
    if (s->at_ns < pong_ns[0] + PACE_NS)
        return;
    memmove(pong_ns + 1, pong_ns, sizeof pong_ns - sizeof pong_ns[0]);
    pong_ns[0] = s->at_ns;
}

static void note_read(struct copy *c, size_t count, uint64_t made_ns)
{
    for (size_t i = 0; i < count; i++)
        if (c[i].read && c[i].turn == 0 && c[i].made_ns <= made_ns)
            c[i].turn = loop_turn();
}

void costs_read(unsigned number, uint64_t made_ns)
{
    struct wire *w = wire_of(number);
    if (w == NULL)
        return;
    w->read = loop_turn();
    for (; w->first < w->executed; w->first++) {
        const struct sent *s = &w->sent[w->first % UNDER_WAY];
        if (!s->replied || s->made_ns > made_ns)
            break;
        if (w == in_use)
            note_pong(s);
    }
    if (w != in_use)
        return;
    note_read(cards, IDS + 1, made_ns);
    note_read(keys, COPIED_KEYS, made_ns);
}

static void forget(struct copy *c, size_t count)
{
    memset(c, 0, count * sizeof *c);
}

void costs_invalidated(const struct redis_client *c, uint64_t names)
{
    if (wire_of(c->number) == NULL || wire_of(c->number) != in_use)
        return;
    for (int id = 1; id <= CARDS; id++)
        if ((names & UINT64_C(1) << (OBJECT_CARD + id - 1)) != 0) {
            forget(&cards[id], 1);
            forget(&summaries[id], 1);
            card_ns = told_card_ns[id] = now_ns();
        }
    if (names == COSTS_ALL) { /* and those that never change */
        forget(cards, IDS + 1);
        forget(summaries, IDS + 1);
    }
    if ((names & UINT64_C(1) << OBJECT_INDEX) != 0) {
        forget(pages, PAGES);
        index_ns = now_ns();
    }
    if ((names & UINT64_C(3) << NAME_API_KEYS) != 0) {
        forget(keys, COPIED_KEYS);
        keys_ns = now_ns();
    }
    all_ns = names == COSTS_ALL ? now_ns() : all_ns;
}

static void lose(void)
{
    has_lost = has_lost || (in_use != NULL && count_due(in_use) > 0);
    in_use = NULL;
}

static void connect_to(const struct redis *r, struct wire *w)
{
    in_use = w;
    w->is_used = true;
    server = r;
    connected_ns = now_ns();
    connected_turn = loop_turn();
    memset(pong_ns, 0, sizeof pong_ns);
    memset(ping_ns, 0, sizeof ping_ns);
    input_bytes = ping_bytes[0] = ping_bytes[1] = 0;
    memset(scan_ns, 0, sizeof scan_ns);
    memset(check_ns, 0, sizeof check_ns);
    memset(count_ns, 0, sizeof count_ns);
    memset(page_ns, 0, sizeof page_ns);
    memset(told_card_ns, 0, sizeof told_card_ns);
    forget(cards, IDS + 1);
    forget(summaries, IDS + 1);
    forget(pages, PAGES);
    forget(keys, COPIED_KEYS);
    all_ns = index_ns = keys_ns = card_ns = scanned_ns = 0;
    own_read = own_count = false;
    own_checks = 0;
    linked = 0;
    window = has_lost ? WINDOW_AFTER_LOSS : WINDOW_FIRST;
    window_grew = false;
    most_due = 0;
    has_lost = false;
    for (size_t i = 0; i < want_count; i++) {
        wants[i].reads = 0;
        wants[i].may_read = false;
    }
}

void costs_closed(unsigned number)
{
    struct wire *w = number == 0 ? NULL : wire_of(number);
    if (w == NULL)
        return;
    if (w == in_use)
        lose();
    set_number(w, 0);
}

void costs_connection(const struct redis *r, unsigned number)
{
    if (!is_watched)
        return;
    lose();
    for (struct wire *w = wires; w < wires + WIRES && r != NULL && number == 0; w++)
        w->is_used = true;
    struct wire *used = r != NULL && number != 0 ? wire_of(number) : NULL;
    if (used != NULL)
        connect_to(r, used);
}

void costs_begin(bool watched, const struct cache_metrics *m)
{
    is_watched = watched;
    metrics = m;
    in_use = NULL;
    has_lost = false;
    want_count = 0;
    memset(last_with_link, 0, sizeof last_with_link);
    for (struct wire *w = wires; w < wires + WIRES; w++)
        set_number(w, 0);
}
