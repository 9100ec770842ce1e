/* The two commands of a check, and the result that follows from their replies; see catalogue.h. */
#include "cache/catalogue.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>

void catalogue_fini(struct catalogue *c)
{
    buf_fini(&c->command);
    buf_fini(&c->key);
}

static enum catalogue_key catalogue_key_in(const struct redis_reply *reply)
{
    if (reply->type == REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_KEY_ABSENT : CATALOGUE_KEY_PRESENT;
    if (reply_is_error(reply, SPAN("WRONGTYPE ")))
        return CATALOGUE_KEY_PRESENT;
    return reply_is_error(reply, SPAN("NOPERM ")) ? CATALOGUE_KEY_FORBIDDEN : CATALOGUE_KEY_UNKNOWN;
}

static enum catalogue_state catalogue_evaluate(struct catalogue *c)
{
    bool forbidden = c->keys == CATALOGUE_KEY_FORBIDDEN || c->index == CATALOGUE_KEY_FORBIDDEN;
    if (forbidden && !c->forbidden_logged)
        log_text(LOG_WARN, "redis does not permit SCARD or ZCARD: a missing catalogue cannot be noticed",
                 NULL, NULL);
    c->forbidden_logged |= forbidden;
    if (c->lost)
        return CATALOGUE_LOST;
    if (c->keys == CATALOGUE_KEY_PRESENT || c->index == CATALOGUE_KEY_PRESENT)
        return CATALOGUE_PRESENT;
    if (c->keys == CATALOGUE_KEY_ABSENT && c->index == CATALOGUE_KEY_ABSENT)
        return CATALOGUE_MISSING;
    return forbidden ? CATALOGUE_PRESENT : CATALOGUE_UNKNOWN;
}

static void catalogue_send(struct catalogue *c);

/* Both replies have arrived, or nothing could be sent. */
static void catalogue_end(struct catalogue *c)
{
    struct validity *v = c->options.validity;
    if (v != NULL && !c->lost && v->flushes != c->flushes)
        catalogue_send(c);
    if (c->replies_due > 0)
        return;
    enum catalogue_state state = catalogue_evaluate(c);
    if (v != NULL)
        validity_checked(v, state == CATALOGUE_PRESENT, state == CATALOGUE_MISSING, c->began_ms);
    c->options.checked(c->options.arg, state);
}

/* --- the commands --- */

/* The origin does not matter: a key anywhere shows that there is a catalogue. */
static void catalogue_read(struct catalogue *c, const struct redis_reply *reply, enum catalogue_key *key)
{
    assert(c->replies_due > 0);
    c->lost |= reply == NULL;
    if (reply != NULL)
        *key = catalogue_key_in(reply);
    if (--c->replies_due == 0)
        catalogue_end(c);
}

static int64_t catalogue_count_in(const struct redis_reply *reply)
{
    return reply != NULL && reply->type == REPLY_INTEGER ? reply->integer : -1;
}

static void catalogue_on_api_keys(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct catalogue *c = arg;
    (void)origin;
    if (c->options.validity != NULL && reply != NULL) {
        bool found = catalogue_key_in(reply) == CATALOGUE_KEY_PRESENT;
        validity_counted(c->options.validity, catalogue_count_in(reply), found);
    }
    catalogue_read(c, reply, &c->keys);
}

static void catalogue_on_index(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct catalogue *c = arg;
    (void)origin;
    c->index_size = catalogue_count_in(reply);
    catalogue_read(c, reply, &c->index);
}

/* Returns 0 or a negative errno. */
static int catalogue_send_command(struct catalogue *c, struct span name, redis_reply_fn fn)
{
    const struct catalogue_options *o = &c->options;
    command_begin_with_key(&c->command, name, &c->key, 0);
    int err = redis_session_send(o->session, &c->command, o->how, fn, c);
    c->replies_due += err == 0;
    c->lost |= err == -ENOTCONN;
    return err;
}

static void catalogue_send(struct catalogue *c)
{
    struct validity *v = c->options.validity;
    c->keys = c->index = CATALOGUE_KEY_UNKNOWN;
    c->lost = false;
    c->flushes = v != NULL ? v->flushes : 0;
    buf_clear(&c->key);
    keyspace_api_keys(c->options.keyspace, &c->key);
    if (catalogue_send_command(c, SPAN("SCARD"), catalogue_on_api_keys) != 0 && v != NULL)
        validity_counted(v, -1, false);
    buf_clear(&c->key);
    keyspace_index(c->options.keyspace, &c->key);
    (void)catalogue_send_command(c, SPAN("ZCARD"), catalogue_on_index);
}

void catalogue_check(struct catalogue *c)
{
    if (c->replies_due > 0)
        return;
    c->began_ms = clock_boot_ms();
    catalogue_send(c);
    if (c->replies_due == 0)
        catalogue_end(c);
}
