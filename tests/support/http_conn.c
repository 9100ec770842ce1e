/* The connection half of the test client: bytes out, bytes in, all with deadlines. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/http.h"
#include "support/http_conn.h"
#include "support/net.h"
#include "support/wait.h"

enum { READ_SIZE = 64 * 1024 };

int http_open(struct http_conn *conn, int port)
{
    memset(conn, 0, sizeof *conn);
    conn->fd = net_connect(port);
    return conn->fd < 0 ? conn->fd : 0;
}

void http_close(struct http_conn *conn)
{
    if (conn->fd >= 0)
        (void)close(conn->fd);
    free(conn->data);
    memset(conn, 0, sizeof *conn);
    conn->fd = -1;
}

static int http_poll(struct http_conn *conn, short events, int64_t deadline)
{
    struct pollfd pollfd = {.fd = conn->fd, .events = events};
    int ready = poll(&pollfd, 1, wait_left_ms(deadline));
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    return ready == 0 ? -ETIMEDOUT : 0;
}

int http_send(struct http_conn *conn, const char *data, size_t length)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    while (length > 0) {
        ssize_t sent = send(conn->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            data += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            int error = http_poll(conn, POLLOUT, deadline);
            if (error != 0)
                return error;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int http_send_text(struct http_conn *conn, const char *text)
{
    return http_send(conn, text, strlen(text));
}

int http_finish(struct http_conn *conn)
{
    return shutdown(conn->fd, SHUT_WR) == 0 ? 0 : -errno;
}

bool http_is_readable(struct http_conn *conn, int ms)
{
    struct pollfd pollfd = {.fd = conn->fd, .events = POLLIN};
    return conn->length > 0 || poll(&pollfd, 1, ms) > 0;
}

int http_conn_fill(struct http_conn *conn, int64_t deadline)
{
    if (conn->capacity - conn->length < READ_SIZE) {
        size_t capacity = conn->capacity * 2 + READ_SIZE;
        char *data = realloc(conn->data, capacity);
        if (data == NULL)
            abort();
        conn->data = data;
        conn->capacity = capacity;
    }
    for (;;) {
        int error = http_poll(conn, POLLIN, deadline);
        if (error != 0)
            return error;
        ssize_t got = recv(conn->fd, conn->data + conn->length, READ_SIZE, MSG_DONTWAIT);
        if (got > 0) {
            conn->length += (size_t)got;
            return 0;
        }
        if (got == 0)
            return -EPIPE;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
}

void http_conn_drop(struct http_conn *conn, size_t length)
{
    conn->length -= length;
    if (conn->length > 0)
        memmove(conn->data, conn->data + length, conn->length);
}

int http_read_eof(struct http_conn *conn)
{
    return http_read_eof_within(conn, WAIT_DEADLINE_MS);
}

int http_read_eof_within(struct http_conn *conn, int ms)
{
    if (conn->length > 0)
        return -EBADMSG;
    int result = http_conn_fill(conn, wait_deadline(ms));
    if (result == 0)
        return -EBADMSG;
    return result == -EPIPE ? 0 : result;
}
