/*
 * Batches of commands and their results; see fetch.h.
 *
 * Invariant: a fetch exists while it expects replies, or is in the list of fetches that wait for a check. The
 * last reply, or the check, continues or ends it (fetch_proceed, fetches_confirm).
 */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/hash.h"
#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

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

struct fetch {
    struct fetches *fetches;
    struct cache_query query; /* its link is a copy */
    bool is_fresh;            /* the cache was, when the fetch began */
    enum fetch_outcome outcome;
    struct list link;     /* in the list of fetches that wait for a check */
    struct list requests; /* the requests that wait for the result */

    bool inflight;          /* in the table of fetches that may be joined */
    uint64_t index_epoch;   /* of the entries, when its first command was sent; 0: the list may not be kept */
    uint64_t outside_epoch; /* of the fetches, when the fetch began */

    unsigned replies_due;     /* replies that have not come yet */
    bool apart;               /* a reply came from outside of the stream, and so from another moment */
    uint64_t sent_ms;         /* by the boot clock; no read was sent before */
    uint64_t batch_ms;        /* when the batch in flight was sent */
    struct lifetime lifetime; /* how long the reply that is being read may be cached */

    int repeats;   /* repetitions of all reads, because the result lacked something */
    uint64_t lack; /* what the result lacked before the last repetition */
    uint64_t mark; /* stream_mark() when its first batch was sent */

    struct card_read card; /* unless it reads a page */
    struct link_read by_link;
    struct page_builder *page; /* owned; NULL: it does not read a page */
    char link_text[];
};

static void fetch_raise(struct fetch *f, enum fetch_outcome outcome)
{
    f->outcome = outcome > f->outcome ? outcome : f->outcome;
}

static bool fetch_has_failed(const struct fetch *f)
{
    return f->outcome >= FETCH_FAILED;
}

/* --- reports --- */

