/* The health check, on a non-blocking socket with a deadline; see probe.h. */
#include "app/probe.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#define REQUEST "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

enum { RESPONSE_MAX = 1024 };

/* Waits for one of `events`. Returns 0 or a negative errno, such as -ETIMEDOUT. */
static int probe_wait_for(int fd, short events, uint64_t deadline)
{
    struct pollfd polled = {.fd = fd, .events = events};
    for (;;) {
        uint64_t now = clock_now_ms();
        if (now >= deadline)
            return -ETIMEDOUT;
        int n = poll(&polled, 1, (int)(deadline - now));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int probe_finish_connecting(int fd, uint64_t deadline)
{
    int failure = 0;
    socklen_t len = sizeof failure;
    int err = errno == EINPROGRESS ? probe_wait_for(fd, POLLOUT, deadline) : -errno;
    if (err == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) != 0)
        err = -errno;
    return err != 0 ? err : -failure;
}

/* Returns a connected socket or a negative errno. */
static int probe_open_socket(const struct addr *to, uint64_t deadline)
{
    int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int err = 0;
    if (connect(fd, addr_sockaddr(to), addr_len(to)) != 0)
        err = probe_finish_connecting(fd, deadline);
    if (err == 0)
        return fd;
    (void)close(fd);
    return err;
}

static struct addr probe_loopback(int family, unsigned port)
{
    struct addr a = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((in_port_t)port)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr = in6addr_loopback;
    if (family == AF_INET6)
        memcpy(&a.storage, &v6, sizeof v6);
    else
        memcpy(&a.storage, &v4, sizeof v4);
    return a;
}

/* A listener on [::] accepts both families, and containers often have no IPv6 loopback. */
static int probe_open_connection(const struct addr *admin, uint64_t deadline)
{
    if (!addr_is_wildcard(admin))
        return probe_open_socket(admin, deadline);
    struct addr to = probe_loopback(admin->storage.ss_family, addr_port(admin));
    int fd = probe_open_socket(&to, deadline);
    if (fd >= 0 || admin->storage.ss_family == AF_INET)
        return fd;
    to = probe_loopback(AF_INET, addr_port(admin));
    return probe_open_socket(&to, deadline);
}

/* Reads the response to its end, or as much as fits. Returns the length or a negative errno. */
static ssize_t probe_receive(int fd, char response[RESPONSE_MAX], uint64_t deadline)
{
    size_t len = 0;
    while (len < RESPONSE_MAX) {
        int err = probe_wait_for(fd, POLLIN, deadline);
        if (err != 0)
            return err;
        ssize_t n = recv(fd, response + len, RESPONSE_MAX - len, 0);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* "HTTP/1.1 200 OK": the status, of three digits; absent in another line (RFC 9112 section 4). */
static struct span probe_status_of(struct span line)
{
    enum { VERSION_LEN = 8, STATUS_LEN = 3 };
    static const char digits[] = "0123456789";
    if (line.len <= VERSION_LEN || !span_starts_with(line, SPAN("HTTP/1.")) || line.data[VERSION_LEN] != ' ')
        return SPAN_ABSENT;
    struct span status = span_skip(line, VERSION_LEN + 1);
    status.len = span_find(status, ' ');
    for (size_t i = 0; i < status.len; i++)
        if (span_find(SPAN(digits), status.data[i]) == sizeof digits - 1)
            return SPAN_ABSENT;
    return status.len == STATUS_LEN ? status : SPAN_ABSENT;
}

static int probe_check_response(struct span response, struct buf *error)
{
    struct span status = probe_status_of((struct span){response.data, span_find(response, '\r')});
    if (status.data == NULL) {
        buf_append_str(error, "the service at the admin address does not speak HTTP");
        return -EPROTO;
    }
    if (span_equal(status, SPAN("200")))
        return 0;
    buf_printf(error, "not ready: /readyz answers %.*s", (int)status.len, status.data);
    return -EAGAIN;
}

static int probe_request_readiness(int fd, uint64_t deadline, struct buf *error)
{
    char response[RESPONSE_MAX];
    ssize_t got = -EIO;
    if (send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) == (ssize_t)(sizeof REQUEST - 1))
        got = probe_receive(fd, response, deadline);
    if (got >= 0)
        return probe_check_response((struct span){response, (size_t)got}, error);
    buf_printf(error, "no answer from the admin address: %s", strerror((int)-got));
    return (int)got;
}

int probe_ready(const struct addr *admin, struct buf *error)
{
    uint64_t deadline = clock_now_ms() + PROBE_TIMEOUT_MS;
    int fd = probe_open_connection(admin, deadline);
    if (fd < 0) {
        buf_printf(error, "cannot connect to the admin address: %s", strerror(-fd));
        return fd;
    }
    int err = probe_request_readiness(fd, deadline, error);
    (void)close(fd);
    return err;
}
