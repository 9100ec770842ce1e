/*
 * What Sentinels say, and what a Redis says of its own role: commands and the shapes of their replies.
 *
 * Nothing in a reply is believed for being there: whatever a server sends, of any type and length, either is
 * an address that can be connected to, or is refused with a reason in our own words.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "base/span.h"

#include <hiredis/hiredis.h>

enum { REDIS_HOST_SIZE = 256, SENTINEL_REPLICAS_MAX = 32 };

/* How long one Sentinel is waited for, in ms; and the most that an array in its answer may hold. */
enum { SENTINEL_PATIENCE_MS = 500, SENTINEL_ELEMENTS_MAX = 1024 };

struct redis_address {
    char host[REDIS_HOST_SIZE]; /* a name or a numeric address: letters, digits and .:_- alone */
    int port;
};

struct sentinel_answer {
    struct redis_address master;
    struct redis_address replica[SENTINEL_REPLICAS_MAX]; /* the healthy ones; asked for only where wanted */
    int replicas;
};

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b);

/* SENTINEL GET-MASTER-ADDR-BY-NAME. Returns NULL, or why there is no address. */
const char *sentinel_read_master(const redisReply *reply, struct redis_address *out);

/*
 * SENTINEL REPLICAS: those that Sentinel holds for up and linked to their master. One that cannot be read is
 * left out. Returns NULL, or why there is no list.
 */
const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out);

/* ROLE: NULL when it is a master, or, where `replica`, a replica whose link to its master is up; or why not.
 */
const char *redis_role_objection(const redisReply *reply, bool replica);

#endif
