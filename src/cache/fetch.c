/*
 * Batches of commands and their results; see fetch.h.
 *
 * Invariant: a fetch exists while it expects replies, or waits for a probe. The last reply, or the probe,
 * continues or ends it (fetch_proceed, fetch_on_probed).
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
    FETCH_FAILED, /* Redis replied with an error, memory ran out, or nobody waits any more */
    FETCH_LOST    /* the connection was lost before all replies came */
};

struct fetch {
    struct fetches *fetches;
    struct cache_query query; /* its link is a copy */
    enum fetch_outcome outcome;
    struct list requests; /* the requests that wait for the result */

    bool is_shared;       /* in the table of fetches that may be joined: the cache was fresh when it began */
    uint64_t index_epoch; /* of the entries, when its first command was sent; 0: the list may not be kept */
    uint64_t outside_epoch; /* of the fetches, when the fetch began */

    unsigned replies_due;     /* replies that have not come yet */
    bool is_apart;            /* a reply came from outside of the stream, and so from another moment */
    uint64_t sent_ms;         /* by the boot clock; no read was sent before */
    uint64_t batch_ms;        /* when the batch in flight was sent */
    struct lifetime lifetime; /* how long the reply that is being read may be cached */

    int repeats;                /* repetitions of all reads, because the result lacked something */
    uint64_t lack;              /* what the result lacked before the last repetition */
    uint64_t keys_found;        /* of the stream, when the first batch was sent */
    struct probe_waiter waiter; /* for whether there is a catalogue, if the result lacks something */

