/*
 * Traces of requests for objects, generated from a seed: the same ones each time.
 *
 * How often an object is requested follows Zipf's law; which object has which rank is random. A trace may
 * contain a crawler, which begins after the warm-up, makes every CRAWLER_INTERVAL-th request from then on and
 * requests each object once, in the order of their numbers; the trace ends with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRAWLER_INTERVAL = 5 };

/* The next use of what is not requested again. */
#define NEVER UINT32_MAX

struct trace_options {
    uint32_t objects, warm_up;
    uint32_t counted; /* requests after the warm-up; with a crawler, until it is done */
    double skew;      /* the n-th most popular object is requested in proportion to 1 / n^skew */
    bool crawler;
    uint64_t seed; /* not 0 */
};

struct trace {
    struct trace_options options;
    uint32_t length;
    uint32_t *object;   /* of each request, below options.objects */
    uint32_t *next_use; /* of each request: the next one for the same object */
    uint32_t *rank;     /* of each object: 0 for the most popular */
    double *cumulative; /* of each rank: the share of readers' requests for it and all above it */
};

void trace_init(struct trace *s, const struct trace_options *options);
void trace_fini(struct trace *s);

/* Whether the request is the crawler's. */
bool trace_is_crawler(const struct trace *s, uint32_t at);
