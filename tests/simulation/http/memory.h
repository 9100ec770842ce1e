/* The blocks of memory that src/ and the simulation have in use. */
#ifndef SIMULATION_HTTP_MEMORY_H
#define SIMULATION_HTTP_MEMORY_H

long memory_blocks(void);

#endif
