/*
 * Reading requests with llhttp; see parser.h. The callbacks of llhttp only collect;
 * http_parser_on_headers_complete() validates the head as a whole.
 *
 * A request whose header section was accepted before does without llhttp, if it has come whole and its
 * request line is one of the usual form. What a section contains depends on its bytes alone, since all that
 * are kept belong to requests of GET and HTTP/1.1 without content. So such a request is the same as if it
 * were parsed.
 */
#include "http/parser.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>

/* --- names of header fields --- */

/* Compares tokens, padded with zeros, without case. Where tokens differ only in the case bit, the bytes are
 * letters. */
static bool http_parser_same_name(const char a[HTTP_NAME_MAX], const char b[HTTP_NAME_MAX])
{
    uint64_t difference = 0;
    for (size_t i = 0; i < HTTP_NAME_MAX; i += sizeof difference)
        difference |= span_word(a + i) ^ span_word(b + i);
    return (difference & ~UINT64_C(0x2020202020202020)) == 0;
}

static int http_parser_find_field(const struct http_field_table *t, const char name[HTTP_NAME_MAX],
                                  size_t len)
{
    int i = t->first[len];
    while (i >= 0 && !http_parser_same_name(name, t->field[i].name))
        i = t->field[i].next;
    return i;
}

static void http_parser_add_field(struct http_field_table *t, int number, const struct http_field_rule *rule,
                                  int *lists)
{
    size_t len = strlen(rule->name);
    assert(number < HTTP_FIELDS_MAX && len > 0 && len < HTTP_NAME_MAX);
    memcpy(t->field[number].name, rule->name, len);
    assert(http_parser_find_field(t, t->field[number].name, len) < 0);
    t->field[number].repeat = rule->repeat;
    t->field[number].list = -1;
    if (rule->repeat == HTTP_REPEAT_LIST)
        t->field[number].list = (short)(*lists)++;
    assert(*lists <= HTTP_LISTS_MAX);
    t->field[number].next = t->first[len];
    t->first[len] = (short)number;
}

void http_field_table_init(struct http_field_table *t, const struct http_field_rule *rules, unsigned count,
                           bool forwarded)
{
    static const struct http_field_rule own[HTTP_FIELD_COUNT] = {
        [HTTP_FIELD_HOST] = {"host", HTTP_REPEAT_REJECT},
        [HTTP_FIELD_TRANSFER_ENCODING] = {"transfer-encoding", HTTP_REPEAT_LIST},
        [HTTP_FIELD_EXPECT] = {"expect", HTTP_REPEAT_FIRST},
        [HTTP_FIELD_IF_MATCH] = {"if-match", HTTP_REPEAT_LIST},
        [HTTP_FIELD_IF_NONE_MATCH] = {"if-none-match", HTTP_REPEAT_LIST},
        [HTTP_FIELD_FORWARDED_FOR] = {"x-forwarded-for", HTTP_REPEAT_LIST},
    };
    int lists = 0;
    memset(t, 0, sizeof *t);
    memset(t->first, -1, sizeof t->first);
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (i != HTTP_FIELD_FORWARDED_FOR || forwarded)
            http_parser_add_field(t, i, &own[i], &lists);
    for (unsigned i = 0; i < count; i++)
        http_parser_add_field(t, HTTP_FIELD_COUNT + (int)i, &rules[i], &lists);
}

/* --- Host (RFC 9110 section 7.2): uri-host [ ":" port ] --- */

/* RFC 3986 section 3.2.2: unreserved, sub-delims and percent-encoded octets. */
static bool http_parser_is_reg_name(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!ascii_is_alnum(s.data[i]) && s.data[i] != '.' &&
            (s.data[i] == '\0' || /* not covered: llhttp rejects NUL */
             strchr("-._~!$&'()*+,;=%", s.data[i]) == NULL))
            return false;
    return s.len > 0 && uri_escapes_valid(s);
}

