/*
 * The audit: does what is cached still stand in Redis? See cache_internal.h.
 *
 * Whatever accepts CLIENT TRACKING and does not pass the invalidations on (a proxy between, a SWAPDB) would
 * leave memory wrong for ever: PING proves the stream, not what was put into it. So with each heartbeat one
 * entry is read again, in the order of the table, which is random: after as many seconds as there are entries
 * each was audited. Beside it the size of the set of keys, which the check of the catalogue reads anyway, is
 * held against the set in memory.
 *
 * A difference alone proves nothing: the change may be younger than the entry, and its invalidation stands
 * behind the reply. It does so before the reply to a command that was sent after that: when a heartbeat has
 * been sent and answered since, and nothing was told, it will not be. Then everything is dropped, and nothing
 * is cached any more on this connection. The reply to a heartbeat may belong to a PING that was under way
 * already; the second does not.
 */
#include "cache/fetch.h"

#include "base/log.h"
#include "base/parse.h"
#include "redis/resp.h"

#include <errno.h>

enum { HEARTBEATS_TO_WAIT = 2, HEARTBEATS_PROVE = 1 };

/* Slots of the table that one search passes over: some ten microseconds. */
enum { SEARCH_STEPS = 8192 };

/* --- what differs --- */

static void timeout_pending(unsigned *waits)
{
    if (*waits == 0)
        *waits = HEARTBEATS_TO_WAIT;
}

/* The key in Redis of the entry that is being audited. */
static void append_key(const struct cache *s, struct buf *out)
{
    const struct audit *a = &s->audit;
    const struct keyspace *k = s->options.keyspace;
    if (a->kind == ENTRY_PAGE)
        keyspace_index(k, out);
    else if (a->kind == ENTRY_LINK)
        keyspace_link(k, out, buf_span(&a->link));
    else
        keyspace_card(k, out, a->number);
}

static void fail(struct cache *s)
{
    struct log_line line;
    buf_clear(&s->key);
    if (s->audit.keys_waits == HEARTBEATS_PROVE)
        keyspace_api_keys(s->options.keyspace, &s->key);
    else
        append_key(s, &s->key);
    metric_add(&s->options.metrics->cache_audit_failures_total, 1);
    if (log_begin(&line, LOG_ERROR, "redis did not tell of a change: nothing is cached on this connection")) {
        log_str(&line, "key", buf_span(&s->key));
        log_end(&line);
    }
    invalidation_suspend(s);
}

/* --- reading an entry again --- */

static struct span key_of(const struct entry *e)
{
    return (struct span){e->key, e->key_len};
}

/* The entry that is being audited, if it is still there. */
static const struct entry *find_entry(struct cache *s)
{
    const struct audit *a = &s->audit;
    struct span key = a->kind == ENTRY_LINK ? buf_span(&a->link) : entries_key_of(&a->number);
    return entries_peek(&s->entries, a->kind, key);
}

static bool body_is(const struct entry *e, const struct buf *text)
{
    return span_equal((struct span){e->body->data, e->body->len}, buf_span(text));
}

/* The card or the summary as it would be answered now. */
static bool channel_differs(struct cache *s, const struct entry *e, const redisReply *reply)
{
    bool card = s->audit.kind == ENTRY_CARD;
    enum channel_shape shape = card ? CHANNEL_CARD : CHANNEL_SUMMARY;
    struct channel_row row;
    enum row_state state = fetch_parse_row(reply, shape, &row);
    if (state == ROW_INVALID)
        return false;
    if (state == ROW_ABSENT || e->negative)
        return (state == ROW_ABSENT) != e->negative;
    struct buf *text = &s->text;
    buf_recycle(text, CACHE_TEXT_KEPT);
    if (card)
        document_begin_card(text);
    (void)channel_write(text, &row, shape);
    if (card)
        document_end_card(text);
    return buf_error(text) == 0 && !body_is(e, text);
}

static bool link_differs(const struct entry *e, const redisReply *reply)
{
    int64_t id = 0;
    if (reply->type != REDIS_REPLY_STRING)
        return reply->type == REDIS_REPLY_NIL && !e->negative;
    bool readable = parse_int64((struct span){reply->str, reply->len}, &id) == 0;
    return readable == e->negative || (readable && id != e->value);
}

