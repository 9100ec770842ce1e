/*
 * The oracle of connecting: what the process does to reach Redis, seen from its system calls and from the
 * servers. The bounds are those of docs/design.md, "Bounds of connecting", which numbers them:
 *
 *   1  connections that are open at once, by the kind of server
 *   2  attempts in a second and in a minute
 *   3  the pause between two attempts at one server
 *   4  how long an attempt waits for a server that does not answer
 *   5  look-ups of one name at once, and in a minute
 *   6  how long a connection to another node of a cluster is kept
 *
 * All bounds are per worker. Where several workers share the network (cases.h) only their sums are compared.
 */
#ifndef SIMULATION_CONNECTS_H
#define SIMULATION_CONNECTS_H

#include <stdbool.h>

/* Once the scenario is known. */
void connects_begin(unsigned workers);

/* The connection has come, or was lost. */
void connects_ready(bool ready);

/* The worker ends: attempts may be given up. */
void connects_end(void);

/* Attempts so far, at servers that hold data. */
unsigned connects_attempts(void);

#endif
