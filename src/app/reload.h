/*
 * Reads the settings of Redis and of the log again when their files change, and moves the workers to the new
 * ones. The two do not depend on each other: neither waits for the other, or fails with it.
 *
 * The log: level and access log are read at each look and at SIGHUP, and used at once.
 *
 * Redis: everything that the URL and its files say may change: address, user, passwords, authorities,
 * certificate and key. The files are looked at once a second, more often while a worker has no connection,
 * and on SIGHUP; the main thread does that. A change is read when the files have come to rest. Values that
 * cannot be used are logged and counted, and the old ones stay until the next change.
 *
 * New values are for connections to come. A worker without a connection gets them at once. Those that have
 * one keep it, and get them one after the other, the next when the one before has connected with them: what
 * Redis refuses, or does not know yet, costs no connection.
 */
#ifndef APP_RELOAD_H
#define APP_RELOAD_H

#include "app/config.h"

#include <stdatomic.h>
#include <uv.h>

struct reload;

/* The time between two looks at the files, in milliseconds. */
enum { RELOAD_LOOK_MS = 1000 };

/* A worker's connection to Redis. */
struct reload_worker {
    bool ready;
    uint64_t number; /* the settings that it uses, or used last; 0: none yet */
};

struct reload_options {
    const struct config *config; /* borrowed while it lives */
    unsigned look_ms;            /* RELOAD_LOOK_MS, or less in tests; the times that follow from it, too */
    atomic_int *access_log;      /* what the workers read; set from the beginning */
    int workers;
    struct reload_worker (*worker)(void *arg, int i);
    /* Worker i shall use these settings; called again until it does. */
    void (*use)(void *arg, int i, struct redis_config *config);
    void *arg;
};

/*
 * Reads the settings for the first time, from files as these are now: *newest, borrowed until the next event
 * of the loop. From the first event on the functions above are called. Owned by the caller (reload_close).
 * Returns 0, -ENOMEM, or -EINVAL with a message in `error`.
 */
int reload_new(uv_loop_t *loop, const struct reload_options *options, struct reload **out,
               struct redis_config **newest, struct buf *error) __attribute__((warn_unused_result));

/* Reads all again: SIGHUP. */
void reload_now(struct reload *r);

/* True when those of Redis could not be read the last time, and the old ones stay in use. */
bool reload_has_failed(const struct reload *r);

/* A worker's connection has changed: when one was lost, the files are looked at. */
void reload_worker_changed(struct reload *r);

void reload_write_metrics(const struct reload *r, struct buf *out);

/* Ends it; no function of the workers is called any more. The memory is freed by the loop. */
void reload_close(struct reload *r);

#endif
