/*
 * Reading requests with llhttp; see parser.h. The callbacks of llhttp note where things are in the head, and
 * http_parser_end_head() reads them when the head is complete.
 *
 * A request with the header section of an earlier one does without llhttp, if it has come whole and its
 * request line is one of the usual form. What follows such a line depends on its bytes alone. So the request
 * is the same as if it were parsed.
 */
#include "http/parser.h"

#include "base/digest.h"
#include "base/text.h"

#include <assert.h>

/* --- names of header fields --- */

enum repeat { REPEAT_FIRST, REPEAT_SAME, REPEAT_REJECT, REPEAT_LIST };

static const struct {
    struct span name;
    enum repeat repeat;
} FIELDS[HTTP_FIELD_COUNT] = {
#define ROW(symbol, name, repeat) {{name, sizeof(name) - 1}, REPEAT_##repeat},
    HTTP_FIELDS(ROW)
#undef ROW
};

/* Returns -1 for a field whose value is not kept. */
static int http_parser_find_field(struct span name)
{
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (span_equal_nocase(name, FIELDS[i].name))
            return i;
    return -1;
}

/* --- Host (RFC 9110 section 7.2): uri-host [ ":" port ] --- */

/* RFC 3986 section 3.2.2: unreserved, sub-delims and percent-encoded octets. */
static bool http_parser_is_of_name(char c)
{
    return ascii_is_alnum(c) || (c != '\0' && strchr("-._~!$&'()*+,;=%", c) != NULL);
}

static bool http_parser_is_of_ip_literal(char c)
{
    return ascii_is_alnum(c) || c == ':' || c == '.';
}

/* True for a non-empty registered name or address, with or without a port. */
static bool http_parser_is_host(struct span text)
{
    struct authority a;
    if (!authority_split(text, &a) || a.host.len == 0 || !span_all(a.port, ascii_is_digit) || a.port.len > 5)
        return false;
    return a.bracketed ? span_all(a.host, http_parser_is_of_ip_literal)
                       : span_all(a.host, http_parser_is_of_name) && uri_escapes_valid(a.host);
}

/* --- the request target --- */

/* True when all bytes are from '&' to '~', any other sets a high bit in one of the terms. */
static bool http_parser_is_plain(uint64_t word)
{
    const uint64_t each = 0x0101010101010101;
    return ((word | (word - each * '&') | (word + each)) & each * 0x80) == 0;
}

/* False for a byte that no target may contain: control bytes, space, the number sign of a fragment, and bytes
 * beyond ASCII. *escaped: there is a percent sign. */
static bool http_parser_is_target(struct span s, bool *escaped)
{
    size_t i = 0;
    *escaped = false;
    while (i + sizeof(uint64_t) <= s.len && http_parser_is_plain(span_word(s.data + i)))
        i += sizeof(uint64_t);
    for (; i < s.len; i++) {
        if (s.data[i] <= ' ' || s.data[i] == 0x7F || s.data[i] == '#')
            return false;
        *escaped = *escaped || s.data[i] == '%';
    }
    return true;
}

static bool http_parser_is_no_control(char c)
{
    return (unsigned char)c >= 0x20 && c != 0x7F;
}

/*
 * Finds the start of the path in absolute form, behind the authority. The authority replaces Host, and is
 * validated like it (RFC 9110 sections 4.2.1 and 4.2.4). *start is 0 in all other forms.
 */
static bool http_parser_find_path(struct span target, size_t *start)
{
    const struct web_scheme *scheme = target.data[0] == '/' ? NULL : web_scheme_of(target);
    *start = 0;
    if (scheme == NULL)
        return true;
    size_t at = *start = scheme->start.len;
    while (at < target.len && target.data[at] != '/' && target.data[at] != '?')
        at++;
    struct span authority = {target.data + *start, at - *start};
    *start = at;
    return http_parser_is_host(authority);
}

/* Decodes a path in place and returns its length. An encoded slash does not separate segments (RFC 3986
 * section 2.2), and so stays encoded. */