static bool http_parser_is_ip_literal(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!ascii_is_alnum(s.data[i]) && s.data[i] != ':' && s.data[i] != '.')
            return false;
    return s.len > 0;
}

static bool http_parser_is_port(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!ascii_is_digit(s.data[i]))
            return false;
    return s.len <= 5;
}

/* True for a non-empty registered name or address, with or without a port. */
static bool http_parser_is_host(struct span host)
{
    if (host.len > 0 && host.data[0] == '[') {
        size_t close = span_find(host, ']');
        if (close == host.len || !http_parser_is_ip_literal((struct span){host.data + 1, close - 1}))
            return false;
        struct span rest = span_skip(host, close + 1);
        return rest.len == 0 || (rest.data[0] == ':' && http_parser_is_port(span_skip(rest, 1)));
    }
    size_t colon = span_find(host, ':');
    if (!http_parser_is_reg_name((struct span){host.data, colon}))
        return false;
    return colon == host.len || http_parser_is_port(span_skip(host, colon + 1));
}

/* --- the request target --- */

enum byte_class { FORBIDDEN = 1, PERCENT = 2, NOT_ASCII = 4 };

/* No target may contain control bytes, space, or the number sign of a fragment. */
static const unsigned char CLASS[256] = {[0x00 ... 0x20] = FORBIDDEN,
                                         ['#'] = FORBIDDEN,
                                         [0x7F] = FORBIDDEN,
                                         ['%'] = PERCENT,
                                         [0x80 ... 0xFF] = NOT_ASCII};

/* True when all bytes are from '&' to '~', where CLASS is 0 throughout: any other byte sets a high bit in one
 * of the terms. */
static bool http_parser_is_plain(uint64_t word)
{
    const uint64_t each = 0x0101010101010101;
    return ((word | (word - each * '&') | (word + each)) & each * 0x80) == 0;
}

static unsigned http_parser_classes_of_bytes(struct span s)
{
    unsigned seen = 0;
    for (size_t i = 0; i < s.len; i++)
        seen |= CLASS[(unsigned char)s.data[i]];
    return seen;
}

static unsigned http_parser_classes_of_word(const char *at)
{
    return http_parser_is_plain(span_word(at))
               ? 0
               : http_parser_classes_of_bytes((struct span){at, sizeof(uint64_t)});
}

/* The last word may overlap the one before. */
static unsigned http_parser_classes_in(struct span s)
{
    if (s.len < sizeof(uint64_t))
        return http_parser_classes_of_bytes(s);
    size_t last = s.len - sizeof(uint64_t);
    unsigned seen = http_parser_classes_of_word(s.data + last);
    for (size_t i = 0; i < last; i += sizeof(uint64_t))
        seen |= http_parser_classes_of_word(s.data + i);
    return seen;
}

static bool http_parser_is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7F;
}

static bool http_parser_has_control(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (http_parser_is_control(s.data[i]))
            return true;
    return false;
}

static size_t http_parser_scheme_length(struct span target)
{
    static const struct span schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        struct span start = {target.data, schemes[i].len};
        if (target.len >= start.len && span_equal_nocase(start, schemes[i]))
            return start.len;
    }
    return 0;
}

/*
 * Finds the start of the path in absolute form, behind the authority. The authority replaces Host, and is
 * validated like it (RFC 9110 sections 4.2.1 and 4.2.4). *start is 0 in all other forms.
 */
