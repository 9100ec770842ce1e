/* The course of a fetch: batches, replies, the answer. See fetch.h. */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/resp.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

enum { ERROR_LOG_INTERVAL_MS = 1000 };

struct fetch *fetch_new(struct cache *s, const struct cache_query *params, bool needs_auth,
                        struct page_builder *known)
{
    bool paged = params->target == QUERY_PAGE;
    struct page_builder *page = paged && known == NULL ? page_builder_new(s, params->number) : known;
    struct fetch *f = calloc(1, sizeof *f + params->link.len);
    if (f == NULL || (paged && page == NULL)) {
        page_builder_free(page);
        free(f);
        return NULL;
    }
    list_init(&f->link);
    list_init(&f->requests);
    f->cache = s;
    f->needs_auth = needs_auth;
    f->step = known == NULL ? FETCH_FIRST : FETCH_PAGE_ITEMS;
    f->page = page;
    f->key = params->key;
    f->target = params->target;
    f->number = params->number;
    f->link_len = params->link.len;
    if (params->link.len > 0)
        memcpy(f->link_text, params->link.data, params->link.len);
    return f;
}

void fetch_free(struct fetch *f)
{
    list_remove(&f->link);
    inflight_remove(f->cache, f);
    page_builder_free(f->page);
    blob_unref(f->answer.body);
    free(f);
}

void fetch_begin_command(struct fetch *f, size_t count, struct span name)
{
    struct cache *s = f->cache;
    buf_clear(&s->command);
    command_begin(&s->command, count);
    command_add(&s->command, name);
    command_add_buf(&s->command, &s->key);
}

void fetch_send(struct fetch *f, redis_connection_reply_fn fn)
{
    struct cache *s = f->cache;
    if (f->failed)
        return;
    bool composed = buf_error(&s->command) == 0;
    if (!composed || redis_connection_send_command(s->redis_connection, buf_span(&s->command), fn, f) != 0) {
        f->failed = true;
        return;
    }
    f->owed++;
    metric_add(&f->cache->options.metrics->redis_commands_total, 1);
}

static void report_error(struct fetch *f, const redisReply *reply)
{
    metric_add(&f->cache->options.metrics->redis_error_replies_total, 1);
    uint64_t now = clock_now_ms();
    if (now - f->cache->error_logged_ms < ERROR_LOG_INTERVAL_MS)
        return;
    f->cache->error_logged_ms = now;
    log_text(LOG_ERROR, "redis answered with an error", "reply", reply->str);
}

static bool is_news(struct cache *s, int64_t id, enum cache_report kind)
{
    size_t slot = ((uint64_t)id * 0x9E3779B97F4A7C15U) >> 54; /* the top ten bits of a Fibonacci hash */
    if (s->reported[slot].kind == kind && s->reported[slot].id == id)
        return false;
    s->reported[slot].kind = kind;
    s->reported[slot].id = id;
    return true;
}

/* The key that the reply at hand is about: that of the data, since a verdict is one number. */
static void append_key(const struct fetch *f, struct buf *out)
{
    const struct keyspace *keyspace = f->cache->options.keyspace;
    if (f->target == QUERY_PAGE) /* its items do not come here */
        keyspace_index(keyspace, out);
    else if (f->target == QUERY_CARD_BY_LINK && f->step == FETCH_FIRST)
        keyspace_link(keyspace, out, (struct span){f->link_text, f->link_len});
    else
        keyspace_card(keyspace, out, f->id);
}

static void report_oversize(struct fetch *f)
{
    struct cache *s = f->cache;
    buf_clear(&s->key);
    append_key(f, &s->key);
    struct span key = buf_span(&s->key);
    struct log_line line;
    if (!is_news(s, (int64_t)XXH3_64bits(key.data, key.len), CACHE_REPORT_OVERSIZE) ||
        !log_begin(&line, LOG_ERROR, resp_oversize.str))
        return;
    log_str(&line, "key", key);
    log_end(&line);
}

bool fetch_accept(struct fetch *f, const redisReply *reply)
{
    f->owed--;
    if (reply == NULL) {
        f->lost = true;
        return false;
    }
    if (resp_is_oversize(reply)) {
        report_oversize(f);
        f->failed = true;
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
        if (reply->type != REDIS_REPLY_INTEGER) {
            f->failed = true;
        } else {
            f->refused = reply->integer != 1;
            lookup_store_auth(f->cache, &f->key, !f->refused);
            api_keys_fetch_retry(f->cache);
        }
    }
    fetch_settle(f);
}

static void send_verdict(struct fetch *f)
{
    struct cache *s = f->cache;
    buf_clear(&s->command);
    fetch_command_sismember(&s->commands, &s->command, &f->key);
    fetch_send(f, on_verdict);
}

