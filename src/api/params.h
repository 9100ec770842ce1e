/* From a request to a question for the store: the key, and the parameters of each route. */
#ifndef API_PARAMS_H
#define API_PARAMS_H

#include "api/digest_cache.h"
#include "api/errors.h"
#include "api/routes.h"
#include "cache/cache.h"
#include "http/request.h"
#include "model/link.h"

struct params {
    struct cache_query cache;
    /*
     * What must be answered if the key is valid, whatever the store holds: a bad parameter, or a link that
     * can be nobody's. Then the store is asked about the key alone. API_ERROR_NONE otherwise.
     */
    enum api_error error;
};

/* What reading needs beside the request. The scratch buffer is changed; so is the memo. */
struct params_context {
    const struct link_hosts *hosts;
    struct digest_cache *memo;
    struct buf *scratch;
};

/*
 * Reads `request`, which matched `route` with the path segment `id`. The question borrows from the scratch
 * buffer. Returns 0, -ENOENT when there is no key, or -ENOMEM.
 */
int params_parse(struct params *q, const struct http_request *request, enum route route, struct span id,
                 const struct params_context *context) __attribute__((warn_unused_result));

#endif