    /* A card, by its id or by its link. */
    int64_t id;        /* of the card that is read */
    struct blob *body; /* one reference, once the card was found; or NULL */
    bool is_named;     /* the query, or the link, names a card: `named` */
    bool is_new;       /* a link names it, and it has not been read since */
    bool is_together;  /* the card was read in one batch with the link */
    int64_t named;

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

/* --- the window: how many fetches there may be --- */

/*
 * The window works as TCP's congestion window. Commands sent to a busy Redis wait there, ahead of the
 * heartbeat and of requests that still have time. So the window follows the time that replies take. Beyond it
 * requests wait here, and cost Redis nothing when they time out. The least delay on a connection is the delay
 * of the network.
 */
enum {
    WINDOW_FIRST = PAGE_SIZE + 2, /* for a new connection */
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
    unsigned room = fs->window + redis_session_commands_outside(fs->parts->session);
    fs->window_filled |= fs->count - fs->waiting >= room;
    return fs->count < room;
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
    return stream->mode == STREAM_TTL && clock_boot_ms() >= f->sent_ms + stream->options->settings.ttl_ms;
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
    f->is_shared = table_add(&fs->inflight, fetch_hash_of_query(fs, &f->query), f) == 0;
}

static void fetch_unpublish(struct fetch *f)
{
    if (f->is_shared)
        table_remove(&f->fetches->inflight, fetch_hash_of_query(f->fetches, &f->query), f);
    f->is_shared = false;
}

void fetches_invalidate_card(struct fetches *fs, int64_t id)
{
    struct fetch *f = fetches_find(fs, &(struct cache_query){.type = QUERY_CARD, .number = id});
    if (f != NULL)
        fetch_unpublish(f);
}

/* --- replies --- */

/* The key in Redis of an oversize reply. fetch_on_summary handles those of summaries. */
static void fetch_report_oversize(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct buf key = BUF_INIT;
    if (f->page != NULL)
        keyspace_append(parts->keyspace, &key, KEYSPACE_INDEX);
    else if (f->is_named)
        keyspace_card(parts->keyspace, &key, f->id);
    else
        keyspace_link(parts->keyspace, &key, f->query.link);
    value_reports_oversize(parts->reports, &key);
    buf_fini(&key);
}

/*
 * Every reply is passed to this function first. Returns whether there is one, and determines for how long it
 * may be cached: f->lifetime. Redis announces no changes on this connection for what was read outside of its
 * stream.
 */
static bool fetch_receive(struct fetch *f, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct stream *stream = f->fetches->parts->stream;
    assert(f->replies_due > 0);
    f->replies_due--;
    if (reply == NULL) {
        f->fetches->has_lost = true;
        fetch_raise(f, FETCH_LOST);
        return false;
    }
    f->is_apart |= origin == REDIS_ORIGIN_OUTSIDE;
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

/* The card is cached. One that is read by a link is found if its own link is the same. */
static void fetch_read_card(struct fetch *f, const struct redis_reply *reply)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct channel_row row;
    if (!fetch_read_row(f, reply, CHANNEL_CARD, &row))
        return;
    struct span link = row.value[CHANNEL_FIELD_link];
    size_t headroom = lifetime_is_none(f->lifetime) ? 0 : entries_card_headroom(link);
    value_reports_invalid(parts->reports, f->id, body_write(parts->text, &row, CHANNEL_CARD));
    bool is_written = buf_error(parts->text) == 0;
    struct blob *body = is_written ? blob_new_headroom(buf_span(parts->text), headroom) : NULL;
    if (body != NULL)
        entries_put_card(parts->entries, f->lifetime, f->id, link, body);
    if (f->query.type == QUERY_CARD || span_equal(link, f->query.link)) {
        fetch_raise(f, FETCH_FOUND);
        f->body = body;
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

static void fetch_on_link(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    bool malformed = false;
    if (fetch_accept(f, reply, origin)) {
        enum value_state state = body_parse_link(reply, &f->named, &malformed);
        if (state == VALUE_INVALID)
            fetch_raise(f, FETCH_FAILED);
        f->is_named = state == VALUE_PRESENT;
        f->is_new = f->is_named && !(f->is_together && f->named == f->id);
        metric_add(&f->fetches->parts->metrics->invalid_values_total, malformed);
    }
    fetch_proceed(f);
}

static void fetch_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_index(f, reply, origin)) {
        f->page->index_size = reply->integer;
        if (reply->type != REPLY_INTEGER)
            fetch_raise(f, FETCH_FAILED);
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

/* A page always exists, if only an empty one. */
static void fetch_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct fetch *f = arg;
    if (fetch_accept_index(f, reply, origin)) {
        int err = page_builder_read_list(f->page, reply, fetch_cached_page(f));
        fetch_raise(f, err == 0 ? FETCH_FOUND : FETCH_FAILED);
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
    value_reports_invalid(f->fetches->parts->reports, page_builder_id(p, at),
                          page_builder_write(p, at, &row));
    if (buf_error(&p->text) != 0)
        fetch_raise(f, FETCH_FAILED);
}

static void fetch_on_summary(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct page_read *read = arg;
    struct fetch *f = read->owner;
    int at = (int)(read - f->page->reads);
    if (fetch_receive(f, reply, origin)) {
        if (lifetime_is_none(f->lifetime)) /* the channel may change without notice */
            entries_drop_member(f->page->entry, at, f->fetches->parts->stream->pong_ms);
        read->gap = page_gap_of(reply);
        if (read->gap == PAGE_GAP_NONE && fetch_is_data(f, reply))
            fetch_read_summary(f, at, reply);
    }
    fetch_proceed(f);
}

/* --- batches --- */

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
    f->replies_due++;
    metric_add(&f->fetches->parts->metrics->redis_commands_total, 1);
}

static void fetch_send_summaries(struct fetch *f)
{
    struct page_builder *p = f->page;
    struct commands *commands = f->fetches->parts->commands;
    for (int at = -1; !fetch_has_failed(f) && (at = page_builder_next_missing(p, at + 1)) >= 0;) {
        p->reads[at].owner = f;
        fetch_send(f, commands_channel(commands, page_builder_id(p, at), CHANNEL_SUMMARY), 0,
                   fetch_on_summary, &p->reads[at]);
    }
}

/* If the list of the cached page is current, only what the page lacks is read. */
static void fetch_start_page(struct fetch *f)
{
    const struct cache_parts *parts = f->fetches->parts;
    const struct entry *e = f->is_shared ? fetch_cached_page(f) : NULL;
    f->index_epoch = entries_index_epoch(parts->entries);
    if (e != NULL && entries_has_list(parts->entries, entry_page(e))) {
        fetch_raise(f, page_builder_take_list(f->page, e) == 0 ? FETCH_FOUND : FETCH_FAILED);
        fetch_send_summaries(f);
    } else {
        fetch_send(f, commands_index_size(parts->commands), 0, fetch_on_index_size, f);
        fetch_send(f, commands_page(parts->commands, f->query.number), 0, fetch_on_members, f);
    }
}

static void fetch_send_card(struct fetch *f, int64_t id)
{
    f->id = id;
    fetch_send(f, commands_channel(f->fetches->parts->commands, id, CHANNEL_CARD), 0, fetch_on_card, f);
}

/*
 * If the link named a card with another link, either one of the two changed between their reads, or they do
 * not agree. So the card is read again with the link. Redis executes both commands in one iteration of its
 * event loop, unless TCP delivers them apart.
 */
static void fetch_start_card(struct fetch *f)
{
    f->is_together = f->is_named;
    if (f->is_named)
        fetch_send_card(f, f->named);
    if (f->query.type == QUERY_CARD_BY_LINK) {
        const struct buf *command = commands_link(f->fetches->parts->commands, f->query.link);
        fetch_send(f, command, REDIS_SEND_UNTRACKED, fetch_on_link, f);
    }
}

/* Sends the first batch. False if nothing was sent. If only a part was sent, the fetch fails. */
static bool fetch_start(struct fetch *f)
{
    f->keys_found = f->fetches->parts->stream->keys_found;
    f->batch_ms = clock_boot_ms();
    f->is_apart = false;
    if (f->page != NULL)
        fetch_start_page(f);
    else
        fetch_start_card(f);
    return f->replies_due > 0;
}

/* Sends the next batch. False when there is nothing left to send. */
static bool fetch_advance(struct fetch *f)
{
    f->batch_ms = clock_boot_ms();
    if (f->page != NULL) {
        fetch_send_summaries(f);
    } else if (f->outcome == FETCH_NOT_FOUND && f->is_new) {
        f->is_new = f->is_together = false;
        fetch_unpublish(f); /* the link may change from now on: it is not tracked */
        fetch_send_card(f, f->named);
    }
    return f->replies_due > 0;
}

/* --- the result --- */

/* If the index has changed meanwhile, the list is not current. An index without members may be lost, and is
 * not kept. */
static struct blob *fetch_compose_page(struct fetch *f, int64_t *last_page)
{
    const struct cache_parts *parts = f->fetches->parts;
    struct page_builder *p = f->page;
    struct page_info info;
    struct blob *body = page_builder_compose(p, &info);
    *last_page = info.last;
    page_builder_report_gaps(p, parts->reports);
    if (body == NULL || p->index_size == 0 || f->index_epoch != entries_index_epoch(parts->entries))
        return body;
    struct lifetime lifetime = stream_lifetime(parts->stream, NULL, f->sent_ms);
    entries_put_page(parts->entries, lifetime, p->entry, &info, body);
    p->entry = NULL;
    return body;
}

/* The result has one reference of its body. */
static struct cache_result fetch_compose_result(struct fetch *f)
{
    struct cache_result r = {.status = CACHE_UNAVAILABLE};
    if (f->outcome == FETCH_NOT_FOUND)
        r.status = CACHE_NOT_FOUND;
    if (f->outcome != FETCH_FOUND)
        return r;
    r.body = f->page != NULL ? fetch_compose_page(f, &r.last_page) : f->body;
    f->body = NULL;
    r.status = r.body != NULL ? CACHE_FOUND : CACHE_OUT_OF_MEMORY;
    return r;
}

static void fetch_free(struct fetch *f)
{
    assert(f->replies_due == 0 && list_empty(&f->requests));
    fetch_unpublish(f);
    f->fetches->count--;
    if (f->page != NULL)
        page_builder_free(f->page);
    blob_unref(f->body);
    free(f);
}

static void fetch_finish(struct fetch *f)
{
    struct cache_result result = fetch_compose_result(f);
    fetch_unpublish(f);
    f->fetches->parts->ended(f->fetches->parts->arg, &f->requests, f->outcome == FETCH_LOST ? NULL : &result);
    blob_unref(result.body);
    fetch_free(f);
}

/* A link names a card that has another link, or is absent. */
static bool fetch_has_other_card(const struct fetch *f)
{
    return f->query.type == QUERY_CARD_BY_LINK && f->is_named && f->outcome == FETCH_NOT_FOUND;
}

/*
 * What the result lacks, as a number; 0: nothing. The result of a Redis without data would lack the same. A
 * link and a card that were read in two batches lack something else than any others.
 */
static uint64_t fetch_lack_of(const struct fetch *f)
{
    if (fetch_has_other_card(f))
        return hash_int64(f->id, f->is_together) | 1;
    if (f->outcome != FETCH_FOUND)
        return UINT64_MAX;
    return f->page != NULL ? page_builder_lack(f->page) : 0;
}

/*
 * Whether what is lacking was so at one moment: one key, read in the stream, or members of an index that has
 * not changed while it and they were read.
 */
static bool fetch_is_one_read(const struct fetch *f)
{
    bool is_current = f->page == NULL || f->index_epoch == entries_index_epoch(f->fetches->parts->entries);
    return is_current && !fetch_has_other_card(f) && !f->is_apart;
}

/*
 * Whether a result that lacks something is certain after the probe. A link and its card have to
 * lack the same twice in a row, as a loader may have been writing between the two reads; so does a page whose
 * index has changed, and a reply from outside of the stream, as the key may have moved on before it was read
 * there.
 */
static bool fetch_is_certain(const struct fetch *f)
{
    bool is_same = fetch_lack_of(f) == f->lack;
    return f->repeats >= REPEATS_MAX
               ? is_same
               : stream_is_certain(f->fetches->parts->stream, f->keys_found, is_same, fetch_is_one_read(f));
}

/* Reads all again, except for the summaries of a page that are current. */
static void fetch_repeat(struct fetch *f)
{
    f->lack = fetch_lack_of(f);
    f->outcome = FETCH_NOT_FOUND;
    if (list_empty(&f->requests) || f->repeats++ == 2 * REPEATS_MAX || !fetch_start(f)) {
        fetch_raise(f, FETCH_FAILED);
        fetch_finish(f);
    }
}

/* Called when the probe behind a read that lacks something has ended. */
static void fetch_on_probed(struct probe_waiter *waiter, enum catalogue_state state)
{
    struct fetch *f = LIST_ENTRY(waiter, struct fetch, waiter);
    f->fetches->waiting--;
    if (state == CATALOGUE_PRESENT && !fetch_is_certain(f)) {
        fetch_repeat(f);
        return;
    }
    if (state != CATALOGUE_PRESENT)
        fetch_raise(f, state == CATALOGUE_UNKNOWN ? FETCH_FAILED : FETCH_LOST);
    fetch_finish(f);
}

/* A page that was read whole is cached, although nobody may wait for it any more: the next read has less to
 * do. */
static void fetch_proceed(struct fetch *f)
{
    if (f->replies_due > 0)
        return;
    if (!f->is_apart && f->outcome != FETCH_LOST) /* another node may take long, or not reply */
        fetch_adapt_window(f->fetches, f->batch_ms);
    bool is_wanted = !list_empty(&f->requests);
    if (is_wanted && !fetch_has_failed(f) && fetch_advance(f))
        return;
    bool is_whole = fetch_lack_of(f) == 0;
    if (!is_wanted && !is_whole)
        fetch_raise(f, FETCH_FAILED);
    if (is_whole || fetch_has_failed(f)) {
        fetch_finish(f);
        return;
    }
    fetch_unpublish(f); /* it may come to exist meanwhile, and links and some absences are not tracked */
    f->waiter.done = fetch_on_probed;
    f->fetches->waiting++;
    stream_wait_for_probe(f->fetches->parts->stream, &f->waiter);
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
    list_init(&f->requests);
    f->fetches = fs;
    fs->count++;
    f->query = *q;
    f->query.link.data = f->link_text;
    (void)span_put(q->link, f->link_text);
    f->is_named = q->type == QUERY_CARD;
    f->named = q->number;
    f->sent_ms = clock_boot_ms();
    f->index_epoch = entries_index_epoch(fs->parts->entries);
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
    if (!fetch_start(f)) {
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
    fs->seed = random_seed(fs);
}

void fetches_fini(struct fetches *fs)
{
    assert(fs->count == 0);
    table_clear(&fs->inflight);
}