static void send_target(struct fetch *f)
{
    switch (f->target) {
    case QUERY_AUTH_ONLY:
        f->found = true;
        break;
    case QUERY_CARD:
        f->id = f->number;
        fetch_card_send(f);
        break;
    case QUERY_CARD_BY_LINK:
        fetch_link_send(f);
        break;
    case QUERY_PAGE:
        if (f->step == FETCH_PAGE_ITEMS)
            fetch_page_send_items(f);
        else
            fetch_page_send(f);
        break;
    }
}

int fetch_start(struct fetch *f)
{
    f->doubts = f->cache->catalogue.doubts;
    if (f->needs_auth)
        send_verdict(f);
    if (!f->failed)
        send_target(f);
    return f->owed == 0 ? -ENOMEM : 0;
}

/* The next batch. False when there is nothing more to send. */
static bool advance(struct fetch *f)
{
    if (f->target == QUERY_CARD_BY_LINK && f->step == FETCH_FIRST && f->found) {
        f->step = FETCH_LINKED_CARD;
        f->found = false;
        inflight_remove(f->cache, f); /* who asks now knows where the link leads, and will ask for the card */
        fetch_card_send(f);
    } else if (f->target == QUERY_PAGE && f->step == FETCH_FIRST) {
        f->step = FETCH_PAGE_ITEMS;
        fetch_page_send_items(f);
    }
    return f->owed > 0;
}

static void compose_answer(struct fetch *f)
{
    struct cache_result *a = &f->answer;
    if (f->failed)
        a->status = CACHE_UNAVAILABLE;
    else if (f->refused)
        a->status = CACHE_KEY_INVALID;
    else
        a->status = f->found ? CACHE_FOUND : CACHE_NOT_FOUND;
    if (a->status != CACHE_FOUND) { /* a card that came along with a refused key is for nobody */
        blob_unref(a->body);
        a->body = NULL;
    }
    if (a->status == CACHE_FOUND && f->target == QUERY_PAGE)
        a->body = page_builder_compose(f->page, &a->last_page);
    if (a->status == CACHE_FOUND && f->target != QUERY_AUTH_ONLY && a->body == NULL)
        a->status = CACHE_OUT_OF_MEMORY;
}

/* What everybody has given up is half done: not to be remembered. */
void fetch_conclude(struct fetch *f)
{
    if (!f->lost && !list_empty(&f->requests))
        compose_answer(f);
    f->ended(f);
}

/*
 * A page is read again in any case: between the index and the cards a loader may have been at work. For the
 * rest see catalogue.c.
 */
static bool must_be_read_again(const struct fetch *f)
{
    bool certain = invalidation_may_store(f->cache) && f->doubts == f->cache->catalogue.doubts;
    bool incomplete = !f->refused && f->page != NULL && page_builder_is_incomplete(f->page);
    return !f->again && (incomplete || !certain);
}

void fetch_confirmed(struct fetch *f)
{
    if (list_empty(&f->requests) || !must_be_read_again(f)) {
        fetch_conclude(f);
        return;
    }
    f->again = true;
    f->step = FETCH_FIRST;
    f->found = f->refused = false;
    blob_unref(f->answer.body);
    f->answer.body = NULL;
    if (fetch_start(f) == 0)
        return;
    f->failed = true;
    fetch_conclude(f);
}

/* What an emptied Redis would answer as well. */
static bool lacks_something(const struct fetch *f)
{
    return f->refused || !f->found || (f->page != NULL && page_builder_lacks_something(f->page));
}

void fetch_settle(struct fetch *f)
{
    if (f->owed > 0)
        return;
    bool wanted = !f->lost && !list_empty(&f->requests);
    if (wanted && !f->failed && !f->refused && advance(f))
        return;
    if (wanted && !f->failed && lacks_something(f))
        catalogue_await(f);
    else
        fetch_conclude(f);
}

void fetch_report_left_out(struct cache *s, int64_t id, const char *why)
{
    struct log_line line;
    if (!is_news(s, id, CACHE_REPORT_SKIPPED) ||
        !log_begin(&line, LOG_WARN, "index member left out of its page"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "reason", span_of(why));
    log_end(&line);
}

void fetch_report_unreadable(struct fetch *f, int64_t id, unsigned fields)
{
    if (fields == 0)
        return;
    struct cache *s = f->cache;
    metric_add(&s->options.metrics->invalid_values_total, (uint64_t)__builtin_popcount(fields));
    struct log_line line;
    if (!is_news(s, id, CACHE_REPORT_INVALID_VALUE) ||
        !log_begin(&line, LOG_WARN, "unreadable value in redis, served as absent"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "field", channel_field_name((enum channel_field)__builtin_ctz(fields)));
    log_int(&line, "fields", __builtin_popcount(fields));
    log_end(&line);
}
