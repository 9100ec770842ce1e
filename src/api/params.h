/* From an HTTP request to a cache query: the route, the API key, the parameters of the route. */
#ifndef API_PARAMS_H
#define API_PARAMS_H

#include "api/response.h"
#include "base/digest.h"
#include "cache/cache.h"
#include "http/exchange.h"
#include "model/link.h"

enum route { ROUTE_NONE, ROUTE_OPENAPI, ROUTE_LIST, ROUTE_CARD_BY_ID, ROUTE_CARD_BY_LINK, ROUTE_COUNT };

/* Their names in logs and metrics. */
#define ROUTE_NAMES "other", "openapi", "list", "card_by_id", "card_by_link"

/*
 * The digests of recently used keys: SHA-256 would be a large part of the cost of a request. A key has one
 * slot, and replaces the key that was there; longer ones are not kept. Keys are compared in constant time. An
 * entry does not mean that the key is valid; the owner erases those that it finds invalid.
 */
enum { DIGEST_CACHE_SLOTS = 256, DIGEST_CACHE_KEY_MAX = 64 };

struct digest_cache_entry {
    unsigned char len; /* 0: free */
    char key[DIGEST_CACHE_KEY_MAX];
    struct digest digest;
};

struct params {
    struct cache_query cache;
    /*
     * The error response if the key is valid, for a bad parameter, or an id or link that no channel can have.
     * The query is then QUERY_AUTH_ONLY, as for the OpenAPI document. API_ERROR_NONE otherwise.
     */
    enum api_error error;
    struct digest_cache_entry *slot; /* of the key */
};

/* What parsing needs besides the request. Zero-initialised, but for the hosts. */
struct params_parser {
    struct link_hosts hosts;
    struct buf scratch;
    struct digest_cache_entry digests[DIGEST_CACHE_SLOTS];
};

/* The route of `path` (decoded) under `base_path` (begins and ends with a slash). Sets *p, with the id of a
 * card or its error. */
enum route params_match(struct params *p, struct span base_path, struct span path);

/*
 * Parses `request`, after params_match. The query borrows from the scratch buffer, in which a decoded key
 * does not remain. Returns 0, -ENOENT when there is no key or an empty one, or -ENOMEM.
 */
int params_parse(struct params_parser *parser, struct params *p, const struct http_request *request,
                 enum route route) __attribute__((warn_unused_result));

void params_erase_key(const struct params *p);

/* Erases all keys, and frees the buffer. */
void params_parser_fini(struct params_parser *parser);

#endif
