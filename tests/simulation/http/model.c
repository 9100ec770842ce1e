/*
 * Parses requests in bytes; see model.h. Everything is parsed again with each piece. An incomplete request
 * counts as short.
 */
#include "simulation/http/model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What is known of one request. */
struct head {
    const char *text;
    size_t len;
    unsigned syntax; /* may not be tolerated as soon as it is read */
    unsigned sense;  /* is known at the end of the head */
    char method[32];
    int major, minor;
    const char *target;
    size_t target_len;
    unsigned hosts, lengths, codings;
    bool close, keep_alive, foreign_coding, expects;
    unsigned long long length;
};

unsigned model_status_bit(int status)
{
    static const int statuses[] = {400, 413, 414, 431, 501, 505};
    for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i] == status)
            return 1U << i;
    return 0;
}

/* RFC 9110 section 5.6.2 */
bool model_is_tchar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int hex_value(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static const char *const methods[] = {
    "GET",     "HEAD",      "POST",       "PUT",        "DELETE", "OPTIONS",    "TRACE",
    "CONNECT", "PATCH",     "ACL",        "BIND",       "COPY",   "CHECKOUT",   "LINK",
    "LOCK",    "MERGE",     "MKACTIVITY", "MKCALENDAR", "MKCOL",  "MOVE",       "M-SEARCH",
    "NOTIFY",  "PROPFIND",  "PROPPATCH",  "PURGE",      "QUERY",  "REBIND",     "REPORT",
    "SEARCH",  "SUBSCRIBE", "UNBIND",     "UNLINK",     "UNLOCK", "UNSUBSCRIBE"};

/* 2: known; 1: the beginning of a known one. */
static int know_method(const char *text, size_t n)
{
    int found = 0;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strncmp(methods[i], text, n) == 0)
            found = strlen(methods[i]) == n ? 2 : found == 2 ? 2 : 1;
    return found;
}

static bool escapes_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == '%' && (i + 2 >= n || !is_hex(s[i + 1]) || !is_hex(s[i + 2])))
            return false;
    return true;
}

/* RFC 9110 section 7.2, with a host that is not empty */
static bool is_host(const char *s, size_t n)
{
    size_t at = 0;
    if (n > 0 && s[0] == '[') {
        for (at = 1; at < n && s[at] != ']'; at++)
            if (!is_hex(s[at]) && s[at] != ':' && s[at] != '.' &&
                !(model_is_tchar(s[at]) && ((s[at] | 32) >= 'a')))
                return false;
        if (at == n || at == 1)
            return false;
        at++;
    } else {
        while (at < n && s[at] != ':')
            at++;
        for (size_t i = 0; i < at; i++)
            if (!((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z') ||
                  (s[i] != '\0' && strchr("-._~!$&'()*+,;=%", s[i]) != NULL)))
                return false;
        if (at == 0 || !escapes_valid(s, at))
            return false;
    }
    if (at == n)
        return true;
    if (s[at++] != ':' || n - at > 5)
        return false;
    for (; at < n; at++)
        if (s[at] < '0' || s[at] > '9')
            return false;
    return true;
}

/* Another form of target is served as it is: the application knows none. */
static bool has_scheme(const char *t, size_t n)
{
    size_t at = 0;
    while (at < n && (t[at] | 32) >= 'a' && (t[at] | 32) <= 'z')
        at++;
    return t[0] == '*' || (at > 0 && n > at + 3 && memcmp(t + at, "://", 3) == 0);
}

/* Reads the target. Writes path and query as the application sees them. Returns false for 400. */
static bool read_target(const struct head *h, char *out, size_t size)
{
    const char *t = h->target;
    size_t n = h->target_len;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)t[i] <= 0x20 || (unsigned char)t[i] >= 0x7F || t[i] == '#')
            return false;
    if (n == 0)
        return false;
    bool connects = strcmp(h->method, "CONNECT") == 0;
    if (t[0] != '/') {
        size_t scheme = strncasecmp(t, "http://", 7) == 0 ? 7 : strncasecmp(t, "https://", 8) == 0 ? 8 : 0;
        if (connects)
            at = 0;
        else if (scheme > 0 && scheme <= n) {
            at = scheme;
            while (at < n && t[at] != '/' && t[at] != '?')
                at++;
            if (!is_host(t + scheme, at - scheme))
                return false;
        } else if (!(n == 1 && t[0] == '*') && !has_scheme(t, n))
            return false;
    }
    size_t params = at;
    while (params < n && t[params] != '?')
        params++;
    if (!escapes_valid(t + at, params - at))
        return false;
    size_t len = 0;
    for (size_t i = at; i < params; i++) {
        char c = t[i];
        if (c == '%') {
            c = (char)(hex_value(t[i + 1]) << 4 | hex_value(t[i + 2]));
            if ((unsigned char)c < 0x20 || c == 0x7F)
                return false;
            if (c == '/') { /* RFC 3986 section 2.2: it does not separate segments */
                c = '%';
            } else {
                i += 2;
            }
        }
        if (len + 1 < size)
            out[len++] = c;
    }
    if (len == 0 && len + 1 < size)
        out[len++] = '/';
    if (len + 1 < size)
        out[len++] = params < n ? '?' : '!';
    for (size_t i = params + 1; i < n && len + 1 < size; i++)
        out[len++] = t[i];
    out[len] = '\0';
    return true;
}

