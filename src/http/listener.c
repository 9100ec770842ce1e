/*
 * Accepting connections and handing them over; see listener.h. A pipe is a queue and a wake-up in one. The
 * pipes outlive the servers, so that one can pass a connection to another that is being closed.
 *
 * The loop polls the listening socket. The accept of libuv is not used: it may stop for good after a failure,
 * and a drain has to accept everything that the kernel has queued before the socket is closed.
 */
#include "http/listener.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static_assert(sizeof(struct http_accepted) <= PIPE_BUF, "a write is atomic");

/* ACCEPTS: the most connections that are accepted in an iteration of the loop. */
enum { ACCEPTS = 32, BACKLOG = 4096, WAITING_MAX = 8 };

struct seat {
    atomic_int count;
    int inbox[2]; /* the ends of a pipe: to read from, to write to; -1: none */
};

struct http_listener {
    int servers, max;
    atomic_int reserved;

    /* Of the thread that accepts. */
    int fd;                    /* -1: not listening */
    bool passed;               /* other processes have the socket, too */
    bool starved;              /* it was logged that accepting fails, and no connection was accepted since */
    uv_poll_t poll;            /* polls the socket */
    uv_timer_t pause;          /* runs while no connection can be accepted */
    struct http_accepted next; /* accepted, but the inbox is full; fd -1: none */
    int waiting_max; /* beyond the limit, an inbox takes no more: their descriptors are not reserved */
    struct seat seat[];
};

int http_listener_new(int servers, int max, struct http_listener **out)
{
    /* for as many connections as the kernel queues, which all come at once in a drain */
    enum { INBOX_SIZE = (BACKLOG + 1) * sizeof(struct http_accepted) };
    struct http_listener *l = calloc(1, sizeof *l + (size_t)servers * sizeof l->seat[0]);
    if (l == NULL)
        return -ENOMEM;
    l->servers = servers;
    l->max = max;
    l->waiting_max = WAITING_MAX;
    l->fd = l->next.fd = -1;
    int err = 0;
    for (int i = 0; i < servers; i++) {
        l->seat[i].inbox[0] = l->seat[i].inbox[1] = -1;
        if (err == 0 && pipe2(l->seat[i].inbox, O_NONBLOCK | O_CLOEXEC) != 0)
            err = -errno;
        else
            (void)fcntl(l->seat[i].inbox[1], F_SETPIPE_SZ, INBOX_SIZE);
    }
    if (err != 0) {
        http_listener_free(l);
        return err;
    }
    *out = l;
    return 0;
}

static void http_listener_close_inbox(struct http_listener *l, int server)
{
    struct http_accepted left;
    if (l->seat[server].inbox[0] < 0)
        return;
    while (http_listener_receive(l, server, &left, 1) > 0)
        close(left.fd);
    close(l->seat[server].inbox[0]);
    close(l->seat[server].inbox[1]);
}

static void http_listener_close_sockets(struct http_listener *l)
{
    if (l->fd >= 0 && !l->passed)
        close(l->fd);
    if (l->next.fd >= 0)
        close(l->next.fd);
    l->fd = l->next.fd = -1;
}

void http_listener_free(struct http_listener *l)
{
    if (l == NULL)
        return;
    http_listener_close_sockets(l);
    for (int i = 0; i < l->servers; i++)
        http_listener_close_inbox(l, i);
    free(l);
}

/* --- counts and inboxes --- */

int http_listener_count(const struct http_listener *l, int server)
{
    return atomic_load(&l->seat[server].count);
}

int http_listener_total(const struct http_listener *l)
{
    return atomic_load(&l->reserved);
}

bool http_listener_reserve(struct http_listener *l, int server)
{
    int reserved = atomic_load(&l->reserved);
    while (reserved < l->max)
        if (atomic_compare_exchange_weak(&l->reserved, &reserved, reserved + 1)) {
            atomic_fetch_add(&l->seat[server].count, 1);
            return true;
        }
    return false;
}

void http_listener_release(struct http_listener *l, int server)
{
    int before = atomic_fetch_sub(&l->seat[server].count, 1);
    assert(before > 0);
    before = atomic_fetch_sub(&l->reserved, 1);
    assert(before > 0);
}

/* Returns false if the inbox is full. */
static bool http_listener_send_to(struct http_listener *l, int server, const struct http_accepted *accepted)
{
    return write(l->seat[server].inbox[1], accepted, sizeof *accepted) == (ssize_t)sizeof *accepted;
}

bool http_listener_pass(struct http_listener *l, int self, const struct http_accepted *accepted)
{
    struct http_accepted passed = *accepted;
    return passed.tries++ < (unsigned)l->servers &&
           http_listener_send_to(l, (self + 1) % l->servers, &passed);
}

int http_listener_inbox(const struct http_listener *l, int server)
{
    return l->seat[server].inbox[0];
}

int http_listener_receive(struct http_listener *l, int server, struct http_accepted *out, int most)
{
    ssize_t len = read(l->seat[server].inbox[0], out, (size_t)most * sizeof *out);
    assert(len <= 0 || (size_t)len % sizeof *out == 0);
    return len > 0 ? (int)((size_t)len / sizeof *out) : 0;
}