static size_t http_parser_decode_path(struct span path, char *out)
{
    enum { ESCAPE_LEN = 3 };
    size_t n = 0;
    for (;;) {
        struct span part = {path.data, uri_find_encoded_slash(path)};
        n += uri_decode(part, out + n);
        path = span_skip(path, part.len);
        if (path.len == 0)
            return n;
        memmove(out + n, path.data, ESCAPE_LEN);
        n += ESCAPE_LEN;
        path = span_skip(path, ESCAPE_LEN);
    }
}

/*
 * Splits a target (RFC 9112 section 3.2) into decoded path and raw query. The path is decoded in place, so
 * *path and *query borrow from `target`, which is changed. The absolute form ("http://host/path") is read as
 * its path; "*" and "host:port" become the path as they are. False for a fragment, a control byte (encoded or
 * not), a broken escape in the path, or an authority that would not be a valid Host.
 */
static bool http_parser_split_target(char *target, size_t len, struct span *path, struct span *query)
{
    static const struct span root = {"/", 1};
    struct span all = {target, len};
    bool escaped = false;
    if (len == 0 || !http_parser_is_target(all, &escaped))
        return false;
    size_t params = span_find(all, '?');
    size_t start = 0;
    if (!http_parser_find_path(all, &start))
        return false;
    *query = params < len ? span_skip(all, params + 1) : SPAN_ABSENT;
    *path = (struct span){target + start, params - start};
    if (escaped) {
        if (!uri_escapes_valid(*path))
            return false;
        path->len = http_parser_decode_path(*path, target + start);
        if (!span_all(*path, http_parser_is_no_control))
            return false;
    }
    if (path->len == 0)
        *path = root;
    return true;
}

/* --- the callbacks of llhttp --- */

static struct http_parser *http_parser_of(llhttp_t *l)
{
    return l->data;
}

static void http_parser_enter(struct http_parser *p, enum http_parse_phase phase)
{
    assert(phase > p->state.phase);
    p->state.phase = phase;
}

static bool http_parser_has_head(const struct http_parser *p)
{
    return p->state.phase >= HTTP_PARSE_CONTENT;
}

/* The value for a callback to return: llhttp stops. */
static int http_parser_reject(struct http_parser *p, int status)
{
    p->status = status;
    return HPE_USER;
}

/* Extends a piece of the head, which is empty at first, by the next `n` bytes of it. Trailers are dropped. */
static void http_parser_extend(const struct http_parser *p, struct http_piece *piece, const char *at,
                               size_t n)
{
    if (http_parser_has_head(p))
        return;
    if (piece->len == 0)
        piece->start = (uint32_t)(at - p->head.data);
    piece->len += (uint32_t)n;
}

static enum http_method http_parser_method_of(const llhttp_t *l)
{
    switch (l->method) {
    case HTTP_GET:
        return METHOD_GET;
    case HTTP_HEAD:
        return METHOD_HEAD;
    case HTTP_OPTIONS:
        return METHOD_OPTIONS;
    default:
        return METHOD_OTHER;
    }
}

static int http_parser_on_url(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = http_parser_of(l);
    http_parser_extend(p, &p->state.target, at, n);
    return 0;
}

/* True for RTSP/1.0: llhttp accepts it in place of HTTP/1.0, and does not tell which it was. */
static bool http_parser_is_rtsp(const struct http_parser *p)
{
    size_t at = p->state.target.start + p->state.target.len;
    while (p->head.data[at] == ' ')
        at++;
    return p->head.data[at] == 'R';
}

static int http_parser_on_version_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    http_parser_enter(p, HTTP_PARSE_FIELDS);
    if (http_parser_is_rtsp(p))
        return http_parser_reject(p, 400);
    if (l->http_major != 1)
        return http_parser_reject(p, 505);
    if (l->http_minor > 1) /* processed as the highest version that is implemented: RFC 9110 section 2.5 */
        l->http_minor = 1;
    /* llhttp knows them from the preface of HTTP/2 and from Icecast. */
    return l->method == HTTP_PRI || l->method == HTTP_SOURCE ? http_parser_reject(p, 501) : 0;
}

static int http_parser_on_header_field(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = http_parser_of(l);
    if (p->state.in_value)
        p->state.name.len = 0;
    p->state.in_value = false;
    http_parser_extend(p, &p->state.name, at, n);
    return 0;
}

