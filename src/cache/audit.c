/* Comparing an entry with a reply, and reading it again; see audit.h. */
#include "cache/audit.h"

#include "base/log.h"
#include "cache/keys.h"
#include "cache/page.h"

#include <assert.h>

/* Slots of the table that one search visits, in some ten microseconds. */
enum { SEARCH_STEPS = 8192 };

/* --- comparing an entry with a reply --- */

/* Compares the reply with the card or the summary as it would be served now. */
static bool audit_channel_differs(struct span served, const struct redis_reply *reply,
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

static bool audit_list_differs(const struct entry *e, const struct redis_reply *reply)
{
    const struct entry_page *page = entry_page(e);
    struct page_members m;
    if (!page_members_parse(&m, reply))
        return false;
    bool differs = m.count != page->member_count || m.has_next != page->info.has_next;
    for (int i = 0; i < m.count && !differs; i++)
        differs = m.member[i].id != page->member[i].id;
    return differs;
}

/* A page that was composed anew meanwhile may not have the summary any more. */
static bool audit_differs(const struct audit *a, const struct entry *e, const struct redis_reply *reply)
{
    const struct audited *what = &a->audited;
    if (what->is_list)
        return entries_has_list(a->parts->entries, entry_page(e)) && audit_list_differs(e, reply);
    if (what->kind == ENTRY_CARD)
        return audit_channel_differs((struct span){e->body->data, e->body->len}, reply, CHANNEL_CARD,
                                     a->parts->text);
    const struct entry_page *page = entry_page(e);
    int at = page_member_find(page->member, page->member_count, what->id, 0);
    if (at < 0 || !page_has_current(page, at))
        return false;
    struct span summary = {e->body->data + page->member[at].offset, page->member[at].len};
    return audit_channel_differs(summary, reply, CHANNEL_SUMMARY, a->parts->text);
}

/* --- reading an entry again --- */

/* A card; or one of the summaries of a page, or its list. */
static bool audit_choose(struct audit *a)
{
    const struct entry *e = entries_walk(a->parts->entries, &a->cursor, SEARCH_STEPS);
    if (e == NULL)
        return false;
    a->audited = (struct audited){.kind = (enum entry_kind)e->kind, .number = e->number, .id = e->number};
    if (e->kind == ENTRY_CARD)
        return true;
    unsigned count = (unsigned)entry_page(e)->member_count;
    unsigned at = a->page_cursor++ % (count + 1);
    a->audited.is_list = at == count;
    a->audited.id = at < count ? entry_page(e)->member[at].id : 0;
    return true;
}

static void audit_report(const struct audit *a, bool is_of_keys)
{
    struct log_line line;
    struct buf key = BUF_INIT;
    if (is_of_keys)
        keyspace_append(a->parts->keyspace, &key, KEYSPACE_API_KEYS);
    else if (a->audited.is_list)
        keyspace_append(a->parts->keyspace, &key, KEYSPACE_INDEX);
    else
        keyspace_card(a->parts->keyspace, &key, a->audited.id);
    metric_add(&a->parts->metrics->cache_audit_failures_total, 1);
    if (log_begin(&line, LOG_ERROR,
                  "no invalidation arrived for a change: nothing is cached on this connection")) {
        log_str(&line, "key", buf_span(&key));
        log_end(&line);
    }
    buf_fini(&key);
}

static void audit_fail(struct audit *a, bool is_of_keys)
{
    audit_report(a, is_of_keys);
    stream_suspend(a->parts->stream);
    a->parts->drop_all(a->parts->arg);
}

/* The body that differed is held, so no other has its address: an entry that has it was not invalidated. */
static void audit_compare_entry(struct audit *a, const struct redis_reply *reply)
{
    const struct entry *e = entries_peek(a->parts->entries, a->audited.kind, a->audited.number);
    bool differs = e != NULL && audit_differs(a, e, reply);
    if (differs && e->body == a->differed) {
        audit_fail(a, false);
        differs = false;
    }
    blob_unref(a->differed);
    a->differed = differs ? blob_ref(e->body) : NULL;
}

/* Nothing is compared while a flush is pending. */
static void audit_on_entry_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct audit *a = arg;
    (void)origin; /* always the stream */
    assert(a->reading);
    a->reading = false;
    if (reply != NULL && reply->type != REPLY_ERROR && stream_may_store(a->parts->stream))
        audit_compare_entry(a, reply);
}

static int audit_send_read(struct audit *a)
{
    const struct audited *what = &a->audited;
    struct commands *commands = a->parts->commands;
    enum channel_shape shape = what->kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
    const struct buf *command =
        what->is_list ? commands_page(commands, what->number) : commands_channel(commands, what->id, shape);
    return redis_session_send(a->parts->session, command, REDIS_SEND_STREAM_ONLY, audit_on_entry_reply, a);
}

/* What could not be sent is read with the next heartbeat. */
static void audit_entry(struct audit *a)
{
    if (!a->reading && (a->differed != NULL || audit_choose(a)))
        a->reading = audit_send_read(a) == 0;
}

void audit_heartbeat(struct audit *a)
{
    if (stream_may_store(a->parts->stream) && keys_are_wrong(a->parts->keys))
        audit_fail(a, true);
    if (stream_may_store(a->parts->stream))
        audit_entry(a);
}
