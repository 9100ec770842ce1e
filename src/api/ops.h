/*
 * The operational endpoints as an HTTP handler, for the admin listener: /livez, /readyz, /startupz, /metrics,
 * /version. They need no key and must never be on the public port.
 */
#ifndef API_OPS_H
#define API_OPS_H

#include "base/metrics.h"
#include "http/exchange.h"

/* The state of the process. Each function is called on the thread of the admin listener. */
struct ops_source {
    void *arg;
    /* Each returns the result and, if `why` is given, appends one line per check: "[+]name " if it passes,
     * "[-]name " if not, and the finding, such as "ok". */
    bool (*is_live)(void *arg, struct buf *why);
    bool (*is_ready)(void *arg, struct buf *why);
    bool (*is_serving)(void *arg, struct buf *why); /* is_ready without the check `shutdown` */
    bool (*is_started)(void *arg, struct buf *why);
    void (*write_metrics)(void *arg, struct buf *out);
};

struct ops; /* owned by the caller */

/* Returns 0 or -ENOMEM. */
int ops_new(const struct ops_source *source, struct ops **out) __attribute__((warn_unused_result));
void ops_free(struct ops *o);

struct http_handler ops_handler(struct ops *o);

#endif
