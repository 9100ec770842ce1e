#ifndef SOAK_ABUSER_H
#define SOAK_ABUSER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A thread that abuses channeld in every way at once: connections that send nothing, a byte at a time, or
 * garbage; that never read, are reset, smuggle requests, flood with wrong keys. Other clients must not
 * suffer.
 */

enum { ABUSER_CONNECTIONS = 48 };

struct abuser_connection {
    int fd; /* -1: closed */
    const char *text;
    size_t length;
    size_t sent;
    size_t step; /* bytes sent at a time */
    bool never_reads;
};

struct abuser {
    int port;
    const char *key; /* a valid one, borrowed */
    uint64_t chance;
    char *flood; /* requests with a wrong key each, owned */
    char *greed; /* many requests for pages with the valid key, owned */
    char *large; /* a header that is too large, owned */
    struct abuser_connection connection[ABUSER_CONNECTIONS];
    _Atomic uint64_t acts;
    atomic_bool finished;
    pthread_t thread;
};

void abuser_start(struct abuser *abuser, int port, const char *key, uint64_t seed);

/* Ends it and closes all its connections. */
void abuser_stop(struct abuser *abuser);

#endif
