/* The health of the process: one list of checks for the endpoints of the admin listener and for systemd. */
#ifndef APP_HEALTH_H
#define APP_HEALTH_H

#include "app/worker.h"

/* HEALTH_SERVING: ready, without the check `shutdown`. */
enum health_kind { HEALTH_LIVE, HEALTH_READY, HEALTH_SERVING };

/* True when all checks of this kind pass. If `why` is given, appends one line per check: "[+]name " if it
 * passes,
 * "[-]name " if not, and the finding, such as "ok". */
bool health_check(const struct worker_shared *s, enum health_kind kind, struct buf *why);

/* One line for the operator, static: STATUS= of sd_notify(3). `reload_failed`: the last reload of settings.
 */
const char *health_describe(const struct worker_shared *s, bool reload_failed);

/* True when each worker has had a connection to Redis. */
bool health_has_seen_redis(const struct worker_shared *s);

#endif
