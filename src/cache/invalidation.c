/* Pushes, checks of the catalogue, the audit, and lost connections; see invalidation.h. */
#include "cache/invalidation.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cache/body.h"

#include <assert.h>
#include <errno.h>

/* Slots of the table that one search visits, in some ten microseconds. */
enum { SEARCH_STEPS = 8192 };

int invalidation_init(struct invalidation *c, const struct cache_parts *parts, struct validity *validity)
{
    *c = (struct invalidation){.parts = parts, .validity = validity};
    keyspace_index(parts->keyspace, &c->index_key);
    keyspace_api_keys(parts->keyspace, &c->api_keys_key);
    keyspace_api_key_info(parts->keyspace, &c->api_key_info_key);
    bool keys_complete = buf_error(&c->api_keys_key) == 0 && buf_error(&c->api_key_info_key) == 0;
    return keys_complete ? buf_error(&c->index_key) : -ENOMEM;
}

void invalidation_fini(struct invalidation *c)
{
    blob_unref(c->differed);
    buf_fini(&c->index_key);
    buf_fini(&c->api_keys_key);
    buf_fini(&c->api_key_info_key);
}

/* --- what an invalidation changes --- */

static void invalidation_drop_all(struct invalidation *c)
{
    const struct cache_parts *parts = c->parts;
    metric_add(&parts->metrics->cache_flushes_total, 1);
    entries_clear(parts->entries);
    key_reader_invalidate(parts->key_reader, true);
}

static void invalidation_drop_card(struct invalidation *c, int64_t id)
{
    const struct cache_parts *parts = c->parts;
    entries_drop(parts->entries, ENTRY_CARD, id);
    entries_drop_summary(parts->entries, id, c->validity->pong_ms);
    fetches_invalidate_card(parts->fetches, id);
}

static void invalidation_drop_keys(struct invalidation *c)
{
    validity_change_keys(c->validity);
    key_reader_invalidate(c->parts->key_reader, false);
}

/* Redis may have lost its data: nothing is dropped before a check has found a catalogue. */
static void invalidation_flush(struct invalidation *c)
{
    validity_flush(c->validity);
    catalogue_check(c->parts->catalogue);
}

static void invalidation_apply_flush(struct invalidation *c)
{
    if (!c->validity->flush_pending)
        return;
    validity_flushed(c->validity);
    invalidation_drop_all(c);
}

/* --- the audit: comparing an entry with a reply --- */

/* Compares the reply with the card or the summary as it would be served now. */
static bool invalidation_channel_differs(struct span served, const struct redis_reply *reply,
                                         enum channel_shape shape, struct buf *text)
{
    struct channel_row row;
    enum value_state state = body_parse_row(reply, shape, &row);
    if (state == VALUE_INVALID)
        return false;
    if (state == VALUE_ABSENT)
        return true;
    (void)body_write(text, &row, shape);
    /* not covered: out of memory */
    return buf_error(text) == 0 && !span_equal(served, buf_span(text));
}

static bool invalidation_card_differs(const struct entry *e, const struct redis_reply *reply,
                                      struct buf *text)
{
    return invalidation_channel_differs((struct span){e->body->data, e->body->len}, reply, CHANNEL_CARD,
                                        text);
}

/* A page that was composed anew meanwhile may not have the summary any more. */
static bool invalidation_summary_differs(const struct entry *e, int64_t id, const struct redis_reply *reply,
                                         struct buf *text)
{
    int at = page_member_find(e->page->member, e->page->member_count, id, 0);
    const struct page_member *m = at < 0 ? NULL : &e->page->member[at];
    return m != NULL && m->len > 0 &&
           invalidation_channel_differs((struct span){e->body->data + m->offset, m->len}, reply,
                                        CHANNEL_SUMMARY, text);
}

static bool invalidation_list_differs(const struct entry *e, const struct redis_reply *reply)
{
    const struct entry_page *page = e->page;
    struct page_members m;
    if (!page_members_parse(&m, reply))
        return false;
    bool differs = m.count != page->member_count || m.has_next != page->info.has_next;
    for (int i = 0; i < m.count && !differs; i++)
        differs = m.member[i].id != page->member[i].id;
    return differs;
}

