/*
 * Batches of commands and their results; see fetch.h.
 *
 * Invariant: a fetch exists while it expects replies, or is in the list of fetches that wait for a check. The
 * last reply, or the check, continues or ends it (fetch_proceed, fetches_confirm).
 */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/state.h"
#include "cache/upstream.h"
#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum fetch_state {
    FETCH_NEW,
    FETCH_FIRST,       /* the first batch is in flight */
    FETCH_LINKED_CARD, /* the read of the card that a link names is in flight */
    FETCH_SUMMARIES,   /* the second batch of a page is in flight; the first one if its members are known */
    FETCH_UNCONFIRMED, /* all replies have arrived, and the fetch waits for a check of the catalogue */
    FETCH_ENDED
};

/* What a command reads. */
enum part { PART_CARD, PART_LINK, PART_INDEX, PART_SUMMARY };

/*
 * For data or keys that change all the time:
 *   - REPEATS_MAX: repetitions after which it does not count any more that the keys have changed
 *   - READS_MAX: repetitions with which a read ends
 */
enum { REPEATS_MAX = 8, READS_MAX = 64 };

/* A summary that is being read. */
struct summary_read {
    struct fetch *fetch;
    int at; /* its place in the page */
};

/* The result of the replies so far. A reply only raises it (fetch_raise), so a failure counts most. */
enum fetch_outcome {
    FETCH_NOT_FOUND,
    FETCH_FOUND,
    FETCH_FAILED, /* Redis replied with an error, or memory ran out */
    FETCH_LOST    /* the connection was lost before all replies came */
};

/* A card, by its id or by its link. */
struct card_read {
    int64_t id;
    struct blob *body; /* one reference, once the card was found; or NULL */
};

/* The link by which a card is read. */
struct link_read {
    bool is_named;    /* it names a card */
    bool is_new;      /* which has not been read since */
    bool is_together; /* the card was read in one batch with the link */
    int64_t id;       /* the id of that card */
};

struct page_read {
    struct page_builder *builder; /* owned */
    int watched;                  /* channels, from the first on, under which the page is registered */
    struct summary_read *reads;   /* the reads of its summaries, by their places; owned */
    struct lifetime lifetime;     /* of its list; by TTL, of all replies */
    uint64_t index_epoch;         /* entries_index_epoch() when its index was read */
    uint64_t flushes;             /* validity.flushes since which its summaries were read */
    uint64_t outdated_ms;         /* when it was current, if a channel may have changed since; 0: none has */
};

struct fetch {
    struct fetches *fetches;
    enum fetch_state state;
    enum fetch_outcome outcome;
    struct list link;     /* in the list of fetches that wait for a check */
    struct list requests; /* the requests that wait for the result */
    bool inflight;        /* in the table of fetches that may be joined */
    uint64_t inflight_hash;
    uint64_t inflight_epoch; /* the epoch of the index, or the number of flushes, when the fetch began */
    uint64_t outside_epoch;  /* the epoch when the fetch began */

    unsigned replies_due;     /* replies that have not come yet */
    bool apart;               /* a reply came from outside of the stream, and so from another moment */
    int repeats;              /* repetitions of all reads, because the result lacked something */
    uint64_t lack;            /* what the result lacked before the last repetition */
    uint64_t sent_ms;         /* by the boot clock; no read was sent before */
    uint64_t batch_ms;        /* when the batch in flight was sent */
    struct lifetime lifetime; /* how long the reply that is being read may be cached */
    uint64_t mark;            /* stream_mark() when its first batch was sent */

    bool is_fresh; /* the cache was, when the fetch began */
    union {
        struct { /* QUERY_CARD and QUERY_CARD_BY_LINK */
            struct card_read card;
            struct link_read by_link;
        };
        struct page_read page; /* QUERY_PAGE */
    };

    enum cache_query_type type;
    int64_t number;
    size_t link_len;
    char link_text[];
};

static const unsigned NEXT[] = {
    [FETCH_NEW] = STATE(FETCH_FIRST),
    [FETCH_FIRST] =
        STATE(FETCH_LINKED_CARD) | STATE(FETCH_SUMMARIES) | STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_LINKED_CARD] = STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_SUMMARIES] = STATE(FETCH_UNCONFIRMED) | STATE(FETCH_ENDED),
    [FETCH_UNCONFIRMED] = STATE(FETCH_FIRST) | STATE(FETCH_ENDED),
    [FETCH_ENDED] = 0,
};

