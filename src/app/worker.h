/*
 * A worker: one thread with its own loop, listener, connections, Redis connection and metrics. Workers share
 * nothing.
 *
 * The main thread makes and starts workers, gives them orders and reads their atomics; nothing else crosses.
 */
#ifndef APP_WORKER_H
#define APP_WORKER_H

#include "app/config.h"
#include "app/metrics.h"

#include <stdatomic.h>
#include <uv.h>

struct ssl_ctx_st;
struct worker;

/* Orders are given in this order; each includes those before it. */
enum worker_command {
    WORKER_SERVE,
    WORKER_ANNOUNCE_CLOSE, /* every answer says "Connection: close" */
    WORKER_FINISH,         /* stop listening, end idle connections, let requests under way end */
    WORKER_EXIT            /* close everything and end the thread */
};

struct worker_options {
    const struct config *config; /* borrowed while the worker lives, as are all pointers here */
    struct ssl_ctx_st *tls;
    atomic_int *open_connections; /* of the whole process */
    int max_connections;          /* of the whole process */
    int max_refusals;             /* of this worker: connections beyond those that are told so */
    int descriptors;              /* that the process may have open */
    int number;                   /* from 0 */
    uv_async_t *changed;          /* sent whenever worker_finished or worker_exited may have changed */
};

/* What a worker shows to other threads. */
struct worker_status {
    bool redis_ready;
    bool redis_seen;        /* it was ready at least once */
    uint64_t redis_lost_ms; /* by the boot clock; when it was lost (cache_lost_ms), if it is not ready but was
                               seen */
    uint64_t ticked_ms;     /* monotonic; when the loop last turned */
};

/* Makes everything and binds the listener. Owned by the caller. Returns 0 or a negative errno. */
int worker_new(const struct worker_options *options, struct worker **out) __attribute__((warn_unused_result));

/* Starts the thread. Returns 0 or a negative errno. */
int worker_start(struct worker *w) __attribute__((warn_unused_result));

/* From any thread. */
void worker_command(struct worker *w, enum worker_command order);
struct worker_status worker_status(const struct worker *w);
const struct worker_metrics *worker_metrics(const struct worker *w);
bool worker_finished(const struct worker *w); /* after WORKER_FINISH: no connection is left */

/* Waits for the thread (if it was started, WORKER_EXIT must have been given) and frees. */
void worker_free(struct worker *w);

#endif
