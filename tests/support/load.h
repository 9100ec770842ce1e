#ifndef TEST_SUPPORT_LOAD_H
#define TEST_SUPPORT_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/*
 * Clients, each in its own thread. A client sends one request after the other, by any of the targets, and
 * connects again after "Connection: close". Each response must be a 200, and the end of a connection orderly.
 */

enum { LOAD_CLIENTS_MAX = 64 };

struct load {
    int port;
    const char *const *targets;
    size_t target_count;
    pthread_t thread[LOAD_CLIENTS_MAX];
    int clients;
    atomic_bool stopping;
    atomic_int answered;
    atomic_int last_answers; /* of these, the last ones of their connections */
    atomic_int failed;
    atomic_int last_error; /* a status, or a negative errno */
};

void load_start(struct load *load, int port, const char *const *targets, size_t target_count, int clients);

/* Waits until there are so many more answers, or last answers of a connection, within `ms`. */
void load_await(struct load *load, int answers, int last_answers, int ms);

/* No new connection and no new request. Fails the test if any has failed. */
void load_stop(struct load *load);

#endif
