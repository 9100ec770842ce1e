/* Accepting connections; see listener.h. */
#include "http/listener.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

/* --- accepting --- */

static void http_listener_on_pause_over(uv_timer_t *pause)
{
    http_listener_accept(pause->data);
}

/* Stops polling for a moment. Otherwise the loop would spin, as the socket stays readable. */
static void http_listener_starve(struct http_listener *l, int err)
{
    enum { PAUSE_MS = 100 };
    if (!l->starved)
        log_text(LOG_ERROR, "cannot accept connections, pausing", "reason", strerror(err));
    l->starved = true;
    (void)uv_poll_stop(&l->poll);
    (void)uv_timer_start(&l->pause, http_listener_on_pause_over, PAUSE_MS, 0);
}

/* True when a connection was accepted, or failed for a reason that concerns only this connection. */
static bool http_listener_accept_one(struct http_listener *l)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        l->starved = false;
        l->accepted(l->arg, &(struct http_accepted){.fd = fd, .peer = ip_from_sockaddr(&peer)});
        return true;
    }
    if (errno == EAGAIN)
        return false;
    /* The system has nothing left, or another process has shut down the socket. */
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS || errno == EINVAL) {
        http_listener_starve(l, errno);
        return false;
    }
    return true; /* ECONNABORTED, EINTR and network errors concern that connection alone (accept(2)) */
}

static void http_listener_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct http_listener *l = poll->data;
    if (status != 0)
        http_listener_starve(l, -status);
    for (int left = HTTP_ACCEPTS; status == 0 && left > 0 && http_listener_accept_one(l); left--)
        continue;
}

void http_listener_accept(struct http_listener *l)
{
    /* fails only on a closing handle */
    (void)uv_poll_start(&l->poll, UV_READABLE, http_listener_on_readable);
}

static void http_listener_stop(struct http_listener *l)
{
    if (l->fd < 0)
        return;
    uv_close((uv_handle_t *)&l->poll, NULL);
    (void)uv_timer_stop(&l->pause);
    close(l->fd);
    l->fd = -1;
}

/* The queue holds at most the backlog plus one, so new connections cannot make a drain endless. */
void http_listener_finish(struct http_listener *l)
{
    /* not covered: left is 0 if connections come as fast as they are accepted */
    for (int left = BACKLOG + 1; l->fd >= 0 && !l->shared && left > 0 && http_listener_accept_one(l); left--)
        continue;
    http_listener_stop(l);
}

void http_listener_close(struct http_listener *l)
{
    http_listener_stop(l);
    uv_close((uv_handle_t *)&l->pause, NULL);
}

/* --- the socket --- */

/* The bytes that the kernel may hold for each connection. By default it grants 4 and 6 MiB, which a client
 * that pipelines and never reads would fill. Further responses wait here, where bodies are shared. */
enum { UNSENT_MAX = 64 * 1024, UNREAD_MAX = 128 * 1024 };

/* Accepted sockets inherit the options, which saves system calls for each of them. */
static int http_listener_set_connection_options(int fd)
{
    const int on = 1;
    const int unsent = UNSENT_MAX;
    const int unread = UNREAD_MAX;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        /* not covered: a socket that takes the first option takes the others */
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent) != 0 ||
        /* not covered: likewise */
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &unread, sizeof unread) != 0)
        return -errno;
    return 0;
}

/* Without SO_REUSEPORT listen() fails if any other socket listens on the address, of whatever process and
 * user. The first listener gets it afterwards, so that the others can join. */
static int http_listener_bind(const struct addr *address, bool first)
{
    const int on = 1;
    const int off = 0;
    struct sockaddr_storage where;
    socklen_t len = addr_to_sockaddr(address, &where);
    int fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* not covered: only bind() fails, and listen() where another process has bound the address meanwhile */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (where.ss_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        (first || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
        bind(fd, (const struct sockaddr *)&where, len) == 0 && listen(fd, BACKLOG) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0)
        return fd;
    int err = -errno;
    close(fd);
    return err;
}

/* Falls back to IPv4 where a system, or a sandbox, has no IPv6 sockets or no IPv6 addresses. */
static int http_listener_bind_any_family(const struct addr *address, bool first)
{
    int fd = http_listener_bind(address, first);
    /* not covered: -EADDRNOTAVAIL, where the test may not make a network without IPv6 */
    if (!address->any_family || (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL))
        return fd;
    struct addr v4 = addr_any_v4(address);
    return http_listener_bind(&v4, first);
}

static int http_listener_duplicate(int passed)
{
    int fd = fcntl(passed, F_DUPFD_CLOEXEC, 0);
    return fd >= 0 ? fd : -errno;
}

int http_listener_open(struct http_listener *l, const struct addr *address, int passed, bool first)
{
    l->shared = passed >= 0;
    int fd = l->shared ? http_listener_duplicate(passed) : http_listener_bind_any_family(address, first);
    int err = fd >= 0 ? http_listener_set_connection_options(fd) : fd;
    if (err == 0)
        err = uv_poll_init(l->pause.loop, &l->poll, fd);
    if (err != 0) {
        if (fd >= 0)
            close(fd);
        return err;
    }
    l->fd = fd;
    if (!l->shared)
        http_listener_accept(l);
    return 0;
}

void http_listener_init(struct http_listener *l, uv_loop_t *loop,
                        void (*accepted)(void *arg, const struct http_accepted *accepted), void *arg)
{
    *l = (struct http_listener){.fd = -1, .accepted = accepted, .arg = arg};
    (void)uv_timer_init(loop, &l->pause); /* cannot fail */
    l->poll.data = l->pause.data = l;
}
