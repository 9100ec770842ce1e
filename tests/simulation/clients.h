/*
 * Requests to the cache, by its API: cards, links and pages with keys of all kinds. Some of them are
 * cancelled.
 */
#ifndef SIMULATION_CLIENTS_H
#define SIMULATION_CLIENTS_H

#include "simulation/oracle.h"

/* Requests come until clients_end(). */
void clients_begin(struct cache *cache);
void clients_end(void);

/* All that wait are cancelled. */
void clients_cancel_all(void);

/* Requests that wait for their answers. */
unsigned clients_waiting(void);

/* The number of what all clients have got when each object was asked for once; no request may fail. */
void clients_ask_all(void);

/*
 * For cases: a request in a place of its own, below CLIENTS_PLACES, which no other one takes that comes at
 * random. The result is borrowed until the next request in that place.
 */
enum { CLIENTS_PLACES = 256 };
const struct asked *clients_ask(unsigned place, enum cache_query_type type, int64_t number, int key);

#endif
