/* Batches of commands and their results; see fetch.h. */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/state.h"
#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum fetch_state {
    FETCH_NEW,
    FETCH_FIRST,       /* the first batch is under way */
    FETCH_LINKED_CARD, /* the card to which a link led is under way */
    FETCH_RELINKED,    /* that card once more, and the link */
    FETCH_SUMMARIES,   /* the second batch of a page is under way; the first where its members are known */
    FETCH_UNCONFIRMED, /* all replies are in; waits for a check of the catalogue */
    FETCH_ENDED
};

/* What a command of a batch asks for. */
enum part {
    PART_AUTH = 1,
    PART_CARD = 2,
    PART_LINK = 4,
    PART_SIZE = 8,
    PART_MEMBERS = 16,
    PART_SUMMARIES = 32,
    PART_INFO = 64 /* of the key */
};

enum {
    REPEATS_MAX = 8, /* of a read while what it depends on changes all the time */
    RELINKS_MAX = 2  /* of reads of a link with its card that do not agree, at one node */
};

/* A summary that is being read. */
struct summary_read {
    struct fetch *fetch;
    int at; /* its place in the page */
};

struct fetch {
    struct fetches *fetches;
    enum fetch_state state;
    struct list link;     /* in the list of those that wait for a check */
    struct list requests; /* those that wait for the result */
    bool inflight;        /* in the table of fetches that may be joined */
    uint64_t inflight_hash;
    uint64_t inflight_epoch; /* of the index or of all, when it began */
    uint64_t redirect_epoch; /* when it began */

    bool needs_auth;          /* the key is checked too; such a fetch has one request */
    unsigned replies_due;     /* replies that have not come yet */
    bool lost;                /* the connection was lost before they all came */
    bool failed;              /* Redis answered one of them with an error */
    bool key_known;           /* the key is in the set */
    bool key_invalid;         /* the key is not valid, or has expired */
    int repeats;              /* of all its reads, because the result lacked something */
    uint64_t lack;            /* what it lacked before them */
    bool auth_due;            /* the key's info came from another node: read the set behind it */
    uint64_t sent_ms;         /* by the boot clock; none of its reads was sent before */
    uint64_t batch_ms;        /* the same of the batch under way */
    struct lifetime lifetime; /* of the reply that is being read */
    uint64_t mark;            /* of the invalidations, when it was sent */
    bool found;
    struct cache_result result; /* owns its body */

    int64_t id;        /* of the card */
    bool linked;       /* the link leads to a card that has not been read since */
    int64_t linked_id; /* of that card */
    int relinks;
    bool apart;                    /* a reply came from another node of the cluster: a second moment */
    struct page_builder *page;     /* of QUERY_PAGE; owned */
    bool page_known;               /* its members are current: no need to read the index */
    struct lifetime page_lifetime; /* of all replies that the page is made of */
    bool invalidated;              /* one of its channels was, in flight */
    int watched;                   /* channels, from the first on, by which the page is found */
    struct summary_read *reads;    /* of its summaries, by their places; owned */
    uint64_t index_epoch;          /* when its index was read */

    struct digest key;
    struct api_key_info info; /* of the key */
    struct lifetime info_lifetime;
    enum cache_query_type type;
    int64_t number;
    size_t link_len;
    char link_text[];
};

static const unsigned NEXT[] = {
    [FETCH_NEW] = STATE(FETCH_FIRST),
    [FETCH_FIRST] =
        STATE(FETCH_LINKED_CARD) | STATE(FETCH_SUMMARIES) | STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_LINKED_CARD] = STATE(FETCH_RELINKED) | STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_RELINKED] =
        STATE(FETCH_LINKED_CARD) | STATE(FETCH_RELINKED) | STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_SUMMARIES] = STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_UNCONFIRMED] = STATE(FETCH_FIRST) | STATE(FETCH_ENDED),
    [FETCH_ENDED] = 0,
};

static void fetch_enter(struct fetch *f, enum fetch_state next)
{
    STATE_ENTER(&f->state, next, NEXT);
    assert(f->replies_due == 0 || next == FETCH_SUMMARIES);
}

static struct span fetch_link_of(const struct fetch *f)
{
    return (struct span){f->link_text, f->link_len};
}

/* --- reports --- */

