/*
 * The server of a connection, as its replies describe it: its version (HELLO), its role, and for a replica
 * whether its data is current (INFO replication).
 *
 * A replica that has lost its master still answers, and the role of a server may change. So a connection
 * repeats INFO with every heartbeat. If an ACL denies INFO, it is left out.
 *
 * No part of a reply is trusted: a reply of any type and length is either parsed or rejected with a reason.
 */
#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"

/*
 * Checks the reply to HELLO: the reason why the server does not queue invalidations behind older replies, or
 * NULL. Redis does so since 7.0.5, and servers of another name (Valkey) in every version.
 */
const char *redis_server_check_hello(const struct redis_reply *reply);

/* Checks by the same reply whether it is a node of a cluster. Returns NULL if that is as wanted, or not
 * known. */
const char *redis_server_check_mode(const struct redis_reply *reply, bool cluster);

/* True for the text of an error that passes: of a server that loads its data, for example. */
bool redis_server_is_unavailable(struct span error);

struct redis_role {
    enum redis_role_kind kind;
    struct redis_address master; /* the master of a replica; port 0 if it could not be parsed */
};

/*
 * A replica that has received nothing for longer has lost its master, whatever it reports about the link. By
 * default a master sends a PING every ten seconds (repl-ping-replica-period).
 */
enum { REDIS_MASTER_SILENCE_MAX_S = 15 };

/*
 * How long, in milliseconds, a replica that was seen without its master is not used after it is first seen
 * with it again. Nothing shows how many of the changes that it missed it has applied.
 */
enum { REDIS_REPLICA_SETTLE_MS = 1000 };

/* The replicas that are remembered as seen without their master. */
enum { REDIS_CUT_OFFS_MAX = 8 };

/* What connections have seen of replicas, for each other and later ones; zero at first. */
struct redis_replication {
    struct redis_cut_off {
        struct redis_address address; /* numeric: a name may lead to several replicas */
        uint64_t settled_ms; /* by the boot clock, when it can be used; UINT64_MAX: it has no master yet */
    } cut_off[REDIS_CUT_OFFS_MAX];
};

struct redis_server {
    struct redis_role role;  /* unknown before the first INFO, and if INFO is denied */
    bool info_denied;        /* do not send it on this connection */
    uint64_t valid_until_ms; /* by the boot clock; until when its data was known to be valid; UINT64_MAX while
                                it is */
    uint64_t lag_s;          /* of a replica: how long its master has sent nothing, rounded; 0: not known */
    struct redis_address address;          /* numeric; zero: a local socket */
    struct redis_replication *replication; /* borrowed (redis_connection_options) */
};

/* A new connection to the server at that numeric address (empty: a local socket). */
void redis_server_init(struct redis_server *s, struct redis_replication *replication, const char *host,
                       int port);

/*
 * Takes the reply to INFO replication, which was sent at `sent_ms` by the boot clock. The server must have
 * the role that is wanted; REDIS_ROLE_UNKNOWN permits any that does not change, and that INFO is denied.
 * Returns NULL, or why the server cannot be used.
 */
const char *redis_server_take_info(struct redis_server *s, const struct redis_reply *reply,
                                   enum redis_role_kind wanted, uint64_t sent_ms);

/* The policy by which a full Redis evicts keys without a TTL, from INFO memory; absent if it evicts none. */
struct span redis_server_eviction_policy(const struct redis_reply *reply);

#endif
