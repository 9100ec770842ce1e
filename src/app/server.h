/*
 * The process: workers, admin listener, signals, drain. Everything here runs on the main thread.
 *
 *     SERVING --SIGTERM--> ANNOUNCING --drain delay--> FINISHING --all finished, or drain timeout--> EXITING
 */
#ifndef APP_SERVER_H
#define APP_SERVER_H

#include "app/config.h"

/*
 * Serves until told to stop. Returns 0 after a drain, or a negative errno with a message in `error` when it
 * could not start.
 */
int server_run(const struct config *config, struct buf *error) __attribute__((warn_unused_result));

#endif