/* Letters, and what follows them as far as it is there. */
static bool is_scheme_so_far(const char *t, size_t n)
{
    size_t at = 0;
    while (at < n && (t[at] | 32) >= 'a' && (t[at] | 32) <= 'z')
        at++;
    size_t left = n - at < 3 ? n - at : 3;
    return at > 0 && memcmp(t + at, "://", left) == 0 && n - at <= 3;
}

/* The request line, without its end. `whole`: it has one. */
static void read_line(struct head *h, const char *s, size_t n, bool whole)
{
    size_t method = 0;
    while (method < n && model_is_tchar(s[method]))
        method++;
    int known = know_method(s, method);
    bool ended = method < n;
    if (known == 0 || (ended && known != 2))
        h->syntax |= S501;
    if (method == 0 || (ended && s[method] != ' '))
        h->syntax |= S400;
    (void)snprintf(h->method, sizeof h->method, "%.*s", (int)(method < 31 ? method : 31), s);
    if (!ended) {
        h->syntax |= whole ? S400 : 0;
        return;
    }
    size_t target = method + 1;
    while (target < n && s[target] == ' ') /* more than one space: RFC 9112 section 3 */
        target++;
    size_t end = target;
    while (end < n && s[end] != ' ')
        end++;
    h->target = s + target;
    h->target_len = end - target;
    for (size_t i = target; i < end; i++)
        if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x7F || s[i] == '#')
            h->syntax |= S400;
    if (end > target && s[target] != '/' && s[target] != '*') {
        char text[MODEL_TEXT_MAX];
        struct head part = *h;
        if (end < n ? !read_target(&part, text, sizeof text) : !is_scheme_so_far(s + target, end - target))
            h->syntax |= S400;
    }
    if (end == n) {
        h->syntax |= whole ? S400 | S505 : 0; /* the form of HTTP/0.9 */
        return;
    }
    size_t version = end + 1;
    while (version < n && s[version] == ' ')
        version++;
    const char *v = s + version;
    size_t left = n - version;
    static const char form[] = "HTTP/d.d";
    for (size_t i = 0; i < left; i++) {
        bool digit = i < 8 && form[i] == 'd';
        if (i >= 8 || (digit ? v[i] < '0' || v[i] > '9' : v[i] != form[i]))
            h->syntax |= S400;
    }
    if (left < 8) {
        h->syntax |= whole ? S400 : 0;
        return;
    }
    h->major = v[5] - '0';
    h->minor = v[7] - '0';
    if (h->major != 1)
        h->syntax |= S505;
    if (h->minor > 1) /* as the highest that is implemented: RFC 9110 section 2.5 */
        h->minor = 1;
}

