/* Compares answers with histories; see oracle.h. */
#include "simulation/oracle.h"

#include "simulation/costs.h"
#include "simulation/events.h"
#include "simulation/process.h"
#include "simulation/scenario.h"
#include "simulation/settings.h"
#include "simulation/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A socket that was drained within 50 ms counts as drained; times are compared in whole milliseconds. */
static const uint64_t DRAINED_NS = 52 * (uint64_t)MS;

static const uint64_t LEASE_NS = 3000 * (uint64_t)MS;

/* After the last fault: the pause between attempts, two that time out, the first late, and the check of the
 * keys. */
static const uint64_t RECOVERY_NS = 14 * UINT64_C(1000000000);

/* Silence of a master that is permitted, rounded, until the next heartbeat, and the lease. */
static const uint64_t SILENCE_NS = 21 * UINT64_C(1000000000);
/* Where no invalidation arrives: one entry is read again with each heartbeat, and what differs counts after
 * two. */
static const uint64_t AUDITED_NS = 75 * UINT64_C(1000000000);

/* Until it is known that Sentinels name another server: rounds of queries, or the grace of a replica. */
static const uint64_t SUPERSEDED_NS = 12 * UINT64_C(1000000000);

/* A part of the second in which a replica is not used that has said that its link is down. */
static const uint64_t SETTLES_NS = 500 * (uint64_t)MS;

/* Turns of the loop beyond the deadline, each of which may be late. */
static const uint64_t LATE_NS = 60 * (uint64_t)MS;

unsigned oracle_answers[CACHE_SOURCES];

/* The connections that were in use, in their order; the last VIEWS are remembered. */
enum { VIEWS = 64 };

static struct view {
    const struct redis *server;
    unsigned conn;
    uint64_t since_ns; /* in use */
    uint64_t heard_ns; /* from the master, at most, when the connection was lost; of a replica */
} views[VIEWS];

/* What the process has last read of a replica: when that has last heard from its master. */
static struct oracle_statement told;

/* `told` was in what was last read on its connection; what was known before that. */
static bool told_last;
static struct oracle_statement told_before;

/* By the connection's number: under way to the process; `conn` 0: none. */
static struct oracle_statement statements[VIEWS];

/* When the replicas have said that their links are down, as far as the process has read it; 0: never. */
static uint64_t down_ns[SERVERS];

static size_t view_count;
static bool connected;   /* by the last one */
static uint64_t left_ns; /* the owner that was left last has had the slot since then; 0: none was */

static void note_down(unsigned number, uint64_t made_ns)
{
    for (size_t i = 0; i < scenario.servers; i++) {
        const struct replication *p = &scenario.server[i].replication;
        if (p->down_conn == number && p->down_said_ns <= made_ns)
            down_ns[i] = p->down_said_ns;
    }
}

static void on_read(unsigned number, uint64_t made_ns, bool is_part)
{
    struct oracle_statement *s = &statements[number % VIEWS];
    costs_read(number, made_ns - is_part);
    note_down(number, made_ns - is_part);
    told_last = told_last && number != told.conn;
    if (s->conn != number || s->made_ns > made_ns)
        return;
    told_before = told;
    told_last = true;
    told = *s;
    s->conn = 0;
}

static void on_close(unsigned number)
{
    costs_closed(number);
    if (!told_last || number != told.conn)
        return;
    told = told_before;
    told_last = false;
}

void oracle_begin(void)
{
    view_count = 0;
    told = (struct oracle_statement){0};
    memset(statements, 0, sizeof statements);
    told_last = false;
    memset(down_ns, 0, sizeof down_ns);
    net_watch(&(const struct net_watcher){on_read, on_close, costs_wrote});
    connected = false;
    left_ns = 0;
    memset(oracle_answers, 0, sizeof oracle_answers);
}

/* The newest connection with the settings in use that tracks, or by which something was read that no node
 * referred to another one. */
