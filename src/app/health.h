/* The health of the process: one list of checks for the endpoints of the admin listener and for systemd. */
#ifndef APP_HEALTH_H
#define APP_HEALTH_H

#include "api/ops.h"
#include "app/worker.h"

/* What the checks look at; the pointer is borrowed. */
struct health {
    const struct worker_shared *shared;
    enum phase phase;
    bool reload_failed; /* the last reload of settings */
};

/* True when all checks of this kind pass. If `why` is given, appends one line per check; see ops.h. */
bool health_check(const struct health *h, enum ops_check kind, struct buf *why);

/* One line for the operator, static: STATUS= of sd_notify(3). */
const char *health_describe(const struct health *h);

/* True when each worker has had a connection to Redis. */
bool health_has_seen_redis(const struct health *h);

#endif
