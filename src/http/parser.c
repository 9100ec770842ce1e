/* Reading requests with llhttp; see parser.h. Its callbacks only collect; judgement is passed in on_head().
 */
#include "http/parser.h"

#include "http/host.h"
#include "http/target.h"

static struct http_parser *parser_of(llhttp_t *l)
{
    return l->data;
}

static int refuse(struct http_parser *p, int status)
{
    p->refusal = status;
    return HPE_USER;
}

static void piece_begin(struct http_parser *p, struct http_piece *piece)
{
    piece->present = true;
    piece->start = p->text.len;
    piece->len = 0;
}

static int piece_extend(struct http_parser *p, struct http_piece *piece, const char *at, size_t n)
{
    buf_append(&p->text, at, n);
    if (buf_error(&p->text) != 0)
        return refuse(p, 500);
    piece->len += n;
    return 0;
}

static struct span piece_span(const struct http_parser *p, const struct http_piece *piece)
{
    return piece->present ? (struct span){p->text.data + piece->start, piece->len} : SPAN_ABSENT;
}

static int on_method(llhttp_t *l, const char *at, size_t n)
{
    (void)at;
    parser_of(l)->method_begun = n > 0;
    return 0;
}

static enum http_method method_of(const llhttp_t *l)
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

static int on_method_complete(llhttp_t *l)
{
    parser_of(l)->request.method = method_of(l);
    return 0;
}

static int on_url(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    if (!p->target.present)
        piece_begin(p, &p->target);
    return piece_extend(p, &p->target, at, n);
}

/* llhttp reads RTSP/1.0 as it reads HTTP/1.0, and does not tell which it was. */
static int on_version(llhttp_t *l, const char *at, size_t n)
{
    (void)n;
    struct http_parser *p = parser_of(l);
    size_t here = (size_t)(at - p->slice);
    char c = here >= HTTP_PROTOCOL_TAIL ? at[-HTTP_PROTOCOL_TAIL] : p->last[here];
    if (!p->version_begun && c != "HTTP/"[sizeof "HTTP/" - 1 - HTTP_PROTOCOL_TAIL])
        return refuse(p, 400);
    p->version_begun = true;
    return 0;
}

static void remember_last(struct http_parser *p, struct span slice)
{
    size_t n = slice.len < sizeof p->last ? slice.len : sizeof p->last;
    memmove(p->last, p->last + n, sizeof p->last - n);
    memcpy(p->last + sizeof p->last - n, slice.data + slice.len - n, n);
}

static int on_version_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    p->line_done = true;
    bool known = l->http_major == 1 && l->http_minor <= 1;
    return known ? 0 : refuse(p, 505);
}

static int on_header_field(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    size_t room = sizeof p->name - p->name_len;
    size_t kept = n < room ? n : room; /* a longer name is none of ours; a full array matches nothing */
    memcpy(p->name + p->name_len, at, kept);
    p->name_len += kept;
    return 0;
}

static int find_field(struct span name)
{
    static const struct span names[] = {
#define NAME(symbol, text) {text, sizeof(text) - 1},
        HTTP_REQUEST_FIELDS(NAME)
#undef NAME
    };
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (span_equal_nocase(name, names[i]))
            return i;
    return -1;
}

/* A list that goes on in a second field: its text moves to the end of the buffer, where it can grow. */
static int piece_reopen(struct http_parser *p, struct http_piece *piece)
{
    struct http_piece before = *piece;
    if (buf_reserve(&p->text, before.len + 2) != 0)
        return refuse(p, 500);
    if (before.start + before.len !=
        p->text.len) { /* once for each other field in between, so copies stay few */
        piece->start = p->text.len;
        buf_append(&p->text, p->text.data + before.start, before.len);
    }
    buf_append_str(&p->text, ", ");
    piece->len += 2;
    return 0;
}

static int on_header_field_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    p->field = p->head_done
                   ? -1
                   : find_field((struct span){p->name, p->name_len}); /* no trailer means anything here */
    p->name_len = 0;
    if (p->field < 0)
        return 0;
    struct http_piece *piece = &p->piece[p->field];
    p->duplicate = piece->present;
    if (!p->duplicate) {
        piece_begin(p, piece);
        return 0;
    }
    if (p->field == HTTP_FIELD_HOST)
        p->host_repeated = true;
    if (p->field != HTTP_FIELD_IF_NONE_MATCH)
        return 0;
    p->duplicate = false;
    return piece_reopen(p, piece);
}

static int on_header_value(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    if (p->field < 0 || p->duplicate)
        return 0;
    return piece_extend(p, &p->piece[p->field], at, n);
}

/* RFC 9112 sections 2.3, 3.2 and 6.1. */
static int judge_head(struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    if (l->http_major != 1 || l->http_minor > 1)
        return 505;
    struct span host = p->request.field[HTTP_FIELD_HOST];
    bool host_needed = l->http_minor == 1;
    if (p->host_repeated || (host.data == NULL ? host_needed : !http_host_valid(host)))
        return 400;
    bool coded = p->request.field[HTTP_FIELD_TRANSFER_ENCODING].data != NULL; /* also when it is empty */
    if (coded && (l->http_minor == 0 || (l->flags & F_CHUNKED) == 0))
        return 400;
    if ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > p->limits->body_max)
        return 413;
    return 0;
}

