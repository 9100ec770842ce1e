/* Pushes, checks of the catalogue, the audit, and lost connections; see invalidation.h. */
#include "cache/invalidation.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cache/body.h"

#include <assert.h>
#include <errno.h>

enum {
    HEARTBEATS_TO_WAIT = 2, /* after a difference was seen */
    HEARTBEATS_CONFIRM = 1,
    SEARCH_STEPS = 8192 /* slots of the table that one search visits, in some ten microseconds */
};

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
    buf_fini(&c->index_key);
    buf_fini(&c->api_keys_key);
    buf_fini(&c->api_key_info_key);
}

/* --- what an invalidation changes --- */

/* Replies in flight may be older than the change, so they are neither cached nor shared. */
static void invalidation_mark_fetches(struct invalidation *c, unsigned what)
{
    if ((what & INVALIDATED_ALL) != 0)
        fetches_invalidate_all(c->parts->fetches);
    if ((what & INVALIDATED_INDEX) != 0)
        fetches_invalidate_pages(c->parts->fetches);
}

/* Drops the entries of this set of INVALIDATED_*. */
static void invalidation_drop(struct invalidation *c, unsigned what)
{
    const struct cache_parts *parts = c->parts;
    bool all = (what & INVALIDATED_ALL) != 0;
    invalidation_mark_fetches(c, what);
    if (all) {
        metric_add(&parts->metrics->cache_flushes_total, 1);
        entries_clear(parts->entries);
    }
    if ((what & INVALIDATED_INDEX) != 0)
        entries_drop_lists(parts->entries);
    if ((what & (INVALIDATED_ALL | INVALIDATED_KEYS)) != 0)
        key_reader_invalidate(parts->key_reader, all);
}

static void invalidation_drop_card(struct invalidation *c, int64_t id)
{
    const struct cache_parts *parts = c->parts;
    entries_drop(parts->entries, ENTRY_CARD, id);
    entries_drop_summary(parts->entries, id, c->validity->pong_ms);
    fetches_invalidate_card(parts->fetches, id);
}

static void invalidation_apply_pending(struct invalidation *c)
{
    struct validity *v = c->validity;
    unsigned what = v->pending;
    v->pending = 0;
    if (what != 0)
        invalidation_drop(c, what);
}

/* --- the audit: suspected differences --- */

static void invalidation_suspect(unsigned *heartbeats)
{
    if (*heartbeats == 0)
        *heartbeats = HEARTBEATS_TO_WAIT;
}

/* False while a cached entry may be older than a reply because an invalidation is in flight. */
static bool invalidation_is_comparable(const struct invalidation *c)
{
    return validity_may_store(c->validity) && c->validity->pending == 0;
}

/* Called before the wait for the heartbeats is counted down: a heartbeat has passed since the difference. */
static void invalidation_compare_keys(struct invalidation *c)
{
    if (api_keys_differ(c->parts->api_keys) && invalidation_is_comparable(c))
        invalidation_suspect(&c->keys_heartbeats);
}

/* Called for events that explain every difference: an invalidation of everything, and a new connection. */
static void invalidation_clear_suspicions(struct invalidation *c)
{
    c->entry_heartbeats = c->keys_heartbeats = 0;
}

/* An invalidation of a card explains a difference of it and of its summary. */
static void invalidation_explain_card(struct invalidation *c, int64_t id)
{
    if (c->audited.kind != AUDITED_LIST && c->audited.id == id)
        c->entry_heartbeats = 0;
}

static void invalidation_explain_index(struct invalidation *c)
{
    if (c->audited.kind == AUDITED_LIST)
        c->entry_heartbeats = 0;
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

static bool invalidation_differs(const struct invalidation *c, const struct redis_reply *reply)
{
    const struct audited *a = &c->audited;
    const struct cache_parts *parts = c->parts;
    bool is_card = a->kind == AUDITED_CARD;
    const struct entry *e =
        entries_peek(parts->entries, is_card ? ENTRY_CARD : ENTRY_PAGE, is_card ? a->id : a->page);
    if (e == NULL)
        return false;
    switch (a->kind) {
    case AUDITED_CARD:
        return invalidation_card_differs(e, reply, parts->text);
    case AUDITED_SUMMARY:
        return invalidation_summary_differs(e, a->id, reply, parts->text);
    case AUDITED_LIST:
        return entries_has_list(parts->entries, e->page) && invalidation_list_differs(e, reply);
    }
    return false;
}

/* --- the audit: reading an entry again --- */

/* What was invalidated since the read was sent is not compared, nor anything while an invalidation is
 * pending. */
static void invalidation_on_entry_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct invalidation *c = arg;
    (void)origin; /* always the stream */
    assert(c->reading);
    c->reading = false;
    if (reply == NULL || reply->type == REPLY_ERROR || !invalidation_is_comparable(c))
        return;
    if (invalidation_differs(c, reply))
        invalidation_suspect(&c->entry_heartbeats);
}

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

static int invalidation_send_read(struct invalidation *c)
{
    const struct audited *a = &c->audited;
    struct fetches *fs = c->parts->fetches;
    if (a->kind == AUDITED_LIST)
        return fetches_read_list(fs, a->page, invalidation_on_entry_reply, c);
    return fetches_read_channel(fs, a->id, a->kind == AUDITED_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY,
                                invalidation_on_entry_reply, c);
}

