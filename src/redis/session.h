/*
 * A session with Redis: the connection in use (connection.h) and the change to other settings. In a cluster
 * also the replies of other nodes while the slot migrates.
 *
 * A command is sent on the connection in use. If Redis replies ASK, or a replica of a cluster replies that a
 * key does not exist, another node has the right reply. The session sends the command to that node and passes
 * on its reply. The caller gets one reply. Its origin says that it came from outside of the stream of
 * invalidations. MOVED and CLUSTERDOWN count as a lost connection (discovery.h). So the replies of one origin
 * come in the order of the commands, and those of REDIS_ORIGIN_STREAM in stream order with the pushes.
 *
 * When the connection is lost, on_lost is called, and then the reply function of every pending command, on
 * whichever connection it was sent.
 *
 * With other settings the next connection is made beside the one in use. It replaces that one when its owner
 * has accepted it: Redis has accepted the new password and certificate, and role and data are right. Until
 * then the connection in use stays, and the next one keeps retrying. The same happens with the same settings
 * when a name has moved (name_watch.h). on_lost, on_heartbeat, on_push and
 * on_outside_read concern only the connection in use.
 */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "redis/connection.h"

struct redis_session;

/* How a command is sent: a set of bits. */
enum redis_send {
    /* Redis need not track the keys that it reads: they are not cached. */
    REDIS_SEND_UNTRACKED = 1,
    /*
     * Only a reply of this connection can be used, so the command is not sent to another node. If another
     * node has the right reply, `fn` gets the reply of this connection with the origin REDIS_ORIGIN_OUTSIDE.
     */
    REDIS_SEND_STREAM_ONLY = 2,
    /* The command is sent on the next connection, whose owner checks that Redis after the handshake. */
    REDIS_SEND_NEXT = 4
};

struct redis_session_options {
    /* Without settings, `replication`, on_handshake_done and on_lost; `arg` is for all. */
    struct redis_connection_options connection;
    void (*on_lost)(void *arg); /* the connection in use was ready, and is lost */
    /* Like the function of a connection, for the one in use and the next. */
    void (*on_handshake_done)(void *arg, struct redis_connection *c);
    /*
     * The connection in use, ready or not, is about to be closed for the next one. Its pending commands fail,
     * commands cannot be sent, and then on_ready is called for the next connection.
     */
    void (*on_replaced)(void *arg);
    /* A command is sent outside of the stream: later reads may be newer than its reply. */
    void (*on_outside_read)(void *arg);
};

/* `options` is copied. Owned by the caller (redis_session_close). Returns 0 or -ENOMEM. */
int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out) __attribute__((warn_unused_result));

/*
 * Pending commands fail; on_lost is not called. `closed` is called when the memory has been freed: from the
 * loop, or before this returns if no settings were ever used.
 */
void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg);

/*
 * Connects with these settings, or changes to them; takes a reference. Does nothing if they are in use or
 * being tried already. Returns 0, or a negative errno if nothing has changed.
 */
int redis_session_use(struct redis_session *s, struct redis_config *config)
    __attribute__((warn_unused_result));

/* Looks the names in use up now, instead of within some seconds. Only after redis_session_use. */
void redis_session_look_up(struct redis_session *s);

/*
 * Sends a command, which is copied. `fn` is called once, from the loop and never from this function. Returns
 * 0, -ENOTCONN when commands cannot be sent, or -ENOMEM.
 */
int redis_session_send(struct redis_session *s, struct span command, unsigned how, redis_reply_fn fn,
                       void *arg) __attribute__((warn_unused_result));

/* The number of commands that are sent outside of the stream, whose replies are due. */
unsigned redis_session_commands_outside(const struct redis_session *s);

/*
 * Whether the connection in use announces that a key has come to exist which was absent when a command read
 * it. A cluster does not: the slot may begin to migrate at any time. The key then comes to exist on a node
 * that sends no invalidation here.
 */
bool redis_session_tracks_absences(const struct redis_session *s);

/* The words of log messages for a connection that does not. */
#define REDIS_SESSION_ABSENCES_UNTRACKED "in a cluster"

/* The connection in use, and its settings; both borrowed until the next on_ready. */
struct redis_connection *redis_session_connection(const struct redis_session *s);
struct redis_config *redis_session_config(const struct redis_session *s);

#endif
