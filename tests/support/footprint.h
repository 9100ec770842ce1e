#ifndef TEST_HOSTILE_FOOTPRINT_H
#define TEST_HOSTILE_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The resources of a process as the kernel reports them, without its cooperation. */

struct footprint {
    long resident_kib;
    long peak_kib; /* of resident_kib so far */
    int descriptors;
    int64_t cpu_ms; /* so far, of all threads */
};

/* Fails the test when it does not exist. */
struct footprint footprint_of(pid_t pid);

/* Prints it after the text. */
void footprint_print(const char *when, const struct footprint *footprint);

/*
 * Waits until the process has no more descriptors open than before, except for a few of connections that
 * come and go. Fails the test otherwise.
 */
void footprint_await_descriptors(pid_t pid, int before);

struct footprint_queues {
    long sent_kib;     /* responses that clients did not read */
    long received_kib; /* requests that the server did not read */
};

/* What the kernel holds for the connections of that local port, also those that the process has closed. */
struct footprint_queues footprint_queues_of(int port);

/* False where memory figures say nothing about the product: under a sanitizer, which keeps freed memory. */
bool footprint_is_meaningful(void);

#endif
