/*
 * The operational endpoints as an HTTP handler, for the admin listener: /livez, /readyz, /startupz, /metrics,
 * /version. They need no key and must never be on the public port.
 */
#ifndef API_OPS_H
#define API_OPS_H

#include "base/metrics.h"
#include "http/exchange.h"

/* OPS_SERVING: ready, without the check `shutdown`. */
enum ops_check { OPS_LIVE, OPS_STARTED, OPS_READY, OPS_SERVING };

/* Its owner sets the first three members. Each function is called on the thread of the admin listener. */
struct ops {
    void *arg;
    /* Returns the result and, if `why` is given, appends one line per check: "[+]name " if it passes,
     * "[-]name " if not, and the finding, such as "ok". */
    bool (*check)(void *arg, enum ops_check kind, struct buf *why);
    void (*write_metrics)(void *arg, struct buf *out);
    struct buf body; /* of the current response */
};

static inline void ops_fini(struct ops *o)
{
    buf_fini(&o->body);
}

struct http_handler ops_handler(struct ops *o);

#endif
