/*
 * Whether Redis holds a catalogue at all.
 *
 * A Redis with neither an index nor an API key set was flushed, or started without its data, and its "not
 * found" must not be believed. It is treated like one that is still loading: the connection is not used, and
 * the cache serves stale entries within the limits.
 *
 * The check is SCARD of the API key set, and ZCARD of the index where that is 0. It is made in the handshake,
 * with each heartbeat, before an invalidation of everything, of the index or of the API key set is applied,
 * and before a result is returned that says something does not exist. Replies come in the order of the
 * commands, so a pending check was sent after every command that has been answered: it serves all results
 * that need one. Checks are numbered for that.
 *
 * A state machine: it composes the next command, and the caller passes it the reply.
 */
#ifndef CACHE_CATALOGUE_H
#define CACHE_CATALOGUE_H

#include "base/buf.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/* The state or result of a check. */
enum catalogue_state {
    CATALOGUE_CHECKING, /* no result yet: the next command is in the buffer */
    CATALOGUE_PRESENT,  /* or not visible to this user (ACL) */
    CATALOGUE_MISSING,
    CATALOGUE_UNKNOWN, /* Redis replied with an error */
    CATALOGUE_LOST     /* the connection was lost */
};

/* The state of one of the two Redis keys. */
enum catalogue_key {
    CATALOGUE_KEY_UNKNOWN,
    CATALOGUE_KEY_FORBIDDEN,
    CATALOGUE_KEY_ABSENT,
    CATALOGUE_KEY_PRESENT
};

/* Embedded in the cache; private to catalogue.c. */
struct catalogue {
    const struct keyspace *keyspace;
    enum catalogue_step { CATALOGUE_IDLE, CATALOGUE_READ_KEYS, CATALOGUE_READ_INDEX } step;
    enum catalogue_key keys; /* of the API key set, from the first reply */
    int64_t key_count;       /* its size; -1: unknown */
    uint64_t begun, passed;  /* the numbers of the last check, and of the last that found a catalogue */
    bool forbidden;          /* it was logged that the ACL denies the check */
};

static inline void catalogue_init(struct catalogue *c, const struct keyspace *keyspace)
{
    *c = (struct catalogue){.keyspace = keyspace, .key_count = -1};
}

/*
 * Begins a check. True when *command is to be sent and its reply given to catalogue_reply; false when a check
 * is under way.
 */
bool catalogue_check(struct catalogue *c, struct buf *command) __attribute__((warn_unused_result));

/* The reply to the command that was sent last; NULL: the connection was lost. */
enum catalogue_state catalogue_reply(struct catalogue *c, const redisReply *reply, struct buf *command)
    __attribute__((warn_unused_result));

/* The command could not be sent. */
enum catalogue_state catalogue_send_failed(struct catalogue *c) __attribute__((warn_unused_result));

static inline bool catalogue_is_checking(const struct catalogue *c)
{
    return c->step != CATALOGUE_IDLE;
}

/* The size of the API key set in the last reply; -1 when it had none. */
static inline int64_t catalogue_key_count(const struct catalogue *c)
{
    return c->key_count;
}

/*
 * The number of the check that will confirm a negative result which has just been read: either the object
 * does not exist, or the whole catalogue is missing.
 */
static inline uint64_t catalogue_next_check(const struct catalogue *c)
{
    return c->step != CATALOGUE_IDLE ? c->begun : c->begun + 1;
}

/* The number of the last check that passed. */
static inline uint64_t catalogue_confirmed(const struct catalogue *c)
{
    return c->passed;
}

#endif
