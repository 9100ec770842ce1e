/* The course of a fetch: batches, replies, the answer. See fetch.h. */
#include "store/fetch.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

enum { ERROR_LOG_INTERVAL_MS = 1000 };

struct fetch *fetch_new(struct fetch_context *context, const struct store_question *question)
{
    struct fetch *f = calloc(1, sizeof *f + question->link.len);
    if (f == NULL)
        return NULL;
    list_init(&f->link);
    list_init(&f->deadline);
    f->context = context;
    digest_hex(&question->key, f->digest);
    f->target = question->target;
    f->number = question->number;
    f->link_len = question->link.len;
    if (question->link.len > 0)
        memcpy(f->link_text, question->link.data, question->link.len);
    return f;
}

void fetch_free(struct fetch *f)
{
    list_remove(&f->link);
    list_remove(&f->deadline);
    buf_fini(&f->body);
    free(f);
}

void fetch_send(struct fetch *f, int argc, const char **argv, const size_t *lengths, rconn_reply_fn fn)
{
    if (f->failed)
        return;
    if (buf_error(&f->context->key) != 0 || rconn_send(f->context->rconn, argc, argv, lengths, fn, f) != 0) {
        f->failed = true;
        return;
    }
    f->owed++;
    metric_add(&f->context->metrics->redis_commands_total, 1);
}

static void report_error(struct fetch *f, const redisReply *reply)
{
    metric_add(&f->context->metrics->redis_error_replies_total, 1);
    uint64_t now = clock_now_ms();
    if (now - f->context->error_logged_ms < ERROR_LOG_INTERVAL_MS)
        return;
    f->context->error_logged_ms = now;
    log_text(LOG_ERROR, "redis answered with an error", "reply", reply->str);
}

bool fetch_accept(struct fetch *f, const redisReply *reply)
{
    f->owed--;
    if (reply == NULL) {
        f->lost = true;
        return false;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        report_error(f, reply);
        f->failed = true;
        return false;
    }
    return !f->failed;
}

static void on_verdict(void *arg, const redisReply *reply)
{
    struct fetch *f = arg;
    if (fetch_accept(f, reply)) {
        if (reply->type != REDIS_REPLY_INTEGER)
            f->failed = true;
        else
            f->refused = reply->integer != 1;
    }
    fetch_settle(f);
}

static void send_verdict(struct fetch *f)
{
    struct buf *key = &f->context->key;
    buf_clear(key);
    keyspace_api_keys(f->context->keyspace, key);
    const char *argv[] = {"SISMEMBER", key->data, f->digest};
    const size_t lengths[] = {9, key->len, sizeof f->digest};
    fetch_send(f, 3, argv, lengths, on_verdict);
}

static void send_target(struct fetch *f)
{
    switch (f->target) {
    case STORE_NOTHING:
        f->found = true;
        break;
    case STORE_CARD:
        f->id = f->number;
        fetch_card_send(f);
        break;
    case STORE_CARD_BY_LINK:
        fetch_link_send(f);
        break;
    case STORE_PAGE:
        fetch_page_send(f);
        break;
    }
}

int fetch_start(struct fetch *f)
{
    f->lost = f->failed = f->refused = f->found = f->page_read_again = false;
    f->step = FETCH_FIRST;
    blob_unref(f->answer.body);
    f->answer = (struct store_answer){0};
    send_verdict(f);
    if (f->failed)
        return -ENOMEM;
    send_target(f);
    return 0;
}

/* The next batch, or the end of the body. False when there is nothing more to send. */
static bool advance(struct fetch *f)
{
    if (f->target == STORE_CARD_BY_LINK && f->step == FETCH_FIRST && f->found) {
        f->step = FETCH_LINKED_CARD;
        f->found = false;
        fetch_card_send(f);
    } else if (f->target == STORE_PAGE && f->step == FETCH_FIRST) {
        f->step = FETCH_PAGE_ITEMS;
        fetch_page_send_items(f);
    } else if (f->target == STORE_PAGE && fetch_page_must_read_again(f)) {
        f->step = FETCH_FIRST;
        fetch_page_send(f);
    }
    return f->owed > 0;
}

static void conclude(struct fetch *f)
{
    struct store_answer *a = &f->answer;
    if (f->failed)
        a->status = STORE_UNAVAILABLE;
    else if (f->refused)
        a->status = STORE_KEY_REFUSED;
    else
        a->status = f->found ? STORE_FOUND : STORE_NOT_FOUND;
    if (a->status == STORE_FOUND && f->target == STORE_PAGE)
        fetch_page_finish(f);
    if (a->status == STORE_FOUND && f->target != STORE_NOTHING) {
        a->body = buf_error(&f->body) == 0 ? blob_new_tagged(buf_span(&f->body)) : NULL;
        if (a->body == NULL)
            a->status = STORE_OUT_OF_MEMORY;
    }
}

void fetch_settle(struct fetch *f)
{
    if (f->owed > 0)
        return;
    bool goes_on = !f->lost && !f->failed && !f->refused && f->request != NULL && advance(f);
    if (goes_on)
        return;
    if (!f->lost)
        conclude(f);
    f->ended(f);
}

void fetch_report_unreadable(struct fetch *f, int64_t id, unsigned fields)
{
    if (fields == 0)
        return;
    struct fetch_context *c = f->context;
    metric_add(&c->metrics->unreadable_values_total, (uint64_t)__builtin_popcount(fields));
    size_t slot = ((uint64_t)id * 0x9E3779B97F4A7C15U) >> 54; /* the top ten bits of a Fibonacci hash */
    if (c->reported_any[slot] && c->reported[slot] == id)
        return;
    c->reported_any[slot] = true;
    c->reported[slot] = id;
    struct log_line line;
    if (!log_begin(&line, LOG_WARN, "unreadable value in redis, served as absent"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "field", channel_field_name((enum channel_field)__builtin_ctz(fields)));
    log_int(&line, "fields", __builtin_popcount(fields));
    log_end(&line);
}
