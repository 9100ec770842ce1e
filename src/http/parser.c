/* Reading requests with llhttp; see parser.h. Its callbacks only collect; judgement is passed in on_head(). */
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

static int on_url(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    if (!p->target.present)
        piece_begin(p, &p->target);
    return piece_extend(p, &p->target, at, n);
}

static int on_url_complete(llhttp_t *l)
{
    parser_of(l)->target_done = true;
    return 0;
}

static int on_version_complete(llhttp_t *l)
{
    bool known = l->http_major == 1 && l->http_minor <= 1;
    return known ? 0 : refuse(parser_of(l), 505);
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
    piece->start = p->text.len;
    piece->len = before.len + 2;
    buf_append(&p->text, p->text.data + before.start, before.len);
    buf_append_str(&p->text, ", ");
    return 0;
}

static int on_header_field_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    p->field = p->head_done ? -1 : find_field((struct span){p->name, p->name_len}); /* no trailer means anything here */
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
    if (l->http_minor == 0 && (l->flags & F_TRANSFER_ENCODING) != 0)
        return 400;
    if ((l->flags & F_CONTENT_LENGTH) != 0 && l->content_length > p->limits->body_max)
        return 413;
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

static int on_headers_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    struct http_request *r = &p->request;
    p->head_done = true;
    r->method = method_of(l);
    r->minor_version = l->http_minor;
    r->keep_alive = llhttp_should_keep_alive(l) != 0;
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        r->field[i] = p->piece[i].present ? span_trim(piece_span(p, &p->piece[i])) : SPAN_ABSENT;
    int status = judge_head(p);
    if (status != 0)
        return refuse(p, status);
    char *target = p->text.data + p->target.start;
    return http_target_split(target, p->target.len, &r->path, &r->query) == 0 ? 0 : refuse(p, 400);
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
        .on_url = on_url,
        .on_url_complete = on_url_complete,
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

/* What llhttp stopped at: a token it does not know is a method we do not know; the rest is no HTTP/1. */
static int status_of_error(struct http_parser *p, llhttp_errno_t err, struct span rest)
{
    if (p->refusal != 0)
        return p->refusal;
    if (err == HPE_PAUSED_H2_UPGRADE)
        return 505;
    if (err == HPE_INVALID_METHOD)
        return rest.len > 0 && is_token_char(rest.data[0]) ? 501 : 400;
    if (err == HPE_INVALID_VERSION)
        return strcmp(llhttp_get_error_reason(&p->llhttp), "Invalid HTTP version") == 0 ? 505 : 400;
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

/* Chunk sizes, extensions and trailers are bounded as the content itself is. */
static bool framing_too_large(const struct http_parser *p, size_t after_head)
{
    return after_head > p->body_len && after_head - p->body_len > p->limits->body_max;
}

static enum http_progress refused(struct http_parser *p, int status)
{
    p->refusal = status;
    if (!p->head_done && p->target.present) /* the method was complete before the target began */
        p->request.method = method_of(&p->llhttp);
    return HTTP_REFUSED;
}

enum http_progress http_parser_feed(struct http_parser *p, struct span bytes, size_t *used)
{
    *used = 0;
    while (*used < bytes.len) {
        struct span rest = span_skip(bytes, *used);
        rest.len = slice_length(p, rest.len);
        if (rest.len == 0)
            return refused(p, p->target_done ? 431 : 414);
        bool in_head = !p->head_done;
        llhttp_errno_t err = llhttp_execute(&p->llhttp, rest.data, rest.len);
        size_t taken = err == HPE_OK ? rest.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - rest.data);
        *used += taken;
        if (in_head)
            p->head_len += taken;
        else
            p->tail_len += taken;
        if (p->complete)
            return HTTP_COMPLETE;
        if (err != HPE_OK)
            return refused(p, status_of_error(p, err, span_skip(rest, taken)));
        if (framing_too_large(p, p->tail_len))
            return refused(p, 413);
    }
    return HTTP_NEED_MORE;
}

bool http_parser_wants_continue(const struct http_parser *p)
{
    return p->head_done && !p->complete && p->tail_len == 0 && p->body_len == 0 && p->request.minor_version == 1 &&
           span_equal_nocase(p->request.field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
