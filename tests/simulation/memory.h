/*
 * The memory of the process: malloc() and related functions as src/ and hiredis call them. Allocations fail
 * while the scenario requires it, and those that are not freed are counted. Memory of the simulation itself
 * (bytes.h) is not counted.
 */
#ifndef SIMULATION_MEMORY_H
#define SIMULATION_MEMORY_H

#include <stdbool.h>

/* One allocation in so many fails from now on; 0: none. */
void memory_fail(unsigned one_in);

/* The allocations that have not been freed: how many, and their bytes. */
long memory_live(void);
long memory_live_bytes(void);

/* False while allocations can fail. */
bool memory_suffices(void);

#endif
