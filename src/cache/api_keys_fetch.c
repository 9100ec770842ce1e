/*
 * Reading the set of keys. See cache_internal.h and api_keys.h.
 *
 * A small set is one reply (SMEMBERS). A large one is read in portions (SSCAN): what is asked in between
 * waits for one of these and not for megabytes, when all workers of all replicas read the set because a key
 * was issued or Redis has come back. SSCAN returns every member that was there from its first portion to its
 * last; and had the set changed between the two, Redis would have said so between their replies. So a reading
 * without an invalidation is the whole set.
 */
#include "base/clock.h"
#include "base/log.h"
#include "cache/fetch.h"
#include "redis/resp.h"

#include <errno.h>

enum { RETRY_MS = 100, AT_ONCE_MAX = 10000 };

/* Redis may give less in a portion than it is asked for, for ever if it lies. */
static const char portion[] = "1000";
enum { PORTIONS_MAX = API_KEYS_MAX / 100 };

/* `cursor` may be NULL, for a command that has none. */
static int ask(struct cache *s, const char *command, const char *cursor, redis_connection_reply_fn fn)
{
    buf_clear(&s->key);
    keyspace_api_keys(s->options.keyspace, &s->key);
    if (buf_error(&s->key) != 0)
        return -ENOMEM;
    const char *argv[] = {command, s->key.data, cursor, "COUNT", portion};
    const size_t lengths[] = {strlen(command), s->key.len, cursor != NULL ? strlen(cursor) : 0,
                              strlen("COUNT"), strlen(portion)};
    buf_clear(&s->command);
    command_write(&s->command, cursor != NULL ? 5 : 2, argv, lengths);
    int err = buf_error(&s->command);
    if (err == 0)
        err = redis_connection_send_command(s->redis_connection, buf_span(&s->command), fn, s);
    s->api_keys_fetch.under_way = err == 0;
    return err;
}

static void log_unreadable(void)
{
    log_text(LOG_WARN, "the API keys cannot be read: each is asked about", NULL, NULL);
}

/* An emptied Redis has an empty set too. */
static void complete(struct cache *s)
{
    s->api_keys_fetch.complete = true;
    catalogue_check(s);
}

static void read_at_once(struct cache *s, const redisReply *members)
{
    uint64_t unreadable = 0;
    bool is_list = members->type == REDIS_REPLY_SET || members->type == REDIS_REPLY_ARRAY;
    s->api_keys_fetch.size = (int64_t)members->elements;
    int err = api_keys_begin(&s->api_keys, is_list ? members->elements : 0);
    if (err == 0)
        err = api_keys_add(&s->api_keys, members, &unreadable);
    s->keys_large = err == -E2BIG || resp_is_oversize(members); /* it has grown since its size was read */
    if (err != 0 && err != -E2BIG)
        log_unreadable();
    metric_add(&s->options.metrics->invalid_values_total, unreadable);
    if (err == 0)
        complete(s);
}

static void on_members(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    s->api_keys_fetch.under_way = false;
    if (reply != NULL)
        read_at_once(s, reply);
}

/* What is refused or too large stays so until the set changes; memory may come back at any time. */
static void give_up(struct cache *s, int err)
{
    api_keys_clear(&s->api_keys);
    s->keys_large = err != -ENOMEM && err != -ENOTCONN;
    if (err != -E2BIG)
        log_unreadable();
}

/* Returns 0, or a negative errno: then nothing of the set is known. */
static int take_portion(struct cache *s, const redisReply *reply)
{
    struct api_keys_fetch *fetch = &s->api_keys_fetch;
    uint64_t unreadable = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return -EINVAL;
    const redisReply *cursor = reply->element[0];
    if (cursor->type != REDIS_REPLY_STRING || cursor->len > API_KEYS_CURSOR_MAX || fetch->portions_left == 0)
        return -EINVAL;
    fetch->portions_left--;
    memcpy(fetch->cursor, cursor->str, cursor->len);
    fetch->cursor[cursor->len] = '\0';
    int err = api_keys_add(&s->api_keys, reply->element[1], &unreadable);
    metric_add(&s->options.metrics->invalid_values_total, unreadable);
    return err;
}

static void on_portion(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    struct api_keys_fetch *fetch = &s->api_keys_fetch;
    fetch->under_way = false;
    if (reply == NULL)
        return;
    if (fetch->outdated) { /* what was read has been forgotten; a set that changes all the time is not read
                              all the time */
        fetch->asked_ms = clock_now_ms();
        return;
    }
    int err = take_portion(s, reply);
    if (err == 0 && strcmp(fetch->cursor, "0") == 0)
        complete(s);
    else if (err == 0)
        err = ask(s, "SSCAN", fetch->cursor, on_portion);
    if (err != 0)
        give_up(s, err);
}

static void read_in_portions(struct cache *s, size_t size)
{
    struct api_keys_fetch *fetch = &s->api_keys_fetch;
    fetch->outdated = false;
    fetch->portions_left = PORTIONS_MAX;
    fetch->size = (int64_t)size;
    int err = api_keys_begin(&s->api_keys, size);
    if (err == 0)
        err = ask(s, "SSCAN", "0", on_portion);
    if (err != 0)
        give_up(s, err);
}

static void on_size(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    s->api_keys_fetch.under_way = false;
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
        return;
    s->keys_large = reply->integer > API_KEYS_MAX;
    if (s->keys_large)
        return;
    if (reply->integer > AT_ONCE_MAX)
        read_in_portions(s, (size_t)reply->integer);
    else
        (void)ask(s, "SMEMBERS", NULL, on_members); /* if it fails, later */
}

/*
 * A reading at once that is under way already will do: had it been before the change, its reply would stand
 * before the invalidation that brought us here.
 */
void api_keys_fetch_begin(struct cache *s)
{
    struct api_keys_fetch *fetch = &s->api_keys_fetch;
    fetch->outdated = true;
    fetch->complete = false;
    if (fetch->under_way)
        return;
    fetch->asked_ms = clock_now_ms();
    (void)ask(s, "SCARD", NULL, on_size); /* if it fails, later */
}

void api_keys_fetch_commit(struct cache *s)
{
    if (!s->api_keys_fetch.complete)
        return;
    s->api_keys_fetch.complete = false;
    api_keys_seal(&s->api_keys);
}

void api_keys_fetch_retry(struct cache *s)
{
    const struct api_keys_fetch *fetch = &s->api_keys_fetch;
    bool wanted = !s->api_keys.loaded && !s->keys_large && !fetch->under_way && !fetch->complete;
    if (wanted && invalidation_may_store(s) && clock_now_ms() - fetch->asked_ms >= RETRY_MS)
        api_keys_fetch_begin(s);
}
