#ifndef TEST_SUPPORT_SOCKETS_H
#define TEST_SUPPORT_SOCKETS_H

#include "support/server.h"

/*
 * Listening sockets that are passed to a channeld, as a service manager does (sd_listen_fds(3)). The program
 * of the test executes itself in between, so its main() is sockets_main().
 */

enum { SOCKETS_MAX = 2 };

/* The socket units: what stays open while processes come and go. */
struct sockets {
    int count;
    const char *names; /* "api:admin" */
    int fd[SOCKETS_MAX];
    int port[SOCKETS_MAX];
};

void sockets_open(struct sockets *s, const char *names, int count);
void sockets_close(struct sockets *s);

/* Starts a channeld on the sockets, without waiting. Its own ports are those of the sockets afterwards. */
void sockets_start_server(struct server *server, const struct sockets *s, const char *redis_url,
                          const char *const *env);

/* Runs the tests. */
int sockets_main(int argc, char **argv);

#endif
