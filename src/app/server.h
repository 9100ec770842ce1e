/* The process: workers, listeners, signals, drain (enum phase in app/worker.h). Everything here runs on the
 * main thread. */
#ifndef APP_SERVER_H
#define APP_SERVER_H

#include "app/config.h"

/*
 * Serves until SIGTERM or SIGINT; `check`: starts up to the point where a server listens and connects to
 * Redis, and ends. Returns 0 (after a drain), or a negative errno with a message in `error` when it cannot
 * start: -EINVAL where a setting is wrong.
 */
int server_run(const struct config *config, bool check, struct buf *error)
    __attribute__((warn_unused_result));

#endif
