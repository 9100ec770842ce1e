/* Comparing entries with replies; see audit.h. */
#include "cache/audit.h"

#include "base/log.h"
#include "cache/body.h"

#include <assert.h>

enum { HEARTBEATS_TO_WAIT = 2, HEARTBEATS_CONFIRM = 1 };

/* Slots of the table that one search passes over: some ten microseconds. */
enum { SEARCH_STEPS = 8192 };

static void suspect(unsigned *heartbeats)
{
    if (*heartbeats == 0)
        *heartbeats = HEARTBEATS_TO_WAIT;
}

/* --- a failure --- */

/* Appends the key in Redis of the entry that is being audited. */
static void append_key(const struct audit *a, struct buf *out)
{
    if (a->kind == ENTRY_PAGE)
        keyspace_index(a->keyspace, out);
    else if (a->kind == ENTRY_LINK)
        keyspace_link(a->keyspace, out, buf_span(&a->link));
    else
        keyspace_card(a->keyspace, out, a->number);
}

static void report_failure(const struct audit *a)
{
    struct log_line line;
    struct buf key = BUF_INIT;
    if (a->keys_heartbeats == HEARTBEATS_CONFIRM)
        keyspace_api_keys(a->keyspace, &key);
    else
        append_key(a, &key);
    metric_add(&a->metrics->cache_audit_failures_total, 1);
    if (log_begin(&line, LOG_ERROR,
                  "no invalidation arrived for a change: nothing is cached on this connection")) {
        log_str(&line, "key", buf_span(&key));
        log_end(&line);
    }
    buf_fini(&key);
}

/* --- differences --- */

static bool body_is(const struct entry *e, const struct buf *text)
{
    return span_equal((struct span){e->body->data, e->body->len}, buf_span(text));
}

/* Compares with the card or the summary as it would be served now. */
static bool channel_differs(const struct entry *e, const redisReply *reply, struct buf *text)
{
    enum channel_shape shape = e->kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
    struct channel_row row;
    enum value_state state = body_parse_row(reply, shape, &row);
    if (state == VALUE_INVALID)
        return false;
    if (state == VALUE_ABSENT || e->negative)
        return (state == VALUE_ABSENT) != e->negative;
    (void)body_write(text, &row, shape);
    return buf_error(text) == 0 && !body_is(e, text);
}

/* A link whose value is not an id finds nothing. */
static bool link_differs(const struct entry *e, const redisReply *reply)
{
    int64_t id = 0;
    bool malformed = false;
    enum value_state state = body_parse_link(reply, &id, &malformed);
    if (state == VALUE_INVALID)
        return false;
    return (state == VALUE_ABSENT) != e->negative || (state == VALUE_PRESENT && id != e->value);
}

static bool page_differs(const struct entry *e, const redisReply *reply)
{
    const struct entry_page *page = e->page;
    struct page_members m;
    if (!page_members_parse(&m, reply))
        return false;
    return m.count != page->member_count || m.has_next != page->info.has_next ||
           memcmp(m.id, page->member, (size_t)m.count * sizeof m.id[0]) != 0;
}

static bool differs(const struct entry *e, const redisReply *reply, struct buf *text)
{
    switch ((enum entry_kind)e->kind) {
    case ENTRY_CARD:
    case ENTRY_SUMMARY:
        return channel_differs(e, reply, text);
    case ENTRY_LINK:
        return link_differs(e, reply);
    case ENTRY_PAGE:
        return page_differs(e, reply);
    case ENTRY_AUTH:
        break;
    }
    return false;
}

/* --- reading an entry again --- */

/* The entry that is being audited, if it is still there. */
static const struct entry *find_entry(const struct audit *a)
{
    struct span key = a->kind == ENTRY_LINK ? buf_span(&a->link) : entries_key_of(&a->number);
    return entries_peek(a->entries, a->kind, key);
}

/* Invalidations that came since the read was sent have dropped the entry, or are about to. */
void audit_reply(struct audit *a, const redisReply *reply, bool reliable, struct buf *text)
{
    assert(a->under_way);
    a->under_way = false;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR || !reliable)
        return;
    const struct entry *e = find_entry(a);
    if (e != NULL && differs(e, reply, text))
        suspect(&a->entry_heartbeats);
}

/* Results of single keys are not read again: the size of their set is compared. */
static enum audit_action choose_entry(struct audit *a)
{
    const struct entry *e = entries_walk(a->entries, &a->cursor, SEARCH_STEPS);
    if (e == NULL || e->kind == ENTRY_AUTH)
        return AUDIT_IDLE;
    a->kind = (enum entry_kind)e->kind;
    buf_clear(&a->link);
    if (a->kind == ENTRY_LINK)
        buf_append(&a->link, e->key, e->key_len);
    else
        memcpy(&a->number, e->key, sizeof a->number);
    if (buf_error(&a->link) != 0)
        return AUDIT_IDLE;
    a->under_way = true;
    return AUDIT_READ;
}

enum audit_action audit_heartbeat(struct audit *a)
{
    if (a->keys_heartbeats == HEARTBEATS_CONFIRM || a->entry_heartbeats == HEARTBEATS_CONFIRM) {
        report_failure(a);
        return AUDIT_FAILED;
    }
    a->keys_heartbeats -= a->keys_heartbeats > 0;
    a->entry_heartbeats -= a->entry_heartbeats > 0;
    return a->under_way || a->entry_heartbeats > 0 ? AUDIT_IDLE : choose_entry(a);
}

/* --- invalidations and the number of keys --- */

void audit_key_count(struct audit *a, int64_t count, int64_t held)
{
    if (held >= 0 && count != held)
        suspect(&a->keys_heartbeats);
}

void audit_invalidated(struct audit *a, enum entry_kind kind, int64_t number, struct span link)
{
    bool channel = kind == ENTRY_CARD && (a->kind == ENTRY_CARD || a->kind == ENTRY_SUMMARY);
    bool same = channel ? a->number == number : a->kind == kind;
    if (kind == ENTRY_AUTH)
        a->keys_heartbeats = 0;
    else if (same && (kind != ENTRY_LINK || span_equal(buf_span(&a->link), link)))
        a->entry_heartbeats = 0;
}
