/*
 * Blocking calls to Redis, for programs without a loop: a connection (connection.h) on a loop of its own,
 * which runs while a call waits. Pipelined, with a time limit on every wait.
 *
 * Commands are queued, and sent when the next reply is received. Replies come in the order of the commands.
 * What fails leaves its reason in redis_client_error().
 */
#ifndef REDIS_CLIENT_H
#define REDIS_CLIENT_H

#include "redis/endpoint.h"
#include "redis/reply.h"

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
 * writes. `limit_ms` is the time limit of the connection to one address with its handshake. Returns 0 or
 * -EIO.
 */
int redis_client_connect(struct redis_client *c, int limit_ms) __attribute__((warn_unused_result));

/* Queues a command; on a connection that is lost it does nothing. */
void redis_client_send(struct redis_client *c, size_t count, const struct span *words);

/*
 * The next reply, which may be an error. Borrowed until another one is received or c connects again. NULL if
 * it cannot be had: the connection is lost, no reply has come in time, which ends the connection, or the keys
 * of the command are migrating to another node.
 */
const struct redis_reply *redis_client_receive(struct redis_client *c, int limit_ms);

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