/* The key in Redis of an oversize reply. fetch_on_summary handles those of summaries. */
static void fetch_report_oversize(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct buf key = BUF_INIT;
    if (f->page != NULL)
        keyspace_append(parts->keyspace, &key, KEYSPACE_INDEX);
    else if (f->query.type == QUERY_CARD || f->by_link.is_named)
        keyspace_card(parts->keyspace, &key, f->card.id);
    else
        keyspace_link(parts->keyspace, &key, f->query.link);
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
    return f->page != NULL ? f->replies_due > 0 : f->replies_due;
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

static uint64_t fetch_hash_of_query(const struct fetches *fs, const struct cache_query *q)
{
    return q->type == QUERY_CARD_BY_LINK ? hash_bytes(q->link, fs->seed)
                                         : hash_int64(q->number, fs->seed + ((uint64_t)q->type << 62));
}

/* By TTL a request joins a fetch only if the cache would serve the fetch's result to it. */
static bool fetch_has_expired(const struct fetch *f)
{
    const struct stream *stream = f->fetches->parts->stream;
    return stream->mode == STREAM_TTL && clock_boot_ms() >= f->sent_ms + stream->options->ttl_ms;
}

/*
 * Whether nothing that the fetch reads is known to have changed since it began. fetches_invalidate_card()
 * handles changes of its card.
 */
static bool fetch_is_current(const struct fetch *f)
{
    const struct entries *entries = f->fetches->parts->entries;
    const struct entry *page = f->page == NULL ? NULL : f->page->entry;
    if (f->page != NULL && f->index_epoch != entries_index_epoch(entries))
        return false;
    return !entries_was_cleared(entries, f->index_epoch) && f->outside_epoch == f->fetches->outside_epoch &&
           (page == NULL || entry_page(page)->outdated_ms == 0) && !fetch_has_expired(f);
}

struct fetch *fetches_find(struct fetches *fs, const struct cache_query *q)
{
    const struct table_slot *slot = table_find(&fs->inflight, fetch_hash_of_query(fs, q));
    for (; slot != NULL; slot = table_find_next(&fs->inflight, slot)) {
        struct fetch *f = slot->entry;
        /* not covered: two queries with the same 64-bit hash */
        if (f->query.type == q->type && f->query.number == q->number && span_equal(f->query.link, q->link) &&
            fetch_is_current(f))
            return f;
    }
    return NULL;
}

/* Lets requests join the fetch. Without memory for the table the fetch is not shared. */
static void fetch_publish(struct fetch *f)
{
    struct fetches *fs = f->fetches;
    f->outside_epoch = fs->outside_epoch;
    f->inflight = table_add(&fs->inflight, fetch_hash_of_query(fs, &f->query), f) == 0;
}

static void fetch_unpublish(struct fetch *f)
{
    if (f->inflight)
        table_remove(&f->fetches->inflight, fetch_hash_of_query(f->fetches, &f->query), f);
    f->inflight = false;
}

void fetches_invalidate_card(struct fetches *fs, int64_t id)
{
    struct fetch *f = fetches_find(fs, &(struct cache_query){.type = QUERY_CARD, .number = id});
    if (f != NULL)
        fetch_unpublish(f);
}

/* --- replies --- */

static void fetch_count_reply(struct fetch *f)
{
    assert(f->replies_due > 0 && f->fetches->commands_due >= fetch_commands_due(f));
    fetch_set_replies_due(f, f->replies_due - 1);
}

/*
 * Every reply is passed to this function first. Returns whether there is one, and determines for how long it
 * may be cached: f->lifetime. Redis announces no changes on this connection for what was read outside of its
 * stream.
 */
static bool fetch_receive(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct stream *stream = f->fetches->parts->stream;
    fetch_count_reply(f);
    if (reply == NULL) {
        f->fetches->has_lost = true;
        fetch_raise(f, FETCH_LOST);
        return false;
    }
    f->apart |= origin == REDIS_ORIGIN_OUTSIDE;
    f->lifetime = origin == REDIS_ORIGIN_OUTSIDE ? LIFETIME_NONE : stream_lifetime(stream, reply, f->sent_ms);
    return true;
}

/* An error fails the fetch. Nothing is reported if nobody waits: the key may be invalid. */
static bool fetch_is_data(struct fetch *f, const struct redis_reply *reply)
{
    bool is_silent = list_empty(&f->requests);
    if (reply->type == REPLY_ERROR)
        fetch_raise(f, FETCH_FAILED);
    if (resp_is_oversize(reply) && !is_silent)
        fetch_report_oversize(f);
    else if (reply->type == REPLY_ERROR && !is_silent)
        value_reports_error(f->fetches->parts->reports, reply);
    return !fetch_has_failed(f);
}

/* Whether the reply has data to be read. */
static bool fetch_accept(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin)
{
    return fetch_receive(f, reply, origin) && fetch_is_data(f, reply);
}

/* The list of a page can be kept only if both replies about the index may be cached. */
static bool fetch_accept_index(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin)
{
    if (!fetch_accept(f, reply, origin))
        return false;
    if (lifetime_is_none(f->lifetime))
        f->index_epoch = 0;
    return true;
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
    if (f->query.type == QUERY_CARD || span_equal(link, f->query.link)) {
        fetch_raise(f, FETCH_FOUND);
        f->card.body = body;
    } else {
        blob_unref(body);
    }
}

static void fetch_on_card(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply, origin))
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
    if (fetch_accept(f, reply, origin))
        fetch_read_link(f, reply);
    fetch_proceed(f);
}

static void fetch_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_index(f, reply, origin)) {
        if (reply->type == REPLY_INTEGER) {
            f->page->index_size = reply->integer;
            entries_set_index_size(f->fetches->parts->entries, f->lifetime, reply->integer);
        } else {
            fetch_raise(f, FETCH_FAILED);
        }
    }
    fetch_proceed(f);
}

/* The cached page, or NULL. It may be out of date where nothing may be stored. By TTL a page is read whole.
 */
static const struct entry *fetch_cached_page(const struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    return stream_may_store(parts->stream) ? entries_peek(parts->entries, ENTRY_PAGE, f->query.number) : NULL;
}

/* Of the cached page all that is current is taken. */
static void fetch_set_members(struct fetch *f, const struct page_members *members, const struct entry *cached)
{
    bool is_set = page_builder_set_members(f->page, members, cached) == 0;
    fetch_raise(f, is_set ? FETCH_FOUND : FETCH_FAILED); /* a page always exists, if only an empty one */
}

static void fetch_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    struct page_members members;
    if (fetch_accept_index(f, reply, origin)) {
        if (page_members_parse(&members, reply))
            fetch_set_members(f, &members, fetch_cached_page(f));
        else
            fetch_raise(f, FETCH_FAILED);
    }
    fetch_proceed(f);
}

