/* Writing response heads; see response.h. */
#include "http/response.h"

#include <assert.h>

void http_response_add(struct http_response *r, struct span name, struct span value)
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

/* Room for everything but the fields that the handler adds. */
enum { HEAD_BASE_MAX = 512 };

static size_t room_needed(const struct http_response *r)
{
    size_t need = HEAD_BASE_MAX + (r->content_type == NULL ? 0 : strlen(r->content_type));
    for (unsigned i = 0; i < r->field_count; i++)
        need += r->field[i].name.len + r->field[i].value.len + 4;
    return need;
}

static char *put_number(int64_t n, char *at)
{
    return at + format_int64(n, at);
}

static char *put_status_line(char *at, int status)
{
    if (status == 200)
        return span_put(SPAN("HTTP/1.1 200 OK\r\n"), at);
    at = span_put(SPAN("HTTP/1.1 "), at);
    at = put_number(status, at);
    at = span_put(SPAN(" "), at);
    at = span_put(span_of(http_status_text(status)), at);
    return span_put(SPAN("\r\n"), at);
}

static char *put_content_fields(char *at, const struct http_response *r)
{
    if (r->status == 204 || r->status == 304)
        return at;
    if (r->content_type == NULL) {
        at = span_put(SPAN("Content-Type: application/json\r\nContent-Length: "), at);
    } else {
        at = span_put(SPAN("Content-Type: "), at);
        at = span_put(span_of(r->content_type), at);
        at = span_put(SPAN("\r\nContent-Length: "), at);
    }
    at = put_number(r->body == NULL ? 0 : (int64_t)r->body->len, at);
    return span_put(SPAN("\r\n"), at);
}

static char *put_etag(char *at, const struct blob *body)
{
    if (body == NULL || !body->has_etag)
        return at;
    at = span_put(SPAN("ETag: "), at);
    at = span_put((struct span){body->etag, BLOB_ETAG_LEN}, at);
    return span_put(SPAN("\r\n"), at);
}

static char *put_fields(char *at, const struct http_response *r)
{
    for (unsigned i = 0; i < r->field_count; i++) {
        at = span_put(r->field[i].name, at);
        at = span_put(SPAN(": "), at);
        at = span_put(r->field[i].value, at);
        at = span_put(SPAN("\r\n"), at);
    }
    return at;
}

static char *put_connection(char *at, const struct http_head_context *context)
{
    if (context->close)
        return span_put(SPAN("Connection: close\r\n"), at);
    return context->minor_version == 0 ? span_put(SPAN("Connection: keep-alive\r\n"), at) : at;
}

void http_response_write_head(struct buf *out, const struct http_response *r,
                              const struct http_head_context *context)
{
    if (buf_reserve(out, room_needed(r)) != 0)
        return;
    char *at = put_status_line(out->data + out->len, r->status);
    at = span_put(SPAN("Date: "), at);
    at = span_put(context->date, at);
    at = span_put(SPAN("\r\n"), at);
    at = put_content_fields(at, r);
    at = span_put(SPAN("X-Content-Type-Options: nosniff\r\n"), at);
    at = put_etag(at, r->body);
    at = put_fields(at, r);
    at = put_connection(at, context);
    at = span_put(SPAN("\r\n"), at);
    out->len = (size_t)(at - out->data);
}