/* Appends the key in Redis of a reply. It is one of data: an auth reply is never oversize. */
static void fetch_append_key(const struct fetch *f, enum part part, struct buf *out)
{
    const struct keyspace *keyspace = f->fetches->options.keyspace;
    if (part == PART_LINK)
        keyspace_link(keyspace, out, fetch_link_of(f));
    else if (f->type == QUERY_PAGE) /* fetch_on_summary handles oversize replies itself */
        keyspace_index(keyspace, out);
    else
        keyspace_card(keyspace, out, f->id);
}

static void fetch_report_oversize(struct fetch *f, enum part part)
{
    struct buf key = BUF_INIT;
    fetch_append_key(f, part, &key);
    value_reports_oversize(&f->fetches->reports, buf_span(&key));
    buf_fini(&key);
}

/* --- the window: how many commands may be in flight --- */

/*
 * As TCP's congestion window. What is sent to a Redis that is busy waits there, in front of the heartbeat and
 * of requests that still have time. The bound follows from the time that replies take: so it waits here, and
 * costs Redis nothing when it times out. The least delay of a connection is that of the network.
 */
enum {
    WINDOW_FIRST = 32, /* of a connection */
    WINDOW_LEAST = 4,
    WINDOW_STEP = 4, /* by which it grows in a round trip */
    WINDOW_MOST = 65536
};

void fetches_connected(struct fetches *fs)
{
    fs->window = WINDOW_FIRST;
    fs->window_ms = 0;
    fs->least_delay_ms = UINT64_MAX;
    fs->window_filled = false;
}

bool fetches_have_room(struct fetches *fs)
{
    bool room = fs->commands_due < fs->window;
    fs->window_filled |= !room;
    return room;
}

/* All replies to a batch have come. The window changes once in a round trip. */
static void fetch_adapt_window(struct fetches *fs, uint64_t batch_ms)
{
    uint64_t now = clock_boot_ms();
    uint64_t delay_ms = now - batch_ms;
    fs->least_delay_ms = delay_ms < fs->least_delay_ms ? delay_ms : fs->least_delay_ms;
    if (batch_ms < fs->window_ms)
        return;
    if (delay_ms - fs->least_delay_ms > fs->options.delay_limit_ms)
        fs->window = fs->window / 2 > WINDOW_LEAST ? fs->window / 2 : WINDOW_LEAST;
    else if (fs->window_filled && fs->window < WINDOW_MOST)
        fs->window += WINDOW_STEP;
    else
        return;
    fs->window_ms = now;
    fs->window_filled = false;
}

/* --- commands --- */

/* Sends a command and counts its reply. A failure marks the fetch as failed, or as lost. */
static void fetch_send(struct fetch *f, const struct buf *command, unsigned how, redis_reply_fn fn, void *arg)
{
    if (f->failed || f->lost)
        return;
    int err = buf_error(command);
    if (err == 0)
        err = redis_session_send(f->fetches->options.session, buf_span(command), how, fn, arg);
    f->lost = err == -ENOTCONN;
    f->failed = err != 0 && !f->lost;
    if (err != 0)
        return;
    f->replies_due++;
    f->fetches->commands_due++;
    metric_add(&f->fetches->options.metrics->redis_commands_total, 1);
}

static void fetch_send_command(struct fetch *f, const struct buf *command, redis_reply_fn fn)
{
    fetch_send(f, command, 0, fn, f);
}

static void fetch_send_read(struct fetch *f, const struct entry_source *source, redis_reply_fn fn)
{
    fetch_send_command(f, commands_read(&f->fetches->commands, source), fn);
}

int fetches_read_entry(struct fetches *fs, const struct entry_source *source, redis_reply_fn fn, void *arg)
{
    const struct buf *command = commands_read(&fs->commands, source);
    int err = buf_error(command);
    if (err != 0)
        return err;
    return redis_session_send(fs->options.session, buf_span(command), REDIS_SEND_STREAM_ONLY, fn, arg);
}

/* --- in flight --- */

static uint64_t fetch_hash_of_query(const struct fetches *fs, enum cache_query_type type, int64_t number,
                                    struct span link)
{
    return type == QUERY_CARD_BY_LINK ? hash_bytes(link, fs->seed)
                                      : hash_int64(number, fs->seed + ((uint64_t)type << 62));
}

static uint64_t fetch_epoch_of(const struct fetches *fs, enum cache_query_type type)
{
    return type == QUERY_PAGE ? fs->index_epoch : fs->flush_epoch;
}