static struct view newest(void)
{
    struct view found = {.server = scenario.server, .since_ns = now_ns()};
    for (const struct redis *r = scenario.server; r < scenario.server + scenario.servers; r++)
        for (const struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
            if (c->conn != NULL && c->settings == settings_in_use() && (c->tracks || c->reads) &&
                c->number > found.conn) {
                found.server = r;
                found.conn = c->number;
            }
    return found;
}

/* How long after a fault its effects may last. */
static uint64_t recovery_ns(void)
{
    return RECOVERY_NS + scenario_recovery_s() * SECOND;
}

/* The last fault was long enough ago: no connection may be lost now. */
static bool is_undisturbed(void)
{
    return process_noticed_ns(scenario.severed_until_ns, recovery_ns()) + recovery_ns() < now_ns();
}

/*
 * A node that has not heard of the migration names the former owner, and is believed where MOVED did not come
 * first. The former owner then says MOVED, which is believed for longer than gossip takes. So the new owner
 * is left once without a fault, and not again.
 */
static void check_left(const struct view *v)
{
    const struct topology *t = scenario.topology;
    uint64_t since_ns = t->owned_since_ns == NULL ? 0 : t->owned_since_ns(v->server);
    bool stopped = process_last_stop_ns() > since_ns;
    if (since_ns == 0 || v->since_ns < since_ns || stopped || !is_undisturbed())
        return;
    if (since_ns == left_ns)
        trace_fail("the owner of the slot was left twice without a fault");
    left_ns = since_ns;
}

/* A replica whose link was down is not used for one more second, which counts from when INFO was sent. */
static void check_settled(const struct view *v)
{
    uint64_t said_ns = down_ns[v->server - scenario.server];
    uint64_t last_ns = process_last_stop_ns();
    last_ns = scenario.slow_until_ns > last_ns ? scenario.slow_until_ns : last_ns;
    last_ns = v->server->hung_until_ns > last_ns ? v->server->hung_until_ns : last_ns;
    if (v->server->replication.upstream == NULL || v->server->replication.has_lied)
        return;
    if (said_ns == 0 || now_ns() > said_ns + SETTLES_NS || now_ns() < last_ns + 3 * SECOND)
        return;
    if (!scenario_has(FAULT_renew) && !scenario_has(FAULT_error) && !scenario_has(FAULT_memory))
        trace_fail("a replica is used whose link was down a moment ago");
}

/* What a connection has stated of the master. Of input that has arrived a part may have been read. */
static uint64_t last_heard_ns(unsigned conn)
{
    const struct oracle_statement *s = &statements[conn % VIEWS];
    uint64_t heard_ns = conn == told.conn ? told.heard_ns : 0;
    bool has_arrived = s->conn == conn && s->made_ns <= net_horizon(conn, now_ns());
    return has_arrived && s->heard_ns > heard_ns ? s->heard_ns : heard_ns;
}

unsigned oracle_losses;

void oracle_connection(bool ready)
{
    struct view *last = &views[(view_count - 1) % VIEWS];
    if ((!ready || connected) && view_count > 0)
        last->heard_ns = last_heard_ns(last->conn);
    if (!ready && connected && scenario.topology == &topology_plain && is_undisturbed())
        trace_fail("a connection was given up without a fault");
    if (!ready && connected)
        check_left(last);
    oracle_losses += !ready;
    connected = ready;
    if (ready) {
        views[view_count++ % VIEWS] = newest();
        check_settled(&views[(view_count - 1) % VIEWS]);
    }
    costs_connection(ready ? newest().server : NULL, newest().conn);
    TRACE("process", ready ? "is connected by %u" : "has lost its connection",
          ready ? views[(view_count - 1) % VIEWS].conn : 0);
}

void oracle_stated(const struct oracle_statement *s)
{
    statements[s->conn % VIEWS] = *s;
}

/* The takeover that a node does not know of, UINT64_MAX when all know. */
static uint64_t superseded_ns(void)
{
    const struct topology *t = scenario.topology;
    uint64_t bound_ns = t->bound == NULL ? now_ns() : t->bound(now_ns());
    return bound_ns < now_ns() ? bound_ns : UINT64_MAX;
}

void oracle_asked(struct asked *a)
{
    a->sent_ns = now_ns();
    a->monotonic_ns = process_monotonic_ns();
    a->stopped_ns = process_stopped_ns();
    a->connected = connected;
    a->first_view = connected ? view_count - 1 : view_count;
    a->superseded_ns = superseded_ns();
}

/* --- an answer --- */

struct answer {
    const struct asked *asked;
    const struct cache_result *result;
    const char *body;   /* "" where there is none */
    size_t first, last; /* of the views that it may be of, and behind the last one */

