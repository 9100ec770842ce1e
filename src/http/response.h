/* A response of the handler; writing its head, with Date; comparison of entity tags. */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "base/blob.h"
#include "base/buf.h"

#include <assert.h>
#include <time.h>

enum { HTTP_RESPONSE_FIELDS_MAX = 12 };

struct http_field {
    struct span name; /* as it is to be written */
    struct span value;
};

struct http_response {
    int status;
    struct blob *body;        /* borrowed during the call; NULL: no content */
    const char *content_type; /* NULL: application/json */
    unsigned field_count;
    struct http_field field[HTTP_RESPONSE_FIELDS_MAX];
};

/* Makes `r` a response without fields and of the default type. Cheap for a response that is reused: the array
 * of fields is not cleared. */
static inline void http_response_begin(struct http_response *r, int status, struct blob *body)
{
    r->status = status;
    r->body = body;
    r->content_type = NULL;
    r->field_count = 0;
}

/* Adds a field. Name and value are borrowed until the response is given. The maximum is asserted. */
static inline void http_response_add(struct http_response *r, struct span name, struct span value)
{
    assert(r->field_count < HTTP_RESPONSE_FIELDS_MAX);
    r->field[r->field_count++] = (struct http_field){name, value};
}

/* Properties of the connection and the request that the head depends on. */
struct http_head_context {
    struct span date;
    int minor_version; /* of the request */
    bool close;        /* the connection ends with this response */
};

/*
 * Appends the status line and header section. The entity tag of the body is sent with it; a status without
 * content (204, 304) has neither type nor length.
 */
void http_response_write_head(struct buf *out, const struct http_response *r,
                              const struct http_head_context *context);

/* The reason phrase: "Not Found" for 404; "Unknown" for a status that is never sent. */
const char *http_status_text(int status);

/* True when If-None-Match (a list, or "*") contains `etag` by weak comparison (RFC 9110 section 13.1.2). */
bool http_etag_listed(struct span if_none_match, struct span etag);

/* The Date header field (RFC 9110 section 6.6.1), formatted once per second. */
enum { HTTP_DATE_LEN = 29 };

struct http_date {
    time_t second; /* that `text` shows */
    char text[HTTP_DATE_LEN + 1];
};

/* Brings `d` up to the wall clock; to be called a few times per second. */
void http_date_refresh(struct http_date *d);

static inline struct span http_date_span(const struct http_date *d)
{
    return (struct span){d->text, HTTP_DATE_LEN};
}

#endif
