#ifndef TEST_SUPPORT_HTTP_H
#define TEST_SUPPORT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A raw HTTP/1.1 client that does nothing by itself: it sends the bytes it is given and reads exactly one
 * response at a time (RFC 9112 section 6). Everything has a deadline. Functions that return int give 0 or
 * a negative errno and may be called from any thread.
 */

enum { HTTP_HEADERS_MAX = 48 };

struct http_header {
    const char *name; /* borrowed from the response */
    const char *value;
};

struct http_response {
    int status;
    int minor; /* of HTTP/1.x */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    char *head; /* storage of the headers */
    char *body; /* NUL-terminated on top of body_length */
    size_t body_length;
};

struct http_conn {
    int fd; /* -1: closed */
    char *data;
    size_t length;
    size_t capacity;
};

/* ---- one connection ---- */

int http_open(struct http_conn *conn, int port);
void http_close(struct http_conn *conn);

/* Sends all bytes. -EPIPE or -ECONNRESET when the server has closed; what it answered can still be read. */
int http_send(struct http_conn *conn, const char *data, size_t length);
int http_send_text(struct http_conn *conn, const char *text);

/* Half-closes: the server reads the end of the stream, answers can still be read. */
int http_finish(struct http_conn *conn);

/* True when bytes or the end of the stream can be read within `ms` (not scaled). */
bool http_is_readable(struct http_conn *conn, int ms);

/*
 * Reads one response; `to_head` when it answers a HEAD. The response has to be freed. -ETIMEDOUT; -EPIPE when
 * the stream ends before a first byte; -EPROTO when it is no complete response with a Content-Length.
 */
int http_read(struct http_conn *conn, bool to_head, struct http_response *response);

/* 0 when the stream ends without a further byte; -EBADMSG when bytes come, -ETIMEDOUT, -ECONNRESET. */
int http_read_eof(struct http_conn *conn);

/* The same within `ms` (scaled). */
int http_read_eof_within(struct http_conn *conn, int ms);

/* ---- responses ---- */

void http_response_free(struct http_response *response);

/* The value of the first header of that name (any case), borrowed, or NULL. */
const char *http_header(const struct http_response *response, const char *name);

/* How many headers have that name. */
size_t http_header_count(const struct http_response *response, const char *name);

/* ---- whole exchanges ---- */

/* The text of a request with Host, the given header lines ("A: b\r\n", or NULL) and no body. Owned. */
char *http_format(const char *method, const char *target, const char *headers);

/* Sends a request over the connection and reads its answer. */
int http_exchange(struct http_conn *conn, const char *method, const char *target, const char *headers,
                  struct http_response *response);

/* One request over a connection of its own; http_try() returns an error, http_get() fails the test. */
int http_try(int port, const char *method, const char *target, const char *headers,
             struct http_response *response);
void http_get(int port, const char *target, const char *headers, struct http_response *response);
void http_call(int port, const char *method, const char *target, const char *headers,
               struct http_response *response);

/* The status that a GET gets; the rest of the response is dropped. */
int http_get_status(int port, const char *target, const char *headers);

/*
 * Sends the bytes as they are over a fresh connection and expects one answer with that status and then the
 * end of the stream, nothing else. Fails the test otherwise.
 */
void http_expect_refusal(int port, const char *data, size_t length, int status);

#endif
