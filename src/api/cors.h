/* Cross-origin access from browsers (the Fetch standard's CORS protocol). Off unless origins are named. */
#ifndef API_CORS_H
#define API_CORS_H

#include "http/response.h"

struct cors {
    struct span origins; /* comma-separated, or "*"; empty: off. Borrowed */
};

static inline bool cors_enabled(const struct cors *c)
{
    return c->origins.len > 0;
}

/* True when `origins` is empty, "*" or a list of scheme://host[:port]. */
bool cors_origins_valid(struct span origins);

/* Adds what an answer to a page of an allowed origin needs; nothing when CORS is off. */
void cors_add_fields(const struct cors *c, const struct http_request *request, struct http_response *r);

/* Adds what the answer to a preflight request needs beside that. */
void cors_add_preflight_fields(const struct cors *c, const struct http_request *request,
                               struct http_response *r);

#endif
