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

/* Appends without asking for room, which is there. */
static inline void put(struct buf *out, struct span s)
{
    memcpy(out->data + out->len, s.data, s.len);
    out->len += s.len;
}

static inline void put_number(struct buf *out, int64_t n)
{
    out->len += format_int64(n, out->data + out->len);
}

static void put_status_line(struct buf *out, int status)
{
    if (status == 200) {
        put(out, SPAN("HTTP/1.1 200 OK\r\n"));
        return;
    }
    put(out, SPAN("HTTP/1.1 "));
    put_number(out, status);
    put(out, SPAN(" "));
    put(out, span_of(http_status_text(status)));
    put(out, SPAN("\r\n"));
}

static void put_content_fields(struct buf *out, const struct http_response *r)
{
    if (r->status == 204 || r->status == 304)
        return;
    if (r->content_type == NULL) {
        put(out, SPAN("Content-Type: application/json\r\nContent-Length: "));
    } else {
        put(out, SPAN("Content-Type: "));
        put(out, span_of(r->content_type));
        put(out, SPAN("\r\nContent-Length: "));
    }
    put_number(out, r->body == NULL ? 0 : (int64_t)r->body->len);
    put(out, SPAN("\r\n"));
}

static void put_fields(struct buf *out, const struct http_response *r)
{
    for (unsigned i = 0; i < r->field_count; i++) {
        put(out, r->field[i].name);
        put(out, SPAN(": "));
        put(out, r->field[i].value);
        put(out, SPAN("\r\n"));
    }
}

void http_response_write_head(struct buf *out, const struct http_response *r,
                              const struct http_head_context *context)
{
    if (buf_reserve(out, room_needed(r)) != 0)
        return;
    put_status_line(out, r->status);
    put(out, SPAN("Date: "));
    put(out, context->date);
    put(out, SPAN("\r\n"));
    put_content_fields(out, r);
    put(out, SPAN("X-Content-Type-Options: nosniff\r\n"));
    if (r->body != NULL && r->body->has_etag) {
        put(out, SPAN("ETag: "));
        put(out, blob_etag(r->body));
        put(out, SPAN("\r\n"));
    }
    put_fields(out, r);
    if (context->close)
        put(out, SPAN("Connection: close\r\n"));
    else if (context->minor_version == 0)
        put(out, SPAN("Connection: keep-alive\r\n"));
    put(out, SPAN("\r\n"));
}
