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
        (void)api_keys_reply(o->keys, LIFETIME_NONE, NULL, clock_now_ms(), &r->command);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct key_reader *r = arg;
    const struct key_reader_options *o = &r->options;
    struct lifetime lifetime = invalidation_lifetime(o->invalidation, reply, 0);
    enum api_keys_progress progress = api_keys_reply(o->keys, lifetime, reply, clock_now_ms(), &r->command);
    if (progress == API_KEYS_SEND)
        send_command(r);
    if (progress != API_KEYS_COMPLETE)
        return;
    r->check = invalidation_begun(o->invalidation) + 1;
    invalidation_check(o->invalidation);
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
