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

/* Adds to what is kept, and to the length of the part of it that is being read. */
static int collect(struct http_parser *p, struct buf *kept, size_t *len, const char *at, size_t n)
{
    buf_append(kept, at, n);
    if (buf_error(kept) != 0)
        return refuse(p, 500);
    *len += n;
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
    return collect(p, &p->text, &p->now.target_len, at, n);
}

/* llhttp reads RTSP/1.0 as it reads HTTP/1.0, and does not tell which it was. */
static int on_version(llhttp_t *l, const char *at, size_t n)
{
    (void)n;
    struct http_parser *p = parser_of(l);
    size_t here = (size_t)(at - p->slice);
    char c = here >= HTTP_PROTOCOL_TAIL ? at[-HTTP_PROTOCOL_TAIL] : p->now.last[here];
    if (!p->now.version_begun && c != "HTTP/"[sizeof "HTTP/" - 1 - HTTP_PROTOCOL_TAIL])
        return refuse(p, 400);
    p->now.version_begun = true;
    return 0;
}

static void remember_last(char last[HTTP_PROTOCOL_TAIL], struct span slice)
{
    size_t n = slice.len < HTTP_PROTOCOL_TAIL ? slice.len : HTTP_PROTOCOL_TAIL;
    memmove(last, last + n, HTTP_PROTOCOL_TAIL - n);
    memcpy(last + HTTP_PROTOCOL_TAIL - n, slice.data + slice.len - n, n);
}

static int on_version_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    p->now.line_done = true;
    bool known = l->http_major == 1 && l->http_minor <= 1;
    if (!known)
        return refuse(p, 505);
    return l->method == HTTP_PRI ? refuse(p, 501) : 0; /* llhttp knows it, as what HTTP/2 begins with */
}

static int on_header_field(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    size_t room = sizeof p->name - p->now.name_len;
    size_t kept = n < room ? n : room; /* a longer name is none of ours; a full array matches nothing */
    memcpy(p->name + p->now.name_len, at, kept);
    p->now.name_len += kept;
    return 0;
}

/* Of tokens, padded with zeros: what differs in the bit of the case alone are letters there. */
static bool same_name(const char a[HTTP_NAME_MAX], const char b[HTTP_NAME_MAX])
{
    uint64_t difference = 0;
    for (size_t i = 0; i < HTTP_NAME_MAX; i += sizeof difference)
        difference |= span_word(a + i) ^ span_word(b + i);
    return (difference & ~UINT64_C(0x2020202020202020)) == 0;
}

static int find_field(const char name[HTTP_NAME_MAX], size_t len)
{
    static const struct {
        size_t len;
        char name[HTTP_NAME_MAX];
    } known[] = {
#define KNOWN(symbol, text) {sizeof(text) - 1, text},
        HTTP_REQUEST_FIELDS(KNOWN)
#undef KNOWN
    };
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (len == known[i].len && same_name(name, known[i].name))
            return i;
    return -1;
}

/* Without the white space around it. The text has all its bytes, and does not move while the span is used. */
static struct span value_of(const struct http_parser *p, int field)
{
    return span_trim((struct span){p->text.data + p->piece[field].start, p->piece[field].len});
}

/* One key that is sent twice is one key; two keys are none (RFC 9110 section 5.3). */
static void end_repeated_key(struct http_parser *p)
{
    p->now.ambiguous |= !span_equal(value_of(p, HTTP_FIELD_API_KEY), value_of(p, HTTP_REPEATED_KEY));
    p->text.len = p->piece[HTTP_REPEATED_KEY].start;
}

/* NULL for a field that is no list. */
static struct buf *list_of(struct http_parser *p, int field)
{
    unsigned i = (unsigned)field - HTTP_FIRST_LIST;
    return i < HTTP_LIST_COUNT ? &p->list[i] : NULL;
}

