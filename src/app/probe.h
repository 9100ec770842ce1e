/* A health check for containers without a shell or an HTTP client: requests /readyz of a running channeld. */
#ifndef APP_PROBE_H
#define APP_PROBE_H

#include "base/buf.h"
#include "base/net.h"

enum { PROBE_TIMEOUT_S = 2 };

/* By the loopback if `admin` is every address. Waits for PROBE_TIMEOUT_S until it is connected, and as long
 * for the response. Returns false with a message in `error` if that is not a 200. */
bool probe_ready(const struct addr *admin, struct buf *error) __attribute__((warn_unused_result));

#endif
