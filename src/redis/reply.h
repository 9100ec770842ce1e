/*
 * Parsers for the replies to HELLO, ROLE, INFO replication, and to the queries of Sentinels.
 *
 * No part of a reply is trusted: a reply of any type and length is either parsed or rejected with a reason.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "redis/endpoint.h"
#include "redis/metrics.h"

#include <hiredis/hiredis.h>

/* True for an error reply that begins with `code`, such as "WRONGTYPE ". */
static inline bool reply_is_error(const redisReply *reply, struct span code)
{
    return reply->type == REDIS_REPLY_ERROR && span_starts_with((struct span){reply->str, reply->len}, code);
}

/* True when the error says that the command is not available: an ACL forbids it, or the server lacks it. */
bool reply_is_denied(const redisReply *error);

/*
 * The reply to HELLO. Returns NULL when the server queues invalidations behind older replies, or the reason
 * against it. Redis does since 7.0.5, servers of another name (Valkey) in every version.
 */
const char *reply_check_hello(const redisReply *reply);

struct redis_role {
    enum redis_role_kind kind;
    bool linked;                 /* a replica's link to its master is up */
    struct redis_address master; /* the master of a replica; port 0 where that was not understood */
};

/* The reply to ROLE. Returns NULL, or why it was not understood. */
const char *reply_read_role(const redisReply *reply, struct redis_role *out);

/*
 * A master sends a PING to its replicas every `repl-ping-replica-period` seconds, by default 10. A replica
 * that has received nothing for longer than this, in seconds, has lost its master, whatever it reports about
 * the link. Five seconds are added for a busy master.
 */
enum { REDIS_MASTER_LAST_IO_MAX_S = 15 };

/*
 * A replica's reply to INFO replication. Returns NULL when the link to its master is up, and *last_io_s is
 * then the time in seconds since the master last sent something, rounded; or the reason why it is not.
 */
const char *reply_read_link(const redisReply *reply, int64_t *last_io_s);

enum { SENTINEL_REPLICAS_MAX = 32 };

/* The timeout of the look-up of a Sentinel, and of its connection and answer, in milliseconds. */
enum { SENTINEL_TIMEOUT_MS = 500 };

/* The largest answer of a Sentinel that is read: bytes, and elements of an array. */
enum { SENTINEL_ANSWER_MAX = 1024 * 1024, SENTINEL_ELEMENTS_MAX = 1024 };

struct sentinel_answer {
    struct redis_address master;
    struct redis_address replica[SENTINEL_REPLICAS_MAX]; /* healthy ones */
    struct redis_address down[SENTINEL_REPLICAS_MAX];    /* those that are down or disconnected */
    int replicas, downs;
};

/* The reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Returns NULL, or why there is no address. */
const char *reply_read_master(const redisReply *reply, struct redis_address *out);

/*
 * The reply to SENTINEL REPLICAS: those that are up and linked to their master, and those that are down. One
 * that cannot be read is left out. Returns NULL, or why there is no list.
 */
const char *reply_read_replicas(const redisReply *reply, struct sentinel_answer *out);

#endif
