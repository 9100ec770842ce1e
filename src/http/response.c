/* Response heads, Date and preconditions; see response.h. */
#include "http/response.h"

#include <time.h>

/* --- heads --- */

static const struct {
    int status;
    const char *text;
} STATUSES[HTTP_STATUS_COUNT] = {
#define ROW(status, text) {status, text},
    HTTP_STATUSES(ROW)
#undef ROW
};

enum http_status_place http_status_place(int status)
{
    int i = 0;
    while (i < HTTP_STATUS_COUNT - 1 && STATUSES[i].status != status)
        i++;
    assert(STATUSES[i].status == status);
    return (enum http_status_place)i;
}

/* All fields except the content type and those of the handler take less. */
enum { HEAD_BASE_MAX = 512 };

static char *http_response_put_status_line(char *at, int status)
{
    if (status == 200)
        return span_put(SPAN("HTTP/1.1 200 OK\r\n"), at);
    at = span_put(SPAN("HTTP/1.1 "), at);
    at += format_int64(status, at);
    at = span_put(SPAN(" "), at);
    at = span_put(span_of(STATUSES[http_status_place(status)].text), at);
    return span_put(SPAN("\r\n"), at);
}

static char *http_response_put_content_fields(char *at, const struct http_response *r)
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
    at += format_int64(r->body == NULL ? 0 : (int64_t)r->body->len, at);
    at = span_put(SPAN("\r\n"), at);
    if (r->body == NULL || r->body->coding == CODING_IDENTITY)
        return at;
    at = span_put(SPAN("Content-Encoding: "), at);
    at = span_put(coding_name((enum coding)r->body->coding), at);
    return span_put(SPAN("\r\n"), at);
}

/* The compiler knows the length of most tags, and of the most frequent Vary. */
static char *http_response_put_etag(char *at, const struct http_response *r)
{
    struct span etag = r->etag.data != NULL || r->body == NULL ? r->etag : blob_etag(r->body);
    if (etag.data == NULL)
        return at;
    at = span_put(SPAN("ETag: "), at);
    if (etag.len == BLOB_ETAG_LEN)
        at = span_put((struct span){etag.data, BLOB_ETAG_LEN}, at);
    else
        at = span_put(etag, at);
    return span_put(SPAN("\r\n"), at);
}

static char *http_response_put_vary(char *at, unsigned vary)
{
    if (vary == HTTP_VARY_ACCEPT_ENCODING)
        return span_put(SPAN("Vary: Accept-Encoding\r\n"), at);
    if (vary == HTTP_VARY_ORIGIN)
        return span_put(SPAN("Vary: Origin\r\n"), at);
    return vary == 0 ? at : span_put(SPAN("Vary: Accept-Encoding, Origin\r\n"), at);
}

void http_response_write_head(struct buf *out, const struct http_response *r, struct span date,
                              int minor_version, bool close)
{
    size_t type_len = r->content_type == NULL ? 0 : strlen(r->content_type);
    if (buf_error(&r->fields) != 0)
        out->error = buf_error(&r->fields);
    if (buf_reserve(out, HEAD_BASE_MAX + type_len + r->fields.len) != 0)
        return;
    char *at = http_response_put_status_line(out->data + out->len, r->status);
    at = span_put(SPAN("Date: "), at);
    at = span_put(date, at);
    at = span_put(SPAN("\r\n"), at);
    at = http_response_put_content_fields(at, r);
    at = span_put(SPAN("X-Content-Type-Options: nosniff\r\n"), at);
    at = http_response_put_etag(at, r);
    at = http_response_put_vary(at, r->vary);
    at = span_put(buf_span(&r->fields), at);
    if (close)
        at = span_put(SPAN("Connection: close\r\n"), at);
    else if (minor_version == 0)
        at = span_put(SPAN("Connection: keep-alive\r\n"), at);
    at = span_put(SPAN("\r\n"), at);
    out->len = (size_t)(at - out->data);
}

/* --- Date --- */

/* IMF-fixdate. The program never sets a locale, so the names are English. */
void http_date_write(char out[HTTP_DATE_LEN + 1])
{
    time_t now = time(NULL);
    struct tm tm;
    (void)gmtime_r(&now, &tm);
    (void)strftime(out, HTTP_DATE_LEN + 1, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

/* --- entity tags; a comma may be part of one, so lists are split by the quotes --- */

/* Removes the first entity tag of the list and returns it, by weak comparison without its W/; absent when
 * there is none. */
static struct span http_response_next_tag(struct span *list, bool strong)
{
    size_t prefix = span_starts_with(*list, SPAN("W/")) ? 2 : 0;
    struct span rest = span_skip(*list, prefix);
    if (rest.len == 0 || rest.data[0] != '"')
        return SPAN_ABSENT;
    size_t close = span_find(span_skip(rest, 1), '"') + 1;
    if (close >= rest.len)
        return SPAN_ABSENT;
    struct span tag = {strong ? list->data : rest.data, close + 1 + (strong ? prefix : 0)};
    *list = span_skip(rest, close + 1);
    return tag;
}

struct span http_etag_find(struct span list, struct span etag, bool strong)
{
    list = span_trim(list);
    if (span_equal(list, SPAN("*")))
        return etag;
    while (list.len > 0) {
        if (list.data[0] == ',' || list.data[0] == ' ' || list.data[0] == '\t') {
            list = span_skip(list, 1);
            continue;
        }
        struct span tag = http_response_next_tag(&list, strong);
        if (tag.data == NULL || span_equal(tag, etag))
            return tag;
    }
    return SPAN_ABSENT;
}

/* The first entity tag of the body, in its own coding or an acceptable one, that the list contains; absent if
 * it contains none. */
static struct span http_response_find_tag(const struct blob *body, struct span list, bool strong,
                                          const struct http_codings *codings)
{
    char text[BLOB_ETAG_MAX];
    struct span found = http_etag_find(list, blob_etag(body), strong);
    for (enum coding c = CODING_IDENTITY; c < CODINGS && found.data == NULL; c++)
        if ((codings->acceptable >> c & 1) != 0)
            found = http_etag_find(list, blob_etag_coded(body, c, text), strong);
    return found;
}

void http_response_evaluate_preconditions(struct http_response *r, struct span match, struct span none_match,
                                          const struct http_codings *codings)
{
    bool conditional = match.data != NULL || none_match.data != NULL;
    if (!conditional || r->status != 200 || blob_etag(r->body).data == NULL)
        return;
    if (match.data != NULL && http_response_find_tag(r->body, match, true, codings).data == NULL) {
        r->status = 412;
        return;
    }
    if (none_match.data != NULL)
        r->etag = http_response_find_tag(r->body, none_match, false, codings);
    if (r->etag.data != NULL)
        r->status = 304;
}
