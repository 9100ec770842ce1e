/*
 * Reading requests with llhttp; see parser.h. llhttp validates the head and finds its end. So each line of it
 * is a name, a colon and a value, and ends with CRLF: the fields are taken from the lines. After a request
 * line of the usual form llhttp begins behind it, and behind the lines that are known from the request
 * before.
 */
#include "http/parser.h"

#include "base/digest.h"
#include "base/text.h"

#include <assert.h>
#include <sys/param.h>

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

/* Returns -1 for a line of another field. */
static int http_parser_find_field(struct span line)
{
    for (int i = 0; i < HTTP_FIELD_COUNT; i++) {
        struct span name = FIELDS[i].name;
        if (line.len > name.len && line.data[name.len] == ':' &&
            span_equal_nocase((struct span){line.data, name.len}, name))
            return i;
    }
    return -1;
}

/* --- Host (RFC 9110 section 7.2): uri-host [ ":" port ] --- */

/* RFC 3986 section 3.2.2: unreserved, sub-delims and percent-encoded octets. Most hosts are digits, letters
 * and dots. */
static bool http_parser_is_of_name(char c)
{
    return (c >= '$' && c <= '9' && c != '/') || ascii_is_alnum(c) ||
           (c != '\0' && strchr("!;=_~", c) != NULL);
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

/* In absolute form the authority replaces Host, and is validated like it (RFC 9110 sections 4.2.1 and 4.2.4).
 * *start is behind it; 0 in all other forms. */
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
 * Splits p->target (RFC 9112 section 3.2) into decoded path and raw query, in place. "*" and "host:port"
 * become the path as they are. False for a fragment, a control byte (encoded or not), a broken escape in the
 * path, or an authority that would not be a valid Host.
 */
static bool http_parser_split_target(struct http_parser *p)
{
    static const struct span root = {"/", 1};
    struct http_request *r = &p->request;
    struct span all = buf_span(&p->target);
    bool escaped = false;
    if (all.len == 0 || !http_parser_is_target(all, &escaped))
        return false;
    size_t params = span_find(all, '?');
    size_t start = 0;
    if (!http_parser_find_path(all, &start))
        return false;
    r->query = params < all.len ? span_skip(all, params + 1) : SPAN_ABSENT;
    r->path = (struct span){all.data + start, params - start};
    if (escaped) {
        if (!uri_escapes_valid(r->path))
            return false;
        r->path.len = http_parser_decode_path(r->path, p->target.data + start);
        if (!span_all(r->path, http_parser_is_no_control))
            return false;
    }
    if (r->path.len == 0)
        r->path = root;
    return true;
}

/* --- the callbacks of llhttp --- */

static void http_parser_enter(struct http_parser *p, enum http_parse_phase phase)
{
    assert(phase > p->phase);
    p->phase = phase;
}

static int http_parser_reject(struct http_parser *p, int status)
{
    p->status = status;
    return HPE_USER;
}

static enum http_method http_parser_method_of(const llhttp_t *l)
{
    if (l->method == HTTP_GET)
        return METHOD_GET;
    if (l->method == HTTP_HEAD)
        return METHOD_HEAD;
    return l->method == HTTP_OPTIONS ? METHOD_OPTIONS : METHOD_OTHER;
}

static int http_parser_on_version_complete(llhttp_t *l)
{
    http_parser_enter(l->data, HTTP_PARSE_FIELDS);
    if (l->http_major != 1)
        return http_parser_reject(l->data, 505);
    if (l->http_minor > 1) /* processed as the highest version that is implemented: RFC 9110 section 2.5 */
        l->http_minor = 1;
    /* llhttp knows them from the preface of HTTP/2 and from Icecast. */
    return l->method == HTTP_PRI || l->method == HTTP_SOURCE ? http_parser_reject(l->data, 501) : 0;
}

/* Pauses, so that head and content are separate. */
static int http_parser_on_headers_complete(llhttp_t *l)
{
    http_parser_enter(l->data, HTTP_PARSE_CONTENT);
    return HPE_PAUSED;
}

static int http_parser_on_body(llhttp_t *l, const char *at, size_t n)
{
    (void)at;
    struct http_parser *p = l->data;
    p->body_len += n;
    return p->body_len > p->config->body_max ? http_parser_reject(p, 413) : 0;
}

static int http_parser_on_message_complete(llhttp_t *l)
{
    http_parser_enter(l->data, HTTP_PARSE_COMPLETE);
    return HPE_PAUSED;
}

/* --- the head --- */

void http_parser_erase(struct buf *b)
{
    if (b->len > 0)
        explicit_bzero(b->data, b->len);
    buf_recycle(b, HTTP_HEAD_KEPT_MAX);
}

/* Keeps the first `known` bytes of the section. */
static void http_parser_clear(struct http_parser *p, size_t known)
{
    if (known == 0) {
        http_parser_erase(&p->head);
    } else {
        explicit_bzero(p->head.data + known, p->head.len - known);
        p->head.len = known;
    }
    p->known_len = known;
    p->is_section = false;
    p->request = (struct http_request){.method = METHOD_OTHER};
}

/* Appends, and erases the memory that is given back for it. */
static int http_parser_append(struct buf *b, struct span bytes)
{
    struct buf old = *b;
    if (bytes.len > b->cap - b->len) {
        *b = BUF_INIT;
        (void)buf_reserve(b, old.len + bytes.len);
        buf_append_span(b, buf_span(&old));
        http_parser_erase(&old);
        buf_fini(&old);
    }
    buf_append_span(b, bytes);
    return buf_error(b);
}

/* Returns the status of a rejection, or 0. */
static int http_parser_set_target(struct http_parser *p, struct span target)
{
    if (http_parser_append(&p->target, target) != 0)
        return 500;
    return http_parser_split_target(p) ? 0 : 400;
}

/* Removes the first line of the head, and returns it without its CRLF. Absent if it is not complete: a
 * further byte must follow. Of a whole head that is the empty line. */
static struct span http_parser_next_line(struct span *head)
{
    struct span line = {head->data, span_find(*head, '\n')};
    if (line.len + 1 >= head->len)
        return SPAN_ABSENT;
    *head = span_skip(*head, line.len + 1);
    line.len--;
    return line;
}

/* Removes the lines up to the next field that is kept, and returns it; -1 behind the last. Inline, since this
 * is a large part of what a new header section costs. */
static inline int http_parser_next_field(struct span *lines, struct span *value)
{
    for (;;) {
        struct span line = http_parser_next_line(lines);
        if (line.data == NULL)
            return -1;
        int field = http_parser_find_field(line);
        if (field >= 0) {
            *value = span_trim(span_skip(line, FIELDS[field].name.len + 1));
            return field;
        }
    }
}

/* Joins the values of a list, for which there is room. */
static void http_parser_join_list(struct http_parser *p, struct span lines, int field)
{
    struct span value;
    size_t start = p->lists.len;
    for (int of; (of = http_parser_next_field(&lines, &value)) >= 0;) {
        if (of != field)
            continue;
        buf_append_str(&p->lists, p->lists.len > start ? ", " : "");
        buf_append_span(&p->lists, value);
    }
    p->request.field[field] = span_trim(span_skip(buf_span(&p->lists), start));
}

/* Sets the fields of the request. Returns the status of a rejection, or 0. */
static int http_parser_set_fields(struct http_parser *p)
{
    struct span lines = buf_span(&p->head);
    struct span value;
    unsigned lists = 0; /* a bit for each that was sent in several fields */
    int status = 0;
    if (p->line_len == 0)
        (void)http_parser_next_line(&lines); /* the request line */
    struct span rest = lines;
    for (int field; (field = http_parser_next_field(&rest, &value)) >= 0;) {
        struct span *known = &p->request.field[field];
        enum repeat repeat = FIELDS[field].repeat;
        if (known->data == NULL)
            *known = value;
        else if (repeat == REPEAT_LIST)
            lists |= 1U << field;
        else if (repeat == REPEAT_REJECT || (repeat == REPEAT_SAME && !span_equal(*known, value)))
            status = 400;
    }
    /* all lists together are shorter than the head, so that the buffer does not move any more */
    if (lists != 0 && buf_reserve(&p->lists, p->head.len) != 0)
        return 500;
    for (; lists != 0; lists &= lists - 1)
        http_parser_join_list(p, lines, __builtin_ctz(lists));
    return status;
}

void http_parser_end_rejected(struct http_parser *p)
{
    if (p->phase == HTTP_PARSE_NOTHING)
        http_parser_clear(p, 0);
    else if (p->phase == HTTP_PARSE_FIELDS) /* afterwards they are set */
        (void)http_parser_set_fields(p);
    p->request.keep_alive = false;
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
    if (host.data < p->head.data + p->known_len) /* it was valid in another request */
        return true;
    return host.len == 0 ? p->config->accepts_empty_host : http_parser_is_host(host);
}

/* RFC 9112 sections 2.3 and 3.2. Returns the status of a rejection, or 0. */
static int http_parser_validate_head(const struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    if (!http_parser_has_valid_host(p))
        return 400;
    struct span coding = p->request.field[HTTP_FIELD_TRANSFER_ENCODING];
    int status =
        coding.data == NULL ? 0 : http_parser_validate_transfer_encoding(p, coding); /* an empty one too */
    if (status != 0)
        return status;
    return (l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > p->config->body_max ? 413 : 0;
}

/* RFC 9112 section 9.3: "close" wins. What follows a CONNECT is not a request. */
static bool http_parser_wants_keep_alive(const llhttp_t *l)
{
    return llhttp_should_keep_alive(l) != 0 && (l->flags & F_CONNECTION_CLOSE) == 0 &&
           l->method != HTTP_CONNECT;
}

/* Sets the target of a request line that llhttp has accepted. It takes RTSP/1.0 for HTTP/1.0. Returns the
 * status of a rejection, or 0. */
static int http_parser_read_line(struct http_parser *p)
{
    struct span version = buf_span(&p->head);
    (void)span_cut(&version, ' ');
    version = span_trim(version);
    struct span target = span_cut(&version, ' ');
    return span_starts_with(span_trim(version), SPAN("R")) ? 400 : http_parser_set_target(p, target);
}

/* Reads the head, which is there as a whole. Returns the status of a rejection, or 0. */
static int http_parser_end_head(struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    struct http_request *r = &p->request;
    r->minor_version = l->http_minor;
    r->keep_alive = http_parser_wants_keep_alive(l);
    int status = http_parser_set_fields(p);
    if (l->http_major != 1) /* a request line without version has 0.9 */
        return 505;
    if (status == 0 && p->line_len == 0)
        status = http_parser_read_line(p);
    if (status == 0)
        status = http_parser_validate_head(p);
    if (status != 0)
        return status;
    if ((l->flags & F_CHUNKED) == 0 && l->content_length == 0) {
        http_parser_enter(p, HTTP_PARSE_COMPLETE);
        p->is_section = p->line_len > 0 && p->lists.len == 0 && p->head.cap <= HTTP_HEAD_KEPT_MAX;
    }
    return 0;
}

/* --- request lines of the usual form --- */

static const struct span USUAL_METHOD = {"GET ", 4};
static const struct span USUAL_VERSION = {" HTTP/1.1\r\n", 11};

/* The length of the request line if its form is that of almost all: GET, a path, HTTP/1.1. 0 for others. */
static size_t http_parser_usual_line(struct span bytes)
{
    struct span line = {bytes.data, span_find(bytes, '\n') + 1};
    if (line.len > bytes.len || !span_starts_with(line, SPAN("GET /")))
        return 0;
    size_t at = USUAL_METHOD.len + span_find(span_skip(line, USUAL_METHOD.len), ' ');
    return span_equal(span_skip(line, at), USUAL_VERSION) ? line.len : 0;
}

/*
 * How much of the header section that is kept follows: all, or whole lines. On a connection of a proxy it may
 * be that of another client: the time of a comparison must not tell how much of its API key is right. A
 * section of which some field has changed the state of llhttp is only known as a whole.
 */
static size_t http_parser_known(const struct http_parser *p, struct span bytes)
{
    struct span kept = buf_span(&p->head);
    size_t known = 0;
    if (p->line_len + kept.len > p->config->head_max)
        return 0;
    if (bytes.len >= kept.len && secret_equal((struct span){bytes.data, kept.len}, kept))
        return kept.len;
    while (p->llhttp.flags == 0) {
        struct span line = span_skip(bytes, known);
        line.len = span_find(line, '\n') + 1;
        if (line.len > MIN(bytes.len, kept.len) - known ||
            !secret_equal(line, (struct span){kept.data + known, line.len}))
            break;
        known += line.len;
    }
    return known;
}

/* --- feeding --- */

static const llhttp_settings_t CALLBACKS = {
    .on_version_complete = http_parser_on_version_complete,
    .on_headers_complete = http_parser_on_headers_complete,
    .on_body = http_parser_on_body,
    .on_message_complete = http_parser_on_message_complete,
};

static void http_parser_begin_llhttp(struct http_parser *p)
{
    llhttp_init(&p->llhttp, HTTP_REQUEST, &CALLBACKS);
    llhttp_set_lenient_version(&p->llhttp, 1); /* see http_parser_on_version_complete() */
    p->llhttp.data = p;
    http_parser_enter(p, HTTP_PARSE_LINE);
}

void http_parser_config_init(struct http_parser_config *config)
{
    struct http_parser p = {.config = config};
    struct span line = SPAN("GET / HTTP/1.1\r\n");
    http_parser_begin_llhttp(&p);
    (void)llhttp_execute(&p.llhttp, line.data, line.len);
    assert(p.phase == HTTP_PARSE_FIELDS);
    config->behind_usual_line = p.llhttp;
    line = SPAN("a: b\r\n");
    (void)llhttp_execute(&p.llhttp, line.data, line.len);
    config->behind_field = p.llhttp;
}

void http_parser_end(struct http_parser *p)
{
    http_parser_erase(&p->target);
    http_parser_erase(&p->lists);
    if (!p->is_section)
        http_parser_erase(&p->head);
    p->phase = HTTP_PARSE_NOTHING;
    p->half_crlf = false;
    p->line_len = p->body_len = p->tail_len = 0;
    p->status = 0;
}

void http_parser_fini(struct http_parser *p)
{
    p->is_section = false;
    http_parser_end(p);
    buf_fini(&p->head);
    buf_fini(&p->target);
    buf_fini(&p->lists);
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

/*
 * The next part of the head for llhttp: at most as much as the limit leaves, so that the count is exact. In
 * some values llhttp does not take a tab for white space (RFC 9110 section 5.6.3): it gets a space in the
 * place of each in the header section.
 */
static struct span http_parser_next_part(const struct http_parser *p, struct span rest, size_t left)
{
    enum { PART_MAX = 1024 }; /* bounds the search, for each of many requests that have come together */
    if (*rest.data == '\t' && p->phase == HTTP_PARSE_FIELDS)
        return SPAN(" ");
    rest.len = rest.len < left ? rest.len : left;
    rest.len = rest.len < PART_MAX ? rest.len : PART_MAX;
    rest.len = 1 + span_find(span_skip(rest, 1), '\t');
    return rest;
}

/* Feeds llhttp once. *used grows by what it has taken. Returns the status of a rejection, or 0. */
static int http_parser_execute(struct http_parser *p, struct span rest, size_t *used)
{
    bool in_head = p->phase < HTTP_PARSE_CONTENT;
    struct span part = rest;
    if (in_head) {
        size_t left = p->config->head_max - p->line_len - p->head.len;
        if (left == 0)
            return p->phase < HTTP_PARSE_FIELDS ? 414 : 431;
        part = http_parser_next_part(p, rest, left);
    }
    llhttp_errno_t err = llhttp_execute(&p->llhttp, part.data, part.len);
    size_t taken = err == HPE_OK ? part.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - part.data);
    *used += taken;
    if (in_head) {
        p->request.method = http_parser_method_of(&p->llhttp);
        if (http_parser_append(&p->head, (struct span){rest.data, taken}) != 0)
            return 500;
    } else {
        p->tail_len += taken;
        /* sizes of chunks and their extensions, and trailers */
        if (p->status == 0 && p->tail_len - p->body_len > p->config->body_max + p->config->head_max)
            return 413;
    }
    if (err != HPE_OK && err != HPE_PAUSED)
        return http_parser_status_of_error(p, err, taken < part.len ? part.data[taken] : '\0');
    llhttp_resume(&p->llhttp);
    return in_head && p->phase >= HTTP_PARSE_CONTENT ? http_parser_end_head(p) : 0;
}

/* Returns the length of empty lines at the start. llhttp would skip incomplete ones, too. */
static size_t http_parser_skip_crlf(struct http_parser *p, struct span bytes)
{
    size_t at = 0;
    for (; at < bytes.len && bytes.data[at] == (p->half_crlf ? '\n' : '\r'); at++)
        p->half_crlf = !p->half_crlf;
    return at;
}

/*
 * Reads the request line of the usual form, and what is known of the header section. Returns how much was
 * read; 0 if the target is not valid: llhttp says why, as if the line had come in pieces.
 */
static size_t http_parser_begin_behind_line(struct http_parser *p, struct span bytes)
{
    struct span target = span_skip(bytes, USUAL_METHOD.len);
    target.len = p->line_len - USUAL_METHOD.len - USUAL_VERSION.len;
    size_t known = http_parser_known(p, span_skip(bytes, p->line_len));
    bool is_whole = known > 0 && known == p->head.len;
    if (!is_whole)
        http_parser_clear(p, known);
    if (http_parser_set_target(p, target) != 0)
        return 0;
    http_parser_enter(p, is_whole ? HTTP_PARSE_COMPLETE : HTTP_PARSE_FIELDS);
    if (!is_whole) {
        p->request.method = METHOD_GET;
        p->llhttp = known > 0 ? p->config->behind_field : p->config->behind_usual_line;
        p->llhttp.data = p;
    }
    return p->line_len + known;
}

/* Begins a request, and returns how much of it was read. */
static size_t http_parser_begin(struct http_parser *p, struct span bytes)
{
    if (p->half_crlf || *bytes.data == '\n') {
        p->status = 400;
        return 0;
    }
    p->line_len = http_parser_usual_line(bytes);
    bool is_usual = p->line_len > 0 && p->line_len <= p->config->head_max;
    size_t used = is_usual ? http_parser_begin_behind_line(p, bytes) : 0;
    if (used > 0)
        return used;
    http_parser_end(p);
    http_parser_clear(p, 0);
    http_parser_begin_llhttp(p);
    return 0;
}

bool http_parser_feed(struct http_parser *p, struct span bytes, size_t *used)
{
    *used = 0;
    if (p->phase == HTTP_PARSE_NOTHING) {
        *used = http_parser_skip_crlf(p, bytes);
        if (*used == bytes.len)
            return false;
        *used += http_parser_begin(p, span_skip(bytes, *used));
    }
    while (*used < bytes.len && p->status == 0 && p->phase != HTTP_PARSE_COMPLETE)
        p->status = http_parser_execute(p, span_skip(bytes, *used), used);
    return p->phase == HTTP_PARSE_COMPLETE || p->status != 0;
}

bool http_parser_wants_continue(const struct http_parser *p)
{
    const struct http_request *r = &p->request;
    return p->phase == HTTP_PARSE_CONTENT && p->tail_len == 0 && r->minor_version == 1 &&
           span_equal_nocase(r->field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