static int on_repeated_field(struct http_parser *p)
{
    struct buf *list = list_of(p, p->now.field);
    if (list != NULL) {
        buf_append_str(list, ", ");
        return buf_error(list) == 0 ? 0 : refuse(p, 500);
    }
    switch (p->now.field) {
    case HTTP_FIELD_HOST:
    case HTTP_FIELD_TRANSFER_ENCODING:
        p->now.ambiguous = true;
        break;
    case HTTP_FIELD_API_KEY:
        p->now.field = HTTP_REPEATED_KEY;
        p->piece[HTTP_REPEATED_KEY] = (struct http_piece){.start = p->text.len};
        return 0;
    default:
        break;
    }
    p->now.field = -1;
    return 0;
}

static int begin_list(struct http_parser *p)
{
    if (p->now.field == HTTP_FIELD_FORWARDED_FOR && !p->limits->forwarded) {
        p->now.fields &= ~(1U << HTTP_FIELD_FORWARDED_FOR);
        p->now.field = -1;
        return 0;
    }
    buf_clear(list_of(p, p->now.field));
    return 0;
}

static int on_header_field_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    if (p->now.field == HTTP_REPEATED_KEY)
        end_repeated_key(p);
    /* No trailer means anything here. */
    p->now.field = p->now.head_done ? -1 : find_field(p->name, p->now.name_len);
    p->now.name_len = 0;
    memset(p->name, 0, sizeof p->name);
    if (p->now.field < 0)
        return 0;
    unsigned bit = 1U << p->now.field;
    if ((p->now.fields & bit) != 0)
        return on_repeated_field(p);
    p->now.fields |= bit;
    p->piece[p->now.field] = (struct http_piece){.start = p->text.len};
    if (p->now.field >= HTTP_FIRST_LIST)
        return begin_list(p);
    return 0;
}

static int on_header_value(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = parser_of(l);
    if (p->now.field < 0)
        return 0;
    struct buf *list = list_of(p, p->now.field);
    return collect(p, list == NULL ? &p->text : list, &p->piece[p->now.field].len, at, n);
}

static bool host_valid(struct http_parser *p, struct span host)
{
    if (host.len > 0 && span_equal(host, (struct span){p->host, p->host_len}))
        return true;
    if (!http_host_valid(host))
        return false;
    if (host.len <= sizeof p->host) {
        memcpy(p->host, host.data, host.len);
        p->host_len = host.len;
    }
    return true;
}

/* RFC 9112 section 6.1. To llhttp any list that ends in "chunked" will do; we know no other coding. */
static int judge_coding(const struct http_parser *p, struct span coding)
{
    if (p->llhttp.http_minor == 0 || (p->llhttp.flags & F_CHUNKED) == 0)
        return 400;
    return span_equal_nocase(coding, SPAN("chunked")) ? 0 : 501;
}

/* RFC 9112 sections 2.3 and 3.2. */
static int judge_head(struct http_parser *p)
{
    const llhttp_t *l = &p->llhttp;
    if (l->http_major != 1 || l->http_minor > 1)
        return 505;
    struct span host = p->request.field[HTTP_FIELD_HOST];
    bool host_needed = l->http_minor == 1;
    if (p->now.ambiguous || (host.data == NULL ? host_needed : !host_valid(p, host)))
        return 400;
    struct span coding = p->request.field[HTTP_FIELD_TRANSFER_ENCODING];
    int status = coding.data == NULL ? 0 : judge_coding(p, coding); /* also an empty one */
    if (status != 0)
        return status;
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

/* The text has all its bytes and moves no more. */
static void set_fields(struct http_parser *p)
{
    const unsigned first_list = 1U << HTTP_FIRST_LIST;
    for (unsigned left = p->now.fields & (first_list - 1); left != 0; left &= left - 1) {
        int i = __builtin_ctz(left);
        p->request.field[i] = value_of(p, i);
    }
    if (p->now.fields < first_list)
        return;
    for (int i = 0; i < HTTP_LIST_COUNT; i++)
        if ((p->now.fields & first_list << i) != 0)
            p->request.field[HTTP_FIRST_LIST + i] = span_trim(buf_span(&p->list[i]));
}

static int on_headers_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    struct http_request *r = &p->request;
    if (p->now.field == HTTP_REPEATED_KEY)
        end_repeated_key(p);
    p->now.head_done = true;
    r->minor_version = l->http_minor;
    r->keep_alive = wants_keep_alive(l);
    set_fields(p);
    int status = judge_head(p);
    if (status != 0)
        return refuse(p, status);
    if (http_target_split(p->text.data, p->now.target_len, &r->path, &r->query) != 0)
        return refuse(p, 400);
    bool has_content = (l->flags & F_CHUNKED) != 0 || l->content_length > 0;
    return has_content ? HPE_PAUSED : 0; /* so that head and content are counted apart */
}

