/*
 * The connection of a cache to Redis, and its move to other settings.
 *
 * The next connection is made beside the one in use and replaces it when it is ready: Redis has accepted the
 * new password and certificate, the role is right, the user may read what requests need, and there is a
 * catalogue. Until then the one in use stays, whatever becomes of the other, which tries again and again.
 * Cached entries belong to the connection on which they were read, so the cache is empty after the
 * replacement, as after a lost connection.
 *
 * Permissions are checked until a connection by the settings was ready once: a replica that starts without
 * them never becomes ready, so a rollout stops. One that has served is not stopped by a permission that is
 * taken away: it goes on serving what it may read.
 */
#ifndef CACHE_UPSTREAM_H
#define CACHE_UPSTREAM_H

#include "base/wait_group.h"
#include "cache/catalogue.h"
#include "model/keyspace.h"
#include "redis/endpoint.h"
#include "redis/session.h"

struct upstream_link;

/* Why a connection to a Redis without a catalogue is not used. */
#define UPSTREAM_NO_CATALOGUE "no catalogue: neither the index nor the set of API keys exists"

/* Why a connection is not used whose user may not read what requests need; what and the reply follow. */
#define UPSTREAM_NO_PERMISSION "no permission to read "

/* Embedded in the cache; private to upstream.c but for upstream_connection(). */
struct upstream {
    uv_loop_t *loop;
    struct redis_connection_options options; /* with the callbacks of the cache */
    const struct keyspace *keyspace;
    void (*on_replaced)(void *arg);
    void (*on_redirect)(void *arg);
    struct redis_connection *connection; /* the one in use */
    struct redis_config *config;         /* its settings; borrowed from the next */
    struct upstream_link *current;
    struct upstream_link *next; /* shall replace it; NULL: none */
    struct wait_group open_links;
};

/*
 * Starts connecting; takes a reference of `config`. `options` is copied; its endpoint and TLS settings are
 * ignored, and its callbacks are called for the connection in use alone. `on_replaced` is called before a
 * connection that is ready is closed for another: its pending commands fail, commands cannot be sent, and
 * then on_ready is called for the other. `on_redirect`: see redis_session_options. Returns 0 or a negative
 * errno; upstream_close is due after 0.
 */
int upstream_open(struct upstream *u, uv_loop_t *loop, const struct redis_connection_options *options,
                  const struct keyspace *keyspace, struct redis_config *config,
                  void (*on_replaced)(void *arg), void (*on_redirect)(void *arg))
    __attribute__((warn_unused_result));

/* `closed` is called from the loop, with the `arg` given here, when the memory has been freed. */
void upstream_close(struct upstream *u, void (*closed)(void *arg), void *arg);

/*
 * Moves to these settings, of which it takes a reference. Does nothing when they are in use, or are being
 * tried already. Returns 0 or a negative errno, and all stays as it is.
 */
int upstream_use(struct upstream *u, struct redis_config *config) __attribute__((warn_unused_result));

/* Sends a command by the session in use, as redis_session_send. */
int upstream_send(struct upstream *u, struct span command, unsigned how, redis_reply_fn fn, void *arg)
    __attribute__((warn_unused_result));

/* The number of the settings in use (redis_config_number). */
static inline uint64_t upstream_config_number(const struct upstream *u)
{
    return redis_config_number(u->config);
}

/* The settings in use; borrowed until the next on_ready. */
static inline struct redis_config *upstream_config(const struct upstream *u)
{
    return u->config;
}

/* The connection in use; borrowed until the next on_ready. */
static inline struct redis_connection *upstream_connection(const struct upstream *u)
{
    return u->connection;
}

#endif
