/* A Redis that bench/fleet starts: pinned to a core, without persistence, its processor time and its INFO. */
#pragma once

#include "fleet_resp.h"

#include <sys/types.h>

struct server {
    pid_t pid;
    int port;
    struct resp control; /* a connection for questions of the benchmark */
    char dir[256];
};

struct server_options {
    const char *path; /* of the program */
    const char *args; /* further arguments, separated by blanks; may be NULL */
    int core;
    int master_port; /* 0: not a replica */
};

/* Waits until it replies; a replica, until it has all of its master's data. */
void server_start(struct server *s, const struct server_options *o);

void server_stop(struct server *s);

/* User and system time of all its threads so far, to the nanosecond. */
uint64_t server_cpu_ns(const struct server *s);

/* A number of INFO; 0 when INFO lacks the field. */
long long server_info(struct server *s, const char *field);

/* The name and version, as in "redis 7.0.15"; valid until the next call. */
const char *server_version(struct server *s);

/* Waits until the replica has received what its master has sent so far. */
void server_catch_up(struct server *replica, struct server *master);