static void fetch_enter(struct fetch *f, enum fetch_state next)
{
    STATE_ENTER(&f->state, next, NEXT);
    assert(f->replies_due == 0 || next == FETCH_SUMMARIES);
}

static void fetch_raise(struct fetch *f, enum fetch_outcome outcome)
{
    f->outcome = outcome > f->outcome ? outcome : f->outcome;
}

static bool fetch_has_failed(const struct fetch *f)
{
    return f->outcome >= FETCH_FAILED;
}

static struct span fetch_link_of(const struct fetch *f)
{
    return (struct span){f->link_text, f->link_len};
}

/* --- reports --- */

/* The key in Redis of an oversize reply. fetch_on_summary handles those of summaries. */
static void fetch_report_oversize(struct fetch *f, enum part part)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct buf key = BUF_INIT;
    if (part == PART_LINK)
        keyspace_link(parts->keyspace, &key, fetch_link_of(f));
    else if (part == PART_INDEX)
        keyspace_append(parts->keyspace, &key, KEYSPACE_INDEX);
    else
        keyspace_card(parts->keyspace, &key, f->card.id);
    value_reports_oversize(parts->reports, buf_span(&key));
    buf_fini(&key);
}

/* --- the window: how many commands may be in flight --- */

/*
 * The window works as TCP's congestion window. Commands sent to a busy Redis wait there, ahead of the
 * heartbeat and of requests that still have time. So the window follows the time that replies take. Beyond it
 * requests wait here, and cost Redis nothing when they time out. The least delay on a connection is the delay
 * of the network.
 */
enum {
    WINDOW_FIRST = PAGE_SIZE + 2, /* for a new connection: what one page needs */
    WINDOW_AFTER_LOSS = 1,        /* if reads were lost with the last one: one of them may be the reason */
    WINDOW_LEAST = 4,
    WINDOW_STEP = 4, /* the growth of the window per round trip */
    WINDOW_MOST = 65536
};

void fetches_connected(struct fetches *fs)
{
    fs->window = fs->has_lost ? WINDOW_AFTER_LOSS : WINDOW_FIRST;
    fs->has_lost = false;
    fs->window_ms = 0;
    fs->least_delay_ms = UINT64_MAX;
    fs->window_filled = false;
}

bool fetches_have_room(struct fetches *fs)
{
    bool room = fs->commands_due < fs->window + redis_session_commands_outside(fs->parts->session);
    fs->window_filled |= !room;
    return room;
}

/* Called when this Redis has replied to a whole batch. The window changes once per round trip. */
static void fetch_adapt_window(struct fetches *fs, uint64_t batch_ms)
{
    uint64_t now = clock_boot_ms();
    uint64_t delay_ms = now - batch_ms;
    fs->least_delay_ms = delay_ms < fs->least_delay_ms ? delay_ms : fs->least_delay_ms;
    if (batch_ms < fs->window_ms)
        return;
    if (delay_ms - fs->least_delay_ms > fs->delay_limit_ms)
        fs->window = fs->window / 2 > WINDOW_LEAST ? fs->window / 2 : WINDOW_LEAST;
    else if (fs->window_filled && fs->window < WINDOW_MOST) /* not covered: after 16,000 full round trips */
        fs->window += WINDOW_STEP;
    else
        return;
    fs->window_ms = now;
    fs->window_filled = false;
}

/* --- commands --- */

/* The commands in flight of the fetch, as the window counts them: a page is one read. */
static unsigned fetch_commands_due(const struct fetch *f)
{
    return f->type == QUERY_PAGE ? f->replies_due > 0 : f->replies_due;
}

static void fetch_set_replies_due(struct fetch *f, unsigned replies_due)
{
    f->fetches->commands_due -= fetch_commands_due(f);
    f->replies_due = replies_due;
    f->fetches->commands_due += fetch_commands_due(f);
}

