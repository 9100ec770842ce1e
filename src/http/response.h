/* A response as the handler states it, and the head that is written for it. */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include "base/blob.h"
#include "base/buf.h"
#include "http/request.h"

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

/*
 * Makes `r` a response without fields and of the default type. For one that is used again and again: what it
 * has room for is not cleared.
 */
static inline void http_response_begin(struct http_response *r, int status, struct blob *body)
{
    r->status = status;
    r->body = body;
    r->content_type = NULL;
    r->field_count = 0;
}

/* Adds a field; name and value are borrowed until the response is given. What is beyond the maximum is a bug.
 */
void http_response_add(struct http_response *r, struct span name, struct span value);

/* What the head depends on beside the response itself. */
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

/* "Not Found" for 404; "Unknown" for what this program never sends. */
const char *http_status_text(int status);

#endif
