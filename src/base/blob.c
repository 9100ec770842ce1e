/* Finished bodies, shared by reference; see blob.h. */
#include "base/blob.h"

#include "base/digest.h"

#include <stdlib.h>

struct blob *blob_new(struct span bytes)
{
    if (bytes.len > SIZE_MAX - sizeof(struct blob))
        return NULL;
    struct blob *b = malloc(sizeof *b + bytes.len);
    if (b == NULL)
        return NULL;
    b->refs = 1;
    b->has_etag = false;
    b->len = bytes.len;
    if (bytes.len > 0)
        memcpy(b->data, bytes.data, bytes.len);
    return b;
}

struct blob *blob_new_tagged(struct span bytes)
{
    struct digest d;
    if (digest_sha256(bytes, &d) != 0)
        return NULL;
    struct blob *b = blob_new(bytes);
    if (b == NULL)
        return NULL;
    char hex[DIGEST_HEX_LEN];
    digest_hex(&d, hex);
    b->etag[0] = '"';
    memcpy(b->etag + 1, hex, BLOB_ETAG_LEN - 2);
    b->etag[BLOB_ETAG_LEN - 1] = '"';
    b->has_etag = true;
    return b;
}

struct blob *blob_ref(struct blob *b)
{
    b->refs++;
    return b;
}

void blob_unref(struct blob *b)
{
    if (b != NULL && --b->refs == 0)
        free(b);
}
