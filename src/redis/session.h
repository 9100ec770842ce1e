/*
 * A session with a Redis: the connection in use, and the one that is to replace it. It finds the server
 * (locator.h), selects it, and connects again whenever the connection is lost.
 *
 * The next connection is made in addition to the one in use: with new settings, when a name has moved, and
 * when the master has stood in for the replicas for a while. It comes into use once its owner has accepted
 * it, and a replica when it has stayed in addition.
 *
 * In a cluster, commands that another node must execute are sent there.
 *
 * on_lost, on_heartbeat, on_invalidated and on_outside_read concern only the connection in use. Everything
 * happens on the loop's thread.
 */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "redis/connection.h"

struct redis_session;

/* The time limit to connect to one address, with the handshake. It doubles when it is reached everywhere. */
enum { REDIS_SESSION_LIMIT_MS = 2000, REDIS_SESSION_LIMIT_MAX_MS = 8000 };

/* The first and the longest pause between attempts; it doubles, with jitter. */
enum { REDIS_SESSION_BACKOFF_MIN_MS = 50, REDIS_SESSION_BACKOFF_MAX_MS = 1000 };

/* A connection that was ready for this time has stayed. Failures in a row are counted until then. */
enum { REDIS_SESSION_STAYED_MS = 30000 };

/* The longest pause before the next replica is tried while the master stands in; half of it is random. */
enum { REDIS_SESSION_TRIAL_MS = 30000 };

/* How a command is sent: a set of bits. */
enum redis_send {
    /* Redis need not track the keys that it reads: they are not cached. */
    REDIS_SEND_UNTRACKED = 1,
    /*
     * The command is not sent to another node. If that has the right reply, `fn` gets the reply of this
     * connection with the origin REDIS_ORIGIN_OUTSIDE.
     */
    REDIS_SEND_STREAM_ONLY = 2,
    /* The command is sent on the next connection, whose owner checks that Redis after the handshake. */
    REDIS_SEND_NEXT = 4
};

/* All pointers are borrowed while the session lives. */
struct redis_session_options {
    const char *client_name;       /* shown by CLIENT LIST */
    struct redis_metrics *metrics; /* of this session alone */
    uint64_t stale_limit_ms; /* a replica of another master than the named one is used as long, or for 5 s */
    struct redis_tracking tracking;
    /* As in connection.h, of the connection in use or of the next one. */
    void (*on_handshake_done)(void *arg, struct redis_connection *c);
    void (*on_ready)(void *arg); /* commands can be sent on the connection in use */
    void (*on_lost)(void *arg);  /* it was ready, and is lost; called before pending commands fail */
    /*
     * The connection in use, ready or not, is about to be closed for the next one. Its pending commands fail,
     * commands cannot be sent, and then on_ready is called for the next connection.
     */
    void (*on_replaced)(void *arg);
    /* A command is sent outside of the stream: later reads may be newer than its reply. */
    void (*on_outside_read)(void *arg);
    void (*on_heartbeat)(void *arg);                                  /* see connection.h */
    void (*on_invalidated)(void *arg, const struct redis_reply *key); /* see connection.h */
    void *arg;                                                        /* the argument of these functions */
};

/*
 * Connects with these settings, to which it takes a reference. `options` is copied. Owned by the caller
 * (redis_session_close). Returns 0 or -ENOMEM.
 */
int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_config *config, struct redis_session **out)
    __attribute__((warn_unused_result));

/* Pending commands fail; on_lost is not called. `closed` is called when the memory was freed. */
void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg);

/*
 * Changes to these settings, and takes a reference. Does nothing if they are in use or being tried already.
 * Returns 0, or -ENOMEM if nothing has changed.
 */
int redis_session_use(struct redis_session *s, struct redis_config *config)
    __attribute__((warn_unused_result));

/*
 * Sends a command (resp.h), which is copied. `fn` is called once, from the loop and never from this function.
 * Returns 0, -ENOTCONN when commands cannot be sent, or -ENOMEM, also if the buffer is in error.
 */
int redis_session_send(struct redis_session *s, const struct buf *command, unsigned how, redis_reply_fn fn,
                       void *arg) __attribute__((warn_unused_result));

/* The number of commands that are sent outside of the stream, whose replies are pending. */
unsigned redis_session_commands_outside(const struct redis_session *s);

/* Whether the connection in use announces that a key has come to exist which was absent when it was read. */
bool redis_session_tracks_absences(const struct redis_session *s);

/* The words of log messages for a connection that does not. */
#define REDIS_SESSION_ABSENCES_UNTRACKED "in a cluster"

/* The connection in use, which may not be ready; NULL between two attempts. Borrowed. */
struct redis_connection *redis_session_connection(const struct redis_session *s);

/* The settings in use; borrowed until the next on_ready. */
struct redis_config *redis_session_config(const struct redis_session *s);

/*
 * Until when, by the boot clock, the data of this Redis was known to be valid; UINT64_MAX while it is. Used
 * in on_lost: stale limits count from this time.
 */
uint64_t redis_session_valid_until_ms(const struct redis_session *s);

#endif
