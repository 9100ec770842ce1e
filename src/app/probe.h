/* A health check for containers without a shell or an HTTP client: requests /readyz of a running channeld. */
#ifndef APP_PROBE_H
#define APP_PROBE_H

#include "base/buf.h"
#include "base/net.h"

enum { PROBE_TIMEOUT_MS = 2000 };

/*
 * Sends GET /readyz to the listener at `admin`, by the loopback if it listens on every address. Waits for
 * at most PROBE_TIMEOUT_MS until it is connected, and as long for the response. Returns 0 if the response is
 * 200, or a negative errno
 * (-EAGAIN: another status) with a message in `error`.
 */
int probe_ready(const struct addr *admin, struct buf *error) __attribute__((warn_unused_result));

#endif
