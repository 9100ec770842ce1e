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

/* A strong entity tag (RFC 9110 section 8.8.3): 128 bits of the body's SHA-256 in hex, in quotes. */
enum { BLOB_ETAG_LEN = 34 };

struct blob {
    uint32_t refs;
    bool has_etag;
    char etag[BLOB_ETAG_LEN];
    size_t len;
    char data[];
};

/* A copy of `bytes` without entity tag. Owned by the caller (one reference); NULL when out of memory. */
struct blob *blob_new(struct span bytes);

/* The same with its entity tag. */
struct blob *blob_new_tagged(struct span bytes);

/* Takes one more reference; returns `b`. */
struct blob *blob_ref(struct blob *b);

/* Gives one reference back; the last one frees. NULL is allowed. */
void blob_unref(struct blob *b);

static inline struct span blob_etag(const struct blob *b)
{
    return b->has_etag ? (struct span){b->etag, BLOB_ETAG_LEN} : SPAN_ABSENT;
}

#endif
