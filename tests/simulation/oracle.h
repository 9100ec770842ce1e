/*
 * What an answer may be. The simulation knows what each server held at each moment, and when all that it sent
 * was due to arrive. So an answer is compared with the values that were true between a bound and now:
 *
 *   fresh   whatever had been due in the process 50 ms before the request (docs/design.md) has been applied
 *   read    from Redis after the connection began: what was true since the request came
 *   stale   what was true since the age that the answer states, and that is within the limits
 *
 * With several servers each is compared with the history of the one that it was read from: that of the
 * connection that was in use when the request came, or of a later one.
 *
 * An answer by link is a card with that link. A card, a link or a key that does not exist was away at some
 * moment for another reason than that the catalogue was lost. An error is permitted while there is a fault,
 * and for as long after it as recovery may take.
 */
#ifndef SIMULATION_ORACLE_H
#define SIMULATION_ORACLE_H

#include "cache/cache.h"

struct asked {
    struct cache_request request;
    struct cache_query query;
    bool waits;
    int key; /* the number of the API key; KEYS: nobody's */
    char link[8];
    uint64_t sent_ns;      /* simulated time */
    uint64_t monotonic_ns; /* by the clock of the process */
    uint64_t stopped_ns;   /* of the process, before */
    int64_t wall_s;
    size_t first_view; /* the connection in use, or the next one */
    bool connected;
    uint64_t superseded_ns; /* the takeover that a node did not know of then; UINT64_MAX: all knew */
};

void oracle_begin(void);

/* The connection has come, or was lost. */
void oracle_connection(bool ready);

/* A replica has stated that it last heard of its master at `io_ns`, at this position of this stream, on
 * connection `on`. */
void oracle_told(unsigned on, unsigned stream, int64_t offset, uint64_t io_ns);

/* To be called when the request is made, and when it is answered. */
void oracle_asked(struct asked *a);
void oracle_answered(const struct asked *a, const struct cache_result *result);

/* Answers so far, by their source. */
extern unsigned oracle_answers[CACHE_SOURCES];

#endif
