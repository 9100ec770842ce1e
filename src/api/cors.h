/* Cross-origin requests of browsers (the CORS protocol of the Fetch standard). The origins that are allowed
 * are a list with commas between, or "*". */
#ifndef API_CORS_H
#define API_CORS_H

#include "http/exchange.h"

/*
 * Returns NULL when `origins` is empty, "*" or a list of scheme://host[:port] in the form that browsers send.
 * Otherwise returns the error in *which. An origin that cannot match is an error.
 */
const char *cors_origins_error(struct span origins, struct span *which);

/*
 * Adds the fields of a response to an allowed origin. Since a cache may serve the response to other requests,
 * it has "Vary: Origin", or the same fields for all if all origins are allowed.
 */
void cors_add_fields(struct span origins, const struct http_request *request, struct http_response *r);

/* The further fields of the response to a preflight request. */
void cors_add_preflight_fields(struct span origins, const struct http_request *request,
                               struct http_response *r);

#endif