/* Without invalidations a request joins only what it would be served from the cache. */
static bool fetch_has_expired(const struct fetch *f)
{
    const struct validity *v = f->fetches->options.validity;
    return v->by_ttl && clock_boot_ms() >= f->sent_ms + v->limits.ttl_ms;
}

struct fetch *fetches_find(struct fetches *fs, const struct cache_query *q)
{
    uint64_t epoch = fetch_epoch_of(fs, q->type);
    const struct table_slot *slot =
        table_find(&fs->inflight, fetch_hash_of_query(fs, q->type, q->number, q->link));
    for (; slot != NULL; slot = table_find_next(&fs->inflight, slot)) {
        struct fetch *f = slot->entry;
        if (f->inflight_epoch == epoch && f->redirect_epoch == fs->redirect_epoch && f->type == q->type &&
            f->number == q->number && span_equal(fetch_link_of(f), q->link) && !fetch_has_expired(f))
            return f;
    }
    return NULL;
}

/* Lets requests join the fetch. Without memory for the table it is not shared. */
static void fetch_publish(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    f->inflight_hash = fetch_hash_of_query(fs, f->type, f->number, fetch_link_of(f));
    f->inflight_epoch = fetch_epoch_of(fs, f->type);
    f->redirect_epoch = fs->redirect_epoch;
    f->inflight = table_add(&fs->inflight, f->inflight_hash, f) == 0;
}

static void fetch_unpublish(struct fetch *f)
{
    if (f->inflight)
        table_remove(&f->fetches->inflight, f->inflight_hash, f);
    f->inflight = false;
}

/* Frees the segments of an empty table that has grown. */
static void fetch_shrink(struct table *t)
{
    if (t->used == 0 && t->segment_count > 1)
        table_reset(t);
}

static void fetch_unwatch(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    if (f->page == NULL)
        return;
    const struct page_members *m = page_builder_members(f->page);
    for (; f->watched > 0; f->watched--)
        table_remove(&fs->page_members, hash_int64(m->id[f->watched - 1], fs->seed), f);
    fetch_shrink(&fs->page_members);
}

/*
 * Registers the page under each of its channels, so that an invalidation finds it. Without memory for that it
 * counts as invalidated. Not needed where nothing is cached.
 */
static void fetch_watch(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    const struct page_members *m = page_builder_members(f->page);
    if (!validity_may_store(fs->options.validity))
        return;
    while (f->watched < m->count && !f->invalidated) {
        f->invalidated = table_add(&fs->page_members, hash_int64(m->id[f->watched], fs->seed), f) != 0;
        f->watched += !f->invalidated;
    }
}

static void fetch_invalidate(struct fetches *fs, const struct cache_query *q)
{
    struct fetch *f = fetches_find(fs, q);
    if (f != NULL)
        fetch_unpublish(f);
}

/* A collision of hashes only means that a page is not cached. */
void fetches_invalidate_card(struct fetches *fs, int64_t id)
{
    fetch_invalidate(fs, &(struct cache_query){.type = QUERY_CARD, .number = id});
    const struct table_slot *slot = table_find(&fs->page_members, hash_int64(id, fs->seed));
    for (; slot != NULL; slot = table_find_next(&fs->page_members, slot)) {
        struct fetch *f = slot->entry;
        f->invalidated = true;
        fetch_unpublish(f);
    }
}

/* --- replies --- */

/* A reply of another node is about keys of which this connection tells nothing. */
static struct lifetime fetch_lifetime_of(const struct fetch *f, const struct redis_reply *reply,
                                         enum redis_origin origin, enum part part)
{
    const struct validity *v = f->fetches->options.validity;
    if (origin == REDIS_ORIGIN_OTHER_NODE)
        return LIFETIME_NONE;
    return (part & (PART_SIZE | PART_MEMBERS)) != 0 ? validity_lifetime_of_index(v, reply, f->sent_ms)
                                                    : validity_lifetime(v, reply, f->sent_ms);
}

static void fetch_count_reply(struct fetch *f)
{
    assert(f->replies_due > 0 && f->fetches->commands_due >= f->replies_due);
    f->replies_due--;
    f->fetches->commands_due--;
}

/*
 * Every reply passes here first. Returns whether it has data to be read: what it says counts, and f->lifetime
 * says for how long it may be cached.
 */
