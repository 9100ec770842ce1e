#ifndef TEST_HOSTILE_WITNESS_H
#define TEST_HOSTILE_WITNESS_H

#include <sys/types.h>

/*
 * Well-behaved clients in threads of their own, each with a kept connection and a request every few
 * milliseconds: what they see is how an attack on the server looks to everybody else.
 */

struct witness;

/* What they saw between two calls of witness_look(). */
struct witness_view {
    int requests;
    int failures; /* no answer, another than 200, or a connection that ended */
    int p50_us, p99_us, max_us;
};

/* Begins, at the server that is that process and listens there. Owned; ended by witness_free(). */
struct witness *witness_new(int port, pid_t pid);

/* What was seen since the last call, or since the beginning. */
struct witness_view witness_look(struct witness *witness);

/* The same once they have made some hundred requests more: a measure to compare with. */
struct witness_view witness_look_long(struct witness *witness);

void witness_free(struct witness *witness);

void witness_print(const char *when, const struct witness_view *view);

/* Prints both, and fails the test unless nothing failed and the p99 stayed within twice the calm one. */
void witness_expect_unharmed(const struct witness_view *calm, const struct witness_view *attacked);

#endif
