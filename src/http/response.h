/* A response of the handler: its head with Date, and the preconditions on entity tags. */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "base/blob.h"
#include "base/buf.h"
#include "http/codings.h"

#include <assert.h>

/* X(status, reason phrase): those of all responses, the most frequent first. */
#define HTTP_STATUSES(X)                      \
    X(200, "OK")                              \
    X(304, "Not Modified")                    \
    X(401, "Unauthorized")                    \
    X(404, "Not Found")                       \
    X(400, "Bad Request")                     \
    X(500, "Internal Server Error")           \
    X(429, "Too Many Requests")               \
    X(204, "No Content")                      \
    X(405, "Method Not Allowed")              \
    X(408, "Request Timeout")                 \
    X(412, "Precondition Failed")             \
    X(413, "Content Too Large")               \
    X(414, "URI Too Long")                    \
    X(431, "Request Header Fields Too Large") \
    X(501, "Not Implemented")                 \
    X(503, "Service Unavailable")             \
    X(505, "HTTP Version Not Supported")

enum http_status_place {
#define HTTP_STATUS_PLACE(status, text) HTTP_STATUS_##status,
    HTTP_STATUSES(HTTP_STATUS_PLACE)
#undef HTTP_STATUS_PLACE
        HTTP_STATUS_COUNT
};

/* The place of a status in this list, in which it is. */
enum http_status_place http_status_place(int status);

/* A body of more bytes is large: it is not sent where too many are unsent (http/exchange.h). */
enum { HTTP_RESPONSE_LARGE = 64 * 1024 };

/* The request fields that a response depends on, for Vary (RFC 9110 section 12.5.5). */
enum { HTTP_VARY_ORIGIN = 1, HTTP_VARY_ACCEPT_ENCODING = 2 };

struct http_response {
    int status;
    unsigned vary;            /* HTTP_VARY_ bits */
    struct blob *body;        /* borrowed during the call; NULL: no content */
    const char *content_type; /* NULL: application/json */
    struct span etag;         /* borrowed; absent: that of the body, if it has one */
    struct buf fields;        /* further ones, as lines; owned, and kept for the next response */
};

/* Makes `r`, which is zeroed before its first use, a response without fields and of the default type, and
 * returns it. */
static inline struct http_response *http_response_begin(struct http_response *r, int status,
                                                        struct blob *body)
{
    r->status = status;
    r->vary = 0;
    r->body = body;
    r->content_type = NULL;
    r->etag = SPAN_ABSENT;
    buf_clear(&r->fields);
    return r;
}

/* Adds a field. Where there is no memory for it the connection is closed. */
static inline void http_response_add(struct http_response *r, struct span name, struct span value)
{
    if (buf_reserve(&r->fields, name.len + value.len + 4) != 0)
        return;
    char *at = span_put(name, r->fields.data + r->fields.len);
    at = span_put(value, span_put(SPAN(": "), at));
    at = span_put(SPAN("\r\n"), at);
    r->fields.len = (size_t)(at - r->fields.data);
}

/*
 * Appends the status line and header section. Content-Encoding and the entity tag are the body's, if it has
 * any; a status without content (204, 304) has neither type nor length. `minor_version` is that of the
 * request; `close`: the connection ends with this response.
 */
void http_response_write_head(struct buf *out, const struct http_response *r, struct span date,
                              int minor_version, bool close);

/*
 * The element of If-Match or If-None-Match (a list, or "*") that is `etag`, by strong or weak comparison (RFC
 * 9110 section 8.8.3.2): a span of the list, or `etag` itself for "*"; absent when it is not listed.
 */
struct span http_etag_find(struct span list, struct span etag, bool strong);

/*
 * Evaluates the preconditions of a request (RFC 9110 section 13.2.2), each a list or "*", or absent: a 200
 * with a tagged body may become 412, for which the handler has to respond with an error, or 304. The tags of
 * all acceptable codings match, whichever coding the body has.
 */
void http_response_evaluate_preconditions(struct http_response *r, struct span match, struct span none_match,
                                          const struct http_codings *codings);

/* Writes the value of Date (RFC 9110 section 6.6.1), with a NUL. */
enum { HTTP_DATE_LEN = 29 };
void http_date_write(char out[HTTP_DATE_LEN + 1]);

#endif
