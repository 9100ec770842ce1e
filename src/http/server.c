/*
 * The listening socket, and the limit of connections; see server.h.
 *
 *     accepted --> http_balancer_place --> opened here
 *              |                        \-> inbox of another server, opened in its thread
 *              |   at the limit, and no connection can be closed for it:
 *              +-> http_balancer_pass --> inbox of the next server, which tries to reserve it
 *              \-> no next server: rejected here
 *
 * The loop polls the listening socket. The accept of libuv is not used: it may stop for good after a failure,
 * and a drain has to accept everything that the kernel has queued before the socket is closed.
 */
#include "http/server.h"

#include "base/log.h"
#include "http/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

struct http_server {
    struct http_connections connections;
    int listener;     /* its descriptor; -1: not listening */
    bool shared;      /* others listen on the same socket, so this server shares its queue */
    uv_poll_t poll;   /* polls the listener */
    uv_timer_t pause; /* runs while no connection can be accepted */
    uv_poll_t inbox;  /* polls the inbox at the balancer, if there are other servers */
    bool starved;     /* it was logged that accepting fails, and no connection was accepted since */
};

/* --- connections --- */

/* At the limit a connection of this server is closed. Another server may take its place first. */
static void http_server_admit(struct http_server *s, const struct http_accepted *accepted)
{
    const struct http_server_options *o = &s->connections.options;
    enum http_placement placement = HTTP_AT_LIMIT;
    do
        placement = http_balancer_place(o->balancer, o->number, accepted);
    while (placement == HTTP_AT_LIMIT && http_connections_evict(&s->connections));
    bool over_limit = placement == HTTP_AT_LIMIT;
    if (over_limit && http_balancer_pass(o->balancer, o->number, accepted))
        return;
    metric_add(over_limit ? &o->metrics->connections_rejected_total : &o->metrics->connections_accepted_total,
               1);
    if (placement != HTTP_PLACED_ELSEWHERE)
        http_connections_open(&s->connections, accepted, over_limit);
}

static void http_server_on_inbox(uv_poll_t *inbox, int status, int events)
{
    (void)events;
    struct http_server *s = inbox->data;
    struct http_accepted accepted[HTTP_ACCEPTS];
    if (status != 0)
        return;
    loop_lag_begin(s->connections.options.loop_lag);
    int count = http_balancer_receive(s->connections.options.balancer, s->connections.options.number,
                                      accepted, HTTP_ACCEPTS);
    for (int i = 0; i < count; i++)
        if (accepted[i].passes == 0)
            http_connections_open(&s->connections, &accepted[i], false);
        else
            http_server_admit(s, &accepted[i]);
}

/* --- the listener --- */

static void http_server_on_pause_over(uv_timer_t *pause)
{
    http_server_accept(pause->data);
}

/* Stops polling for a moment. Otherwise the loop would spin, as the socket stays readable. */
static void http_server_pause_accepting(struct http_server *s, int err)
{
    enum { PAUSE_MS = 100 };
    if (!s->starved)
        log_text(LOG_ERROR, "cannot accept connections, pausing", "reason", strerror(err));
    s->starved = true;
    (void)uv_poll_stop(&s->poll);
    (void)uv_timer_start(&s->pause, http_server_on_pause_over, PAUSE_MS, 0);
}

/* True when a connection was accepted, or failed for a reason that concerns only this connection. */
static bool http_server_accept_one(struct http_server *s)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(s->listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        s->starved = false;
        loop_lag_begin(s->connections.options.loop_lag);
        http_server_admit(s, &(struct http_accepted){.fd = fd, .peer = ip_from_sockaddr(&peer)});
        return true;
    }
    if (errno == EAGAIN)
        return false;
    /* The system has nothing left, or another process has shut down the socket. */
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS || errno == EINVAL) {
        http_server_pause_accepting(s, errno);
        return false;
    }
    return true; /* ECONNABORTED, EINTR and network errors concern that connection alone (accept(2)) */
}

static void http_server_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct http_server *s = poll->data;
    if (status != 0) {
        http_server_pause_accepting(s, -status);
        return;
    }
    for (int left = HTTP_ACCEPTS; left > 0 && http_server_accept_one(s); left--)
        continue;
}

enum { BACKLOG = 4096 };

/* The bytes that the kernel may hold for each connection. By default it grants 4 and 6 MiB, which a client
 * that pipelines and never reads would fill. Further responses wait here, where bodies are shared. */
enum { UNSENT_MAX = 64 * 1024, UNREAD_MAX = 128 * 1024 };

