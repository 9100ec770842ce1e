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
#include <stdlib.h>

/* All parsers of a server share it. */
struct http_parser_config {
    size_t head_max;         /* bytes of request line and header section, the empty line included */
    size_t body_max;         /* bytes of content, which is read and dropped */
    bool accepts_empty_host; /* a request may have a Host without a value */
};

/* A part of a head. */
struct http_piece {
    uint32_t start, len;
    int field; /* whose value it is; -1: one that is not kept */
};

/*
 * The header section of an earlier request of a connection. Most clients send the same one with each request,
 * and it is not parsed again. A longer one than HTTP_SECTION_MAX is not kept, nor is content.
 */
enum { HTTP_SECTION_MAX = 512 };

struct http_section {
    struct http_request request; /* without its target; its fields are in `bytes` */
    size_t len;
    char bytes[HTTP_SECTION_MAX]; /* with the empty line at the end */
};

/* Erases it, since a key may be in it. NULL: nothing to free. */
static inline void http_section_free(struct http_section *s)
{
    if (s != NULL)
        explicit_bzero(s->bytes, s->len);
    free(s);
}

/* How far a request has been read; it only proceeds. */
enum http_parse_phase {
    HTTP_PARSE_NOTHING,
    HTTP_PARSE_LINE,
    HTTP_PARSE_FIELDS,
    HTTP_PARSE_CONTENT,
    HTTP_PARSE_COMPLETE
};

struct http_parse_state {
    enum http_parse_phase phase;
    bool half_crlf; /* the CR of an empty line before the request was read, and its LF was not */
    bool ambiguous; /* a field was repeated that must occur once */
    unsigned lists; /* a bit for each field that is a list and was sent more than once */
    bool in_value;  /* the name of a field is complete */
    struct http_piece target, name, value; /* of a field that is being read */
    size_t body_len;                       /* content */
    size_t tail_len;                       /* bytes after the head: content and its framing */
};

struct http_parser {
    llhttp_t llhttp;                         /* from the first line of a request that is not recognised */
    const struct http_parser_config *config; /* borrowed */
    struct http_section **section;           /* that of the connection; NULL: none is used or kept */

    /* The head so far, and behind it lists that were sent in several fields; of a request that is recognised
     * the target. The memory is kept for reuse, and its content erased. */
    struct buf head;
    struct buf values; /* pieces: the values that are kept, in the order of their fields */
    struct http_parse_state state;
    int status; /* why the request is rejected; 0: it is not */
    struct http_request request;
};

/* `p` is zeroed before its first use. `section` may be changed until the request is complete, and the request
 * borrows from it. */
void http_parser_init(struct http_parser *p, const struct http_parser_config *config,
                      struct http_section **section);

/* Erases the bytes of a request: a key may be among them. */
static inline void http_parser_erase(struct buf *bytes)
{
    if (bytes->len > 0)
        explicit_bzero(bytes->data, bytes->len);
}

/* The request is not used any more. The memory is kept. */
static inline void http_parser_end(struct http_parser *p)
{
    http_parser_erase(&p->head);
    buf_clear(&p->head);
}

static inline void http_parser_fini(struct http_parser *p)
{
    http_parser_end(p);
    buf_fini(&p->head);
    buf_fini(&p->values);
}

/*
 * Reads from `bytes`; *used is the number of bytes taken. Empty lines before a request do not begin it (RFC
 * 9112 section 2.2): the phase stays HTTP_PARSE_NOTHING. True when `request` is complete, or is rejected with
 * `status`: then nothing that follows on the connection can be trusted, and before the end of the head only
 * `method` is set.
 */
bool http_parser_feed(struct http_parser *p, struct span bytes, size_t *used);

/* Sets those fields of a request that is rejected which are complete, for the response. */
void http_parser_set_complete_fields(struct http_parser *p);

/* True while the client waits for "100 Continue" before it sends the content (RFC 9110 section 10.1.1). */
bool http_parser_wants_continue(const struct http_parser *p);

#endif
