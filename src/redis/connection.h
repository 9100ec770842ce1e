/*
 * A persistent connection to Redis. It connects, does the handshake, and checks with a heartbeat that Redis
 * is alive and its data current. It reconnects by itself.
 *
 * It uses a non-blocking hiredis context that libuv polls (socket.h), not the asynchronous API of hiredis,
 * for three reasons. Replies and pushes are needed in strict stream order. A connection must be closable at
 * any time. No input from a server may fail an assertion.
 *
 * Replies come in the order of the commands. When the connection is lost, on_lost is called, and then the
 * reply function of every pending command, in order. Everything happens on the loop's thread.
 */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "base/metrics.h"
#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"

#include <uv.h>

struct redis_connection;
struct redis_replication;
struct ssl_ctx_st;

/* The origin of a reply. */
enum redis_origin {
    REDIS_ORIGIN_STREAM, /* this connection: if it tracks, Redis announces changes of the keys on it */
    REDIS_ORIGIN_OUTSIDE /* outside of its stream (session.h): no change is announced here, so the reply is
                            not cached */
};

/*
 * `reply` is borrowed until the function returns. It is NULL when the connection was lost before the reply
 * arrived; `origin` then has no meaning. A reply that was too large, or did not end in time, is an error for
 * which resp_is_oversize (resp.h) is true.
 */
typedef void (*redis_reply_fn)(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* The keys whose invalidations are requested (CLIENT TRACKING). */
enum redis_tracking {
    REDIS_TRACKING_OFF,
    REDIS_TRACKING_KEYS,     /* keys that commands on this connection have read, until the first change */
    REDIS_TRACKING_BROADCAST /* all keys that begin with tracking_prefix and one of tracking_names */
};

struct redis_connection_options {
    const struct redis_endpoint
        *endpoint;           /* may have to be discovered; borrowed while it lives, as all pointers */
    struct ssl_ctx_st *tls;  /* NULL without TLS */
    const char *client_name; /* shown by CLIENT LIST */
    struct redis_metrics *metrics;
    struct loop_lag *loop_lag;             /* the lag of the loop on which it lives */
    struct redis_replication *replication; /* of the Redis; connections to it share what they have seen */
    /*
     * The handshake is complete and commands can be sent. The owner checks the data of this Redis and calls
     * redis_connection_accept or redis_connection_fail before the timeout of the connection attempt. NULL:
     * any Redis is accepted.
     */
    void (*on_handshake_done)(void *arg);
    void (*on_ready)(void *arg); /* commands can be sent */
    /*
     * Commands cannot be sent; called before the pending ones fail. Not ready: an attempt has failed. May be
     * NULL.
     */
    void (*on_lost)(void *arg, bool was_ready);
    /*
     * The name of the Redis in use, or of the server that has found it, leads elsewhere (name_watch.h): a new
     * connection would be another one. NULL: names are not looked up again.
     */
    void (*on_moved)(void *arg);
    void *state_arg;                 /* the argument of these functions */
    void (*on_heartbeat)(void *arg); /* a PING was answered, while it is ready; may be NULL, as on_push */
    /*
     * How long, in milliseconds, but at most 5 s, a replica may be used that follows another master than the
     * one that is named.
     */
    uint64_t stale_limit_ms;
    enum redis_tracking tracking;
    struct span tracking_prefix;       /* for REDIS_TRACKING_BROADCAST, as the two members below */
    const struct span *tracking_names; /* no name begins with another */
    size_t tracking_name_count;
    /* One element of a push (resp.h), as it arrives, in stream order with the replies; borrowed. */
    void (*on_push)(void *arg, struct span kind, const struct redis_reply *element);
    void *arg; /* the argument of on_heartbeat and on_push */
};

/*
 * The time limit to resolve a name, and to connect with the handshake to one address, in milliseconds. When
 * as many attempts have reached it as there are servers, and addresses of each, it doubles, and later once
 * more: a Redis to which all connect at once, or which is far away, may need longer, and so may name servers.
 */
enum { REDIS_CONNECTION_CONNECT_TIMEOUT_MS = 2000, REDIS_CONNECTION_CONNECT_TIMEOUT_MAX_MS = 8000 };

/* The first and the longest pause between attempts, in milliseconds; it doubles, with jitter. */
enum { REDIS_CONNECTION_BACKOFF_MIN_MS = 50, REDIS_CONNECTION_BACKOFF_MAX_MS = 1000 };

/*
 *   - HEARTBEAT_MS: the interval of PING
 *   - REPLY_TIMEOUT_MS: the longest wait for a reply, or for more of it, before the connection counts as lost
 *   - SECOND_LOOK_MS: the time after a timeout, before the connection is given up. It is a round trip, for
 *     commands that a stopped process had queued and not written yet
 *   - REPLY_HEARTBEATS_MAX: the number of heartbeats within which a reply must be complete
 */
enum {
    REDIS_CONNECTION_HEARTBEAT_MS = 1000,
    REDIS_CONNECTION_REPLY_TIMEOUT_MS = 2000,
    REDIS_CONNECTION_SECOND_LOOK_MS = 200,
    REDIS_CONNECTION_REPLY_HEARTBEATS_MAX = 10
};

/* Starts connecting. `options` is copied. Owned by the caller (redis_connection_close). Returns 0 or a
 * negative errno. */
int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out) __attribute__((warn_unused_result));

