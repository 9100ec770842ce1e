/*
 * Bytes to requests: llhttp, strict, with our limits and our reading of what a request must not be. No
 * sockets here.
 *
 * One parser reads one request: http_parser_init, then http_parser_feed until it is done or refused. What
 * follows the request in the input is left alone, for the next one.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include "base/buf.h"
#include "http/request.h"

#include <llhttp.h>

struct http_limits {
    size_t head_max; /* bytes of request line and header section, the empty line included */
    size_t body_max; /* bytes of content, which is read and dropped */
    bool forwarded;  /* X-Forwarded-For is kept */
};

/* Stands for an X-Api-Key field behind another, whose value is kept only to be compared. */
enum { HTTP_REPEATED_KEY = HTTP_FIELD_COUNT };

/* Longer names are none of ours; longer hosts are judged each time. */
enum { HTTP_NAME_MAX = 32, HTTP_HOST_MAX = 64 };

struct http_piece {
    size_t start, len; /* in `text` */
};

/* How far before its version a protocol's name is told from others: HTTP/, RTSP/ and ICE/ are all known to
 * llhttp. */
enum { HTTP_PROTOCOL_TAIL = 3 };

/* How far a request has come. */
struct http_reading {
    char last[HTTP_PROTOCOL_TAIL]; /* the bytes before what llhttp is reading from now */
    bool line_begun, version_begun, line_done, head_done, complete;
    bool ambiguous;    /* Host or Transfer-Encoding came twice, or two different keys */
    int field;         /* whose value is being read; HTTP_REPEATED_KEY; -1: the value is dropped */
    unsigned fields;   /* that have come: a bit for each enum http_request_field */
    size_t target_len; /* the target is what `text` begins with */
    size_t name_len;
    size_t head_len; /* bytes so far */
    size_t body_len; /* content */
    size_t tail_len; /* bytes after the head: content and its framing */
};

struct http_parser {
    llhttp_t llhttp;
    const struct http_limits *limits; /* borrowed */
    struct buf text;                  /* target and field values; the memory is kept between requests */
    struct buf list[HTTP_LIST_COUNT]; /* the values of each list, joined; kept as well */
    const char *slice;                /* what llhttp is reading from now */
    char name[HTTP_NAME_MAX];         /* of the field being read, as far as it could be ours; then zeros */
    struct http_piece
        piece[HTTP_FIELD_COUNT + 1]; /* of the fields that have come; the last: a repeated key */
    char host[HTTP_HOST_MAX];        /* the last one found valid: the next is mostly the same */
    size_t host_len;                 /* 0: none */
    struct http_reading now;
    int refusal; /* HTTP status, or 0 */
    struct http_request request;
};

enum http_progress { HTTP_NEED_MORE, HTTP_COMPLETE, HTTP_REFUSED };

/*
 * How many bytes at the start of `bytes` belong to empty lines before a request line (RFC 9112 section 2.2).
 * *half is kept between calls: the CR of such a line has come, and not its LF. Where it is set although bytes
 * are left, the line end is broken.
 */
static inline size_t http_skip_empty_lines(struct span bytes, bool *half)
{
    size_t at = 0;
    for (; at < bytes.len && bytes.data[at] == (*half ? '\n' : '\r'); at++)
        *half = !*half;
    return at;
}

/* `p` is zeroed before its first use. */
void http_parser_init(struct http_parser *p, const struct http_limits *limits);
void http_parser_fini(struct http_parser *p);

/* Bytes of memory that it holds on to beside itself. */
static inline size_t http_parser_kept(const struct http_parser *p)
{
    size_t kept = p->text.cap;
    for (int i = 0; i < HTTP_LIST_COUNT; i++)
        kept += p->list[i].cap;
    return kept;
}

/*
 * Reads from `bytes`, which begin with the request line; *used says how many were taken. HTTP_COMPLETE:
 * `request` is filled. HTTP_REFUSED: `refusal` is the status to answer with, after which nothing else on the
 * connection can be trusted; of the request, only `method` is set.
 */
enum http_progress http_parser_feed(struct http_parser *p, struct span bytes, size_t *used);

/* True once the client waits for "100 Continue" before it sends the content (RFC 9110 section 10.1.1). */
bool http_parser_wants_continue(const struct http_parser *p);

#endif