/* --- accepting --- */

static int http_listener_fewest(const struct http_listener *l)
{
    int server = 0;
    for (int i = 1; i < l->servers; i++)
        if (http_listener_count(l, i) < http_listener_count(l, server))
            server = i;
    return server;
}

/* Takes the next connection from the queue. Returns 0 or an errno. */
static int http_listener_take(struct http_listener *l)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno;
    l->next = (struct http_accepted){.fd = fd, .peer = ip_from_sockaddr(&peer)};
    return 0;
}

static int http_listener_waiting(const struct http_listener *l, int server)
{
    int bytes = 0;
    (void)ioctl(l->seat[server].inbox[0], FIONREAD, &bytes); /* cannot fail */
    return bytes / (int)sizeof(struct http_accepted);
}

/* Returns false if the inbox of the server is full. */
static bool http_listener_hand_over(struct http_listener *l)
{
    int server = http_listener_fewest(l);
    bool counts = http_listener_reserve(l, server);
    const struct http_accepted next = {l->next.fd, counts ? 0 : 1, l->next.peer};
    if ((counts || http_listener_waiting(l, server) < l->waiting_max) &&
        http_listener_send_to(l, server, &next)) {
        l->next.fd = -1;
        return true;
    }
    if (counts)
        http_listener_release(l, server);
    return false;
}

static void http_listener_on_pause_over(uv_timer_t *pause);

/* Stops polling for a moment. Otherwise the loop would spin, as the socket stays readable. */
static bool http_listener_pause(struct http_listener *l, uint64_t ms)
{
    (void)uv_poll_stop(&l->poll);
    (void)uv_timer_start(&l->pause, http_listener_on_pause_over, ms, 0);
    return false;
}

static bool http_listener_starve(struct http_listener *l, int err)
{
    enum { STARVED_MS = 100 };
    if (!l->starved)
        log_text(LOG_ERROR, "cannot accept connections, pausing", "reason", strerror(err));
    l->starved = true;
    return http_listener_pause(l, STARVED_MS);
}

/* False if there is none, or accepting pauses. */
static bool http_listener_accept_one(struct http_listener *l)
{
    enum { FULL_MS = 1 };
    int err = l->next.fd >= 0 ? 0 : http_listener_take(l);
    if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS || err == EINVAL)
        return http_listener_starve(l, err); /* EINVAL: another process has shut down the socket */
    if (err != 0) /* ECONNABORTED, EINTR and network errors concern that connection alone (accept(2)) */
        return err != EAGAIN;
    l->starved = false;
    return http_listener_hand_over(l) || http_listener_pause(l, FULL_MS);
}

static void http_listener_on_pause_over(uv_timer_t *pause)
{
    struct http_listener *l = pause->data;
    if (l->next.fd < 0 || http_listener_accept_one(l))
        http_listener_accept(l);
}

static void http_listener_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct http_listener *l = poll->data;
    if (status != 0)
        (void)http_listener_starve(l, -status);
    for (int left = ACCEPTS; status == 0 && left > 0 && http_listener_accept_one(l); left--)
        continue;
}

void http_listener_accept(struct http_listener *l)
{
    /* fails only on a closing handle */
    (void)uv_poll_start(&l->poll, UV_READABLE, http_listener_on_readable);
}

/* The queue holds at most the backlog plus one, so new connections cannot make a drain endless. */
void http_listener_finish(struct http_listener *l)
{
    l->waiting_max = BACKLOG + 1;
    /* not covered: left is 0 if connections come as fast as they are accepted */
    for (int left = BACKLOG + 1; !l->passed && left > 0 && http_listener_accept_one(l); left--)
        continue;
    uv_close((uv_handle_t *)&l->poll, NULL);
    uv_close((uv_handle_t *)&l->pause, NULL);
    http_listener_close_sockets(l);
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

/* Without SO_REUSEPORT bind() or listen() fails if any other socket listens on the address, of whatever
 * process and user. */
static int http_listener_bind(const struct addr *address)
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
        bind(fd, (const struct sockaddr *)&where, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int err = -errno;
    close(fd);
    return err;
}

/* Falls back to IPv4 where a system, or a sandbox, has no IPv6 sockets or no IPv6 addresses. */
static int http_listener_bind_any_family(const struct addr *address)
{
    int fd = http_listener_bind(address);
    /* not covered: -EADDRNOTAVAIL, where the test may not make a network without IPv6 */
    if (!address->any_family || (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL))
        return fd;
    struct addr v4 = addr_any_v4(address);
    return http_listener_bind(&v4);
}

int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, int passed)
{
    l->passed = passed >= 0;
    int fd = l->passed ? passed : http_listener_bind_any_family(address);
    int err = fd >= 0 ? http_listener_set_connection_options(fd) : fd;
    if (err == 0)
        err = uv_poll_init(loop, &l->poll, fd);
    if (err != 0) {
        if (fd >= 0 && !l->passed)
            close(fd);
        return err;
    }
    (void)uv_timer_init(loop, &l->pause); /* cannot fail */
    l->poll.data = l->pause.data = l;
    l->fd = fd;
    if (!l->passed)
        http_listener_accept(l);
    return 0;
}
