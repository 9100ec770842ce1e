/*
 * A standing conversation with one of the Sentinels, whichever answers.
 *
 * It is told when a master is switched, and asks once a second all the same: what is published can be lost. A
 * Sentinel that refuses, is silent or has no answer is left for the next one; the one that answered last is
 * the one that is asked. All of it happens on the loop's thread.
 */
#ifndef REDIS_SENTINEL_WATCH_H
#define REDIS_SENTINEL_WATCH_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/sentinel.h"

#include <uv.h>

struct sentinel_watch;
struct ssl_ctx_st;

/* How often a Sentinel is asked, in ms. To be found, to connect and to answer it has SENTINEL_TIMEOUT_MS. */
enum { SENTINEL_INTERVAL_MS = 1000 };

/* An answer longer than this, in bytes, is none. */
enum { SENTINEL_ANSWER_MAX = 1024 * 1024 };

struct sentinel_events {
    /* What a Sentinel says; borrowed until the function returns. */
    void (*on_answer)(void *arg, const struct sentinel_answer *answer);
    /* All were asked in turn, and none has an answer; `why` is borrowed likewise. */
    void (*on_silence)(void *arg, const char *why);
    void *arg;
};

/*
 * Does nothing before it is asked. `target` (with Sentinels), `tls` (may be NULL), `client_name` and
 * `metrics` are borrowed while it lives. Owned by the caller, who ends it with sentinel_watch_close. Returns
 * 0 or -ENOMEM.
 */
int sentinel_watch_new(uv_loop_t *loop, const struct redis_endpoint *target, struct ssl_ctx_st *tls,
                       const char *client_name, struct redis_metrics *metrics,
                       const struct sentinel_events *events, struct sentinel_watch **out)
    __attribute__((warn_unused_result));

/* Wants an answer now: on_answer or on_silence comes, the latter perhaps before this returns. */
void sentinel_watch_ask(struct sentinel_watch *w);

/* What this Sentinel said led nowhere: the next question goes to another. */
void sentinel_watch_doubt(struct sentinel_watch *w);

/* No event comes after this; `closed` is called from the loop when the memory is gone. */
void sentinel_watch_close(struct sentinel_watch *w, void (*closed)(void *arg), void *arg);

#endif