/* Sends a command and counts its reply. Does nothing once the fetch has failed. */
static void fetch_send(struct fetch *f, const struct buf *command, unsigned how, redis_reply_fn fn, void *arg)
{
    if (fetch_has_failed(f))
        return;
    int err = redis_session_send(f->fetches->parts->session, command, how, fn, arg);
    if (err != 0) {
        fetch_raise(f, err == -ENOTCONN ? FETCH_LOST : FETCH_FAILED);
        return;
    }
    fetch_set_replies_due(f, f->replies_due + 1);
    metric_add(&f->fetches->parts->metrics->redis_commands_total, 1);
}

static void fetch_send_command(struct fetch *f, const struct buf *command, redis_reply_fn fn)
{
    fetch_send(f, command, 0, fn, f);
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
    const struct cache_parts *parts = fs->parts;
    return type == QUERY_PAGE ? entries_index_epoch(parts->entries) : parts->stream->flushes;
}

/* By TTL a request joins a fetch only if the cache would serve the fetch's result to it. */
static bool fetch_has_expired(const struct fetch *f)
{
    const struct stream *stream = f->fetches->parts->stream;
    return stream->by_ttl && clock_boot_ms() >= f->sent_ms + stream->options->ttl_ms;
}

struct fetch *fetches_find(struct fetches *fs, const struct cache_query *q)
{
    uint64_t epoch = fetch_epoch_of(fs, q->type);
    const struct table_slot *slot =
        table_find(&fs->inflight, fetch_hash_of_query(fs, q->type, q->number, q->link));
    for (; slot != NULL; slot = table_find_next(&fs->inflight, slot)) {
        struct fetch *f = slot->entry;
        /* not covered: two queries with the same 64-bit hash */
        if (f->inflight_epoch == epoch && f->outside_epoch == fs->outside_epoch && f->type == q->type &&
            f->number == q->number && span_equal(fetch_link_of(f), q->link) && !fetch_has_expired(f))
            return f;
    }
    return NULL;
}

/* Lets requests join the fetch. Without memory for the table the fetch is not shared. */
static void fetch_publish(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    f->inflight_hash = fetch_hash_of_query(fs, f->type, f->number, fetch_link_of(f));
    f->inflight_epoch = fetch_epoch_of(fs, f->type);
    f->outside_epoch = fs->outside_epoch;
    f->inflight = table_add(&fs->inflight, f->inflight_hash, f) == 0;
}

static void fetch_unpublish(struct fetch *f)
{
    if (f->inflight)
        table_remove(&f->fetches->inflight, f->inflight_hash, f);
    f->inflight = false;
}

static uint64_t fetch_hash_of_member(const struct fetch *f, int at)
{
    return hash_int64(f->page.builder->members.member[at].id, f->fetches->seed);
}

enum { MEMBERS_KEPT = 64 * 1024 }; /* bytes of the empty table */

static void fetch_unwatch(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    while (f->page.watched > 0)
        table_remove(&fs->page_members, fetch_hash_of_member(f, --f->page.watched), f);
    /* not covered: no test reads so many members at once */
    if (table_used(&fs->page_members) == 0 && table_bytes(&fs->page_members) > MEMBERS_KEPT)
        table_clear(&fs->page_members);
}

/*
 * Registers the page under each of its channels, so that an invalidation finds it. Without memory the page is
 * not cached. Not needed if nothing is cached.
 */
static void fetch_watch(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    struct page_read *p = &f->page;
    if (!stream_may_store(fs->parts->stream))
        return;
    while (p->watched < p->builder->members.count &&
           table_add(&fs->page_members, fetch_hash_of_member(f, p->watched), f) == 0)
        p->watched++;
    if (p->watched < p->builder->members.count) /* not covered: out of memory */
        p->lifetime = LIFETIME_NONE;
}

/* The channel at this place has changed, or may change without notice. */
static void fetch_mark_changed(struct fetch *f, int at)
{
    struct page_read *p = &f->page;
    p->builder->has_changed[at] = true;
    p->outdated_ms = p->outdated_ms != 0 ? p->outdated_ms : f->fetches->parts->stream->pong_ms;
}

static void fetch_invalidate_member(struct fetch *f, int64_t id)
{
    const struct page_members *m = &f->page.builder->members;
    for (int at = 0; at < m->count; at++)
        if (m->member[at].id == id)
            fetch_mark_changed(f, at);
    fetch_unpublish(f);
}