static bool has_token(const char *s, size_t n, const char *token)
{
    size_t len = strlen(token);
    for (size_t at = 0; at <= n;) {
        size_t end = at;
        while (end < n && s[end] != ',')
            end++;
        size_t a = at;
        size_t b = end;
        while (a < b && (s[a] == ' ' || s[a] == '\t'))
            a++;
        while (b > a && (s[b - 1] == ' ' || s[b - 1] == '\t'))
            b--;
        if (b - a == len && strncasecmp(s + a, token, len) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

static bool is_named(const char *s, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(s, name, n) == 0;
}

static void read_value(struct head *h, const char *name, size_t name_len, const char *v, size_t n)
{
    while (n > 0 && (v[0] == ' ' || v[0] == '\t')) {
        v++;
        n--;
    }
    while (n > 0 && (v[n - 1] == ' ' || v[n - 1] == '\t'))
        n--;
    if (is_named(name, name_len, "host")) {
        h->sense |= h->hosts++ > 0 || !is_host(v, n) ? S400 : 0;
    } else if (is_named(name, name_len, "connection")) {
        h->close |= has_token(v, n, "close");
        h->keep_alive |= has_token(v, n, "keep-alive");
    } else if (is_named(name, name_len, "content-length")) {
        h->syntax |= h->lengths++ > 0 || n == 0 ? S400 : 0;
        h->sense |= h->codings > 0 ? S400 : 0;
        for (size_t i = 0; i < n; i++) {
            if (v[i] < '0' || v[i] > '9' || h->length > UINT64_MAX / 10 - 1)
                h->syntax |= S400;
            h->length = h->length * 10 + (unsigned)(v[i] - '0');
        }
    } else if (is_named(name, name_len, "transfer-encoding")) {
        h->foreign_coding |= h->codings++ > 0; /* the fields are one list */
        h->foreign_coding |= !is_named(v, n, "chunked");
        h->sense |= h->foreign_coding ? S400 : 0;
        h->sense |= h->lengths > 0 ? S400 : 0;
    } else if (is_named(name, name_len, "expect")) {
        h->expects |= is_named(v, n, "100-continue");
    }
}

static void read_field(struct head *h, const char *s, size_t n, bool whole)
{
    size_t name = 0;
    while (name < n && model_is_tchar(s[name]))
        name++;
    if (name == n) {
        h->syntax |= whole ? S400 : 0;
        return;
    }
    if (name == 0 || s[name] != ':')
        h->syntax |= S400;
    for (size_t i = name + 1; i < n; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7F)
            h->syntax |= S400;
    if (s[name] != ':')
        return;
    if (whole) {
        read_value(h, s, name, s + name + 1, n - name - 1);
    } else if (is_named(s, name, "content-length") || is_named(s, name, "transfer-encoding")) {
        struct head part = *h; /* what is wrong already may be noticed */
        part.syntax = part.sense = 0;
        read_value(&part, s, name, s + name + 1, n - name - 1);
        bool blank = true;
        for (size_t i = name + 1; i < n; i++)
            blank = blank && (s[i] == ' ' || s[i] == '\t');
        h->sense |= blank ? (h->lengths | h->codings) > 0 ? S400 : 0 : part.syntax | part.sense;
        h->codings += is_named(s, name, "transfer-encoding");
        h->lengths += is_named(s, name, "content-length");
    }
}

/* The line ends, but for its LF: what is wrong with it may be noticed. */
static void foresee(struct head *h, const char *s, size_t n, bool first)
{
    struct head part = *h;
    if (first)
        read_line(&part, s, n, true);
    else if (n > 0)
        read_field(&part, s, n, true);
    h->sense |= part.syntax | part.sense;
}

/* Reads lines up to the end of the head. Returns its length, or 0 if that is not there. */
static size_t read_head(struct head *h)
{
    size_t at = 0;
    bool first = true;
    while (at < h->len) {
        const char *s = h->text + at;
        const char *lf = memchr(s, '\n', h->len - at);
        size_t n = lf != NULL ? (size_t)(lf - s) : h->len - at;
        bool whole = lf != NULL;
        if (whole && (n == 0 || s[n - 1] != '\r'))
            h->syntax |= S400; /* a bare LF */
        else if (whole)
            n--;
        else if (n > 0 && s[n - 1] == '\r')
            foresee(h, s, --n, first);
        if (!first && n == 0 && whole)
            return at + 2;
        if (first)
            read_line(h, s, n, whole);
        else if (n > 0)
            read_field(h, s, n, whole);
        at = whole ? (size_t)(lf - h->text) + 1 : h->len;
        first = false;
    }
    return 0;
}

/* At the end of the head. */
static void judge(struct head *h, const struct model *m, char *target)
{
    if (h->hosts == 0 && h->minor == 1)
        h->sense |= S400;
    if (h->codings > 0 && h->lengths > 0)
        h->sense |= S400;
    if (h->codings > 0 && h->minor == 0)
        h->sense |= S400;
    if (h->foreign_coding)
        h->sense |= S400 | S501;
    if (h->lengths > 0 && h->length > m->body_max)
        h->sense |= S413;
    if (!read_target(h, target, MODEL_TEXT_MAX - 32))
        h->sense |= S400;
}

enum body { BODY_MORE, BODY_DONE, BODY_BAD };

/* How far a body was read (RFC 9112 section 7.1). */
struct chunks {
    const struct model *model;
    const char *s;
    size_t n, start, at, data;
    size_t size;       /* of the chunk that is read */
    unsigned extended; /* S400: of extensions not all are valid */
    unsigned statuses; /* what may be noticed */
};

static enum body bad_chunk(struct chunks *c)
{
    c->statuses |= S400;
    return BODY_BAD;
}

/* The line of a chunk: BODY_DONE behind it. */
static enum body read_chunk_line(struct chunks *c)
{
    const struct model *m = c->model;
    size_t digits = 0;
    c->size = 0;
    c->statuses = c->extended;
    for (; c->at < c->n && is_hex(c->s[c->at]); c->at++, digits++)
        c->size = c->size > m->body_max ? c->size : c->size * 16 + (size_t)hex_value(c->s[c->at]);
    if ((digits > 0 && c->data + c->size > m->body_max) ||
        c->at - c->start - c->data > m->body_max + m->head_max)
        c->statuses |= S413;
    if (digits > 16)
        c->statuses |= S400;
    if (c->at == c->n)
        return BODY_MORE;
    if (digits == 0 || (c->s[c->at] != ';' && c->s[c->at] != '\r'))
        return bad_chunk(c);
    for (; c->at < c->n && c->s[c->at] != '\r'; c->at++) {
        if ((unsigned char)c->s[c->at] <= 0x20 || (unsigned char)c->s[c->at] >= 0x7F)
            return bad_chunk(c);
        c->statuses |= c->extended = S400;
    }
    if (c->at == c->n || c->at + 1 == c->n)
        return BODY_MORE;
    if (c->s[c->at + 1] != '\n')
        return bad_chunk(c);
    c->at += 2;
    return BODY_DONE;
}

static enum body read_chunk_data(struct chunks *c)
{
    if (c->data + c->size > c->model->body_max) {
        c->statuses |= S413;
        return c->n > c->at + c->model->body_max - c->data ? BODY_BAD : BODY_MORE;
    }
    if (c->n < c->at + c->size + 2) {
        if (c->n == c->at + c->size + 1 && c->s[c->at + c->size] != '\r')
            c->statuses |= S400;
        return BODY_MORE;
    }
    c->at += c->size;
    c->data += c->size;
    if (c->s[c->at] != '\r' || c->s[c->at + 1] != '\n')
        return bad_chunk(c);
    c->at += 2;
    return BODY_DONE;
}

static enum body read_trailers(struct chunks *c)
{
    struct head trailer = {.text = c->s + c->at, .len = c->n - c->at};
    for (size_t from = c->at;;) {
        const char *s = c->s + c->at;
        const char *lf = memchr(s, '\n', c->n - c->at);
        size_t line = lf != NULL ? (size_t)(lf - s) : c->n - c->at;
        bool has_cr = line > 0 && s[line - 1] == '\r';
        c->statuses = c->extended;
        if (lf != NULL && !has_cr)
            return bad_chunk(c);
        if (lf != NULL && line == 1) {
            c->at += 2;
            return BODY_DONE;
        }
        if (line > has_cr)
            read_field(&trailer, s, line - has_cr, has_cr);
        c->statuses = trailer.syntax | trailer.sense | c->extended;
        if (trailer.syntax != 0 && lf != NULL)
            return BODY_BAD;
        if (c->n - from > c->model->head_max)
            c->statuses |= S413;
        if (lf == NULL)
            return BODY_MORE;
        c->at += line + 1;
    }
}

static enum body read_chunks(struct chunks *c)
{
    for (;;) {
        enum body line = read_chunk_line(c);
        if (line != BODY_DONE)
            return line;
        if (c->size == 0)
            return read_trailers(c);
        enum body data = read_chunk_data(c);
        if (data != BODY_DONE)
            return data;
    }
}

static struct model_item *add(struct model *m, size_t end, unsigned statuses)
{
    struct model_item *i = &m->item[m->items++];
    *i = (struct model_item){.start = m->begun_at, .end = end, .statuses = statuses};
    m->at = end;
    m->rejected = statuses != 0;
    m->begun = m->expects = false;
    m->may = 0;
    return i;
}

static bool add_rejection(struct model *m, unsigned statuses)
{
    bool expects = m->expects;
    add(m, m->bytes.len, statuses)->expects = expects;
    return true;
}

static const char *class_of(const struct head *h)
{
    if (strcmp(h->method, "GET") == 0 || strcmp(h->method, "HEAD") == 0 || strcmp(h->method, "OPTIONS") == 0)
        return h->method;
    return "OTHER";
}

/* A head that is not complete is rejected for its length, or for a line that is. */
static bool advance_in_head(struct model *m, const struct head *h)
{
    bool is_too_long = m->bytes.len - m->at > m->head_max;
    const char *lf = memrchr(h->text, '\n', h->len);
    if (is_too_long) {
        unsigned large = lf != NULL ? S431 : S414;
        large |= h->major != 0 ? S431 : S414;
        return add_rejection(m, large | h->syntax | h->sense);
    }
    if (h->syntax == 0 || lf == NULL)
        return false;
    struct head lines = {.text = h->text, .len = (size_t)(lf + 1 - h->text)};
    (void)read_head(&lines);
    return lines.syntax != 0 && add_rejection(m, h->syntax | h->sense);
}

static void add_request(struct model *m, const struct head *h, size_t body, size_t end, const char *target)
{
    bool expects = m->expects;
    struct model_item *i = add(m, end, 0);
    if (h->codings > 0 && memchr(m->bytes.data + body, ';', end - body) != NULL)
        i->may |= S400; /* not all of an extension is looked at */
    if (*h->target != '/')
        i->may |= S400; /* nor of an authority */
    i->is_head = strcmp(h->method, "HEAD") == 0;
    i->minor = h->minor;
    i->expects = expects;
    i->keep_alive = strcmp(h->method, "CONNECT") != 0 && !h->close && (h->minor == 1 || h->keep_alive);
    i->text_len = (size_t)snprintf(i->text, sizeof i->text, "%s %d %s", class_of(h), h->minor, target);
}

static bool advance_behind_head(struct model *m, struct head *h, size_t head)
{
    char target[MODEL_TEXT_MAX];
    struct chunks c = {.model = m, .s = m->bytes.data, .n = m->bytes.len, .start = head, .at = head};
    judge(h, m, target);
    if ((h->syntax | h->sense) != 0)
        return add_rejection(m, h->syntax | h->sense);
    size_t end = head + (size_t)h->length;
    enum body body = m->bytes.len >= end ? BODY_DONE : BODY_MORE;
    if (h->codings > 0) {
        body = read_chunks(&c);
        end = c.at;
    }
    m->may = c.statuses;
    m->expects = h->expects && h->minor == 1 && (h->codings > 0 || h->length > 0);
    if (body == BODY_BAD)
        return add_rejection(m, c.statuses);
    if (body == BODY_DONE)
        add_request(m, h, head, end, target);
    return body == BODY_DONE;
}

/* Returns true if a further request was complete, or is rejected. */
static bool advance(struct model *m)
{
    while (m->bytes.len - m->at >= 2 && memcmp(m->bytes.data + m->at, "\r\n", 2) == 0)
        m->at += 2; /* RFC 9112 section 2.2 */
    size_t left = m->bytes.len - m->at;
    const char *s = m->bytes.data + m->at;
    m->begun_at = m->at;
    if (left == 0 || (left == 1 && *s == '\r'))
        return false;
    if (*s == '\r' || *s == '\n')
        return add_rejection(m, S400);
    struct head h = {.text = s, .len = left < m->head_max ? left : m->head_max};
    size_t head = read_head(&h);
    m->begun = true;
    m->may = h.syntax | h.sense;
    return head == 0 ? advance_in_head(m, &h) : advance_behind_head(m, &h, m->at + head);
}

void model_feed(struct model *m, const char *data, size_t n)
{
    buf_append(&m->bytes, data, n);
    while (!m->rejected && m->items < MODEL_ITEMS_MAX && advance(m))
        if (!m->item[m->items - 1].keep_alive && !m->rejected)
            m->rejected = true; /* what follows is not looked at */
}

void model_fini(struct model *m)
{
    buf_fini(&m->bytes);
}