/*
 * Closes the connection for good. Pending commands fail; on_lost is not called. `closed` is called from the
 * loop when the memory has been freed.
 */
void redis_connection_close(struct redis_connection *c, void (*closed)(void *arg), void *arg);

/* Makes the connection ready. Only after on_handshake_done, on the same connection. */
void redis_connection_accept(struct redis_connection *c);

/*
 * Closes the connection, or ends the attempt, for a reason that is logged. Pending commands fail, and a new
 * attempt is scheduled. Only after on_handshake_done, on the same connection.
 */
void redis_connection_fail(struct redis_connection *c, const char *why);

/* Looks the names in use up now; one answer decides whether they have moved. */
void redis_connection_look_up(struct redis_connection *c);

bool redis_connection_is_ready(const struct redis_connection *c);

/* True when commands can be sent: from on_handshake_done on, and while the connection is ready. */
bool redis_connection_is_usable(const struct redis_connection *c);

/*
 * Finds the node of a cluster that has the right reply in place of `reply`. An ASK error names the node. If a
 * replica replies that a key does not exist, the node is its master, as a replica does not reply ASK. False
 * when `reply` is the right one.
 */
bool redis_connection_elsewhere(const struct redis_connection *c, const struct redis_reply *reply,
                                struct redis_address *node);

/* True while the connection is ready and Redis has agreed to push invalidations on it. */
bool redis_connection_is_tracking(const struct redis_connection *c);

/*
 * The time of the boot clock before which, less REDIS_SOCKET_BACKLOG_MS, everything that Redis had sent has
 * been delivered; 0: unknown. At that time the socket was drained. Behind a backlog a PING was also answered,
 * which proves that Redis held nothing back. If the time is not after `at_ms`, the socket is checked. Only
 * while the connection is ready.
 */
uint64_t redis_connection_drained_until_ms(struct redis_connection *c, uint64_t at_ms);

/*
 * When the last answered PING was sent, in milliseconds of the boot clock (clock.h). Whatever Redis pushed
 * before then has been delivered.
 */
uint64_t redis_connection_last_pong_ms(const struct redis_connection *c);

/*
 * Until when the data of this Redis was known to be valid, in milliseconds of the boot clock; UINT64_MAX
 * while it is. For a replica that lost its master this is the last transfer from the master. For a server
 * whose role has changed it is the last heartbeat before the change. Used in on_lost: stale limits count from
 * this time.
 */
uint64_t redis_connection_valid_until_ms(const struct redis_connection *c);

/*
 * Queues one command as command_begin and command_add (resp.h) make it; the command is copied. All commands
 * that are queued in one loop iteration are sent with one write. Returns 0, -ENOTCONN when commands cannot be
 * sent, or -ENOMEM.
 */
int redis_connection_send_command(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                  void *arg) __attribute__((warn_unused_result));

/* The same for a read whose invalidation is not needed: Redis does not track its key (CLIENT CACHING). */
int redis_connection_send_untracked(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                    void *arg) __attribute__((warn_unused_result));

#endif
