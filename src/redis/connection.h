/*
 * One connection to one server. It looks the name up, tries each address, does the handshake, and checks with
 * a heartbeat that the server is alive and its data current. It is lost once, for one reason, and never
 * connects again: session.h does that, with a new one.
 *
 * hiredis opens, reads and writes the socket. Its asynchronous API is not used: a connection must be closable
 * at any time, and no input from a server may fail an assertion.
 *
 * Replies come in the order of the commands. When the connection is lost, on_lost is called, and then the
 * reply function of every pending command, in order. Everything happens on the loop's thread.
 */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "base/metrics.h"
#include "base/wait_group.h"
#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"
#include "redis/resolver.h"
#include "redis/server.h"

#include <uv.h>

struct redis_connection;

/* Whether a failure may pass. */
enum redis_failure {
    REDIS_FAILURE_PASSING,  /* there is no connection, or no memory */
    REDIS_FAILURE_REFUSED,  /* an error reply, which is the reason */
    REDIS_FAILURE_REJECTED, /* a certificate, a permission, or a server of another kind */
    REDIS_FAILURE_INVALID   /* the input is not RESP3 */
};

enum redis_origin {
    REDIS_ORIGIN_STREAM, /* this connection: if it tracks, Redis announces changes of the keys on it */
    REDIS_ORIGIN_OUTSIDE /* outside of its stream (session.h): no change is announced here, so the reply is
                            not cached */
};

/*
 * `reply` is borrowed until the function returns. It is NULL when the connection was lost before the reply
 * arrived; `origin` then has no meaning. A reply that was too large is an error for which resp_is_oversize
 * (resp.h) is true.
 */
typedef void (*redis_reply_fn)(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* The keys whose invalidations are requested (CLIENT TRACKING). */
struct redis_tracking {
    enum redis_tracking_mode {
        REDIS_TRACKING_OFF,
        REDIS_TRACKING_KEYS,     /* keys that commands on this connection have read, until the first change */
        REDIS_TRACKING_BROADCAST /* all keys that begin with `prefix` and one of `names` */
    } mode;
    struct span prefix;       /* for REDIS_TRACKING_BROADCAST, as the two members below */
    const struct span *names; /* no name begins with another */
    size_t name_count;
};

/* What the connections of one client have in common. */
struct redis_shared {
    const char *client_name;              /* shown by CLIENT LIST; borrowed */
    struct redis_replication replication; /* what they have seen of replicas */
};

/* All pointers are borrowed while the connection lives. */
struct redis_connection_options {
    const struct redis_endpoint *endpoint; /* an address, not one that must be discovered */
    struct redis_shared *shared;
    struct wait_group *open; /* of the owner: the connection is one operation until its memory is freed */
    unsigned first_address;  /* the one that is tried first, modulo their number */
    uint64_t limit_ms;       /* the time limit of connection and handshake at one address */
    struct redis_metrics *metrics; /* of commands; NULL: they are not measured, and tracking is not wanted */
    bool queries_only;         /* no handshake behind INFO, which is sent for a certain role; no heartbeat */
    enum redis_role_kind role; /* that it must have; REDIS_ROLE_UNKNOWN: any that does not change */
    struct redis_tracking tracking;
    size_t bytes_max; /* the limit of a reply in place of RESP_BYTES_MAX; 0: that */
    /* The functions that follow may be NULL, where they do not say otherwise. */
    void (*on_address_failed)(void *arg, const char *why); /* the next one is tried */
    /* Commands can be sent, and the owner accepts or fails the connection within `limit_ms`. Not NULL. */
    void (*on_handshake_done)(void *arg);
    void (*on_ready)(void *arg);
    /* Commands cannot be sent any more. It must call redis_connection_close. Not NULL. */
    void (*on_lost)(void *arg, const char *why);
    /* The name leads elsewhere now. Repeated with each look-up. NULL: it is not looked up again. */
    void (*on_moved)(void *arg);
    void (*on_heartbeat)(void *arg); /* a PING was answered, while it is ready */
    /* Returns the reason against the role in a reply to INFO, or NULL. */
    const char *(*check_role)(void *arg, const struct redis_server *server, uint64_t sent_ms);
    /* Returns why the server cannot be used after this error, or NULL. The command then has no reply. */
    const char *(*check_error)(void *arg, const struct redis_reply *error);
    /* The name of one key of an invalidation, or another reply for all, in stream order; borrowed. */
    void (*on_invalidated)(void *arg, const struct redis_reply *key);
    void *arg; /* the argument of these functions */
};

enum {
    /* The longest look-up before the connection. Each name server that is down takes five seconds of it, and
     * once more for each search domain. */
    REDIS_CONNECTION_RESOLVE_MS = 30000,
    REDIS_CONNECTION_HEARTBEAT_MS = 1000,
    REDIS_CONNECTION_SILENCE_MAX = 2, /* heartbeats in a row without more of a reply that is due */
    REDIS_CONNECTION_WAITS_MAX = 10,  /* heartbeats within which it must be complete */
    /* Input that waits longer is a backlog: the server may have been blocked and hold back more. */
    REDIS_CONNECTION_BACKLOG_MS = 50,
    REDIS_CONNECTION_LOOK_UP_MS = 10000, /* the mean interval at which the name is looked up again */
    /* Answers in a row without the address in use, behind which a name has moved. */
    REDIS_CONNECTION_LOOK_UPS_MOVED = 3
};

/*
 * Starts connecting; no function is called before this returns. `options` is copied. Owned by the caller
 * (redis_connection_close). Returns 0 or -ENOMEM.
 */
int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out) __attribute__((warn_unused_result));

