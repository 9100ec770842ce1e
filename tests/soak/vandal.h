#ifndef SOAK_VANDAL_H
#define SOAK_VANDAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A thread that misuses channeld in every way at once: connections that say nothing, a byte at a time, or
 * nonsense; that ask and never read, reset in the middle, smuggle, flood with wrong keys. It wants no
 * answers; what it must not do is harm others.
 */

enum { VANDAL_CONNECTIONS = 48 };

struct vandal_connection {
    int fd; /* -1: closed */
    const char *text;
    size_t length;
    size_t sent;
    size_t step; /* bytes sent at a time */
    bool deaf;   /* never reads */
};

struct vandal {
    int port;
    const char *key; /* a valid one, borrowed */
    uint64_t chance;
    char *flood; /* requests with a wrong key each, owned */
    char *greed; /* many requests for pages with the valid key, owned */
    char *large; /* a header that is too large, owned */
    struct vandal_connection connection[VANDAL_CONNECTIONS];
    _Atomic uint64_t acts;
    atomic_bool finished;
    pthread_t thread;
};

void vandal_start(struct vandal *vandal, int port, const char *key, uint64_t seed);

/* Ends it and closes all its connections. */
void vandal_stop(struct vandal *vandal);

#endif
