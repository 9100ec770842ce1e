/*
 * Fetching a page of the list: the size of the index, the ids of the page, the summary of each. See fetch.h.
 *
 * The index and the cards are read one after the other, so a loader may remove a channel in between. Then the page is
 * read again, once; what is missing still has no channel behind it and is left out, and counted.
 */
#include "store/fetch.h"

#include "base/parse.h"

static void on_total(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply)) {
        if (reply->type == REDIS_REPLY_INTEGER)
            f->page_entries = reply->integer;
        else
            f->failed = true;
    }
    fetch_settle(f);
}

/* One more id than fits is asked for: it tells whether a further page exists, in the same breath. */
static void read_ids(struct fetch *f, const redisReply *reply)
{
    f->page_has_next = reply->elements > PAGE_SIZE;
    size_t count = f->page_has_next ? PAGE_SIZE : reply->elements;
    for (size_t i = 0; i < count; i++) {
        const redisReply *member = reply->element[i];
        if (member->type != REDIS_REPLY_STRING) {
            f->failed = true;
            return;
        }
        if (parse_int64((struct span){member->str, member->len}, &f->page_id[f->page_ids]) == 0)
            f->page_ids++;
        else
            f->page_missing++;
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
    f->page_ids = f->page_item = f->page_written = f->page_missing = 0;
    buf_clear(&f->body);
    document_begin_page(&f->body);
    struct buf *key = &f->context->key;
    buf_clear(key);
    keyspace_index(f->context->keyspace, key);
    fetch_send(f, 2, (const char *[]){"ZCARD", key->data}, (const size_t[]){5, key->len}, on_total);
    char first[INT64_DIGITS_MAX];
    char last[INT64_DIGITS_MAX];
    int64_t rank = page_first_rank(f->number);
    size_t first_len = format_int64(rank, first);
    size_t last_len = format_int64(rank + PAGE_SIZE, last);
    const char *argv[] = {"ZRANGE", key->data, first, last};
    const size_t lengths[] = {6, key->len, first_len, last_len};
    fetch_send(f, 4, argv, lengths, on_ids);
}

static void on_item(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    struct channel_row row;
    int64_t id = f->page_id[f->page_item++];
    if (fetch_accept(f, reply)) {
        if (fetch_read_row(f, reply, CHANNEL_SUMMARY, &row)) {
            if (f->page_written++ > 0)
                buf_append_char(&f->body, ',');
            fetch_report_unreadable(f, id, channel_write(&f->body, &row, CHANNEL_SUMMARY));
        } else {
            f->page_missing++;
        }
    }
    fetch_settle(f);
}

void fetch_page_send_items(struct fetch *f)
{
    for (int i = 0; i < f->page_ids; i++)
        fetch_send_hmget(f, f->page_id[i], CHANNEL_SUMMARY, on_item);
}

bool fetch_page_must_read_again(struct fetch *f)
{
    if (f->page_missing == 0 || f->page_read_again)
        return false;
    f->page_read_again = true;
    return true;
}

void fetch_page_finish(struct fetch *f)
{
    metric_add(&f->context->metrics->dangling_index_entries_total, (uint64_t)f->page_missing);
    int64_t last = page_last(f->page_entries);
    /* The two were read one after the other; the page must not contradict itself. */
    if (f->page_has_next && last <= f->number)
        last = f->number + 1;
    else if (!f->page_has_next && last > f->number)
        last = f->number;
    const struct page_info info = {f->number, last, f->page_written, f->page_has_next};
    document_end_page(&f->body, &info);
    f->answer.last_page = last;
}
