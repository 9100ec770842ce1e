/*
 * The protocol of the nodes of a Redis Cluster (locator.h): the master of the slot that holds all keys. Also
 * parses the errors by which a node says that it does not have the slot.
 *
 * The query is CLUSTER SLOTS: CLUSTER SHARDS needs Redis 7, and lists failed nodes as well. The ports are for
 * the kind of connection of the query. Replicas are not used, but can be queried.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/locator.h"

/*
 * The node that an error of the node at `from` names; `code` is "ASK " or "MOVED ". False, with *out
 * untouched, if it names none, and for any other reply.
 */
bool cluster_read_redirection(const struct redis_reply *error, struct span code,
                              const struct redis_address *from, struct redis_address *out);

/* True for an error because the slot is migrating, and some of the requested keys are not here. */
bool cluster_is_migrating(const struct redis_reply *error);

/* True for an error of a node that does not have the slot any more, or does not know its owner. */
bool cluster_is_left(const struct redis_reply *error);

#endif
