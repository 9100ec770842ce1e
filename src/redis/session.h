/*
 * A session with Redis: one connection (connection.h), and in a cluster what other nodes have to answer while
 * the slot migrates.
 *
 * A command is sent on the connection. Where Redis replies ASK, or a replica of a cluster replies that a key
 * does not exist, the session sends it again to the node that has the key, and passes that node's reply on:
 * its caller sees one reply, and learns from the origin that it did not come by the stream of invalidations.
 * MOVED and CLUSTERDOWN are a lost connection (discovery.h). So the replies of one origin come in the order
 * of the commands, and those of REDIS_ORIGIN_STREAM in stream order with the pushes.
 *
 * When the connection is lost, on_lost is called, and then the reply function of every pending command,
 * wherever it was sent.
 */
#ifndef REDIS_SESSION_H
#define REDIS_SESSION_H

#include "redis/connection.h"

struct redis_session;

/* Where a reply comes from. */
enum redis_origin {
    REDIS_ORIGIN_STREAM, /* this connection: Redis announces on it that the keys have changed, if it tracks */
    REDIS_ORIGIN_OTHER_NODE /* of whose changes this connection says nothing: not to be cached */
};

/* How a command is sent: a set of bits. */
enum redis_send {
    /* Redis is not to track the keys that it reads: they are not cached. */
    REDIS_SEND_UNTRACKED = 1,
    /*
     * Only a reply of this connection is of use: no other node is asked. Where one would have been, the reply
     * is that of this connection all the same, and its origin is REDIS_ORIGIN_OTHER_NODE.
     */
    REDIS_SEND_STREAM_ONLY = 2
};

/* As redis_connection_reply_fn; `origin` has no meaning without a reply. */
typedef void (*redis_reply_fn)(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* As redis_session_send(), for who does not know the session. */
typedef int (*redis_send_fn)(void *arg, struct span command, unsigned how, redis_reply_fn fn, void *fn_arg);

struct redis_session_options {
    struct redis_config *config;                /* its endpoint and TLS settings; takes a reference */
    struct redis_connection_options connection; /* without those; `arg` is that of on_redirect too */
    /* A command is sent to another node: what is read from now on may be newer than its reply. */
    void (*on_redirect)(void *arg);
};

/* Starts connecting. Owned by the caller (redis_session_close). Returns 0 or a negative errno. */
int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out) __attribute__((warn_unused_result));

/* Pending commands fail, on_lost is not called. `closed` is called from the loop when the memory is freed. */
void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg);

/*
 * Sends a command, which is copied; `fn` is called once, from the loop and never from here. Returns 0,
 * -ENOTCONN when commands cannot be sent, or -ENOMEM.
 */
int redis_session_send(struct redis_session *s, struct span command, unsigned how, redis_reply_fn fn,
                       void *arg) __attribute__((warn_unused_result));

/* Its connection, to be asked for its state; borrowed until redis_session_close. */
struct redis_connection *redis_session_connection(const struct redis_session *s);

#endif