/* What could not be sent is read with the next heartbeat. */
static void invalidation_read_entry(struct invalidation *c)
{
    if (!c->reading && c->entry_heartbeats == 0 && invalidation_choose(c))
        c->reading = invalidation_send_read(c) == 0;
}

static void invalidation_report_lost_invalidation(const struct invalidation *c)
{
    struct log_line line;
    struct buf key = BUF_INIT;
    if (c->keys_heartbeats == HEARTBEATS_CONFIRM)
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
static void invalidation_suspend(struct invalidation *c)
{
    invalidation_report_lost_invalidation(c);
    validity_suspend(c->validity);
    metric_set(&c->parts->metrics->cache_suspended, 1);
    invalidation_drop(c, INVALIDATED_ALL);
}

static void invalidation_audit(struct invalidation *c)
{
    if (c->keys_heartbeats == HEARTBEATS_CONFIRM || c->entry_heartbeats == HEARTBEATS_CONFIRM) {
        invalidation_suspend(c);
        return;
    }
    invalidation_compare_keys(c);
    c->keys_heartbeats -= c->keys_heartbeats > 0;
    c->entry_heartbeats -= c->entry_heartbeats > 0;
    invalidation_read_entry(c);
}

void invalidation_heartbeat(struct invalidation *c, uint64_t pong_ms)
{
    c->validity->pong_ms = pong_ms;
    if (validity_may_store(c->validity))
        invalidation_audit(c);
    catalogue_check(c->parts->catalogue);
}

/* --- the check of the catalogue --- */

/* Pending invalidations are applied before any request is answered: the answer may start the next request. */
void invalidation_checked(struct invalidation *c, enum catalogue_state state)
{
    if (state == CATALOGUE_PRESENT || state == CATALOGUE_MISSING)
        metric_set(&c->parts->metrics->api_keys_missing, catalogue_lacks_api_keys(c->parts->catalogue));
    if (state == CATALOGUE_MISSING)
        metric_set(&c->parts->metrics->catalogue_missing, 1);
    else if (state == CATALOGUE_PRESENT && c->validity->connected)
        invalidation_apply_pending(c);
}

/* --- pushes --- */

/* Returns whether the invalidation must wait for a check of the catalogue. */
static bool invalidation_wait_for_check(struct invalidation *c, unsigned what)
{
    uint64_t now = clock_boot_ms();
    uint64_t *last_ms = what == INVALIDATED_INDEX ? &c->index_check_ms : &c->keys_check_ms;
    bool recent = now - *last_ms < INVALIDATION_CHECK_INTERVAL_MS;
    if (what != INVALIDATED_ALL && recent && !catalogue_is_being_checked(c->parts->catalogue))
        return false;
    *last_ms = now;
    c->validity->pending |= what;
    return true;
}

static void invalidation_invalidate(struct invalidation *c, unsigned what)
{
    c->validity->possible_losses += what != INVALIDATED_INDEX;
    invalidation_mark_fetches(c, what);
    if (invalidation_wait_for_check(c, what))
        catalogue_check(c->parts->catalogue);
    else
        invalidation_drop(c, what);
}

static void invalidation_key_changed(struct invalidation *c, struct span key)
{
    const struct cache_parts *parts = c->parts;
    int64_t id = 0;
    struct span card = keyspace_card_id(parts->keyspace, key);
    loop_lag_begin(parts->loop_lag);
    metric_add(&parts->metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) != 0)
            return;
        invalidation_explain_card(c, id);
        invalidation_drop_card(c, id);
    } else if (span_equal(key, buf_span(&c->index_key))) {
        invalidation_explain_index(c);
        invalidation_invalidate(c, INVALIDATED_INDEX);
    } else if (span_equal(key, buf_span(&c->api_keys_key)) ||
               span_equal(key, buf_span(&c->api_key_info_key))) {
        c->keys_heartbeats = 0;
        invalidation_invalidate(c, INVALIDATED_KEYS);
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
        invalidation_clear_suspicions(c);
        invalidation_invalidate(c, INVALIDATED_ALL);
    }
}

/* --- connections --- */

void invalidation_connected(struct invalidation *c, uint64_t pong_ms, bool tracking, bool absences_untracked)
{
    const struct cache_parts *parts = c->parts;
    validity_connected(c->validity, pong_ms, tracking, absences_untracked);
    invalidation_clear_suspicions(c);
    metric_set(&parts->metrics->cache_suspended, 0);
    metric_set(&parts->metrics->cache_untracked, c->validity->limits.enabled && !tracking);
    metric_set(&parts->metrics->cache_by_ttl, c->validity->by_ttl);
    metric_set(&parts->metrics->catalogue_missing, 0);
    metric_set(&parts->metrics->api_keys_missing, 0);
    invalidation_drop(c, INVALIDATED_ALL);
}

void invalidation_lost(struct invalidation *c, uint64_t valid_until_ms)
{
    validity_lost(c->validity, valid_until_ms);
    invalidation_apply_pending(c);
}
