/*
 * What Sentinels say: commands and the shapes of their replies. What a Redis says of itself is in role.h.
 *
 * Nothing in a reply is believed for being there: whatever a server sends, of any type and length, either is
 * an address that can be connected to, or is refused with a reason in our own words.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "base/span.h"

#include <hiredis/hiredis.h>
#include <stdint.h>

enum { REDIS_HOST_SIZE = 256, SENTINEL_REPLICAS_MAX = 32 };

/* How long one Sentinel is waited for, in ms; and the most that an array in its answer may hold. */
enum { SENTINEL_TIMEOUT_MS = 500, SENTINEL_ELEMENTS_MAX = 1024 };

struct redis_address {
    char host[REDIS_HOST_SIZE]; /* a name or a numeric address: letters, digits and .:_- alone */
    int port;
};

struct sentinel_answer {
    struct redis_address master;
    struct redis_address replica[SENTINEL_REPLICAS_MAX]; /* the healthy ones; asked for only where wanted */
    struct redis_address down[SENTINEL_REPLICAS_MAX];    /* those that it calls down, or disconnected */
    int replicas, downs;
};

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b);

/* SENTINEL GET-MASTER-ADDR-BY-NAME. Returns NULL, or why there is no address. */
const char *sentinel_read_master(const redisReply *reply, struct redis_address *out);

/*
 * SENTINEL REPLICAS: those that Sentinel holds for up and linked to their master, and those that it holds for
 * down. One that cannot be read is left out. Returns NULL, or why there is no list.
 */
const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out);

/* --- of any reply --- */

/* The text of a reply; absent when it is none. Borrowed, as is the next. */
struct span redis_text(const redisReply *reply);

/* A member of an object, which comes as a map or as an array of names and values; absent when it has none. */
struct span redis_member(const redisReply *object, struct span name);
bool redis_is_object(const redisReply *reply);

/* False, with *out untouched, when it is not an address that can be connected to. */
bool redis_address_set(struct redis_address *out, struct span host, int64_t port);

#endif
