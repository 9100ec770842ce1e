/*
 * Streams of requests for objects, made from a seed: the same ones each time.
 *
 * How often an object is asked for follows Zipf's law; which object is the popular one is chance. A stream
 * may have a crawler in it, which begins when the warm-up is over, makes every CRAWLER_TURN-th request from
 * then on and asks for each object once, in order of their numbers; the stream ends with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRAWLER_TURN = 5 };

/* The next use of what is not asked for again. */
#define NEVER UINT32_MAX

struct stream_options {
    uint32_t objects, warm_up;
    uint32_t counted; /* requests after the warm-up; with a crawler it is as many as the crawler takes */
    double skew;      /* the n-th popular object is asked for in proportion to 1 / n^skew */
    bool crawler;
    uint64_t seed; /* not 0 */
};

struct stream {
    struct stream_options options;
    uint32_t length;
    uint32_t *object;   /* which one each request is for, below options.objects */
    uint32_t *next_use; /* where in the stream that one is asked for again */
    uint32_t *rank;     /* of each object: 0 for the most popular */
    double *cumulative; /* of each rank: the share of readers' requests that go to it and all above it */
};

void stream_init(struct stream *s, const struct stream_options *options);
void stream_fini(struct stream *s);

/* Whether the request is the crawler's. */
bool stream_is_crawled(const struct stream *s, uint32_t at);
