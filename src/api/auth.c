/* Finding the API key; see auth.h. */
#include "api/auth.h"

#include "base/encoding.h"

#include <errno.h>

static int digest_of_key(struct digest_cache *memo, struct span key, struct digest *out)
{
    if (key.len == 0)
        return -ENOENT;
    digest_cache_get(memo, key, out);
    return 0;
}

int auth_digest(const struct http_request *request, struct digest_cache *memo, struct buf *scratch,
                struct digest *out)
{
    struct span header = request->field[HTTP_FIELD_API_KEY];
    if (header.data != NULL)
        return digest_of_key(memo, header, out);
    struct span encoded = uri_query_find(request->query, SPAN("api_key"));
    if (encoded.len == 0)
        return -ENOENT;
    buf_clear(scratch);
    if (buf_reserve(scratch, encoded.len) != 0)
        return -ENOMEM;
    size_t n = uri_decode(encoded, scratch->data);
    int err = digest_of_key(memo, (struct span){scratch->data, n}, out);
    explicit_bzero(scratch->data, n);
    return err;
}
