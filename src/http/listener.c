/* Listening and accepting; see listener.h. */
#include "http/listener.h"

#include "base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

enum { BACKLOG = 4096, PAUSE_MS = 100 };

static void on_readable(uv_poll_t *poll, int status, int events);

/*
 * What the kernel may hold for each connection, in bytes: responses that the client does not take, and
 * requests that are not read meanwhile. Further responses wait here, where bodies are shared. By default the
 * kernel grants 4 and 6 MiB, which a client that pipelines and never reads would fill on each of its
 * connections.
 */
enum { UNSENT_MAX = 64 * 1024, UNREAD_MAX = 128 * 1024 };

/* Accepted sockets inherit the options, which saves system calls for each of them. */
static int prepare_socket(int fd, const struct addr *address, bool reuse_port)
{
    const int on = 1;
    const int off = 0;
    bool v6 = address->storage.ss_family == AF_INET6;
    const int unsent = UNSENT_MAX;
    const int unread = UNREAD_MAX;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
        (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &unread, sizeof unread) != 0 ||
        bind(fd, addr_sockaddr(address), addr_len(address)) != 0 || listen(fd, BACKLOG) != 0)
        return -errno;
    return 0;
}

static int open_at(const struct addr *address, bool reuse_port)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int err = prepare_socket(fd, address, reuse_port);
    if (err == 0)
        return fd;
    close(fd);
    return err;
}

/* Falls back to IPv4 where a system, or a sandbox, has no IPv6 sockets or no IPv6 addresses. */
static int open_socket(const struct addr *address, bool reuse_port)
{
    int fd = open_at(address, reuse_port);
    if (!address->any_family || (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL))
        return fd;
    struct addr v4 = addr_any_v4(addr_port(address));
    return open_at(&v4, reuse_port);
}

static void on_pause_over(uv_timer_t *pause)
{
    struct http_listener *l = pause->data;
    (void)uv_poll_start(&l->poll, UV_READABLE, on_readable);
}

/* Stops polling for a moment: the loop would spin otherwise, as the socket stays readable. */
static void pause_accepting(struct http_listener *l, int err)
{
    if (!l->starved)
        log_text(LOG_ERROR, "cannot accept connections, pausing", "reason", strerror(err));
    l->starved = true;
    (void)uv_poll_stop(&l->poll);
    (void)uv_timer_start(&l->pause, on_pause_over, PAUSE_MS, 0);
}

/* True when a connection was accepted, or failed for a reason of its own so that the next one may succeed. */
static bool accept_one(struct http_listener *l)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        l->starved = false;
        l->owner.connection(l->owner.arg, fd, &peer);
        return true;
    }
    if (errno == EAGAIN)
        return false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        pause_accepting(l, errno);
        return false;
    }
    return true; /* ECONNABORTED, EINTR and network errors concern that connection alone (accept(2)) */
}

static void accept_at_most(struct http_listener *l, int count)
{
    while (count > 0 && accept_one(l))
        count--;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct http_listener *l = poll->data;
    if (status == 0)
        accept_at_most(l, l->owner.accept_budget(l->owner.arg));
}

int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, bool reuse_port,
                       const struct http_listener_owner *owner)
{
    int fd = open_socket(address, reuse_port);
    if (fd < 0)
        return fd;
    int err = uv_poll_init(loop, &l->poll, fd);
    if (err != 0) {
        close(fd);
        return err;
    }
    (void)uv_timer_init(loop, &l->pause); /* cannot fail */
    l->poll.data = l->pause.data = l;
    l->fd = fd;
    l->handles = WAIT_GROUP_INIT;
    wait_group_add(&l->handles, 2);
    l->starved = false;
    l->owner = *owner;
    (void)uv_poll_start(&l->poll, UV_READABLE, on_readable); /* fails only on a closing handle */
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct http_listener *l = handle->data;
    wait_group_done(&l->handles);
}

/* The queue can hold no more than the backlog and one: new connections that keep coming do not make a drain
 * endless. */
void http_listener_close(struct http_listener *l, bool drain)
{
    if (drain)
        accept_at_most(l, BACKLOG + 1);
    uv_close((uv_handle_t *)&l->poll, on_closed);
    uv_close((uv_handle_t *)&l->pause, on_closed);
    close(l->fd);
    l->fd = -1;
    wait_group_wait(&l->handles, l->owner.closed, l->owner.arg);
}
