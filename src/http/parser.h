/*
 * Parses bytes into requests: llhttp in strict mode, with additional limits and the checks that llhttp leaves
 * to its users. It has no sockets.
 *
 * One parser reads the requests of a connection. It is zeroed at first, but for `config`. http_parser_feed is
 * called until a request is complete or rejected, and http_parser_end when it is answered.
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
    llhttp_t behind_usual_line, behind_field; /* http_parser_config_init */
};

/* Sets the last two members. */
void http_parser_config_init(struct http_parser_config *config);

/*
 * The memory of more bytes is not kept for the next request. Most clients send the same header section with
 * each request, and it is not parsed again: the head is kept if nothing else belongs to the request.
 */
enum { HTTP_HEAD_KEPT_MAX = 1024 };

/* How far a request has been read; it only proceeds. */
enum http_parse_phase {
    HTTP_PARSE_NOTHING,
    HTTP_PARSE_LINE,
    HTTP_PARSE_FIELDS,
    HTTP_PARSE_CONTENT,
    HTTP_PARSE_COMPLETE
};

struct http_parser {
    llhttp_t llhttp;                         /* of a request that is not recognised */
    const struct http_parser_config *config; /* borrowed */
    enum http_parse_phase phase;
    int status;        /* why the request is rejected; 0: it is not */
    bool half_crlf;    /* the CR of an empty line before the request was read, and its LF was not */
    size_t line_len;   /* of a request line of the usual form; 0: it has another */
    size_t body_len;   /* content */
    size_t tail_len;   /* bytes after the head: content and its framing */
    bool is_section;   /* `head` is a section of a request that was accepted: the next may have it, too */
    size_t known_len;  /* of `head`: so many bytes are lines of the section that was kept */
    struct buf head;   /* without a request line of the usual form */
    struct buf target; /* decoded in place; the request has its parts */
    struct buf lists;  /* those that were sent in several fields, joined */
    struct http_request request;
};

/* The request is not used any more: erases it, as far as it is not kept. The parser is as at first. */
void http_parser_end(struct http_parser *p);

void http_parser_fini(struct http_parser *p);

/* Empties the buffer, and erases its bytes: a key may be among them. */
void http_parser_erase(struct buf *bytes);

/*
 * Reads from `bytes`; *used is the number of bytes taken. Empty lines before a request do not begin it (RFC
 * 9112 section 2.2): the phase stays HTTP_PARSE_NOTHING. True when the request is complete, or is rejected
 * with `status`: then nothing that follows on the connection can be trusted.
 */
bool http_parser_feed(struct http_parser *p, struct span bytes, size_t *used);

/* Sets what is complete of a request that is rejected, for the response: the method, and fields. */
void http_parser_end_rejected(struct http_parser *p);

/* True while the client waits for "100 Continue" before it sends the content (RFC 9110 section 10.1.1). */
bool http_parser_wants_continue(const struct http_parser *p);

#endif