static bool fetch_accept_reply(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin,
                               enum part part)
{
    fetch_count_reply(f);
    if (reply == NULL) {
        f->lost = true;
        return false;
    }
    if (resp_is_oversize(reply)) {
        fetch_report_oversize(f, part);
        f->failed = true;
        return false;
    }
    f->apart |= origin == REDIS_ORIGIN_OTHER_NODE;
    f->lifetime = fetch_lifetime_of(f, reply, origin, part);
    if ((part & (PART_SIZE | PART_MEMBERS | PART_SUMMARIES)) != 0)
        f->page_lifetime = lifetime_of_both(f->page_lifetime, f->lifetime);
    if (reply->type == REPLY_ERROR) {
        value_reports_error(&f->fetches->reports, reply);
        f->failed = true;
        return false;
    }
    return !f->failed;
}

/* To be called last in every reply function. */
static void fetch_proceed(struct fetch *f);

static void fetch_on_key_info(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_INFO)) {
        f->failed = !api_keys_read_info(f->fetches->options.api_keys, &f->key, reply, &f->info);
        f->info_lifetime = f->lifetime;
        f->auth_due = origin == REDIS_ORIGIN_OTHER_NODE;
        f->key_invalid |= !f->failed && api_keys_is_expired(f->info.expires);
    }
    fetch_proceed(f);
}

/* Where Redis tracks what is read the key reader confirms keys. Without memory it is not cached. */
static void fetch_keep_key(struct fetch *f)
{
    struct lifetime lifetime = lifetime_of_both(f->lifetime, f->info_lifetime);
    bool by_ttl = !lifetime_is_none(lifetime) && !lifetime_is_tracked(lifetime);
    int err = by_ttl ? api_keys_confirm(f->fetches->options.api_keys, &f->key, lifetime, &f->info) : 0;
    (void)err;
}

/* It comes after the info: where another node has that, this is read again behind it. */
static void fetch_on_auth(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_AUTH)) {
        f->failed = reply->type != REPLY_INTEGER;
        f->key_known = !f->failed && reply->integer == 1;
        f->key_invalid |= !f->failed && !f->key_known;
        if (f->key_known)
            fetch_keep_key(f);
    }
    fetch_proceed(f);
}

/* Returns false when there is no channel. An invalid reply fails the fetch. */
static bool fetch_read_row(struct fetch *f, const struct redis_reply *reply, enum channel_shape shape,
                           struct channel_row *row)
{
    enum value_state state = body_parse_row(reply, shape, row);
    f->failed = f->failed || state == VALUE_INVALID;
    if (f->failed || state != VALUE_PRESENT)
        return false;
    value_reports_note_update(&f->fetches->reports, row);
    return true;
}

static struct blob *fetch_write_card(struct fetch *f, const struct channel_row *row, size_t headroom)
{
    struct buf *text = f->fetches->options.text;
    value_reports_invalid(&f->fetches->reports, f->id, body_write(text, row, CHANNEL_CARD));
    return buf_error(text) == 0 ? blob_new_headroom(buf_span(text), headroom) : NULL;
}

/* A card that was asked for by link is found if that is its own link. */
static void fetch_read_card(struct fetch *f, const struct redis_reply *reply)
{
    struct channel_row row;
    if (!fetch_read_row(f, reply, CHANNEL_CARD, &row))
        return;
    struct span link = row.value[CHANNEL_FIELD_link];
    struct blob *body =
        fetch_write_card(f, &row, lifetime_is_none(f->lifetime) ? 0 : entries_card_headroom(link));
    if (body != NULL)
        entries_put_card(f->fetches->options.entries, f->lifetime, f->id, link, body);
    f->found = f->type == QUERY_CARD || span_equal(link, fetch_link_of(f));
    if (f->found)
        f->result.body = body;
    else
        blob_unref(body);
}

static void fetch_on_card(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_CARD))
        fetch_read_card(f, reply);
    fetch_proceed(f);
}

static void fetch_read_link(struct fetch *f, const struct redis_reply *reply)
{
    bool malformed = false;
    enum value_state state = body_parse_link(reply, &f->linked_id, &malformed);
    f->failed = state == VALUE_INVALID;
    f->linked = state == VALUE_PRESENT && (f->state == FETCH_FIRST || f->linked_id != f->id);
    if (state == VALUE_ABSENT) /* there is nothing left that might agree */
        f->relinks = REPEATS_MAX;
    if (malformed)
        metric_add(&f->fetches->options.metrics->invalid_values_total, 1);
}

