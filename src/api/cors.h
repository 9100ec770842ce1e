/* Cross-origin access from browsers (the Fetch standard's CORS protocol). Off unless origins are named. */
#ifndef API_CORS_H
#define API_CORS_H

#include "api/request_fields.h"
#include "http/response.h"

struct cors {
    struct span origins; /* comma-separated, or "*"; empty: off. Borrowed */
};

static inline bool cors_enabled(const struct cors *c)
{
    return c->origins.len > 0;
}

/*
 * NULL when `origins` is empty, "*" or a list of scheme://host[:port] as browsers write them; else what is
 * wrong with *which: an origin that would match nothing is a mistake.
 */
const char *cors_origins_error(struct span origins, struct span *which);

/*
 * Adds what an answer to a page of an allowed origin needs; nothing when CORS is off. A cache may give an
 * answer to whoever asks next: so it says "Vary: Origin", and where all origins are allowed, so to a request
 * without one.
 */
void cors_add_fields(const struct cors *c, const struct http_request *request, struct http_response *r);

/* Adds what the answer to a preflight request needs beside that. */
void cors_add_preflight_fields(const struct cors *c, const struct http_request *request,
                               struct http_response *r);

#endif
