/*
 * The checks of a Redis: that the user may read what requests need, and that there is a catalogue. Both are
 * made before a connection is accepted, on the one in use and on the next one, which is to replace it
 * (session.h).
 *
 * Permissions are checked on each next connection, and on the one in use until it was ready once. A replica
 * that starts without them never becomes ready, so a rollout stops. A process that has served goes on when a
 * permission is removed: it serves what it may still read.
 *
 * A Redis with neither an index nor a set of API keys was flushed, or started without its data. Its "not
 * found" must not be believed. The check of the catalogue is SCARD of the set and ZCARD of the index, in one
 * write, sent once more if everything was invalidated meanwhile. Of the connection in use it is repeated with
 * each heartbeat, and for results that say that something does not exist.
 *
 * Invariant: on each connection at most one check of the catalogue is in flight. Replies come in the order of
 * the commands, so it was sent after every command that has been answered, and serves all results that need
 * it.
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

/* SCARD of the set of API keys and ZCARD of the index, in one write: whether Redis has a catalogue. */
struct probe {
    struct upstream *upstream;
    void (*done)(struct probe *probe);
    unsigned due; /* replies; 0: it is not in flight */
    bool is_lost; /* a reply was */
    enum catalogue_key {
        CATALOGUE_KEY_UNKNOWN,
        CATALOGUE_KEY_FORBIDDEN,
        CATALOGUE_KEY_ABSENT,
        CATALOGUE_KEY_PRESENT
    } keys,
        index;
    int64_t index_size;         /* -1: not known */
    uint64_t flushes;           /* stream.flushes when it was sent */
    enum catalogue_state state; /* at its end */
};

/* The checks on one connection. All their commands are sent in one write. */
struct upstream_check {
    struct upstream *upstream;
    struct redis_connection *connection;
    struct upstream_read { /* a command that the user must be permitted */
        const struct upstream_check *check;
        const char *what; /* it reads */
    } reads[6];
    struct probe probe; /* the check of the catalogue */
    uint64_t began_ms;  /* when that last began, by the boot clock */
};

/* Embedded in the cache; private to upstream.c. */
struct upstream {
    const struct cache_parts *parts;
    struct upstream_check current, next;
    bool was_ready;        /* a connection in use was accepted once */
    bool eviction_checked; /* its policy was read, or is being read */
    bool forbidden_logged; /* a log line has said that the ACL denies the check of the catalogue */
};

/* Sends a probe; `done` is called when its replies have arrived. If nothing can be sent, `due` is 0. */
void probe_send(struct probe *p, struct upstream *upstream, void (*done)(struct probe *probe));

void upstream_init(struct upstream *u, const struct cache_parts *parts);

/* The handshake of a connection of the session is done. */
void upstream_check(struct upstream *u, struct redis_connection *connection);

/*
 * Begins a check of the catalogue on the connection in use. If one is in flight it suffices. Its end is one
 * event, parts.catalogue_checked, possibly before this returns.
 */
void upstream_check_catalogue(struct upstream *u);

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