static void fetch_invalidate(struct fetches *fs, const struct cache_query *q)
{
    struct fetch *f = fetches_find(fs, q);
    if (f != NULL)
        fetch_unpublish(f);
}

void fetches_invalidate_card(struct fetches *fs, int64_t id)
{
    fetch_invalidate(fs, &(struct cache_query){.type = QUERY_CARD, .number = id});
    const struct table_slot *slot = table_find(&fs->page_members, hash_int64(id, fs->seed));
    for (; slot != NULL; slot = table_find_next(&fs->page_members, slot))
        fetch_invalidate_member(slot->entry, id);
}

/* --- replies --- */

/*
 * Determines for how long the reply may be cached: f->lifetime. Redis announces no changes on this connection
 * for what was read outside of its stream.
 */
static void fetch_limit_lifetime(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin,
                                 enum part part)
{
    const struct stream *stream = f->fetches->parts->stream;
    f->apart |= origin == REDIS_ORIGIN_OUTSIDE;
    f->lifetime = origin == REDIS_ORIGIN_OUTSIDE ? LIFETIME_NONE : stream_lifetime(stream, reply, f->sent_ms);
    if (part == PART_INDEX)
        f->page.lifetime = lifetime_of_both(f->page.lifetime, f->lifetime);
}

static void fetch_count_reply(struct fetch *f)
{
    assert(f->replies_due > 0 && f->fetches->commands_due >= fetch_commands_due(f));
    fetch_set_replies_due(f, f->replies_due - 1);
}

/*
 * Every reply is passed to this function first. Returns whether the reply has data to be read. f->lifetime
 * then is the time for which it may be cached.
 */
static bool fetch_accept_reply(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin,
                               enum part part)
{
    fetch_count_reply(f);
    if (reply == NULL) {
        f->fetches->has_lost = true;
        fetch_raise(f, FETCH_LOST);
        return false;
    }
    bool is_silent = list_empty(&f->requests); /* the key may be invalid, and causes no error then */
    if (resp_is_oversize(reply)) {
        if (!is_silent)
            fetch_report_oversize(f, part);
        fetch_raise(f, FETCH_FAILED);
        return false;
    }
    fetch_limit_lifetime(f, reply, origin, part);
    if (reply->type == REPLY_ERROR) {
        if (!is_silent)
            value_reports_error(f->fetches->parts->reports, reply);
        fetch_raise(f, FETCH_FAILED);
    }
    return !fetch_has_failed(f);
}

/* To be called last in every reply function. */
static void fetch_proceed(struct fetch *f);

/* Returns false when there is no channel. An invalid reply fails the fetch. */
static bool fetch_read_row(struct fetch *f, const struct redis_reply *reply, enum channel_shape shape,
                           struct channel_row *row)
{
    enum value_state state = body_parse_row(reply, shape, row);
    if (state == VALUE_INVALID)
        fetch_raise(f, FETCH_FAILED);
    if (state != VALUE_PRESENT)
        return false;
    value_reports_note_update(f->fetches->parts->reports, row);
    return true;
}

static struct blob *fetch_write_card(struct fetch *f, const struct channel_row *row, size_t headroom)
{
    struct buf *text = f->fetches->parts->text;
    value_reports_invalid(f->fetches->parts->reports, f->card.id, body_write(text, row, CHANNEL_CARD));
    return buf_error(text) == 0 ? blob_new_headroom(buf_span(text), headroom) : NULL;
}

