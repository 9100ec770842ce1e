/*
 * Discovery by Sentinels: the master of a name, or one of its replicas.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/discovery.h"

/* The largest answer of a Sentinel that is read: bytes, and elements of an array. */
enum { SENTINEL_ANSWER_MAX = 1024 * 1024, SENTINEL_ELEMENTS_MAX = 1024 };

extern const struct discovery_protocol sentinel_protocol;

/*
 * The reply to SENTINEL REPLICAS: those that are up and linked to their master, and those that are down. One
 * that cannot be read is left out. Returns NULL, or why there is no list. External for its unit test, as a
 * Sentinel sends only a few of the replies that it must withstand.
 */
const char *sentinel_read_replicas(const struct redis_reply *reply, struct discovery_answer *out);

#endif
