/*
 * The process: workers, admin listener, signals, drain. Everything here runs on the main thread.
 *
 *     STARTING --Redis connected, or waited for--> SERVING --SIGTERM--> ANNOUNCING --drain delay--> FINISHING
 *     FINISHING --all finished, or drain timeout--> EXITING
 *
 * STARTING: listening; connections to a socket that was passed by a service manager wait in its queue, others
 * are accepted. At its end the manager is told that the process has started. ANNOUNCING: not ready, still
 * serving, with "Connection: close". FINISHING: listeners are closed, requests in flight are completed.
 * EXITING: everything is closed. A second signal ends the process at once.
 */
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
