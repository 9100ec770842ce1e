#ifndef TEST_SUPPORT_HTTP_CONN_H
#define TEST_SUPPORT_HTTP_CONN_H

#include <stddef.h>
#include <stdint.h>

struct http_conn;

/* What http.c needs of http_conn.c; tests use http.h. */

/* Reads what there is into the buffer, at least one byte. -EPIPE at the end of the stream, -ETIMEDOUT. */
int http_conn_fill(struct http_conn *conn, int64_t deadline);

/* Takes that many bytes off the front of the buffer. */
void http_conn_drop(struct http_conn *conn, size_t length);

#endif
