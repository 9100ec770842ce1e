/*
 * The memory of the process: malloc() and related functions as src/ and hiredis call them. Allocations fail
 * while the scenario requires it, and those that are not freed are counted. Memory of the simulation itself
 * (bytes.h) is not counted.
 */
#ifndef SIMULATION_MEMORY_H
#define SIMULATION_MEMORY_H

/* One allocation in so many fails from now on; 0: none. */
void memory_fail(unsigned one_in);

/* How many allocations have not been freed. */
long memory_live(void);

#endif
