/* What connections ask of the kernel beyond libuv. */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include <stdbool.h>
#include <uv.h>

/* Ends our side: the client reads the end after all that was written. Returns 0 or a negative errno. */
int http_socket_shut(const uv_tcp_t *tcp) __attribute__((warn_unused_result));

/* True while the kernel has bytes that the client has not taken. */
bool http_socket_has_unsent(const uv_tcp_t *tcp);

/*
 * Closing is going to reset the connection, and what is unsent goes with it. Closed in the usual way the
 * kernel would go on trying for minutes to send that to a client that does not read.
 */
void http_socket_drop_unsent(const uv_tcp_t *tcp);

#endif
