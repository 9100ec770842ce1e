/* A health check from outside: asks a running channeld by its admin listener whether it is ready. For
 * containers without a shell or an HTTP client in them. */
#ifndef APP_PROBE_H
#define APP_PROBE_H

#include "base/buf.h"
#include "base/net.h"

enum { PROBE_TIMEOUT_MS = 2000 };

/*
 * Sends GET /readyz to the listener at `admin`; one that listens on every address is asked on the loopback.
 * Blocks for at most PROBE_TIMEOUT_MS in all. Returns 0 when the answer is 200, otherwise a negative errno
 * (-EAGAIN: another answer) with what is wrong in `error`.
 */
int probe_ready(const struct addr *admin, struct buf *error) __attribute__((warn_unused_result));

#endif