/* A value begins with its name, in case it is empty. */
static int http_parser_on_header_field_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    const struct http_piece name = p->state.name;
    p->state.in_value = true;
    if (!http_parser_has_head(p))
        p->state.value = (struct http_piece){
            .start = name.start,
            .field = http_parser_find_field((struct span){p->head.data + name.start, name.len})};
    return 0;
}

static int http_parser_on_header_value(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = http_parser_of(l);
    http_parser_extend(p, &p->state.value, at, n);
    return 0;
}

static int http_parser_on_header_value_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    if (http_parser_has_head(p) || p->state.value.field < 0)
        return 0;
    buf_append(&p->values, &p->state.value, sizeof p->state.value);
    return buf_error(&p->values) == 0 ? 0 : http_parser_reject(p, 500);
}

/* Pauses, so that head and content are separate. */
static int http_parser_on_headers_complete(llhttp_t *l)
{
    http_parser_enter(http_parser_of(l), HTTP_PARSE_CONTENT);
    return HPE_PAUSED;
}

static int http_parser_on_body(llhttp_t *l, const char *at, size_t n)
{
    (void)at;
    struct http_parser *p = http_parser_of(l);
    p->state.body_len += n;
    return p->state.body_len > p->config->body_max ? http_parser_reject(p, 413) : 0;
}

static int http_parser_on_message_complete(llhttp_t *l)
{
    http_parser_enter(http_parser_of(l), HTTP_PARSE_COMPLETE);
    return HPE_PAUSED;
}

/* --- the fields --- */

static const struct http_piece *http_parser_values(const struct http_parser *p, unsigned *count)
{
    *count = (unsigned)(p->values.len / sizeof(struct http_piece));
    return (const struct http_piece *)p->values.data;
}

/* Without the white space around it. */
static struct span http_parser_value_of(const struct http_parser *p, const struct http_piece *value)
{
    return span_trim((struct span){p->head.data + value->start, value->len});
}

/* Joins the values of a list behind the head. */
static void http_parser_join_list(struct http_parser *p, int field)
{
    unsigned count = 0;
    const struct http_piece *values = http_parser_values(p, &count);
    const char *separator = "";
    size_t start = p->head.len;
    for (unsigned i = 0; i < count; i++) {
        if (values[i].field != field)
            continue;
        buf_append_str(&p->head, separator);
        buf_append_span(&p->head, http_parser_value_of(p, &values[i]));
        separator = ", ";
    }
    p->request.field[field] = span_trim((struct span){p->head.data + start, p->head.len - start});
}

/* Makes room, and erases the memory that is given back for it: an API key may be there. */
static int http_parser_reserve(struct buf *b, size_t extra)
{
    if (extra <= b->cap - b->len)
        return buf_error(b);
    struct buf old = *b;
    *b = BUF_INIT;
    if (buf_reserve(b, old.len + extra) == 0)
        buf_append_span(b, buf_span(&old));
    http_parser_erase(&old);
    buf_fini(&old);
    return buf_error(b);
}

/* Lists that were sent in several fields are joined behind the head. Together they are shorter than it, so
 * one reservation is enough, after which nothing moves. */
static int http_parser_set_fields(struct http_parser *p)
{
    unsigned count = 0;
    const struct http_piece *values = http_parser_values(p, &count);
    if (http_parser_reserve(&p->head, p->head.len) != 0)
        return 500;
    for (unsigned i = 0; i < count; i++) {
        struct span *known = &p->request.field[values[i].field];
        struct span value = http_parser_value_of(p, &values[i]);
        enum repeat repeat = FIELDS[values[i].field].repeat;
        if (known->data == NULL)
            *known = value;
        else if (repeat == REPEAT_LIST)
            p->state.lists |= 1U << values[i].field;
        else if (repeat == REPEAT_REJECT || (repeat == REPEAT_SAME && !span_equal(*known, value)))
            p->state.ambiguous = true;
    }
    for (unsigned left = p->state.lists; left != 0; left &= left - 1)
        http_parser_join_list(p, __builtin_ctz(left));
    return 0;
}

