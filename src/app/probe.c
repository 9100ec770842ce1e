/* The health check, on a socket with timeouts; see probe.h. */
#include "app/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#define REQUEST "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

enum { RESPONSE_MAX = 1024 };

/* Returns a socket on which no call waits for longer than PROBE_TIMEOUT_S, or a negative errno. */
static int probe_connect(const struct addr *to)
{
    const struct timeval most = {.tv_sec = PROBE_TIMEOUT_S};
    struct sockaddr_storage where;
    socklen_t len = addr_to_sockaddr(to, &where);
    int fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most); /* connect() too has this timeout */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&where, len) == 0)
        return fd;
    int err = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    (void)close(fd);
    return err;
}

/* "HTTP/1.1 200 OK" (RFC 9112 section 4). */
static bool probe_check_response(const char *response, struct buf *error)
{
    char status[4] = "";
    char end[2] = "";
    int read = sscanf(response, "HTTP/1.%*1[0-9]%*1[ ]%3[0-9]%1[ \r]", status, end);
    if (read != 2 || strlen(status) != 3 || status[0] == '0') {
        buf_append_str(error, "the service at the admin address does not speak HTTP");
        return false;
    }
    if (strcmp(status, "200") != 0)
        buf_printf(error, "not ready: /readyz answers %s", status);
    return strcmp(status, "200") == 0;
}

/* The server closes the connection: the whole response is read, or what has come in time. */
static bool probe_request_readiness(int fd, struct buf *error)
{
    char response[RESPONSE_MAX + 1];
    ssize_t got = send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL);
    if (got >= 0)
        got = recv(fd, response, RESPONSE_MAX, MSG_WAITALL);
    if (got < 0) {
        buf_printf(error, "no answer from the admin address: %s",
                   strerror(errno == EAGAIN ? ETIMEDOUT : errno));
        return false;
    }
    response[got] = '\0';
    return probe_check_response(response, error);
}

/* A connection to [::] is one to the loopback. A listener on [::] accepts both families, and containers often
 * have no IPv6 loopback. */
bool probe_ready(const struct addr *admin, struct buf *error)
{
    int fd = probe_connect(admin);
    if (fd < 0 && fd != -ETIMEDOUT && IN6_IS_ADDR_UNSPECIFIED(admin->ip.bytes)) {
        const struct addr v4 = addr_any_v4(admin);
        fd = probe_connect(&v4);
    }
    if (fd < 0) {
        buf_printf(error, "cannot connect to the admin address: %s", strerror(-fd));
        return false;
    }
    bool ready = probe_request_readiness(fd, error);
    (void)close(fd);
    return ready;
}