static void fetch_on_link(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_LINK))
        fetch_read_link(f, reply);
    fetch_proceed(f);
}

static void fetch_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_SIZE)) {
        f->failed = reply->type != REPLY_INTEGER;
        if (!f->failed) {
            page_builder_set_index_size(f->page, reply->integer);
            entries_set_index_size(f->fetches->options.entries, f->lifetime, reply->integer);
        }
    }
    fetch_proceed(f);
}

static void fetch_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_reply(f, reply, origin, PART_MEMBERS)) {
        f->failed = !page_builder_set_members(f->page, reply);
        f->found = true; /* a page always exists, if only an empty one */
    }
    fetch_proceed(f);
}

/* Pages are made of cached summaries, so these have to be current: one with a TTL is not cached. */
static bool fetch_may_store_summary(const struct fetch *f)
{
    return lifetime_is_tracked(f->lifetime);
}

static void fetch_store_summary(struct fetch *f, int64_t id, struct blob *summary)
{
    if (fetch_may_store_summary(f))
        entries_put_summary(f->fetches->options.entries, f->lifetime, id, summary);
}

/* One before it has to come from another node yet: the page is written in order. */
static void fetch_hold_summary(struct fetch *f, int at, const struct channel_row *row)
{
    struct buf *text = f->fetches->options.text;
    int64_t id = page_builder_members(f->page)->id[at];
    value_reports_invalid(&f->fetches->reports, id, body_write(text, row, CHANNEL_SUMMARY));
    struct blob *summary = buf_error(text) == 0 ? blob_new(buf_span(text)) : NULL;
    f->failed = summary == NULL;
    if (f->failed)
        return;
    page_builder_hold_summary(f->page, at, summary);
    fetch_store_summary(f, id, summary);
    blob_unref(summary);
}

static void fetch_read_summary(struct fetch *f, int at, const struct redis_reply *reply)
{
    struct channel_row row;
    int64_t id = page_builder_members(f->page)->id[at];
    if (!fetch_read_row(f, reply, CHANNEL_SUMMARY, &row)) {
        page_builder_set_gap(f->page, at, PAGE_GAP_ABSENT);
        return;
    }
    if (!page_builder_is_next(f->page, at)) {
        fetch_hold_summary(f, at, &row);
        return;
    }
    struct span summary;
    unsigned invalid = page_builder_write_summary(f->page, at, &row, &summary);
    value_reports_invalid(&f->fetches->reports, id, invalid);
    f->failed = summary.data == NULL;
    struct blob *copy = f->failed || !fetch_may_store_summary(f) ? NULL : blob_new(summary);
    if (copy != NULL) /* without memory it is not cached */
        fetch_store_summary(f, id, copy);
    blob_unref(copy);
}

/* Replies come in the order of the commands, but for those of other nodes. */
static void fetch_on_summary(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct summary_read *read = arg;
    struct fetch *f = read->fetch;
    enum page_gap gap = page_gap_of(reply);
    if (gap != PAGE_GAP_NONE) {
        fetch_count_reply(f);
        page_builder_set_gap(f->page, read->at, gap);
    } else if (fetch_accept_reply(f, reply, origin, PART_SUMMARIES)) {
        fetch_read_summary(f, read->at, reply);
    }
    fetch_proceed(f);
}

/* --- batches --- */

static void fetch_send_card(struct fetch *f)
{
    fetch_send_read(f, &(struct entry_source){.kind = ENTRY_CARD, .number = f->id}, fetch_on_card);
}

static void fetch_send_index(struct fetch *f)
{
    fetch_unwatch(f);
    page_builder_reset(f->page);
    f->invalidated = false;
    f->page_lifetime = LIFETIME_TRACKED;
    f->index_epoch = f->fetches->index_epoch;
    fetch_send_command(f, commands_index_size(&f->fetches->commands), fetch_on_index_size);
    fetch_send_read(f, &(struct entry_source){.kind = ENTRY_PAGE, .number = f->number}, fetch_on_members);
}