/* Accepted sockets inherit the options, which saves system calls for each of them. */
static int http_server_set_connection_options(int fd)
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

static bool http_server_has_others(const struct http_server_options *options)
{
    return http_balancer_inbox(options->balancer, options->number) >= 0;
}

/*
 * The first server listens alone: without SO_REUSEPORT listen() fails if any other socket listens on the
 * address, of whatever process and user, and of two processes that start together one succeeds. The option is
 * set afterwards, so that the other servers, whose sockets have it from the beginning, can join.
 */
static int http_server_open_at(const struct addr *address, const struct http_server_options *options)
{
    const int on = 1;
    const int off = 0;
    struct sockaddr_storage where;
    socklen_t len = addr_to_sockaddr(address, &where);
    int fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int err = http_server_set_connection_options(fd);
    /* not covered: only bind() fails, and listen() where another process has bound the address meanwhile */
    if (err == 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
         (where.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
         (options->number > 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
         bind(fd, (const struct sockaddr *)&where, len) != 0 || listen(fd, BACKLOG) != 0 ||
         (http_server_has_others(options) && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)))
        err = -errno;
    if (err == 0)
        return fd;
    close(fd);
    return err;
}

/* Falls back to IPv4 where a system, or a sandbox, has no IPv6 sockets or no IPv6 addresses. */
static int http_server_open_listening_socket(const struct addr *address,
                                             const struct http_server_options *options)
{
    int fd = http_server_open_at(address, options);
    /* not covered: -EADDRNOTAVAIL, where the test may not make a network without IPv6 */
    if (!address->any_family || (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL))
        return fd;
    struct addr v4 = addr_any_v4(address);
    return http_server_open_at(&v4, options);
}

/* Takes over the descriptor. The inbox is open until the server is closed. */
static int http_server_use_listener(struct http_server *s, int fd)
{
    const struct http_server_options *o = &s->connections.options;
    int err = uv_poll_init(s->connections.loop, &s->poll, fd);
    if (err != 0) {
        close(fd);
        return err;
    }
    s->poll.data = s;
    s->listener = fd;
    if (!http_server_has_others(o))
        return 0;
    err = uv_poll_init(s->connections.loop, &s->inbox, http_balancer_inbox(o->balancer, o->number));
    if (err != 0)
        return err;
    s->inbox.data = s;
    return uv_poll_start(&s->inbox, UV_READABLE, http_server_on_inbox);
}

static int http_server_open_passed(int passed)
{
    int fd = fcntl(passed, F_DUPFD_CLOEXEC, 0);
    int err = fd >= 0 ? http_server_set_connection_options(fd) : -errno;
    if (err == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return err;
}

int http_server_listen(struct http_server *s, const struct addr *address, int passed)
{
    s->shared = passed >= 0;
    int fd = s->shared ? http_server_open_passed(passed)
                       : http_server_open_listening_socket(address, &s->connections.options);
    int err = fd >= 0 ? http_server_use_listener(s, fd) : fd;
    if (err == 0 && !s->shared)
        http_server_accept(s);
    return err;
}

void http_server_accept(struct http_server *s)
{
    (void)uv_poll_start(&s->poll, UV_READABLE, http_server_on_readable); /* fails only on a closing handle */
}

static void http_server_close_listener(struct http_server *s)
{
    if (s->listener < 0)
        return;
    uv_close((uv_handle_t *)&s->poll, NULL);
    (void)uv_timer_stop(&s->pause);
    close(s->listener);
    s->listener = -1;
}

/* The queue holds at most the backlog plus one, so new connections cannot make a drain endless. */
void http_server_finish(struct http_server *s)
{
    /* not covered: left is 0 if connections come as fast as they are accepted */
    for (int left = BACKLOG + 1; !s->shared && left > 0 && http_server_accept_one(s); left--)
        continue;
    http_server_close_listener(s);
    http_connections_finish(&s->connections);
}

/* --- the server --- */

int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->listener = -1;
    (void)uv_timer_init(loop, &s->pause); /* cannot fail */
    s->pause.data = s;
    http_connections_init(&s->connections, loop, options);
    *out = s;
    return 0;
}

void http_server_announce_close(struct http_server *s)
{
    s->connections.announcing_close = true;
}

void http_server_close(struct http_server *s)
{
    http_server_close_listener(s);
    uv_close((uv_handle_t *)&s->pause, NULL);
    if (s->inbox.data != NULL)
        uv_close((uv_handle_t *)&s->inbox, NULL);
    http_connections_close(&s->connections);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL)
        return;
    http_connections_fini(&s->connections);
    free(s);
}
