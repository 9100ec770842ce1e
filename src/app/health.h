/* The health of the process, for the endpoints of the admin listener and for systemd. */
#ifndef APP_HEALTH_H
#define APP_HEALTH_H

#include "app/worker.h"

/* True while each worker's loop runs. */
bool health_is_live(const struct worker_shared *s);

/* True while requests are served with data, until `last`. */
bool health_is_ready(const struct worker_shared *s, enum phase last);

/* One line for the operator, static. `reload_failed`: the last reload of settings. */
const char *health_describe(const struct worker_shared *s, bool reload_failed);

/* True when each worker has had a connection to Redis. */
bool health_has_seen_redis(const struct worker_shared *s);

#endif