static int http_parser_find_path(struct span target, size_t *start)
{
    size_t at = target.data[0] == '/' ? 0 : http_parser_scheme_length(target);
    *start = at;
    if (at == 0)
        return 0;
    while (at < target.len && target.data[at] != '/' && target.data[at] != '?')
        at++;
    struct span authority = {target.data + *start, at - *start};
    *start = at;
    return http_parser_is_host(authority) ? 0 : -EINVAL;
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

/* `seen` are the classes in it; as http_target_split() otherwise. */
static int http_parser_split_target(char *target, size_t len, unsigned seen, struct span *path,
                                    struct span *query)
{
    static const struct span root = {"/", 1};
    struct span all = {target, len};
    if (len == 0 || (seen & FORBIDDEN) != 0)
        return -EINVAL;
    size_t params = span_find(all, '?');
    size_t start = 0;
    if (http_parser_find_path(all, &start) != 0)
        return -EINVAL;
    *query = params < len ? span_skip(all, params + 1) : SPAN_ABSENT;
    *path = (struct span){target + start, params - start};
    if ((seen & PERCENT) != 0) {
        if (!uri_escapes_valid(*path))
            return -EINVAL;
        path->len = http_parser_decode_path(*path, target + start);
        if (http_parser_has_control(*path))
            return -EINVAL;
    }
    if (path->len == 0)
        *path = root;
    return 0;
}

int http_target_split(char *target, size_t len, struct span *path, struct span *query)
{
    return http_parser_split_target(target, len, http_parser_classes_in((struct span){target, len}), path,
                                    query);
}

/* --- collecting: the callbacks of llhttp --- */

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

/* Appends to `kept`, and adds to the length of the part of it that is being read. */
static int http_parser_collect(struct http_parser *p, struct buf *kept, size_t *len, const char *at, size_t n)
{
    buf_append(kept, at, n);
    if (buf_error(kept) != 0)
        return http_parser_reject(p, 500);
    *len += n;
    return 0;
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
    p->rest = span_skip(p->rest, (size_t)(at + n - p->rest.data));
    return http_parser_collect(p, &p->text, &p->state.target_len, at, n);
}

/* False for RTSP/1.0: llhttp accepts it in place of HTTP/1.0, and does not tell which it was. */
static bool http_parser_begins_version(struct http_parser *p)
{
    size_t at = 0;
    while (at < p->rest.len && p->rest.data[at] == ' ')
        at++;
    if (at == p->rest.len)
        return true;
    http_parser_enter(p, HTTP_PARSE_VERSION);
    return p->rest.data[at] != 'R';
}

static int http_parser_on_url_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    http_parser_enter(p, HTTP_PARSE_SPACE);
    return http_parser_begins_version(p) ? 0 : http_parser_reject(p, 400);
}

static int http_parser_on_version_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    http_parser_enter(p, HTTP_PARSE_FIELDS);
    if (l->http_major != 1)
        return http_parser_reject(p, 505);
    if (l->http_minor > 1) /* processed as the highest version that is implemented: RFC 9110 section 2.5 */
        l->http_minor = 1;
    /* llhttp knows them from the preface of HTTP/2 and from Icecast. */
    return l->method == HTTP_PRI || l->method == HTTP_SOURCE ? http_parser_reject(p, 501) : 0;
}

/* A name that fills the array is longer than any in the table, and matches none. */
static int http_parser_on_header_field(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = http_parser_of(l);
    size_t room = sizeof p->name - p->state.name_len;
    size_t kept = n < room ? n : room;
    if (p->state.name_len == 0)
        memset(p->name, 0, sizeof p->name);
    memcpy(p->name + p->state.name_len, at, kept);
    p->state.name_len += kept;
    return 0;
}

/* The value without the white space around it. The text is complete, and does not move while the span is in
 * use. */
static struct span http_parser_value_of(const struct http_parser *p, int field)
{
    return span_trim((struct span){p->text.data + p->piece[field].start, p->piece[field].len});
}

static void http_parser_end_repeated_field(struct http_parser *p)
{
    p->state.ambiguous |=
        !span_equal(http_parser_value_of(p, p->state.repeated), http_parser_value_of(p, HTTP_FIELD_REPEATED));
    p->text.len = p->piece[HTTP_FIELD_REPEATED].start;
}

