/*
 * The check whether Redis holds a catalogue: SCARD of the API key set and ZCARD of the index. Both are sent
 * once more if everything was invalidated meanwhile.
 *
 * A Redis with neither was flushed, or started without its data. Its "not found" must not be believed.
 *
 * Invariant: at most one check is in flight, and its end is one event, `checked`. The event has two
 * implementations: the cache for the connection in use, and upstream.c for the next one. Replies come in the
 * order of the commands, so a check in flight was sent after every command that has been answered. It serves
 * all results that need a check.
 */
#ifndef CACHE_CATALOGUE_H
#define CACHE_CATALOGUE_H

#include "cache/validity.h"
#include "model/keyspace.h"
#include "redis/resp.h"
#include "redis/session.h"

/* The result of a check. */
enum catalogue_state {
    CATALOGUE_PRESENT, /* found, or not visible to this user (ACL) */
    CATALOGUE_MISSING,
    CATALOGUE_UNKNOWN, /* Redis replied with an error, or the command could not be sent */
    CATALOGUE_LOST     /* the connection was lost, or that to another node which was asked */
};

/* All is borrowed while the check lives. `checked` is called with `arg`. */
struct catalogue_options {
    const struct keyspace *keyspace;
    struct redis_session *session;
    unsigned how;              /* flags of sending: 0, or REDIS_SEND_NEXT */
    struct validity *validity; /* gets the number of keys; NULL: for a connection that is not in use */
    /* A check has ended; possibly called before catalogue_check returns. */
    void (*checked)(void *arg, enum catalogue_state state);
    void *arg;
};

/* Embedded by its owner; private to catalogue.c. */
struct catalogue {
    struct catalogue_options options;
    struct buf command, key; /* scratch */
    unsigned replies_due;    /* 0: no check is in flight */
    bool lost;               /* a reply was */
    enum catalogue_key {
        CATALOGUE_KEY_UNKNOWN,
        CATALOGUE_KEY_FORBIDDEN,
        CATALOGUE_KEY_ABSENT,
        CATALOGUE_KEY_PRESENT
    } keys,
        index;
    int64_t index_size;    /* by the last check; -1: not known */
    uint64_t flushes;      /* validity.flushes when they were sent */
    bool forbidden_logged; /* a log line has said that the ACL denies the check */
    uint64_t began_ms;     /* when the last check began, by the boot clock */
};

/* `options` is copied. No callback may come after catalogue_fini. */
static inline void catalogue_init(struct catalogue *c, const struct catalogue_options *options)
{
    *c = (struct catalogue){.options = *options};
}

void catalogue_fini(struct catalogue *c);

/* The last check found no API key set. */
static inline bool catalogue_lacks_api_keys(const struct catalogue *c)
{
    return c->keys == CATALOGUE_KEY_ABSENT;
}

/* Begins a check. If one is in flight it suffices, and no other is begun. */
void catalogue_check(struct catalogue *c);

#endif