/* A card that is read by a link is found if its own link is the same. */
static void fetch_read_card(struct fetch *f, const struct redis_reply *reply)
{
    struct channel_row row;
    if (!fetch_read_row(f, reply, CHANNEL_CARD, &row))
        return;
    struct span link = row.value[CHANNEL_FIELD_link];
    struct blob *body =
        fetch_write_card(f, &row, lifetime_is_none(f->lifetime) ? 0 : entries_card_headroom(link));
    if (body != NULL)
        entries_put_card(f->fetches->parts->entries, f->lifetime, f->card.id, link, body);
    if (f->type == QUERY_CARD || span_equal(link, fetch_link_of(f))) {
        fetch_raise(f, FETCH_FOUND);
        f->card.body = body;
    } else {
        blob_unref(body);
    }
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
    struct link_read *l = &f->by_link;
    bool malformed = false;
    enum value_state state = body_parse_link(reply, &l->id, &malformed);
    if (state == VALUE_INVALID)
        fetch_raise(f, FETCH_FAILED);
    l->is_named = state == VALUE_PRESENT;
    l->is_new = l->is_named && !(l->is_together && l->id == f->card.id);
    if (malformed)
        metric_add(&f->fetches->parts->metrics->invalid_values_total, 1);
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
    if (fetch_accept_reply(f, reply, origin, PART_INDEX)) {
        if (reply->type == REPLY_INTEGER) {
            f->page.builder->index_size = reply->integer;
            entries_set_index_size(f->fetches->parts->entries, f->lifetime, reply->integer);
        } else {
            fetch_raise(f, FETCH_FAILED);
        }
    }
    fetch_proceed(f);
}

/*
 * Summaries of an earlier read stay if their changes were announced since, which needs that the page was
 * watched, and not everything was invalidated.
 */
static void fetch_set_members(struct fetch *f, const struct page_members *members)
{
    struct page_read *p = &f->page;
    const struct stream *stream = f->fetches->parts->stream;
    bool is_told = stream_may_store(stream) && p->watched == p->builder->members.count;
    fetch_unwatch(f);
    if (!is_told || p->flushes != stream->flushes)
        page_builder_reset(p->builder);
    page_builder_set_members(p->builder, members);
    p->flushes = stream->flushes;
    p->outdated_ms = 0;
    fetch_watch(f);
}

static void fetch_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    struct page_members members;
    if (fetch_accept_reply(f, reply, origin, PART_INDEX)) {
        bool is_list = page_members_parse(&members, reply);
        fetch_raise(f, is_list ? FETCH_FOUND : FETCH_FAILED); /* a page always exists, if only an empty one */
        if (is_list)
            fetch_set_members(f, &members);
    }
    fetch_proceed(f);
}

static void fetch_read_summary(struct fetch *f, int at, const struct redis_reply *reply)
{
    struct channel_row row;
    struct page_builder *p = f->page.builder;
    if (!fetch_read_row(f, reply, CHANNEL_SUMMARY, &row)) {
        p->gap[at] = PAGE_GAP_ABSENT;
        return;
    }
    value_reports_invalid(f->fetches->parts->reports, p->members.member[at].id,
                          page_builder_write(p, at, &row));
}

static void fetch_on_summary(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct summary_read *read = arg;
    struct fetch *f = read->fetch;
    struct page_builder *p = f->page.builder;
    enum page_gap gap = page_gap_of(reply);
    if (gap != PAGE_GAP_NONE) {
        fetch_count_reply(f);
        fetch_limit_lifetime(f, reply, origin, PART_SUMMARY);
        p->gap[read->at] = gap;
    } else if (fetch_accept_reply(f, reply, origin, PART_SUMMARY)) {
        fetch_read_summary(f, read->at, reply);
    }
    if (reply != NULL && lifetime_is_none(f->lifetime))
        fetch_mark_changed(f, read->at);
    fetch_proceed(f);
}

/* --- batches --- */

static void fetch_send_card(struct fetch *f)
{
    fetch_send_command(f, commands_channel(f->fetches->parts->commands, f->card.id, CHANNEL_CARD),
                       fetch_on_card);
}

static void fetch_send_index(struct fetch *f)
{
    f->page.lifetime = LIFETIME_TRACKED;
    f->page.index_epoch = entries_index_epoch(f->fetches->parts->entries);
    fetch_send_command(f, commands_index_size(f->fetches->parts->commands), fetch_on_index_size);
    fetch_send_command(f, commands_page(f->fetches->parts->commands, f->number), fetch_on_members);
}

static void fetch_send_missing(struct fetch *f)
{
    struct page_read *p = &f->page;
    const struct page_members *m = &p->builder->members;
    free(p->reads); /* all replies of an earlier read have arrived */
    p->reads = calloc((size_t)m->count + 1, sizeof *p->reads);
    if (p->reads == NULL) /* ANALYZER(malloc-leak): f owns it */
        fetch_raise(f, FETCH_FAILED);
    for (int at = -1; !fetch_has_failed(f) && (at = page_builder_next_missing(p->builder, at + 1)) >= 0;) {
        p->reads[at] = (struct summary_read){f, at};
        fetch_send(f, commands_channel(f->fetches->parts->commands, m->member[at].id, CHANNEL_SUMMARY), 0,
                   fetch_on_summary, &p->reads[at]);
    }
}

