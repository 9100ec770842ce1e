#ifndef TEST_HOSTILE_FOOTPRINT_H
#define TEST_HOSTILE_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a process takes of the machine, as the kernel tells it: it has not to answer for that. */

struct footprint {
    long resident_kib;
    long peak_kib; /* of resident_kib so far */
    int descriptors;
    int64_t cpu_ms; /* so far, of all threads */
};

/* Fails the test when there is no such process. */
struct footprint footprint_of(pid_t pid);

/* Prints it behind the words, for the record. */
void footprint_print(const char *when, const struct footprint *footprint);

/*
 * Waits until the process has so many descriptors open as it had, but for a few: those of others' connections
 * come and go. Fails the test otherwise.
 */
void footprint_await_descriptors(pid_t pid, int before);

struct footprint_queues {
    long sent_kib;     /* answers that clients did not take */
    long received_kib; /* requests that were not read */
};

/* What the kernel holds for the connections of that local port, also those that the process has closed. */
struct footprint_queues footprint_queues_of(int port);

/* False where memory figures tell nothing of the product: under a sanitizer, which keeps what is freed. */
bool footprint_is_meaningful(void);

#endif