static void fetch_send_missing(struct fetch *f)
{
    const struct page_members *m = page_builder_members(f->page);
    free(f->reads); /* of an earlier read: its replies have come */
    f->reads = calloc((size_t)m->count + 1, sizeof *f->reads);
    f->failed = f->failed || f->reads == NULL; /* ANALYZER(malloc-leak): f owns it */
    for (int at = -1; !f->failed && (at = page_builder_next_missing(f->page, at + 1)) >= 0;) {
        const struct entry_source source = {.kind = ENTRY_SUMMARY, .number = m->id[at]};
        f->reads[at] = (struct summary_read){f, at};
        fetch_send(f, commands_read(&f->fetches->commands, &source), 0, fetch_on_summary, &f->reads[at]);
    }
}

static void fetch_send_summaries(struct fetch *f)
{
    f->found = true;
    f->page_known = false;
    fetch_watch(f);
    if (validity_may_store(f->fetches->options.validity)) /* or what is cached may be out of date */
        (void)page_builder_gather(f->page, f->fetches->options.entries);
    fetch_send_missing(f);
}

static void fetch_send_link(struct fetch *f)
{
    const struct buf *command = commands_link(&f->fetches->commands, fetch_link_of(f));
    fetch_send(f, command, REDIS_SEND_UNTRACKED, fetch_on_link, f);
}

static void fetch_send_auth(struct fetch *f, bool with_info)
{
    struct commands *c = &f->fetches->commands;
    commands_set_key(c, &f->key);
    if (with_info)
        fetch_send_command(f, commands_key_info(c), fetch_on_key_info);
    fetch_send_command(f, commands_auth(c), fetch_on_auth);
}

static void fetch_send_first(struct fetch *f)
{
    switch (f->type) {
    case QUERY_AUTH_ONLY:
        f->found = true;
        break;
    case QUERY_CARD:
        f->id = f->number;
        fetch_send_card(f);
        break;
    case QUERY_CARD_BY_LINK:
        fetch_send_link(f);
        break;
    case QUERY_PAGE:
        if (!f->page_known) {
            fetch_send_index(f);
            break;
        }
        fetch_enter(f, FETCH_SUMMARIES);
        fetch_send_summaries(f);
        break;
    }
}

/* Sends the first batch. Returns 0, or -ENOMEM if nothing was sent; after a part of it the fetch fails. */
static int fetch_start(struct fetch *f)
{
    f->mark = validity_mark(f->fetches->options.validity);
    f->sent_ms = f->batch_ms = clock_boot_ms();
    fetch_enter(f, FETCH_FIRST);
    f->info_lifetime = LIFETIME_NONE;
    f->linked = false;
    f->relinks = 0;
    f->auth_due = false;
    if (f->needs_auth)
        fetch_send_auth(f, true);
    if (!f->failed)
        fetch_send_first(f);
    return f->replies_due == 0 ? -ENOMEM : 0;
}

static void fetch_send_linked_card(struct fetch *f)
{
    fetch_enter(f, FETCH_LINKED_CARD);
    f->linked = false;
    f->id = f->linked_id;
    fetch_unpublish(f); /* the link may change from now on: it is not tracked */
    fetch_send_card(f);
}

/*
 * The link led to a card with another link: one of the two changed between their reads, or they do not agree.
 * Redis executes both commands in one turn, unless TCP delivers them apart: twice, and the link changes hands
 * in between both times, is not expected. Where two nodes of a cluster execute them only many reads tell.
 */
static void fetch_send_relinked(struct fetch *f)
{
    fetch_enter(f, FETCH_RELINKED);
    f->failed = f->relinks++ == REPEATS_MAX;
    f->apart = false;
    fetch_send_card(f);
    fetch_send_link(f);
}

/* Of a link and its card, after both were read. */
static bool fetch_may_agree(const struct fetch *f)
{
    int most = f->apart ? REPEATS_MAX : RELINKS_MAX;
    return f->state == FETCH_LINKED_CARD || (f->state == FETCH_RELINKED && f->relinks < most);
}

/*
 * A key that had expired and was revoked since is in a set that was read before its info, and has none any
 * more: it would be valid, which it never was.
 */
static void fetch_send_due_auth(struct fetch *f)
{
    f->auth_due = false;
    fetch_send_auth(f, false);
}

