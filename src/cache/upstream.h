/*
 * The check of a Redis before its connection is accepted: it lets the user read what requests need, and there
 * is a catalogue.
 *
 * Both are checked on the connection in use and on the next one, which is to replace it (session.h). The
 * owner of this struct checks the catalogue of the connection in use.
 *
 * Permissions are checked on each next connection, and on the one in use until it was ready once. A replica
 * that starts without them never becomes ready, so a rollout stops. A process that has served goes on when a
 * permission is removed: it serves what it may still read.
 */
#ifndef CACHE_UPSTREAM_H
#define CACHE_UPSTREAM_H

#include "cache/parts.h"

/* The reason to reject a connection to a Redis without a catalogue. */
#define UPSTREAM_NO_CATALOGUE "no catalogue: neither the index nor the set of API keys exists"

/* The reason to reject a connection that remains, when the other node that had to be asked is lost. */
#define UPSTREAM_NOT_CHECKED "the check of the catalogue was lost with the connection to another node"

/*
 * The reasons to reject a connection on which Redis refuses to read what requests need: the user may not, or
 * another reason, such as a command that was renamed. The data and the reply follow.
 */
#define UPSTREAM_NO_PERMISSION "no permission to read "
#define UPSTREAM_REFUSED       "redis refuses to read "

/* The check of permissions on one connection. */
struct upstream_check {
    struct upstream *upstream;
    struct redis_connection *connection;
    int sent, replied; /* commands; equal unless the check is in flight */
};

/* Embedded in the cache; private to upstream.c. */
struct upstream {
    const struct cache_parts *parts; /* their catalogue is the check of the connection in use */
    struct catalogue next_catalogue; /* the check of the next connection */
    struct upstream_check current, next;
    bool was_ready;        /* a connection in use was accepted once */
    bool eviction_checked; /* its policy was read, or is being read */
};

void upstream_init(struct upstream *u, const struct cache_parts *parts);

/* To be called when the session has been closed. */
void upstream_fini(struct upstream *u);

/* The handshake of a connection of the session is done. */
void upstream_check(struct upstream *u, struct redis_connection *connection);

/*
 * Ends an attempt to connect by the check of the catalogue. Returns whether the connection is accepted, as it
 * is when the state is unknown.
 */
bool upstream_conclude(struct redis_connection *connection, enum catalogue_state state);

/*
 * A connection is in use. With `checks_eviction` the first one is used to read whether Redis may evict
 * channels and API keys, which is logged.
 */
void upstream_ready(struct upstream *u, bool checks_eviction);

#endif
