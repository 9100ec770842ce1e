/*
 * A session with Redis: the connection in use (connection.h), in a cluster what other nodes have to reply
 * while the slot migrates, and the move to other settings.
 *
 * A command is sent on the connection in use. Where Redis replies ASK, or a replica of a cluster replies that
 * a key does not exist, the session sends it again to the node that has the key, and passes that node's reply
 * on: its caller sees one reply, and learns from the origin that it came from outside of the stream of
 * invalidations. MOVED and CLUSTERDOWN are a lost connection (discovery.h). So the replies of one origin come
 * in the order of the commands, and those of REDIS_ORIGIN_STREAM in stream order with the pushes.
 *
 * When the connection is lost, on_lost is called, and then the reply function of every pending command,
 * wherever it was sent.
 *
 * With other settings the next connection is made beside the one in use. It replaces that one when its owner
 * has accepted it: Redis has accepted the new password and certificate, the role is right, and so is the
 * data. Until then the one in use stays, and the next one keeps retrying. on_lost, on_heartbeat, on_push and
 * on_outside_read are about the connection in use alone.
 */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "redis/connection.h"

struct redis_session;

/* How a command is sent: a set of bits. */
enum redis_send {
    /* Redis is not to track the keys that it reads: they are not cached. */
    REDIS_SEND_UNTRACKED = 1,
    /*
     * Only a reply of this connection is of use: no other node is asked. Where one would have been, the reply
     * is that of this connection all the same, and its origin is REDIS_ORIGIN_OUTSIDE.
     */
    REDIS_SEND_STREAM_ONLY = 2,
    /* It is sent on the next connection, whose owner checks that Redis after the handshake. */
    REDIS_SEND_NEXT = 4
};

struct redis_session_options {
    struct redis_connection_options connection; /* without settings and on_handshake_done; `arg` is for all */
    /* As the function of a connection, for the one in use and the next. */
    void (*on_handshake_done)(void *arg, struct redis_connection *c);
    /*
     * A connection that is ready is about to be closed for the next: its pending commands fail, commands
     * cannot be sent, and then on_ready is called for the other.
     */
    void (*on_replaced)(void *arg);
    /* A command is sent outside of the stream: what is read from now on may be newer than its reply. */
    void (*on_outside_read)(void *arg);
};

/* `options` is copied. Owned by the caller (redis_session_close). Returns 0 or -ENOMEM. */
int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out) __attribute__((warn_unused_result));

/*
 * Pending commands fail, on_lost is not called. `closed` is called when the memory is freed: from the loop,
 * or before this returns if no settings were ever used.
 */
void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg);

/*
 * Connects by these settings, or moves to them; takes a reference. Does nothing when they are in use, or are
 * being tried already. Returns 0 or a negative errno, and all stays as it is.
 */
int redis_session_use(struct redis_session *s, struct redis_config *config)
    __attribute__((warn_unused_result));

/*
 * Sends a command, which is copied; `fn` is called once, from the loop and never from here. Returns 0,
 * -ENOTCONN when commands cannot be sent, or -ENOMEM.
 */
int redis_session_send(struct redis_session *s, struct span command, unsigned how, redis_reply_fn fn,
                       void *arg) __attribute__((warn_unused_result));

/*
 * Whether the connection in use announces that something has come to exist which was absent when a command
 * read it. Not in a cluster: the slot may begin to migrate at any time, and then it comes to exist on a node
 * that sends no invalidation here.
 */
bool redis_session_tracks_absences(const struct redis_session *s);

/* A connection that does not, as messages put it. */
#define REDIS_SESSION_ABSENCES_UNTRACKED "in a cluster"

/* The connection in use, and its settings; both borrowed until the next on_ready. */
struct redis_connection *redis_session_connection(const struct redis_session *s);
struct redis_config *redis_session_config(const struct redis_session *s);

#endif