/* The next batch. False when there is nothing more to send. */
static bool fetch_advance(struct fetch *f)
{
    f->batch_ms = clock_boot_ms();
    if (f->auth_due)
        fetch_send_due_auth(f);
    else if (f->linked && !f->found)
        fetch_send_linked_card(f);
    else if (!f->found && fetch_may_agree(f))
        fetch_send_relinked(f);
    else if (f->type == QUERY_PAGE && f->state == FETCH_FIRST) {
        fetch_enter(f, FETCH_SUMMARIES);
        fetch_send_summaries(f);
    }
    return f->replies_due > 0;
}

/* --- the result --- */

static bool fetch_was_invalidated(const struct fetch *f)
{
    return f->invalidated || f->index_epoch != f->fetches->index_epoch;
}

static struct blob *fetch_compose_page(struct fetch *f)
{
    const struct fetch_options *o = &f->fetches->options;
    const struct page_members *m = page_builder_members(f->page);
    struct page_info info;
    struct blob *body = page_builder_compose(f->page, &info);
    struct lifetime lifetime =
        lifetime_of_both(f->page_lifetime, validity_lifetime_of_index(o->validity, NULL, f->sent_ms));
    if (body != NULL)
        f->fetches->page_length = body->len;
    if (body != NULL && !fetch_was_invalidated(f))
        entries_put_page(o->entries, lifetime, &info, m->id, m->count, body);
    page_builder_report_gaps(f->page, &f->fetches->reports);
    f->result.last_page = info.last;
    return body;
}

static void fetch_compose_result(struct fetch *f)
{
    struct cache_result *r = &f->result;
    r->key_name = f->key_known ? &f->info.name : NULL;
    if (f->failed)
        r->status = CACHE_UNAVAILABLE;
    else if (f->key_invalid)
        r->status = CACHE_KEY_INVALID;
    else
        r->status = f->found ? CACHE_FOUND : CACHE_NOT_FOUND;
    if (r->status != CACHE_FOUND) { /* a card that came along with a refused key is not served */
        blob_unref(r->body);
        r->body = NULL;
    }
    if (r->status == CACHE_FOUND && f->type == QUERY_PAGE)
        r->body = fetch_compose_page(f);
    if (r->status == CACHE_FOUND && f->type != QUERY_AUTH_ONLY && r->body == NULL)
        r->status = CACHE_OUT_OF_MEMORY;
}

static void fetch_free(struct fetch *f)
{
    assert(f->replies_due == 0 && list_empty(&f->requests));
    list_remove(&f->link);
    fetch_unpublish(f);
    fetch_unwatch(f);
    page_builder_free(f->page);
    blob_unref(f->result.body);
    free(f->reads);
    free(f);
}

/* Ends the fetch. Without requests no result is composed or cached. */
static void fetch_finish(struct fetch *f)
{
    const struct cache_query q = {.type = f->type, .number = f->number, .link = fetch_link_of(f)};
    if (!f->lost && !list_empty(&f->requests))
        fetch_compose_result(f);
    fetch_enter(f, FETCH_ENDED);
    fetch_unpublish(f);
    f->fetches->options.ended(f->fetches->options.arg, &f->requests, &q, f->lost ? NULL : &f->result);
    fetch_free(f);
}

/* What the result lacks, as a number; 0: nothing. A Redis without data would have given a result that lacks
 * the same. */
static uint64_t fetch_lack_of(const struct fetch *f)
{
    if (f->key_invalid || !f->found)
        return f->key_invalid ? UINT64_MAX : UINT64_MAX - 1;
    return f->page == NULL ? 0 : page_builder_lack(f->page);
}

/*
 * Whether a result that lacks something must be read again after the check passed: Redis may have lost its
 * data and been reloaded in between. Where no invalidation would tell, the same has to be lacking twice in a
 * row; as on a page, since a loader may have been writing between the reads of the index and of the cards,
 * and from another node of a cluster, as the slot may have migrated on when that node was asked.
 */
static bool fetch_must_be_read_again(const struct fetch *f)
{
    const struct validity *v = f->fetches->options.validity;
    bool is_told = validity_may_store(v) && validity_has_api_keys(v);
    bool is_one_read = !f->apart && (f->key_invalid || f->page == NULL);
    bool is_same = fetch_lack_of(f) == f->lack;
    if (!is_told || (is_same && f->repeats >= REPEATS_MAX))
        return !is_same;
    return !validity_lost_nothing(v, f->mark) || !(is_one_read || is_same);
}

