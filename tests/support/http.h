#ifndef TEST_SUPPORT_HTTP_H
#define TEST_SUPPORT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The HTTP/1.1 client of all tests. It sends only the bytes that it is given, and reads exactly one response
 * at a time (RFC 9112 section 6). There are three ways to use it:
 *   - blocking exchanges, each with a deadline
 *   - a pipelined connection whose owner polls the socket
 *   - a pool of many connections that are polled together
 *
 * Functions that return int give 0 or a negative errno and may be called from any thread. The others fail the
 * running test.
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
    int fd;                      /* -1: closed */
    struct recording *recording; /* or NULL; see recording.h */
    /* What was received and not taken yet: `length` bytes from `start` on. */
    char *data;
    size_t start;
    size_t length;
    size_t capacity;
};

/* ---- one connection ---- */

int http_open(struct http_conn *conn, int port);

/* The same; an error fails the test. */
struct http_conn http_connect(int port);
void http_close(struct http_conn *conn);
void http_reset(struct http_conn *conn); /* the same without an orderly end */

/* Sends all bytes. -EPIPE or -ECONNRESET when the server has closed; its answer can still be read. */
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

/* ---- a pipelined connection ---- */

/* A response in a buffer; borrowed until the next read. */
struct http_reply {
    int status;
    int minor;        /* of HTTP/1.x */
    const char *head; /* with the empty line */
    size_t head_length;
    const char *body;
    size_t body_length;
};

/* Reads what there is without waiting: 1; 0 when there is nothing; a negative errno (-EPIPE at the end). */
int http_receive(struct http_conn *conn);

/* Takes the next response from what was received: 1; 0 when it is not complete; -EPROTO. */
int http_take(struct http_conn *conn, bool to_head, struct http_reply *reply);

/* The value of the first header field of that name (any case) and its length, or NULL. */
const char *http_reply_header(const struct http_reply *reply, const char *name, size_t *length);

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

/* Reads one response and asserts its status. */
void http_expect(struct http_conn *conn, int status);

/* Sends a request over the connection and asserts the status of its response. */
void http_ask(struct http_conn *conn, const char *method, const char *target, const char *headers,
              int status);

/* Opens a connection and sends a GET; the response is left to be read. */
void http_start_get(struct http_conn *conn, int port, const char *target, const char *headers);

/*
 * Sends the bytes as they are over a new connection. Expects one response with that status, then the end of
 * the stream. Fails the test otherwise.
 */
void http_expect_refusal(int port, const char *data, size_t length, int status);

/* Opens and closes so many connections, one after the other. Every other one is reset, so that this machine
 * does not run out of ports. */
void http_connect_and_leave(int port, int count);

/* ---- a pool of connections ---- */

/* Many connections that are polled together, from the test's own thread. */
struct http_pool {
    size_t size;
    struct http_pool_member *member;
    int64_t began_ms; /* when all were connected */
};

/* How the server ended them; times are in milliseconds since `began_ms`. */
struct http_pool_end {
    int answered; /* with the expected status */
    int reset;    /* without an orderly end */
    int left;     /* not ended in time */
    int64_t first_ms, last_ms;
};

/* Opens `size` connections. `receive_buffer`: SO_RCVBUF in bytes, 0 for the system's default. */
void http_pool_open(struct http_pool *pool, int port, size_t size, int receive_buffer);
void http_pool_close(struct http_pool *pool);

/* Sends the bytes on each open connection without waiting; bytes that do not fit into a socket are lost. */
void http_pool_send(struct http_pool *pool, const char *bytes, size_t length);

/* Sends the first text on the first connection, the second on the second, and so on, round robin. */
void http_pool_send_each(struct http_pool *pool, const char *const *text, size_t count);

/* Sends more of the bytes, again and again from where each connection stopped, and discards what came. */
void http_pool_pump(struct http_pool *pool, const char *bytes, size_t length);

/* Repeats http_pool_send() or http_pool_pump() for `ms`. */
void http_pool_keep_sending(struct http_pool *pool, void (*send)(struct http_pool *, const char *, size_t),
                            const char *bytes, size_t length, int ms);

/*
 * Reads all connections until the server has ended them or `ms` (scaled) have passed; counts those that were
 * answered with that status. Sends the one byte of `drip`, unless that is NULL, on each of them every
 * `interval_ms`.
 */
struct http_pool_end http_pool_await_end(struct http_pool *pool, int status, const char *drip,
                                         int interval_ms, int ms);

#endif
