/*
 * Discovery: finds the Redis that Sentinels name, and follows it.
 *
 * One connection to one of the Sentinels. It subscribes to failovers, and also queries every second, since
 * published messages can be lost. After an error, a timeout or a reply without a master the next Sentinel is
 * tried; the one that answered last is tried first.
 *
 * When Sentinel names another master than the one in use, on_failover is called at once: an old master that
 * was stalled would serve old data when it continues. For a replica, its ROLE names the master that it
 * follows: a replica of the old master is left too (sentinel_check_replica).
 *
 * Everything happens on the loop's thread.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/endpoint.h"
#include "redis/metrics.h"

#include <hiredis/hiredis.h>
#include <uv.h>

struct sentinel;
struct ssl_ctx_st;

/* The interval of queries to a Sentinel, in milliseconds. */
enum { SENTINEL_INTERVAL_MS = 1000 };

/* The timeout of the look-up of a Sentinel, and of its connection and answer, in milliseconds. */
enum { SENTINEL_TIMEOUT_MS = 500 };

/* The largest answer of a Sentinel that is read: bytes, and elements of an array. */
enum { SENTINEL_ANSWER_MAX = 1024 * 1024, SENTINEL_ELEMENTS_MAX = 1024 };

struct sentinel_options {
    const struct redis_endpoint *endpoint; /* has Sentinels; borrowed while it lives, as all pointers here */
    struct ssl_ctx_st *tls;                /* NULL without TLS */
    const char *client_name;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms; /* how long a replica may be used that follows another master */
    unsigned seed;           /* selects the first replica to be used */
    /* This is where to connect to; borrowed until the next discovery. */
    void (*on_found)(void *arg, const struct redis_endpoint *endpoint);
    /* No Sentinel has given an address; `why` is borrowed until the function returns. */
    void (*on_not_found)(void *arg, const char *why);
    /* Sentinel names another Redis than the one that was found: call sentinel_discover again. */
    void (*on_failover)(void *arg);
    void *arg;
};

/* Starts nothing before sentinel_discover. Owned by the caller (sentinel_close). Returns 0 or -ENOMEM. */
int sentinel_new(uv_loop_t *loop, const struct sentinel_options *options, struct sentinel **out)
    __attribute__((warn_unused_result));

/* No callback follows but `closed`, from the loop, when the memory has been freed. */
void sentinel_close(struct sentinel *s, void (*closed)(void *arg), void *arg);

/* Starts a discovery, which ends with on_found or on_not_found (the latter perhaps before this returns). */
void sentinel_discover(struct sentinel *s);

/* The state of the connection to the Redis that was found. */
enum sentinel_report {
    SENTINEL_REPORT_CONNECTED, /* the handshake begins */
    SENTINEL_REPORT_READY,     /* it is in use */
    SENTINEL_REPORT_LOST,      /* the connection was lost */
    SENTINEL_REPORT_FAILED     /* the attempt failed; after two of these another Sentinel is queried */
};
void sentinel_report(struct sentinel *s, enum sentinel_report report);

/* The role that the Redis that was found must have. */
enum redis_role_kind sentinel_wanted_role(const struct sentinel *s);

/*
 * Checks whether a replica that was found may be used: `master` is its master in the reply to a ROLE that was
 * sent at `role_sent_ms` by the boot clock (clock.h). Returns NULL, or the reason against it.
 */
const char *sentinel_check_replica(struct sentinel *s, const struct redis_address *master,
                                   uint64_t role_sent_ms);

/*
 * Until when the Redis that was found is known to have been the right one, in milliseconds of the boot clock;
 * UINT64_MAX while it is.
 */
uint64_t sentinel_trusted_until_ms(const struct sentinel *s);

/* --- the answer of a Sentinel --- */

enum { SENTINEL_REPLICAS_MAX = 32 };

struct sentinel_answer {
    struct redis_address master;
    struct redis_address replica[SENTINEL_REPLICAS_MAX]; /* healthy ones */
    struct redis_address down[SENTINEL_REPLICAS_MAX];    /* those that are down or disconnected */
    int replicas, downs;
};

/*
 * The reply to SENTINEL REPLICAS: those that are up and linked to their master, and those that are down. One
 * that cannot be read is left out. Returns NULL, or why there is no list. External for its unit test, as a
 * Sentinel sends only a few of the replies that it must withstand.
 */
const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out);

#endif