/* NULL for a field that is not a list. */
static struct buf *http_parser_list_of(struct http_parser *p, int field)
{
    int list = p->config->fields.field[field].list;
    return list < 0 ? NULL : &p->list[list];
}

static void http_parser_begin_field(struct http_parser *p, int field)
{
    struct buf *list = http_parser_list_of(p, field);
    p->state.fields |= 1U << field;
    p->state.kept = list != NULL ? list : &p->text;
    p->piece[field] = (struct http_piece){.start = p->text.len};
    if (list != NULL)
        buf_clear(list);
}

static int http_parser_begin_repeated_field(struct http_parser *p, int field)
{
    struct buf *list = NULL;
    switch (p->config->fields.field[field].repeat) {
    case HTTP_REPEAT_FIRST:
        break;
    case HTTP_REPEAT_SAME:
        p->state.kept = &p->text;
        p->state.field = HTTP_FIELD_REPEATED;
        p->state.repeated = field;
        p->piece[HTTP_FIELD_REPEATED] = (struct http_piece){.start = p->text.len};
        break;
    case HTTP_REPEAT_REJECT:
        p->state.ambiguous = true;
        break;
    case HTTP_REPEAT_LIST:
        list = p->state.kept = &p->list[p->config->fields.field[field].list];
        buf_append_str(list, ", ");
        return buf_error(list) == 0 ? 0 : http_parser_reject(p, 500);
    }
    return 0;
}

static int http_parser_on_header_field_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    /* Trailers are dropped. */
    int field =
        http_parser_has_head(p) ? -1 : http_parser_find_field(&p->config->fields, p->name, p->state.name_len);
    p->state.field = field;
    p->state.name_len = 0;
    if (field < 0)
        return 0;
    if ((p->state.fields >> field & 1) != 0)
        return http_parser_begin_repeated_field(p, field);
    http_parser_begin_field(p, field);
    return 0;
}

static int http_parser_on_header_value(llhttp_t *l, const char *at, size_t n)
{
    struct http_parser *p = http_parser_of(l);
    if (p->state.kept == NULL)
        return 0;
    return http_parser_collect(p, p->state.kept, &p->piece[p->state.field].len, at, n);
}

static int http_parser_on_header_value_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    if (p->state.field == HTTP_FIELD_REPEATED)
        http_parser_end_repeated_field(p);
    p->state.kept = NULL;
    return 0;
}

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

/* The text is complete and does not move any more. */
static void http_parser_set_fields(struct http_parser *p)
{
    for (unsigned left = p->state.fields; left != 0; left &= left - 1) {
        int i = __builtin_ctz(left);
        const struct buf *list = http_parser_list_of(p, i);
        p->request.field[i] = list == NULL ? http_parser_value_of(p, i) : span_trim(buf_span(list));
    }
}

