/*
 * Whether Redis holds a catalogue at all.
 *
 * A Redis with neither an index nor an API key set was emptied, or started without its data: it knows nothing
 * of any channel or key, and "it does not exist" is no answer. It is treated as one that is still loading:
 * the connection is not taken into use, or no longer, and the cache serves within the stale limits.
 *
 * The check is SCARD of the API key set, and ZCARD of the index where that is 0. It is made in the handshake,
 * with each heartbeat, before an invalidation of everything, of the index or of the API key set is applied,
 * and before a result leaves that lacks something. Replies come in the order of the commands, so a check
 * whose reply is still to come was sent after everything that has been answered so far: one check serves all
 * that need one meanwhile. Checks are numbered for that.
 *
 * A state machine: it says which command to send next and is given the replies.
 */
#ifndef CACHE_CATALOGUE_H
#define CACHE_CATALOGUE_H

#include "base/buf.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/* What came of a check. */
enum catalogue_state {
    CATALOGUE_CHECKING, /* nothing yet: the next command is in the buffer */
    CATALOGUE_PRESENT,  /* there is one, or it may not be seen: replies are believed */
    CATALOGUE_MISSING,
    CATALOGUE_UNKNOWN, /* Redis answered with an error */
    CATALOGUE_LOST     /* the connection was lost */
};

/* What a reply says of one of the two keys. */
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
    enum catalogue_key keys; /* what the first reply said */
    int64_t key_count;       /* the same as a number; -1: none */
    uint64_t begun, passed;  /* the numbers of the last check, and of the last that found a catalogue */
    bool forbidden;          /* it was logged that the ACL does not permit to see it */
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

/* The size of the API key set that the last reply told; -1 when it told none. */
static inline int64_t catalogue_key_count(const struct catalogue *c)
{
    return c->key_count;
}

/*
 * The number of the next check: it will tell whether what a reply has just said not to exist does not, or the
 * whole catalogue is missing.
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
