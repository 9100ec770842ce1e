/* Fetching a card, by id or by way of its link. See fetch.h. */
#include "cache/fetch.h"

#include "base/parse.h"

#include <time.h>

/* Dates from the future, by more than a time zone, are a loader's mistake: they would hide that it has
 * stopped. */
enum { ZONE_MAX_S = 14 * 3600 };

/* The newest updated_at tells when the loader last did something. Valid date-times compare as text. */
static void note_update(struct cache *s, struct span updated_at)
{
    if (updated_at.len != DATETIME_LEN || memcmp(updated_at.data, s->newest_update, DATETIME_LEN) <= 0 ||
        !datetime_valid(updated_at))
        return;
    int64_t updated_s = datetime_to_unix(updated_at);
    if (updated_s < 0 || updated_s > (int64_t)time(NULL) + ZONE_MAX_S)
        return;
    memcpy(s->newest_update, updated_at.data, DATETIME_LEN);
    metric_set(&s->options.metrics->catalogue_updated_timestamp_seconds, (uint64_t)updated_s);
}

void fetch_send_hmget(struct fetch *f, int64_t id, enum channel_shape shape, redis_connection_reply_fn fn)
{
    struct cache *s = f->cache;
    buf_clear(&s->key);
    keyspace_card(s->options.keyspace, &s->key, id);
    buf_clear(&s->command);
    fetch_command_hmget(&s->commands, &s->command, shape, &s->key);
    fetch_send(f, fn);
}

enum row_state fetch_parse_row(const redisReply *reply, enum channel_shape shape, struct channel_row *row)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    *row = (struct channel_row){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        return ROW_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *value = reply->element[i];
        if (value->type == REDIS_REPLY_STRING)
            row->value[fields[i]] = (struct span){value->str, value->len};
        else if (value->type != REDIS_REPLY_NIL)
            return ROW_INVALID;
    }
    return channel_row_is_empty(row, CHANNEL_SUMMARY) ? ROW_ABSENT : ROW_PRESENT;
}

bool fetch_read_row(struct fetch *f, const redisReply *reply, enum channel_shape shape,
                    struct channel_row *row)
{
    enum row_state state = fetch_parse_row(reply, shape, row);
    f->failed = f->failed || state == ROW_INVALID;
    if (f->failed || state != ROW_PRESENT)
        return false;
    note_update(f->cache, row->value[CHANNEL_FIELD_updated_at]);
    return true;
}

static struct blob *write_card(struct fetch *f, const struct channel_row *row, size_t front)
{
    struct buf *text = &f->cache->text;
    buf_recycle(text, CACHE_TEXT_KEPT);
    document_begin_card(text);
    fetch_report_unreadable(f, f->id, channel_write(text, row, CHANNEL_CARD));
    document_end_card(text);
    return buf_error(text) == 0 ? blob_new_headroom(buf_span(text), front) : NULL;
}

static void read_card(struct fetch *f, const redisReply *reply)
{
    struct channel_row row;
    struct entries *entries = &f->cache->entries;
    bool keep = invalidation_may_store(f->cache);
    f->found = fetch_read_row(f, reply, CHANNEL_CARD, &row);
    if (f->failed)
        return;
    if (f->found)
        f->answer.body = write_card(f, &row, keep ? ENTRY_HEADROOM : 0);
    if (keep && f->answer.body != NULL)
        entries_put(entries, ENTRY_CARD, entries_key_of(&f->id), f->answer.body, 0);
    else if (keep && !f->found)
        entries_put_absent(entries, ENTRY_CARD, entries_key_of(&f->id),
                           (int64_t)catalogue_next_check(f->cache));
}

static void on_card(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply))
        read_card(f, reply);
    fetch_settle(f);
}

void fetch_card_send(struct fetch *f)
{
    fetch_send_hmget(f, f->id, CHANNEL_CARD, on_card);
}

static void read_link(struct fetch *f, const redisReply *reply)
{
    struct entries *entries = &f->cache->entries;
    struct span link = {f->link_text, f->link_len};
    bool keep = invalidation_may_store(f->cache);
    if (reply->type == REDIS_REPLY_STRING) {
        f->found = parse_int64((struct span){reply->str, reply->len}, &f->id) == 0;
        if (!f->found)
            metric_add(&f->cache->options.metrics->invalid_values_total, 1);
    } else if (reply->type != REDIS_REPLY_NIL) {
        f->failed = true;
        return;
    }
    if (keep && f->found)
        entries_put(entries, ENTRY_LINK, link, NULL, f->id);
    else if (keep)
        entries_put_absent(entries, ENTRY_LINK, link, (int64_t)catalogue_next_check(f->cache));
}

static void on_link(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply))
        read_link(f, reply);
    fetch_settle(f);
}

void fetch_link_send(struct fetch *f)
{
    struct buf *key = &f->cache->key;
    buf_clear(key);
    keyspace_link(f->cache->options.keyspace, key, (struct span){f->link_text, f->link_len});
    fetch_begin_command(f, 2, SPAN("GET"));
    fetch_send(f, on_link);
}
