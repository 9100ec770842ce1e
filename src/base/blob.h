/* A response body: immutable bytes, their content coding and entity tag. It belongs to the thread that
 * created it: its reference count is not atomic. */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include "base/buf.h"
#include "base/coding.h"

#include <assert.h>
#include <stdint.h>

/*
 * A strong entity tag (RFC 9110 section 8.8.3): the body's XXH3 of 128 bits in hex, in quotes. Forging a
 * collision would only hide its author's change from clients that cached the earlier version.
 * A coded body has that of the plain body, with "-gzip" or "-zstd" before the closing quote.
 */
enum { BLOB_ETAG_LEN = 34, BLOB_ETAG_MAX = BLOB_ETAG_LEN + 1 + CODING_NAME_LEN };

struct blob {
    uint32_t refs;
    uint32_t writes;   /* writes in progress that hold it; for http/output.h */
    uint16_t headroom; /* bytes of the same block before the blob */
    bool headroom_taken;
    unsigned char etag_len; /* 0: it has none */
    char etag[BLOB_ETAG_MAX];
    unsigned char coding; /* an enum coding */
    size_t len;
    char data[];
};

/* A multiple of 16, as blob_new_headroom needs it. */
#define BLOB_HEADROOM_ALIGN(size) (((size) + 15) / 16 * 16)

/* A copy of `bytes` without entity tag. Owned by the caller (one reference); NULL when out of memory. */
struct blob *blob_new(struct span bytes);

/* The same with its entity tag, and with `headroom` free bytes before the blob, at most UINT16_MAX: memory
 * for the cache entry that holds the blob. It lives as long as the blob. */
struct blob *blob_new_headroom(struct span bytes, size_t headroom);

/*
 * A blob that is written where it stays: blob_begin makes room for the blob itself and about `expected` bytes
 * in an empty buffer, then its bytes are appended. blob_finish takes the memory of the buffer, which is empty
 * again, and adds the entity tag. NULL when out of memory, also before.
 */
static inline void blob_begin(struct buf *b, size_t expected)
{
    assert(b->len == 0);
    if (buf_reserve(b, sizeof(struct blob) + expected) == 0)
        b->len = sizeof(struct blob);
}

struct blob *blob_finish(struct buf *b);

/* A copy of `bytes`, which are `tagged` in a coding other than identity. NULL when out of memory. */
struct blob *blob_new_coded(struct span bytes, enum coding coding, const struct blob *tagged);

/* The headroom, for a caller that holds a reference while using it; NULL when it is taken or smaller than
 * `size`. */
void *blob_claim_headroom(struct blob *b, size_t size);

/* The allocated block that contains the blob. */
static inline void *blob_block(struct blob *b)
{
    return (char *)b - b->headroom;
}

static inline struct blob *blob_ref(struct blob *b)
{
    b->refs++;
    return b;
}

/* NULL is allowed. */
void blob_unref(struct blob *b);

static inline struct span blob_etag(const struct blob *b)
{
    return b->etag_len > 0 ? (struct span){b->etag, b->etag_len} : SPAN_ABSENT;
}

/* The entity tag in `coding` of what `b`, which has a tag, is a body of; written to `out`. */
struct span blob_etag_coded(const struct blob *b, enum coding coding, char out[BLOB_ETAG_MAX]);

#endif
