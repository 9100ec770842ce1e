/*
 * Reads the settings that come from files again when the files change: those of the log, which are used at
 * once, and those of Redis, to which it moves the workers. All are used, or none: then the old ones stay
 * until the next change.
 */
#ifndef APP_RELOAD_H
#define APP_RELOAD_H

#include "app/worker.h"

struct reload;

/*
 * Reads the settings for the first time, from files as these are now: *newest, borrowed until the next event
 * of the loop. Later changes move the workers. Owned by the caller. Returns 0, -ENOMEM, or -EINVAL with a
 * message in `error`.
 */
int reload_new(uv_loop_t *loop, struct worker_shared *shared, struct reload **out,
               struct redis_config **newest, struct buf *error) __attribute__((warn_unused_result));

/* Reads all again: SIGHUP. */
void reload_now(struct reload *r);

/* True when the last read failed, and the old settings stay in use. */
bool reload_has_failed(const struct reload *r);

/* A worker's connection has changed: it may have been lost, so the files are checked. */
void reload_worker_changed(struct reload *r);

void reload_write_metrics(struct reload *r, struct buf *out);

/* When the loop was closed, and its timer with it. NULL is allowed. */
void reload_free(struct reload *r);

#endif