/* *at, which may be NULL, becomes NULL first. Pending commands fail; no other function is called. */
void redis_connection_close(struct redis_connection **at);

/* Makes the connection ready. Only after on_handshake_done, on the same connection. */
void redis_connection_accept(struct redis_connection *c);

/*
 * The server cannot be used. The next address is tried, if the connection was not ready yet and there is one;
 * otherwise the connection is lost. Only while commands can be sent.
 */
void redis_connection_fail(struct redis_connection *c, const char *why);

/* NULL is allowed in both. */
bool redis_connection_is_ready(const struct redis_connection *c);

/* True when commands can be sent: from on_handshake_done on, and while the connection is ready. */
bool redis_connection_is_usable(const struct redis_connection *c);

/* What is known of a connection, and of the attempts at its addresses. */
struct redis_status {
    int addresses;                      /* of the name; 0 before it was looked up */
    char address[RESOLVE_ADDRESS_SIZE]; /* the numeric one in use, or tried last; empty: a local socket, or
                                           none */
    enum redis_failure failure;         /* the kind of the last failure, of the connection or of an address */
    struct redis_server server;
    bool tracking; /* Redis has agreed to push invalidations */
    /* When the last answered PING was sent, by the boot clock. What Redis pushed before was delivered. */
    uint64_t last_pong_ms;
};

const struct redis_status *redis_connection_status(const struct redis_connection *c);

/*
 * The time of the boot clock before which, less REDIS_CONNECTION_BACKLOG_MS, everything that Redis had sent
 * has been delivered; 0: unknown. If the time is not after `at_ms`, the socket is checked with a system call,
 * but not read. Within a reply or push it is not, and more of them may follow. Only while it is ready.
 */
uint64_t redis_connection_drained_until_ms(struct redis_connection *c, uint64_t at_ms);

/*
 * Queues one command as command_begin and command_add (resp.h) make it; the command is copied. All commands
 * that are queued in one loop iteration are sent with one write. Returns 0, -ENOTCONN when commands cannot be
 * sent, or -ENOMEM. Redis tracks the keys of a read (REDIS_TRACKING_KEYS) unless `tracked` is false.
 */
int redis_connection_send(struct redis_connection *c, struct span command, bool tracked, redis_reply_fn fn,
                          void *arg) __attribute__((warn_unused_result));

#endif