/* What is cached may be out of date where nothing may be stored. By TTL a page is read whole. */
static void fetch_gather(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    const struct entry *e = entries_peek(parts->entries, ENTRY_PAGE, f->number);
    if (e != NULL && stream_may_store(parts->stream))
        page_builder_gather(f->page.builder, e);
}

/* Whether the list of the cached page is current, and was taken. */
static bool fetch_take_list(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    const struct entry *e = entries_peek(parts->entries, ENTRY_PAGE, f->number);
    bool is_current = f->is_fresh && f->repeats == 0 && stream_may_store(parts->stream);
    if (e == NULL || !is_current || !entries_has_list(parts->entries, e->page))
        return false;
    f->page.builder->index_size = entries_index_size(parts->entries);
    page_builder_set_list(f->page.builder, e->page);
    fetch_watch(f);
    return true;
}

static void fetch_send_summaries(struct fetch *f)
{
    fetch_enter(f, FETCH_SUMMARIES);
    fetch_raise(f, FETCH_FOUND);
    fetch_gather(f);
    fetch_send_missing(f);
}

/*
 * If the link named a card with another link, either one of the two changed between their reads, or they do
 * not agree. So the card is read again with the link. Redis executes both commands in one iteration of its
 * event loop, unless TCP delivers them apart.
 */
static void fetch_send_link(struct fetch *f)
{
    f->by_link.is_together = f->by_link.is_named;
    if (f->by_link.is_named)
        fetch_send_card(f);
    const struct buf *command = commands_link(f->fetches->parts->commands, fetch_link_of(f));
    fetch_send(f, command, REDIS_SEND_UNTRACKED, fetch_on_link, f);
}

/* Sends the first batch. Returns 0, or -ENOMEM if nothing was sent. If only a part was sent, the fetch fails.
 */
static int fetch_start(struct fetch *f)
{
    f->mark = stream_mark(f->fetches->parts->stream);
    f->sent_ms = f->batch_ms = clock_boot_ms();
    fetch_enter(f, FETCH_FIRST);
    f->apart = false;
    switch (f->type) {
    case QUERY_AUTH_ONLY: /* there is nothing to read */
        break;
    case QUERY_CARD:
        f->card.id = f->number;
        fetch_send_card(f);
        break;
    case QUERY_CARD_BY_LINK:
        fetch_send_link(f);
        break;
    case QUERY_PAGE:
        if (fetch_take_list(f))
            fetch_send_summaries(f);
        else
            fetch_send_index(f);
        break;
    }
    return f->replies_due == 0 ? -ENOMEM : 0;
}

static void fetch_send_linked_card(struct fetch *f)
{
    fetch_enter(f, FETCH_LINKED_CARD);
    f->by_link.is_new = f->by_link.is_together = false;
    f->card.id = f->by_link.id;
    fetch_unpublish(f); /* the link may change from now on: it is not tracked */
    fetch_send_card(f);
}

/* Sends the next batch. False when there is nothing left to send. */
static bool fetch_advance(struct fetch *f)
{
    f->batch_ms = clock_boot_ms();
    if (f->type == QUERY_CARD_BY_LINK && f->outcome == FETCH_NOT_FOUND && f->by_link.is_new)
        fetch_send_linked_card(f);
    else if (f->type == QUERY_PAGE && f->state == FETCH_FIRST)
        fetch_send_summaries(f);
    return f->replies_due > 0;
}

/* --- the result --- */

/* The body of a card (one reference, for the caller), or NULL. */
static struct blob *fetch_take_body(struct fetch *f)
{
    struct blob *body = f->card.body;
    f->card.body = NULL;
    return body;
}

