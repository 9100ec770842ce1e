/*
 * Blocking calls to Redis, for programs without a loop: a connection (connection.h) on a loop of its own,
 * which runs while a call waits. Pipelined, with a time limit on every wait.
 *
 * Commands are queued, and sent when the next reply is received. Replies come in the order of the commands.
 * The first failure (a lost connection, a timeout, no memory) is sticky, as a buffer's is: it leaves its
 * reason in redis_client_error(), and nil stands for every reply from then on. redis_client_connect begins
 * anew.
 */
#ifndef REDIS_CLIENT_H
#define REDIS_CLIENT_H

#include "redis/endpoint.h"
#include "redis/reply.h"

#include <stdarg.h>

struct redis_client;

/*
 * Makes a client that is not connected yet. `client_name` is borrowed while it lives. Owned by the caller
 * (redis_client_free). Returns 0 or -ENOMEM. Where libuv cannot report a lack of memory, the program ends
 * with a message.
 */
int redis_client_new(const char *client_name, struct redis_client **out) __attribute__((warn_unused_result));

/* NULL is allowed. */
void redis_client_free(struct redis_client *c);

/* Connects with these settings from now on. Takes ownership of one reference. */
void redis_client_use(struct redis_client *c, struct redis_config *config);

/* That of the settings in use, borrowed until others are. */
const struct redis_endpoint *redis_client_endpoint(const struct redis_client *c);

/*
 * Connects in place of any earlier connection. If Redis must be discovered, the servers that know it are
 * queried in turn until one leads to a master: the role in the URL does not apply, since a blocking program
 * writes. `limit_ms` is the time limit of the connection to one address with its handshake, and of each later
 * reply. Returns 0 or -EIO.
 */
int redis_client_connect(struct redis_client *c, int limit_ms) __attribute__((warn_unused_result));

/* The time limit of each later reply becomes this. After redis_client_connect. */
void redis_client_limit_replies(struct redis_client *c, int limit_ms);

/* Queues a command. When memory runs out, the next reply fails. */
void redis_client_send(struct redis_client *c, size_t count, const struct span *words);

/* Sends what is queued, as far as the kernel accepts it, without waiting for replies. Returns 0 or -EIO. */
int redis_client_flush(struct redis_client *c) __attribute__((warn_unused_result));

/*
 * The next reply, which may be an error, or nil after a failure. Borrowed until another reply is received or
 * c connects again.
 */
const struct redis_reply *redis_client_receive(struct redis_client *c);

/* 0, or -EIO after a failure. */
int redis_client_status(const struct redis_client *c);

/* Fails for a reason of the caller; after another failure the first one stays. Returns -EIO. */
int redis_client_fail(struct redis_client *c, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* The same, but replaces the reason of an earlier failure, which may be an argument. */
int redis_client_explain(struct redis_client *c, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* The reason of the last failure; borrowed until the next one. */
const char *redis_client_error(struct redis_client *c);

/* True when the connection itself has failed. Whether the last commands were executed is then unknown. */
bool redis_client_is_lost(const struct redis_client *c);

/*
 * True when redis_client_connect has failed for a permanent reason, such as a wrong password, a certificate
 * that one side rejects, or a server of another kind.
 */
bool redis_client_is_rejected(const struct redis_client *c);

#endif
