/*
 * What answers cost Redis: the rules of docs/design.md, "What an answer costs Redis", each of which is named
 * there. They are checked from outside of the process. Known are its requests, with the kinds of their
 * answers, and its commands, as it writes them to its sockets and as Redis executes them.
 *
 * A command is judged when it is written. The turns of the loop tell what the process can have known when it
 * made the command: it writes what a turn has made before the next turn waits.
 *
 * Some rules hold at any time. The others hold in ordinary times: the connection tracks, and heartbeats were
 * answered since the last fault, the last loss and the last invalidation of everything.
 */
#ifndef SIMULATION_COSTS_H
#define SIMULATION_COSTS_H

#include "simulation/oracle.h"
#include "simulation/redis.h"

/* Nothing is checked unless it is watched: several workers share one log of requests. */
void costs_begin(bool watched, const struct cache_metrics *metrics);

/* A request has come; it was answered, or cancelled (NULL). */
void costs_asked(const struct asked *a);
void costs_ended(const struct asked *a, const struct cache_result *result);

/* Reads of data on the connection in use whose replies the process has not read yet. */
unsigned costs_under_way(void);

/* The connection in use: this one from now on, or 0 if Redis has closed it already; NULL: it was lost. */
void costs_connection(const struct redis *server, unsigned number);

/* The process has written this to a connection. `whole`: and keeps nothing back. */
void costs_wrote(unsigned number, const char *data, size_t n, bool whole);

/* It has closed a connection. */
void costs_closed(unsigned number);

/* It has read all that the server had made by then. */
void costs_read(unsigned number, uint64_t made_ns);

/* Redis has executed the next command of a client; its reply has data that may be cached. */
void costs_executed(const struct redis_client *c, bool has_data);

/* Redis has sent its replies so far: so many bytes, with invalidations. */
void costs_replied(const struct redis_client *c, size_t n);

/* Redis has invalidated these names, as bits; COSTS_ALL: everything. */
#define COSTS_ALL UINT64_MAX
void costs_invalidated(const struct redis_client *c, uint64_t names);

#endif
