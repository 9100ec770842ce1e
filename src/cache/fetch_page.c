/*
 * Fetching a page of the list: the size of the index, the ids of the page, the summary of each. See fetch.h.
 *
 * The index and the cards are read one after the other, so a loader may remove a channel in between. Then the
 * page is read again, once; what is missing still has no channel behind it and is left out, counted and
 * logged. So is a card of the wrong type, or one that is too large.
 */
#include "cache/fetch.h"

#include "base/parse.h"
#include "redis/resp.h"

static void on_total(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    struct cache *s = f->cache;
    if (fetch_accept(f, reply)) {
        if (reply->type == REDIS_REPLY_INTEGER)
            f->page->entries = reply->integer;
        else
            f->failed = true;
        if (!f->failed && invalidation_may_store_index(s)) {
            s->index_known = true;
            s->index_entries = f->page->entries;
        }
    }
    fetch_settle(f);
}

/* One more id than fits is asked for: it tells whether a further page exists, in the same breath. */
static void read_ids(struct fetch *f, const redisReply *reply)
{
    struct page_builder *p = f->page;
    p->has_next = reply->elements > PAGE_SIZE;
    size_t count = p->has_next ? PAGE_SIZE : reply->elements;
    for (size_t i = 0; i < count; i++) {
        const redisReply *member = reply->element[i];
        if (member->type != REDIS_REPLY_STRING) {
            f->failed = true;
            return;
        }
        if (parse_int64((struct span){member->str, member->len}, &p->id[p->count]) == 0)
            p->count++;
        else
            p->strangers++;
    }
}

static void on_ids(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply)) {
        if (reply->type == REDIS_REPLY_ARRAY)
            read_ids(f, reply);
        else
            f->failed = true;
        f->found = true; /* a page always exists, if only an empty one */
    }
    fetch_settle(f);
}

void fetch_page_send(struct fetch *f)
{
    page_builder_reset(f->page);
    struct buf *key = &f->cache->key;
    buf_clear(key);
    keyspace_index(f->cache->options.keyspace, key);
    fetch_begin_command(f, 2, SPAN("ZCARD"));
    fetch_send(f, on_total);
    int64_t rank = page_first_rank(f->number);
    fetch_begin_command(f, 4, SPAN("ZRANGE"));
    command_add_int(&f->cache->command, rank);
    command_add_int(&f->cache->command, rank + PAGE_SIZE);
    fetch_send(f, on_ids);
}

static struct blob *write_summary(struct fetch *f, int64_t id, const struct channel_row *row)
{
    struct buf *text = &f->cache->text;
    buf_recycle(text, CACHE_TEXT_KEPT);
    fetch_report_unreadable(f, id, channel_write(text, row, CHANNEL_SUMMARY));
    return buf_error(text) == 0 ? blob_new(buf_span(text)) : NULL;
}

static void read_item(struct fetch *f, int at, const redisReply *reply)
{
    struct channel_row row;
    struct page_builder *p = f->page;
    if (!fetch_read_row(f, reply, CHANNEL_SUMMARY, &row)) {
        p->gap[at] = PAGE_GAP_ABSENT;
        return;
    }
    p->item[at] = write_summary(f, p->id[at], &row);
    if (p->item[at] == NULL)
        f->failed = true;
    else if (invalidation_may_store(f->cache))
        entries_put(&f->cache->entries, ENTRY_SUMMARY, entries_key_of(&p->id[at]), p->item[at], 0);
}

/* One broken card costs itself, not its page. */
static enum page_gap gap_of(const redisReply *reply)
{
    if (resp_is_oversize(reply))
        return PAGE_GAP_OVERSIZE;
    bool wrong_type =
        reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE ", 10) == 0;
    return wrong_type ? PAGE_GAP_WRONG_TYPE : PAGE_GAP_NONE;
}

static void on_item(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    int at = page_builder_next(f->page); /* replies come in the order in which the items were asked for */
    enum page_gap gap = gap_of(reply);
    if (gap != PAGE_GAP_NONE) {
        f->owed--;
        f->page->gap[at] = gap;
    } else if (fetch_accept(f, reply)) {
        read_item(f, at, reply);
    }
    fetch_settle(f);
}

void fetch_page_send_items(struct fetch *f)
{
    struct page_builder *p = f->page;
    f->found = true;
    page_builder_watch(p);
    (void)page_builder_gather(p);
    int at = -1;
    while ((at = page_builder_next(p)) >= 0)
        fetch_send_hmget(f, p->id[at], CHANNEL_SUMMARY, on_item);
    p->next = 0;
}