/* The check passed. */
static void fetch_confirm(struct fetch *f)
{
    if (list_empty(&f->requests) || !fetch_must_be_read_again(f)) {
        fetch_finish(f);
        return;
    }
    f->repeats++;
    f->lack = fetch_lack_of(f);
    f->found = f->key_invalid = false;
    blob_unref(f->result.body);
    f->result.body = NULL;
    if (fetch_start(f) == 0)
        return;
    f->failed = true;
    fetch_finish(f);
}

void fetches_confirm(struct fetches *fs, enum catalogue_state state)
{
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &fs->unconfirmed);
    while (!list_empty(&waiting)) {
        struct fetch *f = LIST_ENTRY(waiting.next, struct fetch, link);
        list_remove(&f->link);
        f->failed = state == CATALOGUE_UNKNOWN;
        f->lost = state != CATALOGUE_UNKNOWN && state != CATALOGUE_PRESENT;
        if (state == CATALOGUE_PRESENT)
            fetch_confirm(f);
        else
            fetch_finish(f);
    }
}

static void fetch_proceed(struct fetch *f)
{
    if (f->replies_due > 0)
        return;
    fetch_adapt_window(f->fetches, f->batch_ms);
    bool wanted = !f->lost && !list_empty(&f->requests);
    if (wanted && !f->failed && !f->key_invalid && fetch_advance(f))
        return;
    if (!wanted || f->lost || f->failed || fetch_lack_of(f) == 0) {
        fetch_finish(f);
        return;
    }
    fetch_enter(f, FETCH_UNCONFIRMED);
    fetch_unpublish(
        f); /* meanwhile it may come to exist: by link, or in a cluster, without an invalidation */
    list_append(&f->fetches->unconfirmed, &f->link);
    catalogue_check(f->fetches->options.catalogue); /* fetches_confirm() follows */
}

/* --- one fetch --- */

static struct fetch *fetch_new(struct fetches *fs, const struct cache_query *q, bool needs_auth,
                               struct page_builder *known)
{
    bool paged = q->type == QUERY_PAGE;
    struct page_builder *page = paged && known == NULL ? page_builder_new(q->number) : known;
    struct fetch *f = calloc(1, sizeof *f + q->link.len);
    if (f == NULL || (paged && page == NULL)) {
        page_builder_free(page);
        free(f);
        return NULL;
    }
    list_init(&f->link);
    list_init(&f->requests);
    f->fetches = fs;
    f->needs_auth = needs_auth;
    f->page = page;
    f->page_known = known != NULL;
    f->page_lifetime = LIFETIME_TRACKED; /* of a known page; else set when its index is read */
    if (page != NULL)
        page_builder_expect(page, fs->page_length + fs->page_length / 8);
    f->index_epoch = fs->index_epoch;
    f->key = q->key;
    f->type = q->type;
    f->number = q->number;
    f->link_len = q->link.len;
    if (q->link.len > 0)
        memcpy(f->link_text, q->link.data, q->link.len);
    if (!needs_auth)
        fetch_publish(f);
    return f;
}

struct fetch *fetch_begin(struct fetches *fs, const struct cache_query *q, bool needs_auth,
                          struct page_builder *known, struct list *request)
{
    struct fetch *f = fetch_new(fs, q, needs_auth, known);
    if (f == NULL)
        return NULL;
    if (fetch_start(f) != 0) {
        fetch_free(f);
        return NULL;
    }
    fetch_join(f, request);
    return f;
}

void fetch_join(struct fetch *f, struct list *request)
{
    list_append(&f->requests, request);
}

/* --- all fetches --- */

int fetches_init(struct fetches *fs, const struct fetch_options *options)
{
    *fs = (struct fetches){.options = *options, .reports = {.metrics = options->metrics}};
    list_init(&fs->unconfirmed);
    fs->seed = random_seed(fs);
    int err = table_init(&fs->inflight);
    if (err == 0)
        err = table_init(&fs->page_members);
    int commands = commands_init(&fs->commands, options->keyspace);
    return err != 0 ? err : commands;
}

void fetches_fini(struct fetches *fs)
{
    assert(list_empty(&fs->unconfirmed) && fs->commands_due == 0);
    table_fini(&fs->inflight);
    table_fini(&fs->page_members);
    commands_fini(&fs->commands);
}