/* If the index has changed meanwhile, the list is not current. */
static void fetch_compose_page(struct fetch *f, struct cache_result *r)
{
    const struct cache_parts *parts = f->fetches->parts;
    const struct page_members *m = &f->page.builder->members;
    struct page_info info;
    bool is_absent = m->count == 0 && page_builder_lack(f->page.builder) != 0; /* which is not cached */
    struct lifetime lifetime =
        lifetime_of_both(f->page.lifetime, stream_lifetime(parts->stream, NULL, f->sent_ms));
    r->body = page_builder_compose(f->page.builder, &info);
    r->last_page = info.last;
    if (r->body != NULL && !is_absent && f->page.index_epoch == entries_index_epoch(parts->entries))
        entries_put_page(parts->entries, lifetime, &info, m->member, m->count, f->page.outdated_ms, r->body);
    page_builder_report_gaps(f->page.builder, f->fetches->parts->reports);
}

/* The result has one reference of its body. */
static struct cache_result fetch_compose_result(struct fetch *f)
{
    static const enum cache_status statuses[] = {
        [FETCH_NOT_FOUND] = CACHE_NOT_FOUND, [FETCH_FOUND] = CACHE_FOUND, [FETCH_FAILED] = CACHE_UNAVAILABLE};
    struct cache_result r = {.status = statuses[f->outcome]};
    if (f->outcome != FETCH_FOUND)
        return r;
    if (f->type == QUERY_PAGE)
        fetch_compose_page(f, &r);
    else
        r.body = fetch_take_body(f);
    if (r.body == NULL)
        r.status = CACHE_OUT_OF_MEMORY;
    return r;
}

static void fetch_free(struct fetch *f)
{
    assert(f->replies_due == 0 && list_empty(&f->requests));
    list_remove(&f->link);
    fetch_unpublish(f);
    if (f->type == QUERY_PAGE) {
        fetch_unwatch(f);
        page_builder_free(f->page.builder);
        free(f->page.reads);
    } else {
        blob_unref(f->card.body);
    }
    free(f);
}

/* A link names a card that has another link, or is absent. */
static bool fetch_has_other_card(const struct fetch *f)
{
    return f->type == QUERY_CARD_BY_LINK && f->outcome == FETCH_NOT_FOUND && f->by_link.is_named;
}

/*
 * What the result lacks, as a number; 0: nothing. The result of a Redis without data would lack the same. A
 * link and a card that were read in two batches lack something else than any others.
 */
static uint64_t fetch_lack_of(const struct fetch *f)
{
    if (fetch_has_other_card(f))
        return hash_int64(f->card.id, f->by_link.is_together) | 1;
    if (f->outcome != FETCH_FOUND)
        return UINT64_MAX;
    return f->type == QUERY_PAGE ? page_builder_lack(f->page.builder) : 0;
}

/* All of it was read, although nobody waits for it any more: it is cached, so that the next read has less to
 * do. */
static bool fetch_is_whole_page(const struct fetch *f)
{
    return f->type == QUERY_PAGE && f->state == FETCH_SUMMARIES && f->outcome == FETCH_FOUND &&
           fetch_lack_of(f) == 0;
}

static void fetch_finish(struct fetch *f)
{
    struct cache_result result = {.status = CACHE_UNAVAILABLE};
    bool is_lost = f->outcome == FETCH_LOST;
    if (!is_lost && (!list_empty(&f->requests) || fetch_is_whole_page(f)))
        result = fetch_compose_result(f);
    fetch_enter(f, FETCH_ENDED);
    fetch_unpublish(f);
    f->fetches->parts->ended(f->fetches->parts->arg, &f->requests, fetch_link_of(f),
                             is_lost ? NULL : &result);
    blob_unref(result.body);
    fetch_free(f);
}

/* What is lacking is one key, in the stream: nothing can have changed between several reads. */
static bool fetch_is_one_read(const struct fetch *f)
{
    return f->type != QUERY_PAGE && !fetch_has_other_card(f) && !f->apart;
}

/*
 * Whether a result that lacks something is certain after the check has passed. A page has to lack the same
 * twice in a row, since a loader may have been writing between the reads of the index and of the cards; so do
 * a link and its card, and a reply from outside of the stream, as the key may have moved on before it was
 * read there.
 */
