/*
 * The operator's endpoints as an HTTP handler, for a listener of their own: /livez, /readyz, /startupz,
 * /metrics, /version. They need no key and must never be on the public port.
 */
#ifndef API_OPS_H
#define API_OPS_H

#include "base/metrics.h"
#include "http/exchange.h"

/* What the process tells about itself. Each function is called on the thread of the admin listener. */
struct ops_source {
    void *arg;
    /* Each returns the verdict and, when `why` is given, appends one line a check: "[+]name " or, where it
     * speaks against the verdict, "[-]name ", and what was found: "ok" where there is nothing to tell. */
    bool (*is_live)(void *arg, struct buf *why);
    bool (*is_ready)(void *arg, struct buf *why);
    bool (*is_started)(void *arg, struct buf *why);
    void (*write_metrics)(void *arg, struct buf *out);
};

struct ops; /* owned by the caller */

/* Returns 0 or -ENOMEM. */
int ops_new(const struct ops_source *source, struct ops **out) __attribute__((warn_unused_result));
void ops_free(struct ops *o);

struct http_handler ops_handler(struct ops *o);

#endif