/* The entry as it is now, or NULL. */
static const struct entry *invalidation_audited_entry(const struct invalidation *c)
{
    const struct audited *a = &c->audited;
    bool is_card = a->kind == AUDITED_CARD;
    return entries_peek(c->parts->entries, is_card ? ENTRY_CARD : ENTRY_PAGE, is_card ? a->id : a->page);
}

static bool invalidation_differs(const struct invalidation *c, const struct entry *e,
                                 const struct redis_reply *reply)
{
    const struct cache_parts *parts = c->parts;
    switch (c->audited.kind) {
    case AUDITED_CARD:
        return invalidation_card_differs(e, reply, parts->text);
    case AUDITED_SUMMARY:
        return invalidation_summary_differs(e, c->audited.id, reply, parts->text);
    case AUDITED_LIST:
        return entries_has_list(parts->entries, e->page) && invalidation_list_differs(e, reply);
    }
    return false;
}

/* --- the audit: reading an entry again --- */

/* One of its summaries, or its list. */
static struct audited invalidation_choose_of_page(struct invalidation *c, const struct entry *e)
{
    unsigned at = c->page_cursor++ % ((unsigned)e->page->member_count + 1);
    struct audited list = {.kind = AUDITED_LIST, .page = e->number};
    if (at == (unsigned)e->page->member_count)
        return list;
    return (struct audited){.kind = AUDITED_SUMMARY, .id = e->page->member[at].id, .page = e->number};
}

static bool invalidation_choose(struct invalidation *c)
{
    const struct entry *e = entries_walk(c->parts->entries, &c->cursor, SEARCH_STEPS);
    if (e == NULL)
        return false;
    c->audited = e->kind == ENTRY_PAGE ? invalidation_choose_of_page(c, e)
                                       : (struct audited){.kind = AUDITED_CARD, .id = e->number};
    return true;
}

static void invalidation_report_lost_invalidation(const struct invalidation *c, bool is_of_keys)
{
    struct log_line line;
    struct buf key = BUF_INIT;
    if (is_of_keys)
        keyspace_api_keys(c->parts->keyspace, &key);
    else if (c->audited.kind == AUDITED_LIST)
        keyspace_index(c->parts->keyspace, &key);
    else
        keyspace_card(c->parts->keyspace, &key, c->audited.id);
    metric_add(&c->parts->metrics->cache_audit_failures_total, 1);
    if (log_begin(&line, LOG_ERROR,
                  "no invalidation arrived for a change: nothing is cached on this connection")) {
        log_str(&line, "key", buf_span(&key));
        log_end(&line);
    }
    buf_fini(&key);
}

/* An invalidation was lost: drops everything, and caches nothing on this connection. */
static void invalidation_suspend(struct invalidation *c, bool is_of_keys)
{
    invalidation_report_lost_invalidation(c, is_of_keys);
    validity_suspend(c->validity);
    metric_set(&c->parts->metrics->cache_suspended, 1);
    invalidation_drop_all(c);
}

/*
 * The body that differed is held, so that no other body has its address. If the entry has it still, no
 * invalidation has explained the difference.
 */
static void invalidation_compare_entry(struct invalidation *c, const struct redis_reply *reply)
{
    const struct entry *e = invalidation_audited_entry(c);
    bool differs = e != NULL && invalidation_differs(c, e, reply);
    if (differs && e->body == c->differed) {
        invalidation_suspend(c, false);
        differs = false;
    }
    blob_unref(c->differed);
    c->differed = differs ? blob_ref(e->body) : NULL;
}

/* Nothing is compared while a flush is pending. */
static void invalidation_on_entry_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct invalidation *c = arg;
    (void)origin; /* always the stream */
    assert(c->reading);
    c->reading = false;
    if (reply != NULL && reply->type != REPLY_ERROR && validity_may_store(c->validity))
        invalidation_compare_entry(c, reply);
}

static int invalidation_send_read(struct invalidation *c)
{
    const struct audited *a = &c->audited;
    struct commands *commands = c->parts->commands;
    enum channel_shape shape = a->kind == AUDITED_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
    const struct buf *command =
        a->kind == AUDITED_LIST ? commands_page(commands, a->page) : commands_channel(commands, a->id, shape);
    return redis_session_send(c->parts->session, command, REDIS_SEND_STREAM_ONLY, invalidation_on_entry_reply,
                              c);
}