void http_parser_set_complete_fields(struct http_parser *p)
{
    if (p->state.phase == HTTP_PARSE_FIELDS &&
        p->status != 500) /* not out of memory; otherwise all are set */
        (void)http_parser_set_fields(p);
}

/* --- the end of the head --- */

/* RFC 9112 section 6.1. llhttp accepts any list that ends in "chunked"; no other coding is implemented here.
 */
static int http_parser_validate_transfer_encoding(const struct http_parser *p, struct span coding)
{
    bool ends_in_chunked = (p->llhttp.flags & F_CHUNKED) != 0 && coding.data[coding.len - 1] != ',';
    if (p->llhttp.http_minor == 0 || !ends_in_chunked)
        return 400;
    return span_equal_nocase(coding, SPAN("chunked")) ? 0 : 501;
}

static bool http_parser_has_valid_host(const struct http_parser *p)
{
    struct span host = p->request.field[HTTP_FIELD_HOST];
    if (host.data == NULL)
        return p->llhttp.http_minor == 0;
    return host.len == 0 ? p->config->accepts_empty_host : http_parser_is_host(host);
}

/* RFC 9112 sections 2.3 and 3.2. Returns the status of a rejection, or 0. */
static int http_parser_validate_head(const struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    if (l->http_major != 1) /* a request line without version has 0.9 */
        return 505;
    if (p->state.ambiguous || !http_parser_has_valid_host(p))
        return 400;
    struct span coding = p->request.field[HTTP_FIELD_TRANSFER_ENCODING];
    int status =
        coding.data == NULL ? 0 : http_parser_validate_transfer_encoding(p, coding); /* an empty one too */
    if (status != 0)
        return status;
    if ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > p->config->body_max)
        return 413;
    return 0;
}

/* RFC 9112 section 9.3: "close" wins. What follows a CONNECT is not a request. */
static bool http_parser_wants_keep_alive(const llhttp_t *l)
{
    return llhttp_should_keep_alive(l) != 0 && (l->flags & F_CONNECTION_CLOSE) == 0 &&
           l->method != HTTP_CONNECT;
}

/* Reads the head, which is in `head` as a whole. Returns the status of a rejection, or 0. */
static int http_parser_end_head(struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    struct http_request *r = &p->request;
    r->minor_version = l->http_minor;
    r->keep_alive = http_parser_wants_keep_alive(l);
    int status = http_parser_set_fields(p);
    if (status == 0)
        status = http_parser_validate_head(p);
    if (status != 0)
        return status;
    if (!http_parser_split_target(p->head.data + p->state.target.start, p->state.target.len, &r->path,
                                  &r->query))
        return 400;
    if ((l->flags & F_CHUNKED) == 0 && l->content_length == 0)
        http_parser_enter(p, HTTP_PARSE_COMPLETE);
    return 0;
}

/* --- the header section of an earlier request --- */

static const struct span USUAL_METHOD = {"GET ", 4};
static const struct span USUAL_VERSION = {" HTTP/1.1\r\n", 11};

/* The length of the request line if its form is that of almost all: GET, a path, HTTP/1.1. 0 for others. */
static size_t http_parser_usual_line(struct span bytes)
{
    if (!span_starts_with(bytes, SPAN("GET /")))
        return 0;
    size_t at = USUAL_METHOD.len + span_find(span_skip(bytes, USUAL_METHOD.len), ' ');
    return span_starts_with(span_skip(bytes, at), USUAL_VERSION) ? at + USUAL_VERSION.len : 0;
}

/*
 * Returns the length of the request if it has the section that is kept, which ends with the head; or 0. On a
 * connection of a proxy it may be that of another client: the time of the comparison must not tell how much
 * of its API key is right.
 */