static bool fetch_is_certain(const struct fetch *f)
{
    bool is_same = fetch_lack_of(f) == f->lack;
    if (f->repeats >= REPEATS_MAX)
        return is_same;
    return stream_is_certain(f->fetches->parts->stream, f->mark, is_same, fetch_is_one_read(f));
}

/* Called when a check has found a catalogue. The result is certain, or is read again. */
static void fetch_confirm(struct fetch *f)
{
    bool is_certain = fetch_is_certain(f);
    if (!is_certain && f->repeats++ == READS_MAX)
        fetch_raise(f, FETCH_FAILED);
    if (list_empty(&f->requests) || is_certain || fetch_has_failed(f)) {
        fetch_finish(f);
        return;
    }
    f->lack = fetch_lack_of(f);
    f->outcome = FETCH_NOT_FOUND;
    if (f->type != QUERY_PAGE)
        blob_unref(fetch_take_body(f));
    if (fetch_start(f) == 0)
        return;
    fetch_raise(f, FETCH_FAILED);
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
        if (state == CATALOGUE_PRESENT) {
            fetch_confirm(f);
        } else {
            fetch_raise(f, state == CATALOGUE_UNKNOWN ? FETCH_FAILED : FETCH_LOST);
            fetch_finish(f);
        }
    }
}

static void fetch_proceed(struct fetch *f)
{
    if (f->replies_due > 0)
        return;
    if (!f->apart && f->outcome != FETCH_LOST) /* another node may take long, or not reply */
        fetch_adapt_window(f->fetches, f->batch_ms);
    bool is_wanted = !list_empty(&f->requests);
    if (is_wanted && f->outcome <= FETCH_FOUND && fetch_advance(f))
        return;
    if (!is_wanted || fetch_has_failed(f) || fetch_lack_of(f) == 0) {
        fetch_finish(f);
        return;
    }
    fetch_enter(f, FETCH_UNCONFIRMED);
    fetch_unpublish(f); /* it may come to exist meanwhile, and links and some absences are not tracked */
    list_append(&f->fetches->unconfirmed, &f->link);
    upstream_check_catalogue(f->fetches->parts->upstream); /* fetches_confirm() follows */
}

/* --- one fetch --- */

static struct fetch *fetch_new(struct fetches *fs, const struct cache_query *q, bool is_fresh)
{
    bool paged = q->type == QUERY_PAGE;
    struct page_builder *builder = paged ? page_builder_new(q->number) : NULL;
    struct fetch *f = calloc(1, sizeof *f + q->link.len);
    if (f == NULL || (paged && builder == NULL)) {
        page_builder_free(builder);
        free(f);
        return NULL;
    }
    list_init(&f->link);
    list_init(&f->requests);
    f->fetches = fs;
    f->is_fresh = is_fresh;
    if (paged) {
        f->page = (struct page_read){.builder = builder,
                                     .lifetime = LIFETIME_TRACKED,
                                     .index_epoch = entries_index_epoch(fs->parts->entries)};
    }
    f->type = q->type;
    f->number = q->number;
    f->link_len = q->link.len;
    if (q->link.len > 0)
        memcpy(f->link_text, q->link.data, q->link.len);
    if (is_fresh)
        fetch_publish(f);
    return f;
}

struct fetch *fetch_begin(struct fetches *fs, const struct cache_query *q, bool is_fresh,
                          struct list *request)
{
    struct fetch *f = fetch_new(fs, q, is_fresh);
    if (f == NULL)
        return NULL;
    if (fetch_start(f) != 0) {
        fetch_free(f);
        return NULL;
    }
    metric_add(&fs->parts->metrics->cache_misses_total, 1);
    fetch_join(f, request);
    return f;
}

void fetch_join(struct fetch *f, struct list *request)
{
    list_append(&f->requests, request);
}

/* --- all fetches --- */

void fetches_init(struct fetches *fs, const struct cache_parts *parts, uint64_t delay_limit_ms)
{
    *fs = (struct fetches){.parts = parts, .delay_limit_ms = delay_limit_ms};
    list_init(&fs->unconfirmed);
    fs->seed = random_seed(fs);
}

void fetches_fini(struct fetches *fs)
{
    assert(list_empty(&fs->unconfirmed) && fs->commands_due == 0);
    table_clear(&fs->inflight);
    table_clear(&fs->page_members);
}
