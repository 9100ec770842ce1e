/*
 * The check of a Redis before its connection is accepted: the user may read what requests need, and there is
 * a catalogue.
 *
 * It is made of the connection in use and of the next one, which is to replace it (session.h): the catalogue
 * of the one in use is checked by its owner.
 *
 * Permissions are checked until a connection was ready once: a replica that starts without them never becomes
 * ready, so a rollout stops. One that has served is not stopped by a permission that is taken away: it goes
 * on serving what it may read.
 */
#ifndef CACHE_UPSTREAM_H
#define CACHE_UPSTREAM_H

#include "cache/parts.h"

/* Why a connection to a Redis without a catalogue is not used. */
#define UPSTREAM_NO_CATALOGUE "no catalogue: neither the index nor the set of API keys exists"

/* Why a connection is not used whose user may not read what requests need; what and the reply follow. */
#define UPSTREAM_NO_PERMISSION "no permission to read "

/* The check of permissions on one connection. */
struct upstream_check {
    struct upstream *upstream;
    struct redis_connection *connection;
    int sent, replied; /* commands; equal, but while it is under way */
};

/* Embedded in the cache; private to upstream.c. */
struct upstream {
    const struct cache_parts *parts; /* their catalogue is that of the connection in use */
    struct catalogue next_catalogue; /* checks that of the next connection */
    struct upstream_check current, next;
    bool was_ready; /* the connection in use was accepted once */
};

void upstream_init(struct upstream *u, const struct cache_parts *parts);

/* To be called when the session has been closed. */
void upstream_fini(struct upstream *u);

/* The handshake of a connection of the session is done. */
void upstream_check(struct upstream *u, struct redis_connection *connection);

/* A connection is in use. */
static inline void upstream_ready(struct upstream *u)
{
    u->was_ready = true;
}

#endif