    /* By the view that is looked at. */
    uint64_t since_ns, key_since_ns;
    const struct catalogue *catalogue;
};

__attribute__((noreturn)) static void reject(const struct answer *a, const char *why)
{
    static const char *const types[] = {"the key alone", "card", "link", "page"};
    const struct asked *q = a->asked;
    trace_fail("%s: %s %" PRId64
               "%s, key %d, asked at %.6f, true since %.6f, status %d, source %d, age %" PRId64 ", body %s",
               why, types[q->query.type], q->query.number, q->link, q->key, (double)q->sent_ns / 1e9,
               (double)a->since_ns / 1e9, a->result->status, a->result->source, a->result->age_s, a->body);
}

static uint64_t before(uint64_t at_ns, uint64_t ns)
{
    return at_ns > ns ? at_ns - ns : 0;
}

/* Its header fields say for how long it may have been out of date. */
static uint64_t stale_since(const struct answer *a)
{
    return before(now_ns(), (uint64_t)a->result->age_s * SECOND + 1);
}

/* How long the process did not run since it was asked: in the middle of the answer, for what is cached. */
static uint64_t stopped_since_asked(const struct answer *a)
{
    return process_stopped_ns() - a->asked->stopped_ns;
}

static uint64_t fresh_since(const struct answer *a, size_t number)
{
    const struct view *v = &views[number % VIEWS];
    if (a->result->source == CACHE_SOURCE_TTL)
        return before(a->asked->sent_ns, (scenario.settings.ttl_ms + 2) * MS);
    if (number != a->asked->first_view || !a->asked->connected)
        return before(a->asked->sent_ns, 1);
    uint64_t since_ns = before(net_horizon(v->conn, before(a->asked->sent_ns, DRAINED_NS)), 1);
    uint64_t lease_ns = a->result->source == CACHE_SOURCE_HIT
                            ? before(now_ns(), LEASE_NS + stopped_since_asked(a) + 2 * (uint64_t)MS)
                            : 0;
    return since_ns > lease_ns ? since_ns : lease_ns;
}

/* A former master may have been read at any time since the request, also if all know of the takeover now. */
static uint64_t true_since(const struct answer *a, size_t number)
{
    const struct topology *t = scenario.topology;
    uint64_t since_ns = a->result->source == CACHE_SOURCE_STALE ? stale_since(a) : fresh_since(a, number);
    since_ns = since_ns < a->asked->superseded_ns ? since_ns : a->asked->superseded_ns;
    return t->bound == NULL ? since_ns : t->bound(since_ns);
}

/* It is of the connection in use, or of the last one: what earlier ones have read and checked does not count.
 * A failure may have the name of its key from any since the request. */
static void find_views(struct answer *a, bool is_failure)
{
    size_t oldest = view_count > VIEWS ? view_count - VIEWS : 0;
    a->last = view_count;
    a->first = is_failure || view_count == 0 ? a->asked->first_view : view_count - 1;
    a->first = a->first > oldest ? a->first : oldest;
}

/* The audit does not run while the process is stopped. */
static bool is_deaf(void)
{
    return scenario.server[0].faults.deaf;
}

/* What was read may be served for the TTL: of a key also with data that was read just now. */
static bool is_by_ttl(void)
{
    const struct redis_faults *f = &scenario.server[0].faults;
    return f->disordered || f->refuses_tracking;
}

/* NULL as soon as the check finds nothing against one view; otherwise what the last one says. */
static const char *check_views(struct answer *a, const char *(*check)(const struct answer *a))
{
    const char *why = "there was no connection";
    for (size_t i = a->first; i < a->last && why != NULL; i++) {
        a->since_ns = before(true_since(a, i), is_deaf() ? AUDITED_NS + process_stopped_ns() : 0);
        if (is_by_ttl() && a->result->source == CACHE_SOURCE_COALESCED)
            a->since_ns = before(a->since_ns, (scenario.settings.ttl_ms + 2) * MS);
        a->key_since_ns = before(a->since_ns, is_by_ttl() ? (scenario.settings.ttl_ms + 2) * MS : 0);
        a->catalogue = scenario.topology->truth;
        if (a->catalogue == NULL)
            a->catalogue = &views[i % VIEWS].server->catalogue;
        why = check(a);
    }
    return why;
}

static struct walk walk_of(const struct answer *a, int object)
{
    return walk_begin(a->catalogue, object, a->since_ns, now_ns());
}

/* What a superseded master and another node say need not agree. */
static bool may_be_superseded(const struct answer *a)
{
    return a->asked->superseded_ns != UINT64_MAX || superseded_ns() != UINT64_MAX;
}

/* Redis has lost its data so often and has it back. Without invalidations nothing tells that at a read. */
static bool has_lost_untold(const struct answer *a, int times, uint64_t since_ns)
{
    uint64_t back_ns = a->catalogue->back_ns[times - 1];
    bool is_told = !is_by_ttl() && scenario.settings.cache_size != 0;
    return !is_told && back_ns != 0 && back_ns >= since_ns;
}

/* Two reads that lack the same are believed. */
static bool absence_may_be_loss(const struct answer *a)
{
    return has_lost_untold(a, 2, a->since_ns);
}

/* --- the key --- */

/*
 * A superseded master has no info of a key that was issued since, and is in another node's set. Redis may
 * have lost its data when the info was read, and had it back when the set was.
 */
static bool info_may_lack(const struct answer *a)
{
    if (has_lost_untold(a, 1, a->key_since_ns))
        return true;
    struct walk w = walk_begin(a->catalogue, OBJECT_KEY + a->asked->key, a->key_since_ns, now_ns());
    int64_t value = 0;
    while (may_be_superseded(a) && walk_next(&w, &value))
        if (key_info(value) == 0)
            return true;
    return false;
}

static bool key_may_be(const struct answer *a, bool valid)
{
    const struct process_walls walls = process_walls_since(a->asked->sent_ns);
    int64_t first_s = walls.least_s;
    if (is_by_ttl()) /* a key that is issued between the reads of its info and the set has none for the TTL */
        first_s -= (int64_t)scenario.settings.ttl_ms / 1000 + 1;
    int64_t last_s = walls.most_s;
    int64_t value = 0;
    bool later_member = false;
    if (a->asked->key == KEYS)
        return !valid;
    if (!valid && absence_may_be_loss(a))
        return true;
    if (a->asked->key >= OTHER_KEYS)
        return valid ==
               (a->asked->key > OTHER_KEYS && a->asked->key < OTHER_KEYS + scenario.server[0].other_keys);
    struct walk w = walk_begin(a->catalogue, OBJECT_KEY + a->asked->key, a->key_since_ns, now_ns());
    for (; walk_next(&w, &value); later_member = value != 0 && (key_is_member(value) || later_member)) {
        int64_t expires = key_info(value) == 0 ? INT64_MAX : catalogue_expires[key_info(value)];
        bool is_valid = expires > first_s || info_may_lack(a);
        /* Issued between the reads of its info and of the set: in one step, or in two while a slot migrates.
         */
        if (valid && value == 0 && later_member)
            return true;
        if (valid ? key_is_member(value) && is_valid : !key_is_member(value) || expires <= last_s)
            return true;
    }
    return w.forgotten;
}

/*
 * Is it the name that the info of the key had at some moment? Behind a stop the node that ASK named may have
 * given the info back: then the key has no name.
 */
static bool name_may_be(const struct answer *a, const struct api_key_name *name)
{
    if (a->asked->key >= OTHER_KEYS)
        return name->len == 0;
    if (name->len == 0 && (scenario.topology->truth != NULL || info_may_lack(a)))
        return true;
    struct walk w = walk_begin(a->catalogue, OBJECT_KEY + a->asked->key, a->key_since_ns, now_ns());
    int64_t value = 0;
    while (walk_next(&w, &value)) {
        char text[16] = "";
        if (key_info(value) != 0)
            (void)snprintf(text, sizeof text, "n%d", (int)key_info(value));
        if (name->len == (int)strlen(text) && memcmp(name->text, text, strlen(text)) == 0)
            return true;
    }
    return w.forgotten;
}

/* The key of Redis with the infos of all API keys existed at some moment. */
static bool infos_may_exist(const struct answer *a)
{
    int64_t value = 0;
    for (int key = 0; key < KEYS; key++) {
        struct walk w = walk_begin(a->catalogue, OBJECT_KEY + key, a->key_since_ns, now_ns());
        while (walk_next(&w, &value))
            if (key_info(value) != 0)
                return true;
        if (w.forgotten)
            return true;
    }
    return false;
}

/* An info has changed, of any key, and that of this one was not read since: a change drops all of them. */
static bool info_is_old(const struct answer *a)
{
    const struct redis *r = views[(view_count - 1) % VIEWS].server;
    return a->asked->key < KEYS && (r->infos_unread & 1U << a->asked->key) != 0 &&
           r->infos_ns <= a->key_since_ns;
}

static const char *check_key(const struct answer *a)
{
    const struct api_key_name *name = a->result->key_name;
    bool valid = a->result->status != CACHE_KEY_INVALID;
    bool is_checked = a->asked->request.key_state == REQUEST_KEY_VALID; /* while the request waited */
    bool is_hit = valid && !is_checked && a->result->source == CACHE_SOURCE_HIT;
    if (is_hit && scenario.topology->truth != NULL && !infos_may_exist(a))
        return "a key is cached in a cluster without the key of the infos";
    if (is_hit && !is_by_ttl() && info_is_old(a))
        return "a key is cached with an info from before a change";
    if (key_may_be(a, valid)) {
        bool named = valid && name != NULL && name->len >= 0;
        return !named || name_may_be(a, name) ? NULL : "a key has a name that is not its own";
    }
    return valid ? "a key was accepted that is not valid" : "a valid key was refused";
}

/* --- cards and links --- */

/* The number behind `name` in the body; -1: it is not there. */
static int64_t number_behind(const char *body, const char *name)
{
    const char *at = strstr(body, name);
    return at == NULL ? -1 : strtoll(at + strlen(name), NULL, 10);
}

struct shown {
    int64_t id, version;
    int link;
};

static struct shown shown_in(const char *body)
{
    return (struct shown){.id = number_behind(body, "\"max_channel_id\":"),
                          .version = number_behind(body, "\"title\":\"v"),
                          .link = (int)number_behind(body, "\"link\":\"l")};
}

static bool is_fixed(const struct answer *a, int64_t id)
{
    return id > CARDS && id <= CARDS + a->catalogue->fixed;
}

static bool card_may_be(const struct answer *a, const struct shown *s)
{
    int64_t value = 0;
    if (s->id < 1 || s->id > CARDS)
        return is_fixed(a, s->id) && s->version == FIXED_VERSION && s->link < 0;
    struct walk w = walk_of(a, OBJECT_CARD + (int)s->id - 1);
    while (walk_next(&w, &value))
        if (value > 0 && card_version(value) == s->version && card_link(value) == s->link)
            return true;
    return w.forgotten;
}

/* A source that has not heard of a takeover asks the former target, which lacks what has moved since. */
static bool card_may_be_absent(const struct answer *a, int64_t id)
{
    int64_t value = 0;
    bool may_be_elsewhere = scenario.topology->truth != NULL && may_be_superseded(a);
    if (may_be_elsewhere || absence_may_be_loss(a))
        return true;
    if (id < 1 || id > CARDS)
        return !is_fixed(a, id);
    struct walk w = walk_of(a, OBJECT_CARD + (int)id - 1);
    while (walk_next(&w, &value))
        if (value == 0)
            return true;
    return w.forgotten;
}

/*
 * By any server since the bound. A request shares a read whose reply has not arrived yet. It shares no read
 * that another node executes, and no absence that waits for a check of the catalogue.
 */
static bool card_was_read(const struct answer *a, int64_t id)
{
    bool was_read = id < 1 || id > CARDS;
    for (size_t i = 0; i < scenario.servers && !was_read; i++)
        was_read = scenario.server[i].read_ns[OBJECT_CARD + (int)id - 1] > a->since_ns;
    return was_read;
}

static const char *check_card(const struct answer *a)
{
    const struct shown s = shown_in(a->body);
    int64_t id = a->asked->query.number;
    if (a->result->source >= CACHE_SOURCE_MISS && !card_was_read(a, id))
        return "a card was read before the request";
    if (a->result->status == CACHE_NOT_FOUND)
        return card_may_be_absent(a, id) ? NULL : "a card was not found";
    return s.id == id && card_may_be(a, &s) ? NULL : "a card is not true";
}

/* At that moment the key of the link leads to no card with this link. */
static bool link_is_free(const struct answer *a, int link, uint64_t at_ns)
{
    int64_t id = 0;
    int64_t card = 0;
    if (!catalogue_at(a->catalogue, OBJECT_LINK + link, at_ns, &id))
        return true;
    if (id == 0 ||
        (!value_is_broken(id) && !catalogue_at(a->catalogue, OBJECT_CARD + (int)id - 1, at_ns, &card)))
        return true;
    return !value_is_broken(id) && !value_is_broken(card) && (card == 0 || card_link(card) != link);
}

/* Whether it was at the beginning, or since one of the changes of the link or of a card. */
static bool link_may_be_free(const struct answer *a, int link)
{
    const struct history *all = a->catalogue->history;
    if (link_is_free(a, link, a->since_ns) || absence_may_be_loss(a))
        return true;
    for (int object = 0; object < OBJECT_INDEX; object++)
        for (size_t i = 0; i < all[object].count && i < HISTORY; i++) {
            uint64_t at_ns = all[object].entry[i].at_ns;
            if (at_ns > a->since_ns && at_ns <= now_ns() && link_is_free(a, link, at_ns))
                return true;
        }
    return false;
}

static const char *check_link(const struct answer *a)
{
    const struct shown s = shown_in(a->body);
    int link = (int)strtol(a->asked->link + 1, NULL, 10);
    if (a->result->status == CACHE_NOT_FOUND)
        return link_may_be_free(a, link) || may_be_superseded(a) ? NULL : "a link was not found";
    if (s.link != link)
        return "another link than the one that was asked for";
    return card_may_be(a, &s) ? NULL : "a card by link is not true";
}

/* --- pages --- */

struct items {
    int count;
    int id[PAGE];
};

static const char *check_items(const struct answer *a, struct items *items)
{
    static const char begins[] = "{\"max_channel_id\":";
    for (const char *next, *at = strstr(a->body, begins); at != NULL; at = next) {
        char item[512];
        next = strstr(at + 1, begins);
        (void)snprintf(item, sizeof item, "%.*s", (int)(next == NULL ? strlen(at) : (size_t)(next - at)), at);
        const struct shown s = shown_in(item);
        if (!card_may_be(a, &s))
            return "a summary is not true";
        if (items->count == PAGE)
            return "a page has more than it may";
        items->id[items->count++] = (int)s.id;
    }
    return number_behind(a->body, "\"count\":") == items->count ? NULL
                                                                : "a page counts other items than it has";
}

static bool card_may_be_broken(const struct answer *a, int64_t id)
{
    int64_t value = 0;
    if (id > CARDS)
        return false;
    struct walk w = walk_of(a, OBJECT_CARD + (int)id - 1);
    while (walk_next(&w, &value))
        if (value_is_broken(value))
            return true;
    return w.forgotten;
}

static int last_page(int members)
{
    return members == 0 ? 1 : (members - 1) / PAGE + 1;
}

/*
 * The size of the index was read before its members, or is known from an earlier read. It is what the number
 * of the last page results from, unless that contradicts the page.
 */
static bool last_may_be(const struct answer *a, bool has_next)
{
    int ids[MEMBERS_MAX];
    int64_t index = 0;
    int64_t page = a->asked->query.number;
    struct walk w = walk_of(a, OBJECT_INDEX);
    while (walk_next(&w, &index)) {
        int64_t last = last_page(catalogue_members(a->catalogue, index, ids));
        if (has_next && last <= page)
            last = page + 1;
        if (a->result->last_page == last || (!has_next && last > page && a->result->last_page == page))
            return true;
    }
    return w.forgotten;
}

/* All of that page of that index, in its order, but for cards that were away or broken. */
static bool is_page_of(const struct answer *a, int64_t index, const struct items *items)
{
    int ids[MEMBERS_MAX];
    int shown = 0;
    int count = catalogue_members(a->catalogue, index, ids);
    int64_t before = (a->asked->query.number < INT_MAX ? a->asked->query.number - 1 : INT_MAX) * PAGE;
    bool has_next = strstr(a->body, "\"has_next\":true") != NULL;
    for (int64_t i = before; i < count && i < before + PAGE; i++) {
        if (shown < items->count && items->id[shown] == ids[i])
            shown++;
        else if (!card_may_be_absent(a, ids[i]) && !card_may_be_broken(a, ids[i]))
            return false;
    }
    return shown == items->count && has_next == (count > before + PAGE);
}

static const char *check_page(const struct answer *a)
{
    struct items items = {0};
    struct walk w = walk_of(a, OBJECT_INDEX);
    int64_t index = 0;
    const char *why = a->result->status == CACHE_FOUND ? check_items(a, &items) : "a page was not found";
    if (why != NULL)
        return why;
    if (!last_may_be(a, strstr(a->body, "\"has_next\":true") != NULL))
        return "a page does not name the last one";
    while (walk_next(&w, &index))
        if (!value_is_broken(index) && is_page_of(a, index, &items))
            return NULL;
    return w.forgotten || absence_may_be_loss(a) ? NULL : "a page is not true";
}

/* --- what is broken --- */

/* The key that names it, or the card, was broken at some moment: of a page the index. */
static const char *check_broken(const struct answer *a)
{
    static const char why[] = "a request failed without a fault";
    const struct cache_query *q = &a->asked->query;
    int object = OBJECT_INDEX;
    int64_t value = 0;
    if (q->type == QUERY_AUTH_ONLY || (q->type == QUERY_CARD && q->number > CARDS))
        return why;
    if (q->type == QUERY_CARD)
        object = OBJECT_CARD + (int)q->number - 1;
    else if (q->type == QUERY_CARD_BY_LINK)
        object = OBJECT_LINK + (int)strtol(a->asked->link + 1, NULL, 10);
    struct walk w = walk_of(a, object);
    while (walk_next(&w, &value))
        if (value_is_broken(value) ||
            (q->type == QUERY_CARD_BY_LINK && value > 0 && card_may_be_broken(a, value)))
            return NULL;
    return w.forgotten ? NULL : why;
}

/* --- time --- */

static void check_age(const struct answer *a)
{
    const struct scenario_settings *s = &scenario.settings;
    const struct cache_result *r = a->result;
    int64_t limit_ms =
        (int64_t)(s->stale_limit_ms < s->stale_keys_limit_ms ? s->stale_limit_ms : s->stale_keys_limit_ms);
    if (r->source == CACHE_SOURCE_TTL && r->body != NULL &&
        (r->ttl_s < 0 || r->age_s * 1000 > (int64_t)s->ttl_ms + 1000))
        reject(a, "an answer is older than the TTL");
    if (r->source != CACHE_SOURCE_STALE)
        return;
    if (a->asked->query.type == QUERY_PAGE) /* it may have been outdated before the loss */
        limit_ms = (int64_t)s->stale_limit_ms;
    limit_ms += is_by_ttl() ? (int64_t)s->ttl_ms : 0;
    limit_ms += (int64_t)(LEASE_NS / MS); /* the limits count from the loss */
    if ((r->age_s - 1) * 1000 > limit_ms || (r->ttl_s > 0 && !is_by_ttl()))
        reject(a, "an answer is older than the stale limits");
}

/*
 * Of a replica: a fresh answer needs a master that was heard, and the age of a stale one counts from that.
 * What the replica lied about is not checked.
 */
static void check_master(const struct answer *a)
{
    const struct view *v = &views[(view_count - 1) % VIEWS];
    uint64_t since_ns = before(now_ns(), (uint64_t)a->result->age_s * SECOND);
    if (view_count == 0 || v->server->replication.upstream == NULL || v->server->replication.has_lied)
        return;
    if (a->result->source == CACHE_SOURCE_STALE && v->heard_ns != 0 &&
        since_ns > v->heard_ns + 2 * (uint64_t)MS)
        reject(a, "a stale answer counts its age from after the master was heard");
    uint64_t heard_ns = last_heard_ns(v->conn); /* also in the input from which this answer came */
    heard_ns = told.heard_ns > heard_ns ? told.heard_ns : heard_ns;
    if (heard_ns < v->server->replication.since_ns)
        heard_ns = v->server->replication.since_ns;
    bool is_last = told.conn == v->conn; /* otherwise what this one has told is forgotten */
    if (a->result->source == CACHE_SOURCE_HIT && is_last &&
        heard_ns + SILENCE_NS + stopped_since_asked(a) < now_ns())
        reject(a, "a fresh answer of a replica that has not heard of its master");
}

/* Where the master is wanted, a server that has become a replica is left. */
static void check_role(const struct answer *a)
{
    const struct view *v = &views[(view_count - 1) % VIEWS];
    const struct replication *p = &v->server->replication;
    if (view_count == 0 || scenario.topology != &topology_sentinel || p->upstream == NULL || p->has_lied)
        return;
    if (a->result->source == CACHE_SOURCE_HIT && process_last_stop_ns() < p->since_ns &&
        scenario.slow_until_ns < p->since_ns && p->since_ns + SUPERSEDED_NS < now_ns())
        reject(a, "a replica is taken for the master");
}

/*
 * Who is not the master by the word of all others for some time, or follows one who is not, is left. A server
 * may be chosen again meanwhile: by its own word.
 */
static void check_superseded(const struct answer *a)
{
    const struct view *v = &views[(view_count - 1) % VIEWS];
    bool is_named = view_count > 0 && scenario.topology->superseded_ns != NULL;
    uint64_t since_ns = is_named ? scenario.topology->superseded_ns(v->server) : 0;
    if (since_ns != 0 && scenario.topology->truth != NULL && v->since_ns > since_ns)
        since_ns = v->since_ns;
    if (a->result->source != CACHE_SOURCE_HIT || since_ns == 0 || scenario.slow_until_ns > since_ns)
        return;
    /* Two nodes may be queried first. */
    uint64_t look_ups_ns = scenario_has(FAULT_names) ? (uint64_t)2 * NAME_SERVER_TIMEOUT_S * SECOND : 0;
    if (process_last_stop_ns() < since_ns && since_ns + SUPERSEDED_NS + look_ups_ns < now_ns())
        reject(a, "a server is believed that nobody names any more");
}

static void check_deadline(const struct answer *a)
{
    uint64_t taken_ns = process_monotonic_ns() - a->asked->monotonic_ns;
    uint64_t timeout_ns = scenario.settings.request_timeout_ms * MS;
    if (taken_ns > timeout_ns + LATE_NS + 2 * stopped_since_asked(a))
        reject(a, "an answer came after its deadline");
}

/* A key that has a name is valid. While there is no connection that is for as long as keys may be stale. */
static void check_failure(struct answer *a)
{
    const struct api_key_name *name = a->result->key_name;
    bool is_named = name != NULL && name->len >= 0 && a->asked->connected;
    const char *why = is_named ? check_views(a, check_key) : NULL;
    if (why != NULL)
        reject(a, why);
    if (a->result->status != CACHE_UNAVAILABLE && !scenario_has(FAULT_memory))
        reject(a, "memory ran out");
    uint64_t disturbed_ns = scenario.disturbed_until_ns;
    if (process_stop_behind_ends_ns() > disturbed_ns)
        disturbed_ns = process_stop_behind_ends_ns();
    if (disturbed_ns + recovery_ns() >= a->asked->sent_ns)
        return;
    why = scenario_has(FAULT_broken) ? check_views(a, check_broken) : "a request failed without a fault";
    if (why != NULL)
        reject(a, why);
}

void oracle_answered(const struct asked *asked, const struct cache_result *result)
{
    static const char *(*const checks[])(const struct answer *a) = {
        [QUERY_CARD] = check_card, [QUERY_CARD_BY_LINK] = check_link, [QUERY_PAGE] = check_page};
    static char text[65536];
    struct answer a = {.asked = asked, .result = result, .body = text};
    size_t len = result->body == NULL ? 0 : result->body->len;
    len = len < sizeof text ? len : sizeof text - 1;
    if (len > 0)
        memcpy(text, result->body->data, len);
    text[len] = '\0';
    bool is_failure = result->status == CACHE_UNAVAILABLE || result->status == CACHE_OUT_OF_MEMORY;
    find_views(&a, is_failure);
    oracle_answers[result->source]++;
    trace_sum((uint64_t)result->status << 8 | (uint64_t)result->source);
    TRACE("client", "type %d number %d %s key %d: status %d source %d age %d: %.120s", asked->query.type,
          (int)asked->query.number, asked->link, asked->key, result->status, result->source,
          (int)result->age_s, text);
    check_deadline(&a);
    if (is_failure) {
        check_failure(&a);
        return;
    }
    check_age(&a);
    check_master(&a);
    check_role(&a);
    check_superseded(&a);
    const char *why = check_views(&a, check_key);
    if (why == NULL && result->status != CACHE_KEY_INVALID && asked->query.type != QUERY_AUTH_ONLY)
        why = check_views(&a, checks[asked->query.type]);
    if (why != NULL)
        reject(&a, why);
}
