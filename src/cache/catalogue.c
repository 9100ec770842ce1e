/* The check for a catalogue; see catalogue.h. */
#include "cache/catalogue.h"

#include "base/log.h"
#include "redis/resp.h"

#include <assert.h>

static enum catalogue_key key_in(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_KEY_ABSENT : CATALOGUE_KEY_PRESENT;
    if (resp_is_error(reply, SPAN("WRONGTYPE ")))
        return CATALOGUE_KEY_PRESENT;
    return resp_is_error(reply, SPAN("NOPERM ")) ? CATALOGUE_KEY_FORBIDDEN : CATALOGUE_KEY_UNKNOWN;
}

/* Every change of the step passes here. */
static void enter(struct catalogue *c, enum catalogue_step next)
{
    assert(next == CATALOGUE_IDLE || next == c->step + 1);
    c->step = next;
}

static void compose(struct catalogue *c, enum catalogue_step step, struct buf *command)
{
    struct buf key = BUF_INIT;
    bool keys = step == CATALOGUE_READ_KEYS;
    if (keys)
        keyspace_api_keys(c->keyspace, &key);
    else
        keyspace_index(c->keyspace, &key);
    buf_clear(command);
    command_begin(command, 2);
    command_add(command, keys ? SPAN("SCARD") : SPAN("ZCARD"));
    command_add_buf(command, &key);
    buf_fini(&key);
    enter(c, step);
}

bool catalogue_check(struct catalogue *c, struct buf *command)
{
    if (c->step != CATALOGUE_IDLE)
        return false;
    c->begun++;
    compose(c, CATALOGUE_READ_KEYS, command);
    return true;
}

static enum catalogue_state conclude(struct catalogue *c, enum catalogue_key keys, enum catalogue_key index)
{
    bool present = keys == CATALOGUE_KEY_PRESENT || index == CATALOGUE_KEY_PRESENT;
    enter(c, CATALOGUE_IDLE);
    if (!present && keys == CATALOGUE_KEY_ABSENT && index == CATALOGUE_KEY_ABSENT)
        return CATALOGUE_MISSING;
    if (!present && keys != CATALOGUE_KEY_FORBIDDEN && index != CATALOGUE_KEY_FORBIDDEN)
        return CATALOGUE_UNKNOWN;
    if (!present && !c->forbidden) {
        log_text(LOG_WARN, "redis does not permit SCARD or ZCARD: a missing catalogue cannot be noticed",
                 NULL, NULL);
        c->forbidden = true;
    }
    c->passed = c->begun;
    return CATALOGUE_PRESENT;
}

enum catalogue_state catalogue_reply(struct catalogue *c, const redisReply *reply, struct buf *command)
{
    assert(c->step != CATALOGUE_IDLE);
    c->key_count = -1;
    if (reply == NULL) {
        enter(c, CATALOGUE_IDLE);
        return CATALOGUE_LOST;
    }
    if (c->step == CATALOGUE_READ_INDEX)
        return conclude(c, c->keys, key_in(reply));
    c->keys = key_in(reply);
    if (reply->type == REDIS_REPLY_INTEGER)
        c->key_count = reply->integer;
    if (c->keys == CATALOGUE_KEY_PRESENT)
        return conclude(c, c->keys, CATALOGUE_KEY_UNKNOWN);
    compose(c, CATALOGUE_READ_INDEX, command);
    return CATALOGUE_CHECKING;
}

enum catalogue_state catalogue_send_failed(struct catalogue *c)
{
    enter(c, CATALOGUE_IDLE);
    return CATALOGUE_UNKNOWN;
}
