/*
 * What a Redis says of itself: its version (HELLO), its role (ROLE) and, on a replica, its link to the master
 * (INFO replication).
 *
 * Nothing in a reply is believed for being there: of whatever type and length it is, it is either understood
 * or refused with a reason in our own words.
 */
#ifndef REDIS_ROLE_H
#define REDIS_ROLE_H

#include "redis/metrics.h"
#include "redis/sentinel.h"

/*
 * A master sends a PING to its replicas every `repl-ping-replica-period` seconds, by default 10. A replica
 * that has heard nothing for longer than this, in seconds, has lost its master, whatever it says of the link:
 * five seconds more, for a master that is busy.
 */
enum { REDIS_MASTER_SILENCE_MAX_S = 15 };

struct redis_role {
    enum redis_role_kind kind;
    bool linked;                 /* a replica's link to its master is up */
    struct redis_address master; /* whom a replica replicates; port 0 where that was not understood */
};

/* The link of a replica to its master, as INFO replication tells of it. */
struct redis_link {
    bool up;          /* and no synchronisation is under way */
    int64_t silent_s; /* seconds since the master last sent something; rounded, so up to one second off */
};

/*
 * The reply to HELLO: NULL when this server queues invalidations behind the replies that are older, or why it
 * is not known to. Redis does since 7.0.5; servers of another name (Valkey) came later.
 */
const char *redis_hello_check(const redisReply *reply);

/* The reply to ROLE. Returns NULL, or why it was not understood. */
const char *redis_read_role(const redisReply *reply, struct redis_role *out);

/* The same reply: NULL when it is a master, or, where `replica`, a replica whose link to its master is up; or
 * why not. */
const char *redis_role_check(const redisReply *reply, bool replica);

/* The reply to INFO replication of a replica. Returns NULL, or why it was not understood. */
const char *redis_read_link(const redisReply *reply, struct redis_link *out);

/* NULL when the replica hears its master, or why not. */
const char *redis_link_check(const struct redis_link *link);

/* True when the error says that this command is not for us: an ACL forbids it, or the server has none. */
bool redis_is_denied(const redisReply *error);

#endif
