/* Writing response heads; see response.h. */
#include "http/response.h"

#include <assert.h>

void http_response_add(struct http_response *r, const char *name, struct span value)
{
    assert(r->field_count < HTTP_RESPONSE_FIELDS_MAX);
    r->field[r->field_count++] = (struct http_field){name, value};
}

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } known[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].status == status)
            return known[i].text;
    return "Unknown";
}

static void write_field(struct buf *out, const char *name, struct span value)
{
    buf_append_str(out, name);
    buf_append(out, ": ", 2);
    buf_append_span(out, value);
    buf_append(out, "\r\n", 2);
}

static void write_content_fields(struct buf *out, const struct http_response *r)
{
    if (r->status == 204 || r->status == 304)
        return;
    write_field(out, "Content-Type", span_of(r->content_type == NULL ? "application/json" : r->content_type));
    buf_append_str(out, "Content-Length: ");
    buf_append_int(out, r->body == NULL ? 0 : (int64_t)r->body->len);
    buf_append(out, "\r\n", 2);
}

void http_response_write_head(struct buf *out, const struct http_response *r, const struct http_head_context *context)
{
    buf_append_str(out, "HTTP/1.1 ");
    buf_append_int(out, r->status);
    buf_append_char(out, ' ');
    buf_append_str(out, http_status_text(r->status));
    buf_append(out, "\r\n", 2);
    write_field(out, "Date", context->date);
    write_content_fields(out, r);
    write_field(out, "X-Content-Type-Options", SPAN("nosniff"));
    if (r->body != NULL && r->body->has_etag)
        write_field(out, "ETag", blob_etag(r->body));
    for (unsigned i = 0; i < r->field_count; i++)
        write_field(out, r->field[i].name, r->field[i].value);
    if (context->close)
        write_field(out, "Connection", SPAN("close"));
    else if (context->minor_version == 0)
        write_field(out, "Connection", SPAN("keep-alive"));
    buf_append(out, "\r\n", 2);
}
