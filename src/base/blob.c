/* Response bodies, shared by reference; see blob.h. */
#include "base/blob.h"

#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#ifdef XXHASH_DISPATCH
#include <xxh_x86dispatch.h> /* replaces XXH3_128bits */
#else
#include <xxhash.h>
#endif

static struct blob *blob_make(struct span bytes, size_t headroom)
{
    char *block = malloc(headroom + sizeof(struct blob) + bytes.len);
    if (block == NULL)
        return NULL;
    struct blob *b = (struct blob *)(void *)(block + headroom);
    *b = (struct blob){.refs = 1, .headroom = (uint16_t)headroom, .len = bytes.len};
    (void)span_put(bytes, b->data);
    /* cppcheck-suppress memleak ; b is inside the block: blob_block() finds its start */
    return b;
}

_Static_assert(BLOB_ETAG_LEN == 2 * sizeof(XXH128_canonical_t) + 2, "two digits per byte, in quotes");

static void blob_tag(struct blob *b)
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(b->data, b->len));
    b->etag[0] = '"';
    hex_write(digest.digest, sizeof digest.digest, b->etag + 1);
    b->etag[BLOB_ETAG_LEN - 1] = '"';
    b->etag_len = BLOB_ETAG_LEN;
}

struct span blob_etag_coded(const struct blob *b, enum coding coding, char out[BLOB_ETAG_MAX])
{
    assert(b->etag_len > 0);
    char *at = span_put((struct span){b->etag, BLOB_ETAG_LEN - 1}, out); /* without the closing quote */
    if (coding != CODING_IDENTITY) {
        *at++ = '-';
        at = span_put(coding_name(coding), at);
    }
    *at++ = '"';
    assert(at <= out + BLOB_ETAG_MAX);
    return (struct span){out, (size_t)(at - out)};
}

struct blob *blob_new(struct span bytes)
{
    return blob_make(bytes, 0);
}

struct blob *blob_new_headroom(struct span bytes, size_t headroom)
{
    struct blob *b = blob_make(bytes, headroom);
    if (b != NULL)
        blob_tag(b);
    return b;
}

struct blob *blob_new_coded(struct span bytes, enum coding coding, const struct blob *tagged)
{
    assert(coding != CODING_IDENTITY);
    struct blob *b = blob_make(bytes, 0);
    if (b == NULL)
        return NULL;
    b->coding = (unsigned char)coding;
    b->etag_len = (unsigned char)blob_etag_coded(tagged, coding, b->etag).len;
    return b;
}

struct blob *blob_finish(struct buf *b)
{
    if (buf_error(b) != 0) {
        buf_fini(b);
        return NULL;
    }
    assert(b->len >= sizeof(struct blob));
    void *smaller = realloc(b->data, b->len);
    struct blob *blob = smaller != NULL ? smaller : (void *)b->data;
    *blob = (struct blob){.refs = 1, .len = b->len - sizeof(struct blob)};
    blob_tag(blob);
    *b = BUF_INIT;
    /* cppcheck-suppress memleak ; `smaller` is the blob */
    return blob;
}

void *blob_claim_headroom(struct blob *b, size_t size)
{
    if (b->headroom_taken || b->headroom < size)
        return NULL;
    b->headroom_taken = true;
    return blob_block(b);
}

void blob_unref(struct blob *b)
{
    if (b == NULL)
        return;
    assert(b->refs > 0);
    if (--b->refs == 0)
        free(blob_block(b));
}
