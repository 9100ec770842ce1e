/* Fetching a card, by id or by way of its link. See fetch.h. */
#include "store/fetch.h"

#include "base/parse.h"

struct span fetch_card_key(struct fetch *f, int64_t id)
{
    struct buf *key = &f->context->key;
    buf_clear(key);
    keyspace_card(f->context->keyspace, key, id);
    return buf_span(key);
}

void fetch_send_hmget(struct fetch *f, int64_t id, enum channel_shape shape, rconn_reply_fn fn)
{
    struct span key = fetch_card_key(f, id);
    const char *argv[2 + CHANNEL_FIELD_COUNT] = {"HMGET", key.data};
    size_t lengths[2 + CHANNEL_FIELD_COUNT] = {5, key.len};
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    for (size_t i = 0; i < count; i++) {
        struct span name = channel_field_name(fields[i]);
        argv[2 + i] = name.data;
        lengths[2 + i] = name.len;
    }
    fetch_send(f, (int)(2 + count), argv, lengths, fn);
}

bool fetch_read_row(struct fetch *f, const redisReply *reply, enum channel_shape shape, struct channel_row *row)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    *row = (struct channel_row){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count) {
        f->failed = true;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const redisReply *value = reply->element[i];
        if (value->type == REDIS_REPLY_STRING)
            row->value[fields[i]] = (struct span){value->str, value->len};
        else if (value->type != REDIS_REPLY_NIL)
            f->failed = true;
    }
    return !f->failed && !channel_row_is_empty(row, shape);
}

static void on_card(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    struct channel_row row;
    if (fetch_accept(f, reply) && fetch_read_row(f, reply, CHANNEL_CARD, &row)) {
        f->found = true;
        buf_clear(&f->body);
        document_begin_card(&f->body);
        fetch_report_unreadable(f, f->id, channel_write(&f->body, &row, CHANNEL_CARD));
        document_end_card(&f->body);
    }
    fetch_settle(f);
}

void fetch_card_send(struct fetch *f)
{
    fetch_send_hmget(f, f->id, CHANNEL_CARD, on_card);
}

static void on_link(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply)) {
        if (reply->type == REDIS_REPLY_STRING)
            f->found = parse_int64((struct span){reply->str, reply->len}, &f->id) == 0;
        else if (reply->type != REDIS_REPLY_NIL)
            f->failed = true;
        if (reply->type == REDIS_REPLY_STRING && !f->found)
            metric_add(&f->context->metrics->unreadable_values_total, 1);
    }
    fetch_settle(f);
}

void fetch_link_send(struct fetch *f)
{
    struct buf *key = &f->context->key;
    buf_clear(key);
    keyspace_link(f->context->keyspace, key, (struct span){f->link_text, f->link_len});
    fetch_send(f, 2, (const char *[]){"GET", key->data}, (const size_t[]){3, key->len}, on_link);
}
