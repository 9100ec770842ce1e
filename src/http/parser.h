/*
 * Parses bytes into requests: llhttp in strict mode, with additional limits and the checks that llhttp leaves
 * to its users. It has no sockets.
 *
 * One parser reads one request: http_parser_init, then http_parser_feed until the request is complete or
 * rejected. Input after the request is left for the next one.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include "base/buf.h"
#include "http/exchange.h"

#include <llhttp.h>

/* The fields whose values are kept, found by the length of their name. */
struct http_field_table {
    short first[HTTP_NAME_MAX + 1]; /* by length: the first field with such a name, or -1 */
    struct {
        char name[HTTP_NAME_MAX]; /* padded with zeros */
        short next;               /* the next field whose name has this length, or -1 */
        short list;               /* the index of its list in the parser; -1: not HTTP_REPEAT_LIST */
        enum http_repeat repeat;
    } field[HTTP_FIELDS_MAX];
};

/*
 * Header sections that were accepted before. Most clients send the same section with each request; when it
 * has been accepted twice it is kept with what it contains, and is not parsed again.
 */
enum { HTTP_SECTIONS = 128, HTTP_SECTION_MAX = 512 };

struct http_section {
    uint64_t accepted; /* the hash of the last section of this slot that was accepted */

    /* The section that is kept. */
    uint64_t hash;
    uint16_t len; /* 0: none */
    bool keep_alive;
    unsigned fields; /* as in http_parse_state */
    struct {
        uint16_t start, len;
    } value[HTTP_FIELDS_MAX];     /* in `bytes` */
    char bytes[HTTP_SECTION_MAX]; /* with the empty line at the end */
};

struct http_section_cache {
    uint64_t seed;   /* seeds the hashes */
    size_t last_len; /* the length of the last section that was accepted */
    struct http_section slot[HTTP_SECTIONS];
};

/* All parsers of a server share it. */
struct http_parser_config {
    size_t head_max;         /* bytes of request line and header section, the empty line included */
    size_t body_max;         /* bytes of content, which is read and dropped */
    bool accepts_empty_host; /* a request may have a Host without a value */
    struct http_field_table fields;
    struct http_section_cache sections; /* zeroed, but for the seed */
};

/*
 * Fills the table with the fields that this layer reads itself and with those of `rules`, which are numbered
 * from HTTP_FIELD_COUNT on. `forwarded`: X-Forwarded-For is kept.
 */
void http_field_table_init(struct http_field_table *t, const struct http_field_rule *rules, unsigned count,
                           bool forwarded);

struct http_piece {
    size_t start, len; /* in `text` */
};

/* How far a request has been read; it only proceeds. */
enum http_parse_phase {
    HTTP_PARSE_NOTHING,
    HTTP_PARSE_LINE,
    HTTP_PARSE_SPACE, /* between target and version */
    HTTP_PARSE_VERSION,
    HTTP_PARSE_FIELDS,
    HTTP_PARSE_CONTENT,
    HTTP_PARSE_COMPLETE
};

struct http_parse_state {
    enum http_parse_phase phase;
    bool ambiguous;    /* a field was repeated that must occur once */
    struct buf *kept;  /* the value being read is appended to it; NULL: the value is dropped */
    int field;         /* the field whose value that is, or HTTP_FIELD_REPEATED */
    int repeated;      /* with HTTP_FIELD_REPEATED: the field that was sent before */
    unsigned fields;   /* received so far: one bit for each number of a field */
    size_t target_len; /* `text` begins with the target */
    size_t name_len;
    size_t head_len; /* bytes so far */
    size_t body_len; /* content */
    size_t tail_len; /* bytes after the head: content and its framing */
    struct {
        size_t start, len; /* in the first input; 0: it is not there, or not to be kept */
        uint64_t hash;
    } section;
};

/* The number of a repeated value of a field with HTTP_REPEAT_SAME, which is kept only to be compared. */
enum { HTTP_FIELD_REPEATED = HTTP_FIELDS_MAX };

struct http_parser {
    llhttp_t llhttp;                   /* from the first line of a request that is not recognised */
    struct http_parser_config *config; /* borrowed */
    struct buf text;                   /* target and field values; the memory is kept for reuse */
    struct buf list[HTTP_LISTS_MAX];   /* the values of each list, joined; likewise */
    char name[HTTP_NAME_MAX];          /* the last field, cut off, padded with zeros */
    struct http_piece piece[HTTP_FIELDS_MAX + 1]; /* the values of the fields so far */
    struct http_parse_state state;
    struct span rest; /* the input of llhttp, from the end of the target on; only during a call */
    int status;       /* why the request is rejected; 0: it is not */
    struct http_request request;
};

enum http_progress { HTTP_NEED_MORE, HTTP_COMPLETE, HTTP_REJECTED };

/*
 * Counts the bytes at the start of `bytes` that belong to empty lines before a request line (RFC 9112 section
 * 2.2). *half is kept between calls: the CR of such a line was read, and its LF was not. The line end is
 * broken if *half is set although bytes are left.
 */
static inline size_t http_leading_crlf(struct span bytes, bool *half)
{
    size_t at = 0;
    for (; at < bytes.len && bytes.data[at] == (*half ? '\n' : '\r'); at++)
        *half = !*half;
    return at;
}

/* `p` is zeroed before its first use. */
void http_parser_init(struct http_parser *p, struct http_parser_config *config);

static inline void http_parser_fini(struct http_parser *p)
{
    buf_fini(&p->text);
    for (int i = 0; i < HTTP_LISTS_MAX; i++)
        buf_fini(&p->list[i]);
}

/* Bytes of memory that it owns. */
static inline size_t http_parser_capacity(const struct http_parser *p)
{
    size_t bytes = p->text.cap;
    for (int i = 0; i < HTTP_LISTS_MAX; i++)
        bytes += p->list[i].cap;
    return bytes;
}

/*
 * Reads from `bytes`, which begin with the request line; *used is the number of bytes taken. HTTP_COMPLETE:
 * `request` is filled. HTTP_REJECTED: `status` is the status of the response, and nothing that follows on the
 * connection can be trusted; before the end of the head only `method` of the request is set.
 */
enum http_progress http_parser_feed(struct http_parser *p, struct span bytes, size_t *used);

/* Sets those fields of a request that is rejected which are complete, for the response. */
void http_parser_set_complete_fields(struct http_parser *p);

/* True while the client waits for "100 Continue" before it sends the content (RFC 9110 section 10.1.1). */
bool http_parser_wants_continue(const struct http_parser *p);

/*
 * Splits a request target (RFC 9112 section 3.2) into decoded path and raw query. The path is decoded in
 * place, so *path and *query borrow from `target`, which is changed. Encoded slashes stay encoded: a slash in
 * *path separates segments. The absolute form ("http://host/path") is read as its path; "*" and "host:port"
 * become the path as they are. Returns 0, or -EINVAL for a fragment, a control byte (encoded or not), a
 * broken escape in the path, or an authority that would not be a valid Host.
 */
int http_target_split(char *target, size_t len, struct span *path, struct span *query)
    __attribute__((warn_unused_result));

#endif