/* What could not be sent is read with the next heartbeat. */
static void invalidation_audit_entry(struct invalidation *c)
{
    if (!c->reading && (c->differed != NULL || invalidation_choose(c)))
        c->reading = invalidation_send_read(c) == 0;
}

/* The key reader compares the keys. */
static void invalidation_audit_keys(struct invalidation *c)
{
    const struct api_keys *keys = c->parts->api_keys;
    uint64_t epoch = api_keys_differ(keys) ? api_keys_epoch(keys) : 0;
    if (epoch != 0 && epoch == c->keys_differed)
        invalidation_suspend(c, true);
    c->keys_differed = epoch;
}

void invalidation_heartbeat(struct invalidation *c, uint64_t pong_ms)
{
    c->validity->pong_ms = pong_ms;
    if (validity_may_store(c->validity))
        invalidation_audit_keys(c);
    if (validity_may_store(c->validity))
        invalidation_audit_entry(c);
    catalogue_check(c->parts->catalogue);
}

/* --- the check of the catalogue --- */

/* A pending flush is applied before any request is answered: the answer may start the next request. */
void invalidation_checked(struct invalidation *c, enum catalogue_state state)
{
    const struct catalogue *catalogue = c->parts->catalogue;
    if (state == CATALOGUE_PRESENT || state == CATALOGUE_MISSING)
        metric_set(&c->parts->metrics->api_keys_missing, catalogue_lacks_api_keys(catalogue));
    if (catalogue->index_size >= 0)
        metric_set(&c->parts->metrics->catalogue_channels, (uint64_t)catalogue->index_size);
    if (state == CATALOGUE_MISSING)
        metric_set(&c->parts->metrics->catalogue_missing, 1);
    else if (state == CATALOGUE_PRESENT && c->validity->connected)
        invalidation_apply_flush(c);
}

/* --- pushes --- */

static void invalidation_key_changed(struct invalidation *c, struct span key)
{
    const struct cache_parts *parts = c->parts;
    int64_t id = 0;
    struct span card = keyspace_card_id(parts->keyspace, key);
    loop_lag_begin(parts->loop_lag);
    metric_add(&parts->metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) == 0)
            invalidation_drop_card(c, id);
    } else if (span_equal(key, buf_span(&c->index_key))) {
        entries_drop_lists(parts->entries);
    } else if (span_equal(key, buf_span(&c->api_keys_key)) ||
               span_equal(key, buf_span(&c->api_key_info_key))) {
        invalidation_drop_keys(c);
    }
}

/*
 * A push with many keys is applied as its elements arrive. That is safe because an element only drops
 * entries. Replies cannot be inside a push, so a command sent after the first element is answered after the
 * last one. Keys that the rest of the push will name are served as before the push. No client reads an older
 * value after a newer one, since newer values come only behind the push. If the connection ends within a
 * push, the next connection begins with an empty cache.
 */
void invalidation_push(struct invalidation *c, struct span kind, const struct redis_reply *element)
{
    if (c->validity->suspended || !span_equal(kind, SPAN("invalidate")))
        return;
    if (element->type == REPLY_STRING) {
        invalidation_key_changed(c, reply_text(element));
    } else { /* null: FLUSHALL, or a replica's full resynchronisation; otherwise a name that is too long to be
                read */
        invalidation_flush(c);
    }
}

/* --- connections --- */

void invalidation_connected(struct invalidation *c, uint64_t pong_ms, bool tracking, bool absences_untracked)
{
    const struct cache_parts *parts = c->parts;
    validity_connected(c->validity, pong_ms, tracking, absences_untracked);
    metric_set(&parts->metrics->cache_suspended, 0);
    metric_set(&parts->metrics->cache_untracked, c->validity->limits.enabled && !tracking);
    metric_set(&parts->metrics->cache_by_ttl, c->validity->by_ttl);
    metric_set(&parts->metrics->catalogue_missing, 0);
    metric_set(&parts->metrics->api_keys_missing, 0);
    invalidation_drop_all(c);
}

void invalidation_lost(struct invalidation *c, uint64_t valid_until_ms)
{
    validity_lost(c->validity, valid_until_ms);
    invalidation_apply_flush(c);
}
