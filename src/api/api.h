/*
 * The three endpoints (docs/contract.md, "Endpoints"), and their description, as an HTTP handler. A request
 * is checked in this order: route, method, key and its rate, parameters. One api belongs to one worker.
 */
#ifndef API_API_H
#define API_API_H

#include "api/access_log.h"
#include "api/metrics.h"
#include "api/rate_limit.h"
#include "api/response.h"
#include "base/settings.h"
#include "cache/cache.h"
#include "http/exchange.h"
#include "model/link.h"

#include <stdatomic.h>

struct api;

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
/* The settings as rows of a table, for a struct api_settings that is this member of `type`. */
#define API_SETTINGS(type, member) \
    SETTING_ROW(type, member.base_path, TEXT, "base-path", "/api/", 0, 0, "Path prefix of the API"), \
    SETTING_WORDS(type, member.compression, "compression", "on", "off|on", \
      "on or off: gzip and zstd for clients that accept them"), \
    SETTING_WORDS(type, member.openapi_auth, "openapi-auth", "off", "off|on", \
      "on or off: openapi.json requires an API key too"), \
    SETTING_WORDS(type, member.log_clients, "log-clients", "on", "off|on", \
      "on or off: the client's address in the access log"), \
    SETTING_ROW(type, member.cors_origins, TEXT, "cors-origins", "", 0, 0, \
      "Origins whose pages may call the API, separated by commas, or *")
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

struct api_settings {
    char *base_path;                                /* begins and ends with a slash */
    char *cors_origins;                             /* see cors.h; empty: CORS is off */
    int64_t compression, openapi_auth, log_clients; /* 1: on */
};

struct api_options {
    struct cache *cache; /* borrowed, as are all pointers here */
    struct request_metrics *metrics;
    struct rate_limit *rate_limit;   /* one for the process; NULL: none */
    struct key_metrics *key_metrics; /* NULL: requests are not counted by the name of their key */
    struct link_hosts hosts;
    const atomic_int *access_log; /* a share; see access_log.h. Another thread may change it */
    struct api_settings settings;
};

/* Owned by the caller (api_free, after the server that uses it was closed). Returns 0 or -ENOMEM. */
int api_new(const struct api_options *options, struct api **out) __attribute__((warn_unused_result));
void api_free(struct api *a);

/* The handler for the HTTP server; borrows `a`. */
struct http_handler api_handler(struct api *a);

#endif
