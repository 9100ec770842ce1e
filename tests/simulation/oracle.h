/*
 * The permitted answers. The simulation knows the content of each server at each moment, and when everything
 * that the server sent was due to arrive. So an answer is compared with the values that were true between a
 * bound and now:
 *
 *   fresh   everything that was due 50 ms before the request (docs/design.md) has been applied
 *   read    from Redis after the connection began: a value that was true since the request came
 *   stale   a value that was true since the age that the answer states, which is within the limits
 *
 * With several servers an answer is compared with the history of the server that it was read from. That is
 * the server of the connection in use when the request came, or of a later connection.
 *
 * An answer by link is a card with that link. A card, a link or a key that does not exist must have been
 * absent at some moment. A loss of the catalogue is no reason for an absence. An error is permitted during a
 * fault, and afterwards for as long as recovery may take.
 */
#ifndef SIMULATION_ORACLE_H
#define SIMULATION_ORACLE_H

#include "cache/cache.h"

struct asked {
    struct cache_request request;
    struct cache_query query;
    bool waits;
    int key; /* the number of the API key (catalogue.h) */
    char link[8];
    uint64_t sent_ns;      /* simulated time */
    uint64_t monotonic_ns; /* by the clock of the process */
    uint64_t stopped_ns;   /* of the process, before */
    size_t first_view;     /* the connection in use, or the next one */
    bool connected;
    uint64_t superseded_ns; /* the takeover that a node did not know of then; UINT64_MAX: all knew */

    /* Once it was answered. */
    enum cache_status status;
    enum cache_source source;
    uint64_t answered_ns;
};

void oracle_begin(void);

/* The connection has come, or was lost. */
void oracle_connection(bool ready);

/* Lost connections so far. */
extern unsigned oracle_losses;

/* What a replica states: it heard of its master at `heard_ns`, at this position of this stream. */
struct oracle_statement {
    unsigned conn;
    uint64_t made_ns, heard_ns;
};

/* It counts from when the process has read it, unless the connection ends with that: an error in front of it
 * may have ended it. */
void oracle_stated(const struct oracle_statement *s);

/* To be called when the request is made, and when it is answered. */
void oracle_asked(struct asked *a);
void oracle_answered(const struct asked *a, const struct cache_result *result);

/* Answers so far, by their source. */
extern unsigned oracle_answers[CACHE_SOURCES];

#endif
