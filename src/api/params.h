/*
 * From an HTTP request to a cache query: the route, the API key, the parameters of the route.
 *
 * The paths are below a base path; their trailing slash is optional. The key is the header field X-Api-Key
 * or, when that is not sent, the query parameter api_key (docs/contract.md, "Authentication").
 */
#ifndef API_PARAMS_H
#define API_PARAMS_H

#include "api/response.h"
#include "base/digest.h"
#include "cache/cache.h"
#include "http/exchange.h"
#include "model/link.h"

/* --- The header fields that the API reads --- */

/* X(NAME, "name", treatment of repetition). A key that is sent twice is one key; two different keys are an
 * error. */
#define API_REQUEST_FIELDS(X)                                 \
    X(KEY, "x-api-key", SAME)                                 \
    X(ORIGIN, "origin", FIRST)                                \
    X(REQUEST_METHOD, "access-control-request-method", FIRST) \
    X(TRACEPARENT, "traceparent", FIRST)                      \
    X(REQUEST_ID, "x-request-id", FIRST)                      \
    X(ACCEPT_ENCODING, "accept-encoding", LIST)

enum api_request_field {
    API_FIELD_BEFORE_FIRST = HTTP_FIELD_COUNT - 1, /* the handler's fields follow those of http/ */
#define API_FIELD_ENUM(name, text, repeat) API_FIELD_##name,
    API_REQUEST_FIELDS(API_FIELD_ENUM)
#undef API_FIELD_ENUM
        API_FIELDS_END
};

_Static_assert((int)API_FIELDS_END <= (int)HTTP_FIELDS_MAX, "http/exchange.h has no room for so many");

/* --- Routes --- */

/* The routes that need no key come first; a setting makes the OpenAPI document need one. */
enum route { ROUTE_NONE, ROUTE_OPENAPI, ROUTE_LIST, ROUTE_CARD_BY_ID, ROUTE_CARD_BY_LINK, ROUTE_COUNT };

/* Their names in logs and metrics. */
#define ROUTE_NAMES "other", "openapi", "list", "card_by_id", "card_by_link"

/* The path segment in the place of an id. */
struct route_id {
    int error; /* that of parse_int64: -EINVAL, or -ERANGE for an integer that no channel can have */
    int64_t number;
};

/* The route of `path` (decoded) under `base_path` (begins and ends with a slash). *id is that of a card. */
enum route route_match(struct span base_path, struct span path, struct route_id *id);

const char *route_name(enum route r);

/* --- Keys --- */

/*
 * The digests of recently used valid keys: the same few keys arrive thousands of times per second, and
 * SHA-256 would be a large part of the cost of a request.
 *
 * A fixed table without collision lists: a key has one slot, and replaces the key that was there. Keys longer
 * than DIGEST_CACHE_KEY_MAX are not kept. Only keys that the owner reports as valid get a slot, so that a
 * flood of wrong keys evicts none. Keys are compared in constant time. An entry does not mean that the key is
 * still valid.
 */
enum { DIGEST_CACHE_SLOTS = 256, DIGEST_CACHE_KEY_MAX = 64 };

struct digest_cache_entry {
    unsigned char len; /* 0: free */
    char key[DIGEST_CACHE_KEY_MAX];
    struct digest digest;
};

struct digest_cache {
    struct digest_cache_entry slot[DIGEST_CACHE_SLOTS];
    struct digest_cache_entry latest; /* the key hashed last, until it is known to be valid */
};

/* The key with this digest is valid: it is kept if it was the latest to be hashed. */
void digest_cache_put(struct digest_cache *c, const struct digest *digest);

/* The key with this digest is invalid: it is erased, also in the slot that params_parse has found for it. */
void digest_cache_remove(struct digest_cache *c, unsigned slot, const struct digest *digest);

/* Wipes the keys. */
static inline void digest_cache_fini(struct digest_cache *c)
{
    explicit_bzero(c, sizeof *c);
}

/* --- Parameters --- */

struct params {
    struct cache_query cache;
    /*
     * The error response if the key is valid, for a bad parameter, or an id or link that no channel can have.
     * The query is then QUERY_AUTH_ONLY, as for the OpenAPI document. API_ERROR_NONE otherwise.
     */
    enum api_error error;
    unsigned slot; /* of the key in the digest cache */
};

/* What parsing needs besides the request. The scratch buffer and the digest cache are changed. */
struct params_context {
    const struct link_hosts *hosts;
    struct digest_cache *digests;
    struct buf *scratch;
};

/*
 * Parses `request`, which matched `route` with `id`. The query borrows from the scratch buffer, in which a
 * decoded key does not remain. Returns 0, -ENOENT when there is no key or an empty one, or -ENOMEM.
 */
int params_parse(struct params *p, const struct http_request *request, enum route route,
                 const struct route_id *id, const struct params_context *context)
    __attribute__((warn_unused_result));

#endif