static void fetch_read_summary(struct fetch *f, int at, const struct redis_reply *reply)
{
    struct channel_row row;
    struct page_builder *p = f->page;
    if (!fetch_read_row(f, reply, CHANNEL_SUMMARY, &row)) {
        p->reads[at].gap = PAGE_GAP_ABSENT;
        return;
    }
    value_reports_invalid(f->fetches->parts->reports, p->members.member[at].id,
                          page_builder_write(p, at, &row));
}

static void fetch_on_summary(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct page_read *read = arg;
    struct fetch *f = read->owner;
    struct page_builder *p = f->page;
    int at = (int)(read - p->reads);
    if (fetch_receive(f, reply, origin)) {
        if (lifetime_is_none(f->lifetime)) /* the channel may change without notice */
            entries_drop_member(p->entry, at, f->fetches->parts->stream->pong_ms);
        read->gap = page_gap_of(reply);
        if (read->gap == PAGE_GAP_NONE && fetch_is_data(f, reply))
            fetch_read_summary(f, at, reply);
    }
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
    fetch_send_command(f, commands_index_size(f->fetches->parts->commands), fetch_on_index_size);
    fetch_send_command(f, commands_page(f->fetches->parts->commands, f->query.number), fetch_on_members);
}

static void fetch_send_summaries(struct fetch *f)
{
    struct page_builder *p = f->page;
    struct commands *commands = f->fetches->parts->commands;
    for (int at = -1; !fetch_has_failed(f) && (at = page_builder_next_missing(p, at + 1)) >= 0;) {
        p->reads[at].owner = f;
        fetch_send(f, commands_channel(commands, p->members.member[at].id, CHANNEL_SUMMARY), 0,
                   fetch_on_summary, &p->reads[at]);
    }
}

/* Whether the list of the cached page is current, and was taken. */
static bool fetch_take_list(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    const struct entry *e = fetch_cached_page(f);
    bool is_current = f->is_fresh && f->repeats == 0;
    struct page_members members;
    if (e == NULL || !is_current || !entries_has_list(parts->entries, entry_page(e)))
        return false;
    f->page->index_size = entries_index_size(parts->entries);
    page_members_copy(&members, entry_page(e));
    fetch_set_members(f, &members, e);
    return true;
}

/* The summaries of an earlier read stay if their changes were noted since. */
static void fetch_start_page(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct page_builder *p = f->page;
    bool is_noted = p->entry != NULL && stream_may_store(parts->stream) &&
                    !entries_was_cleared(parts->entries, entry_page(p->entry)->index_epoch);
    if (!is_noted)
        page_builder_reset(p);
    f->index_epoch = entries_index_epoch(parts->entries);
    if (fetch_take_list(f))
        fetch_send_summaries(f);
    else
        fetch_send_index(f);
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
    const struct buf *command = commands_link(f->fetches->parts->commands, f->query.link);
    fetch_send(f, command, REDIS_SEND_UNTRACKED, fetch_on_link, f);
}

/*
 * Sends the first batch. Returns 0, or -ENOMEM if nothing was sent. If only a part was sent, the fetch fails.
 */
static int fetch_start(struct fetch *f)
{
    f->mark = stream_mark(f->fetches->parts->stream);
    f->sent_ms = f->batch_ms = clock_boot_ms();
    f->apart = false;
    if (f->page != NULL)
        fetch_start_page(f);
    else if (f->query.type == QUERY_CARD)
        fetch_send_card(f);
    else
        fetch_send_link(f);
    return f->replies_due == 0 ? -ENOMEM : 0;
}

static void fetch_send_linked_card(struct fetch *f)
{
    f->by_link.is_new = f->by_link.is_together = false;
    f->card.id = f->by_link.id;
    fetch_unpublish(f); /* the link may change from now on: it is not tracked */
    fetch_send_card(f);
}

/* Sends the next batch. False when there is nothing left to send. */
static bool fetch_advance(struct fetch *f)
{
    f->batch_ms = clock_boot_ms();
    if (f->page != NULL)
        fetch_send_summaries(f);
    else if (f->outcome == FETCH_NOT_FOUND && f->by_link.is_new)
        fetch_send_linked_card(f);
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

/* If the index has changed meanwhile, the list is not current. A page without members is not kept. */
static void fetch_compose_page(struct fetch *f, struct cache_result *r)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct page_builder *p = f->page;
    struct page_info info;
    r->body = page_builder_compose(p, &info);
    r->last_page = info.last;
    page_builder_report_gaps(p, parts->reports);
    if (r->body == NULL || info.count == 0 || f->index_epoch != entries_index_epoch(parts->entries))
        return;
    entries_put_page(parts->entries, stream_lifetime(parts->stream, NULL, f->sent_ms), p->entry, &info,
                     p->members.member, r->body);
    p->entry = NULL;
}

