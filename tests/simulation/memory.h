/*
 * The memory of the process: malloc() and the like as src/ and hiredis call them. Allocations fail while the
 * scenario says so, and those that are left are counted. What the simulation itself keeps (bytes.h) is not
 * among them.
 */
#ifndef SIMULATION_MEMORY_H
#define SIMULATION_MEMORY_H

/* One allocation in so many fails from now on; 0: none. */
void memory_fail(unsigned one_in);

/* How many allocations have not been freed. */
long memory_live(void);

#endif
