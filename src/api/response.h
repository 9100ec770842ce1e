/* What of responses does not come from Redis: errors, the OpenAPI description, the Link field of a page. */
#ifndef API_RESPONSE_H
#define API_RESPONSE_H

#include "base/blob.h"
#include "base/buf.h"

/* X(NAME, status, text). The texts are short, stable and never echo what the client sent. The base path
 * follows that of OUTSIDE_API. */
#define API_ERRORS(X)                                                    \
    X(BAD_PAGE, 400, "Parameter page must be a positive integer")        \
    X(BAD_CHANNEL_ID, 400, "Parameter channel_id must be an integer")    \
    X(LINK_MISSING, 400, "Parameter link is required")                   \
    X(MALFORMED, 400, "Malformed request")                               \
    X(UNAUTHORIZED, 401, "Invalid or missing API key")                   \
    X(CHANNEL_NOT_FOUND, 404, "Channel not found")                       \
    X(PATH_NOT_FOUND, 404, "Path not found")                             \
    X(OUTSIDE_API, 404, "Path not found: the API is under ")             \
    X(METHOD_NOT_ALLOWED, 405, "Method not allowed")                     \
    X(TOO_MANY_REQUESTS, 429, "Too many requests")                       \
    X(PRECONDITION_FAILED, 412, "Precondition failed")                   \
    X(TOO_MUCH_UNSENT, 503, "Too many large responses")                  \
    X(REQUEST_TIMEOUT, 408, "Request was not received in time")          \
    X(CONTENT_TOO_LARGE, 413, "Request content is too large")            \
    X(URI_TOO_LONG, 414, "Request target is too long")                   \
    X(HEAD_TOO_LARGE, 431, "Request header fields are too large")        \
    X(INTERNAL, 500, "Internal server error")                            \
    X(NOT_IMPLEMENTED, 501, "Method or transfer coding not implemented") \
    X(OVERLOADED, 503, "Too many connections")                           \
    X(HTTP_VERSION, 505, "HTTP version not supported")

enum api_error {
#define API_ERROR_ENUM(name, status, text) API_ERROR_##name,
    API_ERRORS(API_ERROR_ENUM)
#undef API_ERROR_ENUM
        API_ERROR_COUNT,
    API_ERROR_NONE = API_ERROR_COUNT
};

/* The bodies are owned. */
struct api_bodies {
    struct blob *error[API_ERROR_COUNT];

    /* docs/openapi.json, with entity tags. It is compressed at the start, so that a request for it costs no
     * more than one for a cached page. */
    struct blob *openapi[CODINGS];
};

/* Makes the bodies; the API is under `base_path` (begins and ends with a slash). Returns 0 or -ENOMEM;
 * call api_bodies_fini in both cases. */
int api_bodies_init(struct api_bodies *b, struct span base_path) __attribute__((warn_unused_result));
void api_bodies_fini(struct api_bodies *b);

int api_error_status(enum api_error error);

/* The error for a request that the HTTP server rejects with `status`. */
enum api_error api_error_for_status(int status);

/* A base path, and the value of the Link field for one, has at most so many bytes. */
enum { API_BASE_PATH_MAX = 128, PAGE_LINKS_MAX = 4 * (64 + API_BASE_PATH_MAX + INT64_DIGITS_MAX) };

/* The value of the Link field (RFC 8288), which is in `out`, for `page` of `last` pages (both from 1; `page`
 * may lie beyond the last). The targets contain only the page number: another parameter may be a key. */
struct span page_links_write(char out[PAGE_LINKS_MAX], struct span base_path, int64_t page, int64_t last);

#endif
