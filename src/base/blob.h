/*
 * A finished body: immutable bytes, their entity tag and a count of owners.
 *
 * A connection that is still writing a body holds a reference, so that the body survives being replaced
 * meanwhile. The count is not atomic: a blob belongs to the thread that made it.
 */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include "base/span.h"

#include <stdint.h>

/*
 * A strong entity tag (RFC 9110 section 8.8.3): the body's XXH3 of 128 bits in hex, in quotes, the same on
 * every machine. It tells versions of one resource apart and defends against nobody: who could make two of
 * them collide would hide a change of their own text from caches that have the one before.
 */
enum { BLOB_ETAG_LEN = 34 };

struct blob {
    uint32_t refs;
    uint16_t front; /* bytes of the same block that lie before this */
    bool has_etag;
    bool front_taken;
    char etag[BLOB_ETAG_LEN];
    size_t len;
    char data[];
};

/* Rounds the size of a front up to what blob_new_headroom takes. */
#define BLOB_HEADROOM_ALIGN(size) (((size) + 15) / 16 * 16)

/* A copy of `bytes` without entity tag. Owned by the caller (one reference); NULL when out of memory. */
struct blob *blob_new(struct span bytes);

/* The same with its entity tag. */
struct blob *blob_new_tagged(struct span bytes);

/*
 * The same as blob_new_tagged with `front` free bytes before it, a multiple of 16 and at most UINT16_MAX:
 * memory for whoever keeps the blob, which lives as long as the blob does.
 */
struct blob *blob_new_headroom(struct span bytes, size_t front);

/* The front for the caller's use, who holds a reference as long; NULL when it is taken or smaller than
 * `size`. */
void *blob_take_headroom(struct blob *b, size_t size);

/* The allocator's block that the blob is in. */
static inline void *blob_block(struct blob *b)
{
    return (char *)b - b->front;
}

/* Takes one more reference; returns `b`. */
struct blob *blob_ref(struct blob *b);

/* Gives one reference back; the last one frees. NULL is allowed. */
void blob_unref(struct blob *b);

static inline struct span blob_etag(const struct blob *b)
{
    return b->has_etag ? (struct span){b->etag, BLOB_ETAG_LEN} : SPAN_ABSENT;
}

#endif
