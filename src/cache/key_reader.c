/* Commands and replies about the API key set; see key_reader.h. */
#include "cache/key_reader.h"

#include "base/clock.h"

static void on_reply(void *arg, const redisReply *reply);

static void send_command(struct key_reader *r)
{
    const struct key_reader_options *o = &r->options;
    int err = buf_error(&r->command);
    if (err == 0)
        err = o->send(o->arg, buf_span(&r->command), on_reply, r);
    if (err != 0)
        (void)api_keys_reply(o->keys, NULL, clock_now_ms(), &r->command);
}

static void take_reply(struct key_reader *r, const redisReply *reply)
{
    const struct key_reader_options *o = &r->options;
    enum api_keys_progress progress = api_keys_reply(o->keys, reply, clock_now_ms(), &r->command);
    if (progress == API_KEYS_SEND)
        send_command(r);
    if (progress != API_KEYS_COMPLETE)
        return;
    r->check = invalidation_begun(o->invalidation) + 1;
    invalidation_check(o->invalidation);
}

/* Anything but a number is as if the connection was lost, and so is a reply that comes after that. */
static void on_redirected(void *arg, const redisReply *reply)
{
    struct key_reader *r = arg;
    bool usable = reply != NULL && reply->type == REDIS_REPLY_INTEGER &&
                  invalidation_is_connected(r->options.invalidation);
    take_reply(r, usable ? reply : NULL);
}

static bool is_empty(const redisReply *reply)
{
    bool list = reply->type == REDIS_REPLY_SET || reply->type == REDIS_REPLY_ARRAY;
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer == 0 : list && reply->elements == 0;
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct key_reader *r = arg;
    const struct key_reader_options *o = &r->options;
    bool clustered = reply != NULL && o->in_cluster(o->arg);
    bool empty = clustered && is_empty(reply);
    if (empty && api_keys_counts_infos(o->keys)) {
        if (!o->elsewhere(o->arg, reply))
            take_reply(r, reply);
        else if (o->redirect(o->arg, buf_span(&r->command), on_redirected, r) != 0)
            take_reply(r, NULL);
        return;
    }
    bool elsewhere = empty || (clustered && reply->type == REDIS_REPLY_ERROR && o->elsewhere(o->arg, reply));
    take_reply(r, elsewhere ? NULL : reply);
}

void key_reader_read(struct key_reader *r, bool at_once)
{
    uint64_t now = clock_now_ms();
    if (!at_once && !api_keys_wants_reading(r->options.keys, now))
        return;
    if (api_keys_read(r->options.keys, now, &r->command))
        send_command(r);
}

void key_reader_confirm(struct key_reader *r)
{
    const struct key_reader_options *o = &r->options;
    if (invalidation_confirmed(o->invalidation) >= r->check)
        api_keys_commit(o->keys);
    else
        invalidation_check(o->invalidation);
}