static size_t http_parser_recognise(struct http_parser *p, struct span bytes, size_t line_len)
{
    const struct http_section *s = *p->section;
    struct span section = span_skip(bytes, line_len);
    struct span path;
    struct span query;
    if (s == NULL || section.len < s->len || line_len + s->len > p->config->head_max)
        return 0;
    section.len = s->len;
    if (!secret_equal(section, (struct span){s->bytes, s->len}))
        return 0;
    size_t len = line_len - USUAL_METHOD.len - USUAL_VERSION.len;
    if (http_parser_reserve(&p->head, len) != 0)
        return 0;
    memcpy(p->head.data, bytes.data + USUAL_METHOD.len, len);
    if (!http_parser_split_target(p->head.data, len, &path, &query))
        return 0;
    p->head.len = len;
    p->request = s->request;
    p->request.path = path;
    p->request.query = query;
    p->state.phase = HTTP_PARSE_COMPLETE;
    return line_len + s->len;
}

/* Keeps the section of a request of the usual form, whose head has come whole. */
static void http_parser_keep_section(struct http_parser *p, size_t line_len)
{
    struct span section = span_skip(buf_span(&p->head), line_len);
    if (section.len > HTTP_SECTION_MAX || p->state.lists != 0 || p->state.tail_len > 0)
        return;
    struct http_section *s = *p->section != NULL ? *p->section : malloc(sizeof *s);
    if (s == NULL)
        return;
    if (s == *p->section)
        explicit_bzero(s->bytes, s->len);
    *p->section = s;
    s->request = p->request;
    s->len = section.len;
    memcpy(s->bytes, section.data, section.len);
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (p->request.field[i].data != NULL)
            s->request.field[i].data = s->bytes + (p->request.field[i].data - section.data);
}

/* --- feeding --- */

void http_parser_init(struct http_parser *p, const struct http_parser_config *config,
                      struct http_section **section)
{
    p->config = config;
    p->section = section;
    buf_clear(&p->head);
    buf_clear(&p->values);
    p->state = (struct http_parse_state){0};
    p->status = 0;
    p->request = (struct http_request){.method = METHOD_OTHER};
}

/* The status for an error of llhttp at the byte `at`. llhttp also knows the methods of RTSP: HTTP does not
 * have them (501). It stops inside a token, or at the space after one, if it has no method of that name. */
static int http_parser_status_of_error(struct http_parser *p, llhttp_errno_t err, char at)
{
    if (p->status != 0)
        return p->status;
    if (err == HPE_INVALID_METHOD) {
        if (!ascii_is_tchar(at) && (p->head.len == 0 || at != ' '))
            return 400;
        p->request.method = METHOD_OTHER; /* llhttp has reported HEAD for HEADX */
        return 501;
    }
    if (err == HPE_INVALID_CONSTANT &&
        strcmp(llhttp_get_error_reason(&p->llhttp), "Invalid method for HTTP/x.x request") == 0)
        return 501;
    return 400;
}

/* A request that is recognised does without llhttp. */
static void http_parser_begin_llhttp(struct http_parser *p)
{
    static const llhttp_settings_t settings = {
        .on_url = http_parser_on_url,
        .on_version_complete = http_parser_on_version_complete,
        .on_header_field = http_parser_on_header_field,
        .on_header_field_complete = http_parser_on_header_field_complete,
        .on_header_value = http_parser_on_header_value,
        .on_header_value_complete = http_parser_on_header_value_complete,
        .on_headers_complete = http_parser_on_headers_complete,
        .on_body = http_parser_on_body,
        .on_message_complete = http_parser_on_message_complete,
    };
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    llhttp_set_lenient_version(&p->llhttp, 1); /* see http_parser_on_version_complete() */
    p->llhttp.data = p;
    http_parser_enter(p, HTTP_PARSE_LINE);
}

/* True within the value of a field that llhttp evaluates itself. */
static bool http_parser_is_in_evaluated_value(const struct http_parser *p)
{
    const struct span name = {p->head.data + p->state.name.start, p->state.name.len};
    return p->state.in_value &&
           (span_equal_nocase(name, SPAN("connection")) || span_equal_nocase(name, SPAN("content-length")) ||
            span_equal_nocase(name, SPAN("proxy-connection")) ||
            span_equal_nocase(name, SPAN("transfer-encoding")));
}

/*
 * Appends the next part of the head for llhttp, and returns it. It is at most as much as the limit leaves, so
 * that the count is exact, and not much more than the head, so that little of what follows is copied. In the
 * values that llhttp evaluates it does not take a tab for white space (RFC 9110 section 5.6.3): it gets a
 * space in its place. An empty part: there is no memory.
 */
