#ifndef FAULTS_FANOUT_H
#define FAULTS_FANOUT_H

#include "faults/testbed.h"

/*
 * A fan-out client: it sends the same request over many connections at once, so many that each worker has
 * some. After its responses the content is cached by every worker.
 */

enum { FANOUT_SIZE = 12 };

struct fanout {
    struct http_conn conns[FANOUT_SIZE];
    const char *headers; /* of every request; FIXTURE_AUTH at first */
};

void fanout_open(struct fanout *fanout, struct testbed *bed);
void fanout_close(struct fanout *fanout);

/* Sends the request over every connection; the responses are read by one of the functions below. */
void fanout_send(struct fanout *fanout, const char *path);

/* Asserts that every response has this status and, unless it is NULL, this body, which it frees. */
void fanout_expect(struct fanout *fanout, int status, char *body);

/* How many responses are 200 with this body; asserts that the others are 200 with `instead`. */
int fanout_count(struct fanout *fanout, const char *body, const char *instead);

/* Both together. */
void fanout_ask(struct fanout *fanout, const char *path, int status, char *body);

/* Repeats that until every response is as expected. */
void fanout_await(struct fanout *fanout, const char *path, int status, char *body);

/* Whether all workers serve the second version of card 1, and none another but the first. */
bool fanout_serves_version_2(void *bed);

/* True when no response of a fan-out cost a Redis command. */
bool fanout_is_cached(struct testbed *bed);

#endif
