/*
 * The check whether Redis holds a catalogue: SCARD of the API key set, and ZCARD of the index where that is
 * 0.
 *
 * A Redis with neither was flushed, or started without its data, and its "not found" must not be believed.
 * Commands are sent through a function, so nothing here depends on connections.
 */
#ifndef CACHE_CATALOGUE_H
#define CACHE_CATALOGUE_H

#include "model/keyspace.h"
#include "redis/resp.h"
#include "redis/session.h"

/* The result of a check. */
enum catalogue_state {
    CATALOGUE_PRESENT, /* or not visible to this user (ACL) */
    CATALOGUE_MISSING,
    CATALOGUE_UNKNOWN, /* Redis replied with an error, or the command could not be sent */
    CATALOGUE_LOST     /* the connection was lost */
};

/* All is borrowed while the check lives. The functions are called with `arg`. */
struct catalogue_options {
    const struct keyspace *keyspace;
    redis_send_fn send;
    /* The reply to SCARD; `decided`: the set is there, and the check ends. May be NULL. */
    void (*counted)(void *arg, const redisReply *reply, bool decided);
    /* A check has ended; possibly called before catalogue_check returns. */
    void (*checked)(void *arg, enum catalogue_state state);
    void *arg;
};

/* Embedded by its owner; private to catalogue.c. */
struct catalogue {
    struct catalogue_options options;
    struct buf command, key; /* scratch */
    enum catalogue_step { CATALOGUE_IDLE, CATALOGUE_API_KEYS, CATALOGUE_INDEX } step;
    enum catalogue_key {
        CATALOGUE_KEY_UNKNOWN,
        CATALOGUE_KEY_FORBIDDEN,
        CATALOGUE_KEY_ABSENT,
        CATALOGUE_KEY_PRESENT
    } keys;                /* the state of the API key set, from the first reply */
    bool forbidden_logged; /* that the ACL denies the check */
};

/* `options` is copied. No callback may come after catalogue_fini. */
static inline void catalogue_init(struct catalogue *c, const struct catalogue_options *options)
{
    *c = (struct catalogue){.options = *options};
}

void catalogue_fini(struct catalogue *c);

static inline bool catalogue_is_being_checked(const struct catalogue *c)
{
    return c->step != CATALOGUE_IDLE;
}

/* SCARD has no reply yet. */
static inline bool catalogue_is_being_counted(const struct catalogue *c)
{
    return c->step == CATALOGUE_API_KEYS;
}

/* Begins a check; only while none is under way. */
void catalogue_check(struct catalogue *c);

#endif
