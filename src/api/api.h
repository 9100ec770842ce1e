/*
 * The three endpoints (docs/contract.md, "Endpoints"), and their description, as an HTTP handler. A request
 * is checked in this order: route, method, key and its rate, parameters. One api belongs to one worker.
 */
#ifndef API_API_H
#define API_API_H

#include "api/access_log.h"
#include "api/metrics.h"
#include "api/rate_limit.h"
#include "cache/cache.h"
#include "http/exchange.h"
#include "model/link.h"

#include <stdatomic.h>

struct api;

struct api_options {
    struct cache *cache; /* borrowed, as are all pointers here */
    struct request_metrics *metrics;
    struct rate_limit *rate_limit;   /* one for the process; NULL: none */
    struct span base_path;           /* begins and ends with a slash */
    struct key_metrics *key_metrics; /* NULL: requests are not counted by the name of their key */
    struct link_hosts hosts;
    struct span cors_origins;     /* see cors.h; empty: CORS is off */
    const atomic_int *access_log; /* a share; see access_log.h. Another thread may change it */
    bool log_clients;             /* the access log shows client addresses */
    bool openapi_auth;            /* the OpenAPI document needs a key */
    bool compression; /* content is sent in the coding that the client prefers, if it exists in that coding */
};

/* Owned by the caller (api_free, after the server that uses it was closed). Returns 0 or -ENOMEM. */
int api_new(const struct api_options *options, struct api **out) __attribute__((warn_unused_result));
void api_free(struct api *a);

/* The handler for the HTTP server; borrows `a`. */
struct http_handler api_handler(struct api *a);

#endif
