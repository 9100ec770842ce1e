#ifndef TEST_HOSTILE_NGINX_H
#define TEST_HOSTILE_NGINX_H

#include "support/process.h"
#include "support/tempdir.h"

/* This machine's nginx with its defaults, answering every path with 200, to compare with. */

struct nginx {
    struct tempdir dir;
    struct process process;
    int port;
};

/* Starts one and waits until it listens; fails the test when it does not. */
void nginx_start(struct nginx *nginx);

void nginx_stop(struct nginx *nginx);

#endif