/* RFC 9112 section 9.3: "close" wins. What follows a CONNECT is no request. */
static bool wants_keep_alive(const llhttp_t *l)
{
    return llhttp_should_keep_alive(l) != 0 && (l->flags & F_CONNECTION_CLOSE) == 0 &&
           l->method != HTTP_CONNECT;
}

static int on_headers_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    struct http_request *r = &p->request;
    p->head_done = true;
    r->minor_version = l->http_minor;
    r->keep_alive = wants_keep_alive(l);
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        r->field[i] = p->piece[i].present ? span_trim(piece_span(p, &p->piece[i])) : SPAN_ABSENT;
    int status = judge_head(p);
    if (status != 0)
        return refuse(p, status);
    char *target = p->text.data + p->target.start;
    if (http_target_split(target, p->target.len, &r->path, &r->query) != 0)
        return refuse(p, 400);
    bool has_content = (l->flags & F_CHUNKED) != 0 || l->content_length > 0;
    return has_content ? HPE_PAUSED : 0; /* so that head and content are counted apart */
}

static int on_body(llhttp_t *l, const char *at, size_t n)
{
    (void)at;
    struct http_parser *p = parser_of(l);
    p->body_len += n;
    return p->body_len > p->limits->body_max ? refuse(p, 413) : 0;
}

static int on_message_complete(llhttp_t *l)
{
    parser_of(l)->complete = true;
    return HPE_PAUSED;
}

void http_parser_init(struct http_parser *p, const struct http_limits *limits)
{
    static const llhttp_settings_t settings = {
        .on_method = on_method,
        .on_method_complete = on_method_complete,
        .on_url = on_url,
        .on_version = on_version,
        .on_version_complete = on_version_complete,
        .on_header_field = on_header_field,
        .on_header_field_complete = on_header_field_complete,
        .on_header_value = on_header_value,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    struct buf text = p->text;
    buf_clear(&text);
    *p = (struct http_parser){.limits = limits, .text = text, .field = -1};
    p->request.method = METHOD_OTHER;
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    p->llhttp.data = p;
}

void http_parser_fini(struct http_parser *p)
{
    buf_fini(&p->text);
}

static bool is_token_char(char c)
{
    bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return alnum || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* llhttp stopped at input.data[at]: inside a token, or at the space behind one. It knows no method of that
 * name. */
static bool is_unknown_method(const struct http_parser *p, struct span input, size_t at)
{
    if (at >= input.len)
        return false;
    bool begun = at > 0 ? is_token_char(input.data[at - 1]) : p->method_begun;
    return is_token_char(input.data[at]) || (begun && input.data[at] == ' ');
}

/* What llhttp says to what is no HTTP/1 request; RTSP's methods are none of HTTP's. */
static int status_of_error(struct http_parser *p, llhttp_errno_t err, struct span input, size_t at)
{
    const char *reason = llhttp_get_error_reason(&p->llhttp);
    if (p->refusal != 0)
        return p->refusal;
    if (err == HPE_PAUSED_H2_UPGRADE)
        return 505;
    if (err == HPE_INVALID_METHOD)
        return is_unknown_method(p, input, at) ? 501 : 400;
    if (err == HPE_INVALID_VERSION)
        return strcmp(reason, "Invalid HTTP version") == 0 ? 505 : 400;
    if (err == HPE_INVALID_CONSTANT && strcmp(reason, "Invalid method for HTTP/x.x request") == 0)
        return 501;
    return 400;
}

/* Of the head, llhttp is given no more than the limit leaves, so that the count is exact. */
static size_t slice_length(const struct http_parser *p, size_t available)
{
    if (p->head_done)
        return available;
    size_t left = p->limits->head_max - p->head_len;
    return available < left ? available : left;
}

/* Chunk sizes and extensions are bounded as the content itself is, trailers as the head is. */
static bool framing_too_large(const struct http_parser *p)
{
    return p->tail_len - p->body_len > p->limits->body_max + p->limits->head_max;
}

static enum http_progress refused(struct http_parser *p, int status)
{
    p->refusal = status;
    return HTTP_REFUSED;
}

enum http_progress http_parser_feed(struct http_parser *p, struct span bytes, size_t *used)
{
    *used = 0;
    while (*used < bytes.len) {
        struct span rest = span_skip(bytes, *used);
        rest.len = slice_length(p, rest.len);
        if (rest.len == 0)
            return refused(p, p->line_done ? 431 : 414);
        bool in_head = !p->head_done;
        p->slice = rest.data;
        llhttp_errno_t err = llhttp_execute(&p->llhttp, rest.data, rest.len);
        size_t taken = err == HPE_OK ? rest.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - rest.data);
        *used += taken;
        if (in_head)
            p->head_len += taken;
        else
            p->tail_len += taken;
        if (!p->version_begun)
            remember_last(p, (struct span){rest.data, taken});
        if (p->refusal == 0 && framing_too_large(p))
            return refused(p, 413);
        if (p->complete)
            return HTTP_COMPLETE;
        if (err == HPE_PAUSED)
            llhttp_resume(&p->llhttp);
        else if (err != HPE_OK)
            return refused(p, status_of_error(p, err, rest, taken));
    }
    return HTTP_NEED_MORE;
}

bool http_parser_wants_continue(const struct http_parser *p)
{
    return p->head_done && !p->complete && p->tail_len == 0 && p->body_len == 0 &&
           p->request.minor_version == 1 &&
           span_equal_nocase(p->request.field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
