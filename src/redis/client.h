/*
 * A blocking connection to Redis, for programs without a loop: pipelined, with a time limit on every wait.
 *
 * Commands are queued, and sent when the next reply is received. Replies come in the order of the commands.
 * The first failure (a lost connection, a timeout, no memory) leaves its reason in redis_client_error().
 * After it the connection cannot be used any more; redis_client_connect makes another one.
 */
#ifndef REDIS_CLIENT_H
#define REDIS_CLIENT_H

#include "redis/endpoint.h"
#include "redis/reply.h"

struct redis_client;
struct ssl_ctx_st;

/* The time limits of connecting and then of each reply, in milliseconds. */
struct redis_client_limits {
    int connect_ms, reply_ms;
};

/*
 * Makes a client that is not connected yet. `endpoint`, `tls` (NULL without TLS) and `client_name` are
 * borrowed while it lives. Owned by the caller (redis_client_free). Returns 0 or -ENOMEM.
 */
int redis_client_new(const struct redis_endpoint *endpoint, struct ssl_ctx_st *tls, const char *client_name,
                     struct redis_client **out) __attribute__((warn_unused_result));

/* NULL is allowed. */
void redis_client_free(struct redis_client *c);

/*
 * Connects in place of any earlier connection, authenticates and selects the database. If Redis must be
 * discovered, the servers that know it are queried in turn, and the first address that leads to a master is
 * used. All addresses of a name are tried in turn, too. The role in the URL does not apply, since a blocking
 * program writes. Returns 0 or -EIO.
 */
int redis_client_connect(struct redis_client *c, const struct redis_client_limits *limits)
    __attribute__((warn_unused_result));

/* Connects by a socket that is already connected, without a handshake. Takes ownership of `fd`. */
int redis_client_connect_fd(struct redis_client *c, int fd, const struct redis_client_limits *limits)
    __attribute__((warn_unused_result));

/* Queues a command. When memory runs out, the next reply fails. */
void redis_client_send(struct redis_client *c, size_t count, const struct span *words);

/* Sends what is queued without waiting for replies. Returns 0 or -EIO. */
int redis_client_flush(struct redis_client *c) __attribute__((warn_unused_result));

/*
 * The next reply, which may be an error. Borrowed until another reply is received or c connects again. NULL
 * after a failure.
 */
const struct redis_reply *redis_client_receive(struct redis_client *c) __attribute__((warn_unused_result));

/* How many replies are still to come. */
size_t redis_client_pending(const struct redis_client *c);

/* True when the connection itself has failed. Whether the last commands were executed is then unknown. */
bool redis_client_is_lost(const struct redis_client *c);

/*
 * True when redis_client_connect has failed for a permanent reason. Examples are a wrong password, a missing
 * permission, a certificate that one side rejects, a server of another kind. False for a server that cannot
 * be reached, or does not execute commands yet.
 */
bool redis_client_is_rejected(const struct redis_client *c);

/* Limits the time of each later reply, in milliseconds. The client must be connected. Returns 0 or -EIO. */
int redis_client_limit_replies(struct redis_client *c, int reply_ms) __attribute__((warn_unused_result));

/* The reason of the last failure; borrowed until the next one. */
const char *redis_client_error(struct redis_client *c);

#endif