static int http_parser_on_headers_complete(llhttp_t *l)
{
    struct http_parser *p = http_parser_of(l);
    struct http_request *r = &p->request;
    http_parser_enter(p, HTTP_PARSE_CONTENT);
    r->minor_version = l->http_minor;
    r->keep_alive = http_parser_wants_keep_alive(l);
    http_parser_set_fields(p);
    int status = http_parser_validate_head(p);
    if (status != 0)
        return http_parser_reject(p, status);
    if (http_target_split(p->text.data, p->state.target_len, &r->path, &r->query) != 0)
        return http_parser_reject(p, 400);
    bool has_content = (l->flags & F_CHUNKED) != 0 || l->content_length > 0;
    return has_content ? HPE_PAUSED : 0; /* so that head and content are counted separately */
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

/* --- header sections that were accepted before --- */

/* The end of a request line in the form of almost all. */
static const struct span USUAL_VERSION = {" HTTP/1.1\r\n", 11};

/* The target of a request line in the form of almost all: GET, a path in ASCII, HTTP/1.1. Absent for others.
 */
static struct span http_parser_usual_target(struct span bytes)
{
    static const struct span method = {"GET ", 4};
    if (!span_starts_with(bytes, SPAN("GET /")))
        return SPAN_ABSENT;
    struct span rest = span_skip(bytes, method.len);
    struct span target = {rest.data, span_find(rest, ' ')};
    return span_starts_with(span_skip(rest, target.len), USUAL_VERSION) ? target : SPAN_ABSENT;
}

/* Finds the section in the input: all of it, or as much as the last section had where requests are pipelined.
 */
static bool http_parser_find_section(struct http_parser *p, struct span bytes, size_t start)
{
    static const struct span end = {"\r\n\r\n", 4};
    struct span rest = span_skip(bytes, start);
    size_t last = p->config->sections.last_len;
    if (rest.len > last && last >= end.len && span_starts_with(span_skip(rest, last - end.len), end))
        rest.len = last;
    if (rest.len > HTTP_SECTION_MAX || start + rest.len > p->config->head_max)
        return false;
    p->state.section.start = start;
    p->state.section.len = rest.len;
    p->state.section.hash = hash_bytes(rest, p->config->sections.seed);
    return true;
}

static struct http_section *http_parser_slot_of(const struct http_parser *p)
{
    return &p->config->sections.slot[p->state.section.hash % HTTP_SECTIONS];
}

/* Bytes are compared only where the hashes are equal: how long it takes tells nobody how much of another
 * client's API key is right. */
static const struct http_section *http_parser_kept_section(const struct http_parser *p, struct span bytes)
{
    const struct http_section *kept = http_parser_slot_of(p);
    struct span section = {bytes.data + p->state.section.start, p->state.section.len};
    bool same =
        kept->hash == p->state.section.hash && span_equal(section, (struct span){kept->bytes, kept->len});
    return same ? kept : NULL;
}

/* Fills the request with the fields of a section. `text` holds the target and gets the section. */
static bool http_parser_use_section(struct http_parser *p, const struct http_section *s, struct span target,
                                    unsigned seen)
{
    struct http_request *r = &p->request;
    if (buf_reserve(&p->text, target.len + s->len) != 0)
        return false;
    char *section = span_put(target, p->text.data);
    (void)span_put((struct span){s->bytes, s->len}, section);
    if (http_parser_split_target(p->text.data, target.len, seen, &r->path, &r->query) != 0)
        return false;
    for (unsigned left = s->fields; left != 0; left &= left - 1) {
        int i = __builtin_ctz(left);
        r->field[i] = (struct span){section + s->value[i].start, s->value[i].len};
    }
    r->method = METHOD_GET;
    r->minor_version = 1;
    r->keep_alive = s->keep_alive;
    return true;
}

/* Returns the length of a request whose section is kept, which is complete then; or 0. */
static size_t http_parser_recognise(struct http_parser *p, struct span bytes)
{
    struct span target = http_parser_usual_target(bytes);
    if (target.data == NULL)
        return 0;
    size_t line_len = (size_t)(target.data - bytes.data) + target.len + USUAL_VERSION.len;
    unsigned seen = http_parser_classes_in(target);
    if ((seen & NOT_ASCII) != 0 || !http_parser_find_section(p, bytes, line_len))
        return 0;
    const struct http_section *kept = http_parser_kept_section(p, bytes);
    if (kept == NULL || !http_parser_use_section(p, kept, target, seen))
        return 0;
    p->state.phase = HTTP_PARSE_COMPLETE;
    return line_len + kept->len;
}

/* False for a value that is not in the section as one: a list in several fields. */
static bool http_parser_keep_value(struct http_section *s, int field, struct span value)
{
    const char *at = value.len == 0 ? s->bytes : memmem(s->bytes, s->len, value.data, value.len);
    if (at == NULL)
        return false;
    s->value[field].start = (uint16_t)(at - s->bytes);
    s->value[field].len = (uint16_t)value.len;
    return true;
}

static void http_parser_keep_section(const struct http_parser *p, struct http_section *s, struct span section)
{
    bool possible = true;
    s->hash = p->state.section.hash;
    s->len = (uint16_t)section.len;
    s->keep_alive = p->request.keep_alive;
    s->fields = p->state.fields;
    memcpy(s->bytes, section.data, section.len);
    for (unsigned left = s->fields; left != 0; left &= left - 1) {
        int i = __builtin_ctz(left);
        possible = possible && http_parser_keep_value(s, i, p->request.field[i]);
    }
    if (!possible)
        s->len = 0;
}

/*
 * A request of the usual form was accepted; `bytes` came last. Its section is kept the second time, since
 * many are never sent again. One that could not be kept is not tried again.
 *
 * Without content these bytes are the end of the head, and all of it if they are as many. With content they
 * may be content of the same length.
 */
static void http_parser_remember(struct http_parser *p, struct span bytes)
{
    size_t start = p->state.section.start;
    bool has_content = p->state.tail_len > 0;
    if (start == 0 || has_content || p->state.head_len != bytes.len)
        return;
    struct span section = span_skip(bytes, start);
    p->config->sections.last_len = section.len;
    if (section.len != p->state.section.len)
        return;
    struct http_section *s = http_parser_slot_of(p);
    if (s->accepted == p->state.section.hash && s->hash != s->accepted)
        http_parser_keep_section(p, s, section);
    s->accepted = p->state.section.hash;
}

/* --- feeding --- */

void http_parser_init(struct http_parser *p, struct http_parser_config *config)
{
    p->config = config;
    buf_clear(&p->text);
    p->state = (struct http_parse_state){0};
    p->status = 0;
    p->request = (struct http_request){.method = METHOD_OTHER};
}

/* llhttp stopped at input.data[at], inside a token or at the space after one: it has no method of that
 * name. */
static bool http_parser_is_unknown_method(const struct http_parser *p, struct span input, size_t at)
{
    if (at >= input.len)
        return false;
    return ascii_is_tchar(input.data[at]) || (p->state.head_len > 0 && input.data[at] == ' ');
}

/* The status for an error of llhttp, which also knows the methods of RTSP: HTTP does not have them (501). */
static int http_parser_status_of_error(struct http_parser *p, llhttp_errno_t err, struct span input,
                                       size_t at)
{
    if (p->status != 0)
        return p->status;
    if (err == HPE_INVALID_METHOD) {
        if (!http_parser_is_unknown_method(p, input, at))
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
        .on_url_complete = http_parser_on_url_complete,
        .on_version_complete = http_parser_on_version_complete,
        .on_header_field = http_parser_on_header_field,
        .on_header_field_complete = http_parser_on_header_field_complete,
        .on_header_value = http_parser_on_header_value,
        .on_header_value_complete = http_parser_on_header_value_complete,
        .on_headers_complete = http_parser_on_headers_complete,
        .on_body = http_parser_on_body,
        .on_message_complete = http_parser_on_message_complete,
    };
    memset(p->name, 0, sizeof p->name);
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    llhttp_set_lenient_version(&p->llhttp, 1); /* see http_parser_on_version_complete() */
    p->llhttp.data = p;
}

/* Empty lines were skipped before (http_leading_crlf); llhttp would skip incomplete ones too. */
static bool http_parser_begins_line(struct http_parser *p)
{
    char first = *p->rest.data;
    http_parser_begin_llhttp(p);
    assert(first != '\r');
    http_parser_enter(p, HTTP_PARSE_LINE);
    return first != '\n';
}

/* Looks at what llhttp would accept: it gets input only after that. */
static bool http_parser_check_input(struct http_parser *p)
{
    if (p->state.phase == HTTP_PARSE_NOTHING)
        return http_parser_begins_line(p);
    return p->state.phase != HTTP_PARSE_SPACE || http_parser_begins_version(p);
}

/* True within the value of a field that llhttp evaluates itself. */
static bool http_parser_is_in_evaluated_value(const struct http_parser *p)
{
    static const char names[][HTTP_NAME_MAX] = {"connection", "content-length", "proxy-connection",
                                                "transfer-encoding"};
    if (p->state.name_len > 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (http_parser_same_name(p->name, names[i]))
            return true;
    return false;
}

/*
 * The next input of llhttp. It gets at most as much of the head as the limit leaves, so that the count is
 * exact. In the values that it evaluates it does not take a tab for white space (RFC 9110 section 5.6.3): it
 * gets a space in its place.
 */
static struct span http_parser_next_slice(const struct http_parser *p, struct span rest)
{
    static const struct span space = {" ", 1};
    if (http_parser_has_head(p))
        return rest;
    size_t left = p->config->head_max - p->state.head_len;
    if (left < rest.len)
        rest.len = left;
    if (rest.len == 0)
        return rest;
    if (*rest.data == '\t' && http_parser_is_in_evaluated_value(p))
        return space;
    rest.len = 1 + span_find(span_skip(rest, 1), '\t');
    return rest;
}

/* Chunk sizes and extensions are bounded by the limit of the content, trailers by that of the head. */
static bool http_parser_framing_too_large(const struct http_parser *p)
{
    return p->state.tail_len - p->state.body_len > p->config->body_max + p->config->head_max;
}

static enum http_progress http_parser_rejected(struct http_parser *p, int status)
{
    p->status = status;
    return HTTP_REJECTED;
}

enum http_progress http_parser_feed(struct http_parser *p, struct span bytes, size_t *used)
{
    *used = p->state.phase == HTTP_PARSE_NOTHING ? http_parser_recognise(p, bytes) : 0;
    if (*used > 0)
        return HTTP_COMPLETE;
    while (*used < bytes.len) {
        struct span rest = http_parser_next_slice(p, span_skip(bytes, *used));
        if (rest.len == 0)
            return http_parser_rejected(p, p->state.phase < HTTP_PARSE_FIELDS ? 414 : 431);
        p->rest = rest;
        if (!http_parser_check_input(p))
            return http_parser_rejected(p, 400);
        bool in_head = !http_parser_has_head(p);
        llhttp_errno_t err = llhttp_execute(&p->llhttp, rest.data, rest.len);
        size_t taken = err == HPE_OK ? rest.len : (size_t)(llhttp_get_error_pos(&p->llhttp) - rest.data);
        *used += taken;
        if (in_head) {
            p->request.method = http_parser_method_of(&p->llhttp);
            p->state.head_len += taken;
        } else {
            p->state.tail_len += taken;
        }
        if (p->status == 0 && http_parser_framing_too_large(p))
            return http_parser_rejected(p, 413);
        if (p->state.phase == HTTP_PARSE_COMPLETE) {
            http_parser_remember(p, (struct span){bytes.data, *used});
            return HTTP_COMPLETE;
        }
        if (err == HPE_PAUSED)
            llhttp_resume(&p->llhttp);
        else if (err != HPE_OK)
            return http_parser_rejected(p, http_parser_status_of_error(p, err, rest, taken));
    }
    return HTTP_NEED_MORE;
}

void http_parser_set_complete_fields(struct http_parser *p)
{
    if (p->state.phase != HTTP_PARSE_FIELDS || p->status == 500) /* out of memory, or all are set */
        return;
    if (p->state.kept != NULL && p->state.field != HTTP_FIELD_REPEATED)
        p->state.fields &= ~(1U << p->state.field);
    http_parser_set_fields(p);
}

bool http_parser_wants_continue(const struct http_parser *p)
{
    return p->state.phase == HTTP_PARSE_CONTENT && p->state.tail_len == 0 && p->request.minor_version == 1 &&
           span_equal_nocase(p->request.field[HTTP_FIELD_EXPECT], SPAN("100-continue"));
}
