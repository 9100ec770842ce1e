/*
 * Discovery: finds the Redis that Sentinels name, and follows it.
 *
 * One connection to one of the Sentinels, whichever answers. The Sentinel publishes failovers, and is asked
 * every second all the same: what is published can be lost. A Sentinel that refuses, is silent or has no
 * answer is left for the next one; the one that answered last is asked first.
 *
 * When the master that is named is not the one in use, the owner is told at once: a stalled old master goes
 * on with its past when it wakes. For a replica, its own ROLE tells which master it follows: the replica of a
 * deposed master is to be left too (sentinel_check_replica).
 *
 * All of it happens on the loop's thread.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"

#include <uv.h>

struct sentinel;
struct ssl_ctx_st;

/* How often a Sentinel is asked, in milliseconds. */
enum { SENTINEL_INTERVAL_MS = 1000 };

struct sentinel_options {
    const struct redis_endpoint *endpoint; /* has Sentinels; borrowed while it lives, as all pointers here */
    struct ssl_ctx_st *tls;                /* NULL without TLS */
    const char *client_name;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms; /* how long a replica may be used that follows another master */
    unsigned seed;           /* decides with which replica the choice begins */
    /* This is where to connect to; borrowed until the next discovery. */
    void (*on_found)(void *arg, const struct redis_endpoint *endpoint);
    /* All Sentinels were asked in turn, and none has an answer; `why` is borrowed until the function returns.
     */
    void (*on_not_found)(void *arg, const char *why);
    /* Another Redis is to be used than the one that was found: a new discovery is due. */
    void (*on_moved)(void *arg);
    void *arg;
};

/* Does nothing before a discovery. Owned by the caller (sentinel_close). Returns 0 or -ENOMEM. */
int sentinel_new(uv_loop_t *loop, const struct sentinel_options *options, struct sentinel **out)
    __attribute__((warn_unused_result));

/* No event comes after this; `closed` is called from the loop when the memory is gone. */
void sentinel_close(struct sentinel *s, void (*closed)(void *arg), void *arg);

/* Asks: on_found or on_not_found comes, the latter perhaps before this returns. */
void sentinel_discover(struct sentinel *s);

/* What has become of the Redis that was found. */
enum sentinel_report {
    SENTINEL_REPORT_CONNECTED, /* the handshake begins */
    SENTINEL_REPORT_READY,     /* it is in use */
    SENTINEL_REPORT_LOST,      /* it is no longer */
    SENTINEL_REPORT_FAILED /* it could not be taken into use; another Sentinel is asked after two of these */
};
void sentinel_report(struct sentinel *s, enum sentinel_report report);

/* The role that the Redis that was found must have. */
enum redis_role_kind sentinel_wanted_role(const struct sentinel *s);

/*
 * Whether a replica that was found may be used: `master` is the one that it said to follow in reply to a ROLE
 * sent at `role_sent_ms` by the boot clock (clock.h). Returns NULL, or why not.
 */
const char *sentinel_check_replica(struct sentinel *s, const struct redis_address *master,
                                   uint64_t role_sent_ms);

/*
 * Until when the Redis that was found is known to have been the right one, in milliseconds of the boot clock;
 * UINT64_MAX while nothing speaks against it.
 */
uint64_t sentinel_trusted_until_ms(const struct sentinel *s);

#endif