static int on_body(llhttp_t *l, const char *at, size_t n)
{
    (void)at;
    struct http_parser *p = parser_of(l);
    p->now.body_len += n;
    return p->now.body_len > p->limits->body_max ? refuse(p, 413) : 0;
}

static int on_message_complete(llhttp_t *l)
{
    parser_of(l)->now.complete = true;
    return HPE_PAUSED;
}

void http_parser_init(struct http_parser *p, const struct http_limits *limits)
{
    static const llhttp_settings_t settings = {
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
    p->limits = limits;
    buf_clear(&p->text);
    p->now = (struct http_reading){.field = -1};
    memset(p->name, 0, sizeof p->name);
    p->refusal = 0;
    p->request = (struct http_request){.method = METHOD_OTHER};
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    p->llhttp.data = p;
}

void http_parser_fini(struct http_parser *p)
{
    buf_fini(&p->text);
    for (int i = 0; i < HTTP_LIST_COUNT; i++)
        buf_fini(&p->list[i]);
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
    char before = at > 0 ? input.data[at - 1] : p->now.last[HTTP_PROTOCOL_TAIL - 1];
    return is_token_char(input.data[at]) || (is_token_char(before) && input.data[at] == ' ');
}

/* What llhttp says to what is no HTTP/1 request; RTSP's methods are none of HTTP's. */
static int status_of_error(struct http_parser *p, llhttp_errno_t err, struct span input, size_t at)
{
    const char *reason = llhttp_get_error_reason(&p->llhttp);
    if (p->refusal != 0)
        return p->refusal;
    if (err == HPE_INVALID_METHOD)
        return is_unknown_method(p, input, at) ? 501 : 400;
    if (err == HPE_INVALID_VERSION)
        return strcmp(reason, "Invalid HTTP version") == 0 ? 505 : 400;
    if (err == HPE_INVALID_CONSTANT && strcmp(reason, "Invalid method for HTTP/x.x request") == 0)
        return 501;
    return 400;
}

/* Empty lines were skipped before; llhttp would skip halves of them too. */
static bool begins_line(struct http_parser *p, char first)
{
    p->now.line_begun = true;
    return first != '\r' && first != '\n';
}

/* Of the head, llhttp is given no more than the limit leaves, so that the count is exact. */
static size_t slice_length(const struct http_parser *p, size_t available)
{
    if (p->now.head_done)
        return available;
    size_t left = p->limits->head_max - p->now.head_len;
    return available < left ? available : left;
}

/* Chunk sizes and extensions are bounded as the content itself is, trailers as the head is. */
static bool framing_too_large(const struct http_parser *p)
{
    return p->now.tail_len - p->now.body_len > p->limits->body_max + p->limits->head_max;
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
            return refused(p, p->now.line_done ? 431 : 414);
        if (!p->now.line_begun && !begins_line(p, *rest.data))
            return refused(p, 400);
        bool in_head = !p->now.head_done;
        p->slice = rest.data;
        llhttp_errno_t err = llhttp_execute(&p->llhttp, rest.data, rest.len);
        size_t taken = err == HPE_OK ? rest.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - rest.data);
        *used += taken;
        if (in_head)
            p->now.head_len += taken;
        else
            p->now.tail_len += taken;
        if (!p->now.version_begun)
            remember_last(p->now.last, (struct span){rest.data, taken});
        if (p->refusal == 0 && framing_too_large(p))
            return refused(p, 413);
        if (p->now.complete)
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
    return p->now.head_done && !p->now.complete && p->now.tail_len == 0 && p->now.body_len == 0 &&
           p->request.minor_version == 1 &&
           span_equal_nocase(p->request.field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
