/*
 * The process: workers, admin listener, signals, drain. Everything here runs on the main thread.
 *
 *     SERVING --SIGTERM--> ANNOUNCING --drain delay--> FINISHING --all finished, or drain timeout--> EXITING
 *
 * ANNOUNCING serves on, not ready, with "Connection: close"; FINISHING has closed the listeners and lets
 * requests in flight end; EXITING closes everything. A second signal ends the process at once.
 */
#ifndef APP_SERVER_H
#define APP_SERVER_H

#include "app/config.h"

/*
 * Serves until SIGTERM or SIGINT. Returns 0 after a drain, or a negative errno with a message in `error` when
 * it cannot start.
 */
int server_run(const struct config *config, struct buf *error) __attribute__((warn_unused_result));

#endif
