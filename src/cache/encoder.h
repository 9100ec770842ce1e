/*
 * Makes the coded bodies of cached entries, in libuv's thread pool (docs/design.md, "The cache").
 *
 * The thread of the pool reads a plain body, which is immutable and referenced meanwhile. If the entry was
 * dropped or has another body when the coding is done, the coded body is discarded.
 */
#ifndef CACHE_ENCODER_H
#define CACHE_ENCODER_H

#include "base/coding.h"
#include "base/wait_group.h"
#include "cache/entries.h"

#include <uv.h>

/* Bodies outside of these bounds stay plain. The limit bounds the time until a shutdown. */
enum { ENCODER_MIN_BYTES = 512, ENCODER_MAX_BYTES = 1 << 20 };

/* A coded body is kept if it is shorter by one part in 8; coding uses one part in 10 of a processor. */
enum { ENCODER_GAIN_PART = 8, ENCODER_PART = 10 };

/* Embedded in the cache; private to encoder.c. */
struct encoder {
    uv_loop_t *loop;
    struct entries *entries;
    struct cache_metrics *metrics;
    struct wait_group *closing; /* NULL until encoder_close() */
    uint64_t pause_until_ns;    /* monotonic */
    bool busy;

    /* The body being coded. */
    uv_work_t work;
    enum entry_kind kind;
    int64_t number;
    enum coding coding;
    struct blob *plain; /* one reference */
    char *out;          /* owned */
    size_t room, len;
    uint64_t taken_ns;
};

/* All is borrowed. */
void encoder_init(struct encoder *e, uv_loop_t *loop, struct entries *entries, struct cache_metrics *metrics);

/* The last call. The encoder is an operation of `closing` until no thread works for it. */
void encoder_close(struct encoder *e, struct wait_group *closing);

/* The body of a hit in `coding` (not identity), plain while there is none. One reference for the caller. */
struct blob *encoder_body(struct encoder *e, const struct entry *entry, enum coding coding);

#endif