/* The result has one reference of its body. */
static struct cache_result fetch_compose_result(struct fetch *f)
{
    static const enum cache_status statuses[] = {
        [FETCH_NOT_FOUND] = CACHE_NOT_FOUND, [FETCH_FOUND] = CACHE_FOUND, [FETCH_FAILED] = CACHE_UNAVAILABLE};
    struct cache_result r = {.status = statuses[f->outcome]};
    if (f->outcome != FETCH_FOUND)
        return r;
    if (f->page != NULL)
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
    if (f->page != NULL)
        page_builder_free(f->page);
    blob_unref(f->card.body);
    free(f);
}

/* A link names a card that has another link, or is absent. */
static bool fetch_has_other_card(const struct fetch *f)
{
    return f->by_link.is_named && f->outcome == FETCH_NOT_FOUND;
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
    return f->page != NULL ? page_builder_lack(f->page) : 0;
}

/*
 * All of it was read, although nobody waits for it any more: it is cached, so that the next read has less to
 * do.
 */
static bool fetch_is_whole_page(const struct fetch *f)
{
    return f->page != NULL && f->outcome == FETCH_FOUND && page_builder_next_missing(f->page, 0) < 0 &&
           fetch_lack_of(f) == 0;
}

static void fetch_finish(struct fetch *f)
{
    struct cache_result result = {.status = CACHE_UNAVAILABLE};
    bool is_lost = f->outcome == FETCH_LOST;
    if (!is_lost && (!list_empty(&f->requests) || fetch_is_whole_page(f)))
        result = fetch_compose_result(f);
    fetch_unpublish(f);
    f->fetches->parts->ended(f->fetches->parts->arg, &f->requests, is_lost ? NULL : &result);
    blob_unref(result.body);
    fetch_free(f);
}

/*
 * Whether what is lacking was so at one moment: one key, read in the stream, or members of an index that has
 * not changed while it and they were read.
 */
static bool fetch_is_one_read(const struct fetch *f)
{
    bool is_current = f->page == NULL || f->index_epoch == entries_index_epoch(f->fetches->parts->entries);
    return is_current && !fetch_has_other_card(f) && !f->apart;
}

/*
 * Whether a result that lacks something is certain after the check has passed. A link and its card have to
 * lack the same twice in a row, as a loader may have been writing between the two reads; so does a page whose
 * index has changed, and a reply from outside of the stream, as the key may have moved on before it was read
 * there.
 */
static bool fetch_is_certain(const struct fetch *f)
{
    bool is_same = fetch_lack_of(f) == f->lack;
    return f->repeats >= REPEATS_MAX
               ? is_same
               : stream_is_certain(f->fetches->parts->stream, f->mark, is_same, fetch_is_one_read(f));
}

/* Called when a check has found a catalogue. The result is certain, or is read again. */
static void fetch_confirm(struct fetch *f)
{
    bool is_certain = fetch_is_certain(f);
    if (!is_certain && f->repeats++ == 2 * REPEATS_MAX)
        fetch_raise(f, FETCH_FAILED);
    if (list_empty(&f->requests) || is_certain || fetch_has_failed(f)) {
        fetch_finish(f);
        return;
    }
    f->lack = fetch_lack_of(f);
    f->outcome = FETCH_NOT_FOUND;
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
    fetch_unpublish(f); /* it may come to exist meanwhile, and links and some absences are not tracked */
    list_append(&f->fetches->unconfirmed, &f->link);
    stream_check_catalogue(f->fetches->parts->stream); /* fetches_confirm() follows */
}

/* --- one fetch --- */

static struct fetch *fetch_new(struct fetches *fs, const struct cache_query *q, bool is_fresh)
{
    struct fetch *f = calloc(1, sizeof *f + q->link.len);
    if (f == NULL)
        return NULL;
    f->page = q->type == QUERY_PAGE ? page_builder_new(fs->parts->entries, q->number) : NULL;
    if (q->type == QUERY_PAGE && f->page == NULL) {
        free(f);
        return NULL;
    }
    list_init(&f->link);
    list_init(&f->requests);
    f->fetches = fs;
    f->is_fresh = is_fresh;
    f->query = *q;
    f->query.link.data = f->link_text;
    f->card.id = q->number;
    f->index_epoch = entries_index_epoch(fs->parts->entries);
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
}
