/* Cross-origin requests of browsers (the CORS protocol of the Fetch standard). Off unless origins are set. */
#ifndef API_CORS_H
#define API_CORS_H

#include "http/exchange.h"

struct cors {
    struct span origins; /* comma-separated, or "*"; empty: off. Borrowed */
};

static inline bool cors_enabled(const struct cors *c)
{
    return c->origins.len > 0;
}

/*
 * Returns NULL when `origins` is empty, "*" or a list of scheme://host[:port] in the form that browsers send,
 * or what is wrong with *which. An origin that could match nothing is an error.
 */
const char *cors_origins_error(struct span origins, struct span *which);

/*
 * Adds the fields of a response to an allowed origin; nothing when CORS is off. Since a cache may serve the
 * response to other requests, it has "Vary: Origin", or the same fields for all if all origins are allowed.
 */
void cors_add_fields(const struct cors *c, const struct http_request *request, struct http_response *r);

/* Adds the further fields of the response to a preflight request. */
void cors_add_preflight_fields(const struct cors *c, const struct http_request *request,
                               struct http_response *r);

#endif