static struct span http_parser_append_head(struct http_parser *p, struct span rest, size_t left)
{
    enum { PART_MAX = 1024 };
    size_t n = 1 + span_find(span_skip(rest, 1), '\t');
    n = n < left ? n : left;
    n = n < PART_MAX ? n : PART_MAX;
    if (http_parser_reserve(&p->head, n) != 0)
        return (struct span){NULL, 0};
    char *part = p->head.data + p->head.len;
    memcpy(part, rest.data, n);
    if (*part == '\t' && http_parser_is_in_evaluated_value(p))
        *part = ' ';
    return (struct span){part, n};
}

/* Chunk sizes and extensions are bounded by the limit of the content, trailers by that of the head. */
static bool http_parser_framing_too_large(const struct http_parser *p)
{
    return p->state.tail_len - p->state.body_len > p->config->body_max + p->config->head_max;
}

/* Feeds llhttp once. *used grows by what it has taken. Returns the status of a rejection, or 0. */
static int http_parser_execute(struct http_parser *p, struct span rest, size_t *used)
{
    bool in_head = !http_parser_has_head(p);
    if (in_head) {
        size_t left = p->config->head_max - p->head.len;
        if (left == 0)
            return p->state.phase < HTTP_PARSE_FIELDS ? 414 : 431;
        rest = http_parser_append_head(p, rest, left);
        if (rest.len == 0)
            return 500;
    }
    llhttp_errno_t err = llhttp_execute(&p->llhttp, rest.data, rest.len);
    size_t taken = err == HPE_OK ? rest.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - rest.data);
    char stop = taken < rest.len ? rest.data[taken] : '\0';
    *used += taken;
    if (in_head) {
        p->request.method = http_parser_method_of(&p->llhttp);
        p->head.len += taken;
        explicit_bzero(p->head.data + p->head.len, rest.len - taken);
    } else {
        p->state.tail_len += taken;
    }
    if (p->status == 0 && http_parser_framing_too_large(p))
        return 413;
    if (err != HPE_OK && err != HPE_PAUSED)
        return http_parser_status_of_error(p, err, stop);
    llhttp_resume(&p->llhttp);
    return in_head && http_parser_has_head(p) ? http_parser_end_head(p) : 0;
}

/* Returns the length of empty lines at the start. llhttp would skip incomplete ones, too. */
static size_t http_parser_skip_crlf(struct http_parser *p, struct span bytes)
{
    size_t at = 0;
    for (; at < bytes.len && bytes.data[at] == (p->state.half_crlf ? '\n' : '\r'); at++)
        p->state.half_crlf = !p->state.half_crlf;
    return at;
}

bool http_parser_feed(struct http_parser *p, struct span bytes, size_t *used)
{
    size_t line_len = 0; /* of a request of the usual form that begins here */
    *used = 0;
    if (p->state.phase == HTTP_PARSE_NOTHING) {
        *used = http_parser_skip_crlf(p, bytes);
        struct span rest = span_skip(bytes, *used);
        if (rest.len == 0)
            return false;
        if (p->state.half_crlf || *rest.data == '\n') {
            p->status = 400;
            return true;
        }
        line_len = p->section == NULL ? 0 : http_parser_usual_line(rest);
        size_t known = line_len == 0 ? 0 : http_parser_recognise(p, rest, line_len);
        *used += known;
        if (known > 0)
            return true;
        http_parser_begin_llhttp(p);
    }
    while (*used < bytes.len && p->state.phase != HTTP_PARSE_COMPLETE) {
        p->status = http_parser_execute(p, span_skip(bytes, *used), used);
        if (p->status != 0)
            return true;
    }
    if (p->state.phase != HTTP_PARSE_COMPLETE)
        return false;
    if (line_len > 0)
        http_parser_keep_section(p, line_len);
    return true;
}

bool http_parser_wants_continue(const struct http_parser *p)
{
    return p->state.phase == HTTP_PARSE_CONTENT && p->state.tail_len == 0 && p->request.minor_version == 1 &&
           span_equal_nocase(p->request.field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
