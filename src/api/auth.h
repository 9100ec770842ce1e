/* The API key of a request (contract, "Authentication"). */
#ifndef API_AUTH_H
#define API_AUTH_H

#include "api/digest_cache.h"
#include "base/buf.h"
#include "http/request.h"

/*
 * Finds the key in the header X-Api-Key or, when that is not sent, in the query parameter api_key, and takes
 * its digest. `scratch` is used for decoding and wiped. Returns 0, -ENOENT when there is no key or an empty
 * one, or -ENOMEM.
 */
int auth_digest(const struct http_request *request, struct digest_cache *memo, struct buf *scratch,
                struct digest *out) __attribute__((warn_unused_result));

#endif
