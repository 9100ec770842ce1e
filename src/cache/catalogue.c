/* The two commands of a check, and the result that follows from their replies; see catalogue.h. */
#include "cache/catalogue.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"

#include <assert.h>
#include <errno.h>

void catalogue_fini(struct catalogue *c)
{
    buf_fini(&c->command);
    buf_fini(&c->key);
}

static const unsigned NEXT[] = {
    [CATALOGUE_IDLE] = STATE(CATALOGUE_IDLE) | STATE(CATALOGUE_API_KEYS),
    [CATALOGUE_API_KEYS] = STATE(CATALOGUE_IDLE) | STATE(CATALOGUE_INDEX),
    [CATALOGUE_INDEX] = STATE(CATALOGUE_IDLE) | STATE(CATALOGUE_API_KEYS),
};

static void catalogue_enter(struct catalogue *c, enum catalogue_step next)
{
    STATE_ENTER(&c->step, next, NEXT);
}

static void catalogue_finish(struct catalogue *c, enum catalogue_state state)
{
    catalogue_enter(c, CATALOGUE_IDLE);
    if (c->options.validity != NULL)
        validity_checked(c->options.validity, state == CATALOGUE_PRESENT, state == CATALOGUE_MISSING,
                         c->began_ms);
    c->options.checked(c->options.arg, state);
}

static void catalogue_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin);

static void catalogue_send_step(struct catalogue *c, enum catalogue_step step)
{
    const struct catalogue_options *o = &c->options;
    bool keys = step == CATALOGUE_API_KEYS;
    catalogue_enter(c, step);
    buf_clear(&c->key);
    (keys ? keyspace_api_keys : keyspace_index)(o->keyspace, &c->key);
    buf_clear(&c->command);
    command_begin(&c->command, 2);
    command_add(&c->command, keys ? SPAN("SCARD") : SPAN("ZCARD"));
    command_add_buf(&c->command, &c->key);
    int err = buf_error(&c->command);
    if (err == 0)
        err = redis_session_send(o->session, buf_span(&c->command), o->how, catalogue_on_reply, c);
    if (err == 0)
        return;
    if (keys && c->options.validity != NULL)
        validity_counted(c->options.validity, -1, false);
    catalogue_finish(c, err == -ENOTCONN ? CATALOGUE_LOST : CATALOGUE_UNKNOWN);
}

static enum catalogue_key catalogue_key_in(const struct redis_reply *reply)
{
    if (reply->type == REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_KEY_ABSENT : CATALOGUE_KEY_PRESENT;
    if (reply_is_error(reply, SPAN("WRONGTYPE ")))
        return CATALOGUE_KEY_PRESENT;
    return reply_is_error(reply, SPAN("NOPERM ")) ? CATALOGUE_KEY_FORBIDDEN : CATALOGUE_KEY_UNKNOWN;
}

static enum catalogue_state catalogue_evaluate(struct catalogue *c, enum catalogue_key index)
{
    bool forbidden = c->keys == CATALOGUE_KEY_FORBIDDEN || index == CATALOGUE_KEY_FORBIDDEN;
    if (forbidden && !c->forbidden_logged)
        log_text(LOG_WARN, "redis does not permit SCARD or ZCARD: a missing catalogue cannot be noticed",
                 NULL, NULL);
    c->forbidden_logged |= forbidden;
    /* not covered: where there are keys, the index is not asked for */
    if (c->keys == CATALOGUE_KEY_PRESENT || index == CATALOGUE_KEY_PRESENT)
        return CATALOGUE_PRESENT;
    if (c->keys == CATALOGUE_KEY_ABSENT && index == CATALOGUE_KEY_ABSENT)
        return CATALOGUE_MISSING;
    return forbidden ? CATALOGUE_PRESENT : CATALOGUE_UNKNOWN;
}

static void catalogue_count_api_keys(struct catalogue *c)
{
    if (c->options.validity != NULL)
        c->options.validity->counting = true;
    catalogue_send_step(c, CATALOGUE_API_KEYS);
}

/* The set was missing, and has changed since: Redis was loaded in between. */
static bool catalogue_must_be_repeated(const struct catalogue *c)
{
    const struct validity *v = c->options.validity;
    return !c->repeated && c->keys == CATALOGUE_KEY_ABSENT && v != NULL && v->possible_losses != c->losses;
}

static void catalogue_end(struct catalogue *c, const struct redis_reply *reply)
{
    if (!catalogue_must_be_repeated(c)) {
        catalogue_finish(c, catalogue_evaluate(c, catalogue_key_in(reply)));
        return;
    }
    c->repeated = true;
    catalogue_count_api_keys(c);
}

/* The origin does not matter: a key anywhere shows that there is a catalogue. */
static void catalogue_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct catalogue *c = arg;
    (void)origin;
    assert(c->step != CATALOGUE_IDLE);
    if (reply == NULL) {
        catalogue_finish(c, CATALOGUE_LOST);
        return;
    }
    if (c->step == CATALOGUE_INDEX) {
        catalogue_end(c, reply);
        return;
    }
    c->keys = catalogue_key_in(reply);
    bool decided = c->keys == CATALOGUE_KEY_PRESENT;
    if (c->options.validity != NULL) {
        validity_counted(c->options.validity, reply->type == REPLY_INTEGER ? reply->integer : -1, decided);
        c->losses = c->options.validity->possible_losses;
    }
    if (decided)
        catalogue_finish(c, CATALOGUE_PRESENT);
    else
        catalogue_send_step(c, CATALOGUE_INDEX);
}

void catalogue_check(struct catalogue *c)
{
    if (c->step != CATALOGUE_IDLE)
        return;
    c->began_ms = clock_boot_ms();
    c->repeated = false;
    catalogue_count_api_keys(c);
}