/* Members that are no ids are on no page. */
static bool page_differs(const struct entry *e, const redisReply *reply)
{
    const struct entry_page *page = e->page;
    int shown = 0;
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements && i < PAGE_SIZE; i++) {
        const redisReply *member = reply->element[i];
        int64_t id = 0;
        if (member->type != REDIS_REPLY_STRING)
            return false;
        if (parse_int64((struct span){member->str, member->len}, &id) != 0)
            continue;
        if (shown == page->member_count || page->member[shown++] != id)
            return true;
    }
    return shown != page->member_count || page->info.has_next != (reply->elements > PAGE_SIZE);
}

static bool differs(struct cache *s, const struct entry *e, const redisReply *reply)
{
    switch (s->audit.kind) {
    case ENTRY_CARD:
    case ENTRY_SUMMARY:
        return channel_differs(s, e, reply);
    case ENTRY_LINK:
        return link_differs(e, reply);
    case ENTRY_PAGE:
        return page_differs(e, reply);
    case ENTRY_AUTH:
        break;
    }
    return false;
}

/* What was told since the read was sent has been dropped, or is about to be. */
static void on_read(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    s->audit.under_way = false;
    if (reply == NULL || s->catalogue.changes != 0 || !invalidation_may_store(s))
        return;
    const struct entry *e = find_entry(s);
    if (e != NULL && reply->type != REDIS_REPLY_ERROR && differs(s, e, reply))
        timeout_pending(&s->audit.entry_waits);
}

static void compose_read(struct cache *s)
{
    const struct audit *a = &s->audit;
    buf_clear(&s->key);
    buf_clear(&s->command);
    append_key(s, &s->key);
    if (a->kind == ENTRY_CARD || a->kind == ENTRY_SUMMARY) {
        enum channel_shape shape = a->kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
        fetch_command_hmget(&s->commands, &s->command, shape, &s->key);
        return;
    }
    command_begin(&s->command, a->kind == ENTRY_LINK ? 2 : 4);
    command_add(&s->command, a->kind == ENTRY_LINK ? SPAN("GET") : SPAN("ZRANGE"));
    command_add_buf(&s->command, &s->key);
    if (a->kind == ENTRY_PAGE) {
        command_add_int(&s->command, page_first_rank(a->number));
        command_add_int(&s->command, page_first_rank(a->number) + PAGE_SIZE);
    }
}

/* Verdicts on single keys are not read again: the size of their set is looked at. */
static void read_entry(struct cache *s)
{
    struct audit *a = &s->audit;
    const struct entry *e = entries_walk(&s->entries, &a->cursor, SEARCH_STEPS);
    if (e == NULL || e->kind == ENTRY_AUTH)
        return;
    a->kind = (enum entry_kind)e->kind;
    buf_clear(&a->link);
    if (a->kind == ENTRY_LINK)
        buf_append_span(&a->link, key_of(e));
    else
        memcpy(&a->number, e->key, sizeof a->number);
    compose_read(s);
    int err = buf_error(&s->command) != 0 || buf_error(&a->link) != 0 ? -ENOMEM : 0;
    if (err == 0)
        err = redis_connection_send_command(s->redis_connection, buf_span(&s->command), on_read, s);
    a->under_way = err == 0; /* if it fails, with the next heartbeat */
}

/* --- for the others --- */

void audit_count_keys(struct cache *s, int64_t count)
{
    bool known =
        invalidation_may_store(s) && s->catalogue.changes == 0 && !s->keys_large && s->api_keys.loaded;
    if (known && count != s->api_keys_fetch.size)
        timeout_pending(&s->audit.keys_waits);
}

void audit_invalidated(struct cache *s, enum entry_kind kind, int64_t number, struct span link)
{
    struct audit *a = &s->audit;
    bool channel = kind == ENTRY_CARD && (a->kind == ENTRY_CARD || a->kind == ENTRY_SUMMARY);
    bool same = channel ? a->number == number : a->kind == kind;
    if (kind == ENTRY_AUTH)
        a->keys_waits = 0;
    else if (same && (kind != ENTRY_LINK || span_equal(buf_span(&a->link), link)))
        a->entry_waits = 0;
}

void audit_reset(struct cache *s)
{
    s->audit.entry_waits = s->audit.keys_waits = 0;
}

void audit_heartbeat(struct cache *s)
{
    struct audit *a = &s->audit;
    if (!invalidation_may_store(s))
        return;
    if (a->keys_waits == HEARTBEATS_PROVE || a->entry_waits == HEARTBEATS_PROVE) {
        fail(s);
        return;
    }
    a->keys_waits -= a->keys_waits > 0;
    a->entry_waits -= a->entry_waits > 0;
    if (!a->under_way && a->entry_waits == 0)
        read_entry(s);
}
