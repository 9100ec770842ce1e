#ifndef TEST_HOSTILE_NGINX_H
#define TEST_HOSTILE_NGINX_H

#include "support/process.h"
#include "support/tempdir.h"

/* This machine's nginx, one process, answering every path with 200, to compare with. */

struct nginx {
    struct tempdir dir;
    struct process process;
    int port;
};

/* Starts one and waits until it listens; fails the test when it does not. `settings` of its server, or "" for
 * the defaults. */
void nginx_start(struct nginx *nginx, const char *settings);

void nginx_stop(struct nginx *nginx);

#endif
