/*
 * Requests by the name of their API key, if the key is valid or has expired: by the class of their status,
 * and how many were refused because the key has expired (401) or is over its rate (429). The number of names
 * is bounded: all further names count as "other".
 *
 * One struct per worker, written by that worker alone; the admin listener reads and adds them up. A name
 * keeps its place for as long as the process runs.
 */
#ifndef API_KEY_METRICS_H
#define API_KEY_METRICS_H

#include "base/hash.h"
#include "base/metrics.h"
#include "model/api_key.h"

#include <stdlib.h>

enum { KEY_METRICS_NAMES = 200, KEY_METRICS_SLOTS = 512 };

/* What is counted: statuses of 200, 300, 400 and 500 and above, and two reasons of a refusal. */
enum key_count { KEY_2XX, KEY_3XX, KEY_4XX, KEY_5XX, KEY_EXPIRED, KEY_LIMITED, KEY_COUNTS };

struct key_counts {
    _Atomic uint64_t of[KEY_COUNTS];
};

struct key_metrics {
    atomic_uint used; /* names below it no longer change */
    struct api_key_name name[KEY_METRICS_NAMES];
    struct key_counts counts[KEY_METRICS_NAMES];
    struct key_counts unnamed, other;
    uint16_t slot[KEY_METRICS_SLOTS]; /* by hash, the place of a name plus 1; 0: free. The writer's alone */
    uint64_t seed;
};

/* Owned (free); NULL when out of memory. */
static inline struct key_metrics *key_metrics_new(void)
{
    struct key_metrics *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->seed = random_seed(m);
    return m;
}

/* The key is known. */
void key_metrics_count(struct key_metrics *m, const struct api_key_name *name, int status);

/*
 * Adds `from` to `sum`, which belongs to the caller and has places for as many names. A name that had one
 * before keeps it, so that no series ever goes back.
 */
void key_metrics_accumulate(struct key_metrics *sum, const struct key_metrics *from);

/* Writes the sum in the Prometheus text format, and sets all numbers to 0; the names keep their places. */
void key_metrics_write(struct buf *out, struct key_metrics *sum);

#endif
