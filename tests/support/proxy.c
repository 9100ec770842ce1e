/* A TCP proxy with faults on demand: one thread accepts, one thread per connection copies both ways. */

#include "support/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net.h"
#include "support/test.h"
#include "support/wait.h"

enum { PROXY_CONNECTIONS_MAX = 64, PROXY_TICK_MS = 5, PROXY_BLOCKED_MS = 1, CHUNK_SIZE = 16384 };

/* ---- one way of one connection ---- */

struct proxy_chunk {
    struct proxy_chunk *next;
    int64_t due;
    size_t length, sent;
    char data[];
};

/* One way of one connection: bytes that were read, and when each may be passed on. */
struct proxy_pipe {
    int from, to;
    struct proxy_chunk *first, *last;
    int64_t last_due; /* milliseconds, monotonic */
    bool ended;       /* nothing more is read */
    bool finished;    /* and all of it has gone on, with the end of the stream */
};

static void proxy_pipe_append(struct proxy_pipe *pipe, const char *data, size_t length, int64_t due)
{
    struct proxy_chunk *chunk = malloc(sizeof *chunk + length);
    if (chunk == NULL)
        abort();
    *chunk = (struct proxy_chunk){.due = due, .length = length};
    memcpy(chunk->data, data, length);
    if (pipe->last != NULL)
        pipe->last->next = chunk;
    else
        pipe->first = chunk;
    pipe->last = chunk;
}

/* Reads once; what was read is due after `delay_ms`, at that rate. False on an error of the socket. */
static bool proxy_pipe_fill(struct proxy_pipe *pipe, int delay_ms, size_t rate)
{
    char buffer[CHUNK_SIZE];
    ssize_t got = recv(pipe->from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
        pipe->ended = true;
        return true;
    }
    int64_t due = wait_now_ms() + delay_ms;
    if (due < pipe->last_due)
        due = pipe->last_due;
    if (rate > 0)
        due += (int64_t)((size_t)got * 1000 / rate);
    pipe->last_due = due;
    proxy_pipe_append(pipe, buffer, (size_t)got, due);
    return true;
}

/* Bytes of the first chunk that are due; 0 when there are none. */
static size_t proxy_pipe_due(const struct proxy_pipe *pipe)
{
    const struct proxy_chunk *chunk = pipe->first;
    return chunk != NULL && chunk->due <= wait_now_ms() ? chunk->length - chunk->sent : 0;
}

/* Sends the first `length` bytes of what is due, as far as the socket takes them; *sent says how many.
 * False on an error of the socket. */
static bool proxy_pipe_send(struct proxy_pipe *pipe, size_t length, size_t *sent)
{
    struct proxy_chunk *chunk = pipe->first;
    ssize_t n = send(pipe->to, chunk->data + chunk->sent, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    *sent = n > 0 ? (size_t)n : 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    chunk->sent += *sent;
    if (chunk->sent == chunk->length) {
        pipe->first = chunk->next;
        if (pipe->first == NULL)
            pipe->last = NULL;
        free(chunk);
    }
    return true;
}

/* Passes the end of the stream on when it has come and nothing is left. */
static void proxy_pipe_finish(struct proxy_pipe *pipe)
{
    if (!pipe->ended || pipe->finished || pipe->first != NULL)
        return;
    (void)shutdown(pipe->to, SHUT_WR);
    pipe->finished = true;
}

/* Milliseconds until more is due, at most `ms`. */
static int proxy_pipe_wait(const struct proxy_pipe *pipe, int ms)
{
    int64_t left = pipe->first != NULL ? pipe->first->due - wait_now_ms() : ms;
    if (left > ms)
        return ms;
    return left > 0 ? (int)left : 0;
}

static void proxy_pipe_fini(struct proxy_pipe *pipe)
{
    while (pipe->first != NULL) {
        struct proxy_chunk *chunk = pipe->first;
        pipe->first = chunk->next;
        free(chunk);
    }
}

/* ---- types ---- */

struct proxy_link {
    struct proxy *proxy;
    int client;
    pthread_t thread;
    bool used;        /* written by the acceptor: there is a thread to be joined */
    atomic_bool done; /* it has ended */
    atomic_int order; /* the fault that was requested for it; its thread carries it out */
    struct proxy_pipe up, down;
};

struct proxy {
    int listener;
    int port;
    int target_port;
    atomic_size_t rate;
    atomic_int latency_ms;
    atomic_bool blackhole;
    atomic_bool refusing;
    atomic_int connections;
    atomic_size_t answered;
    atomic_bool stopping;
    pthread_mutex_t lock; /* the three below */
    bool armed;
    size_t fault_after;
    enum proxy_fault fault;
    pthread_t acceptor;
    struct proxy_link links[PROXY_CONNECTIONS_MAX];
};

/* Closing with nothing to linger for sends a reset. */
static void proxy_reset(int fd)
{
    struct linger linger = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* ---- one connection ---- */

/* How many of `length` response bytes may pass before the injected fault; requests it with the last one. */
static size_t link_before_fault(struct proxy_link *link, size_t length)
{
    struct proxy *proxy = link->proxy;
    (void)pthread_mutex_lock(&proxy->lock);
    if (proxy->armed && length >= proxy->fault_after) {
        length = proxy->fault_after;
        proxy->armed = false;
        atomic_store(&link->order, (int)proxy->fault);
    } else if (proxy->armed) {
        proxy->fault_after -= length;
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    atomic_fetch_add(&proxy->answered, length);
    return length;
}

/* False when the connection has to end now. */
static bool link_apply_fault(struct proxy_link *link)
{
    int order = atomic_load(&link->order);
    if (order == PROXY_HOLD) /* in force before proxy_has_injected() says so */
        proxy_set_blackhole(link->proxy, true);
    if (order == PROXY_RESET)
        proxy_reset(link->client);
    if (order == PROXY_FINISH) {
        (void)shutdown(link->client, SHUT_WR);
        link->down.finished = true;
    }
    (void)atomic_compare_exchange_strong(&link->order, &order, PROXY_NO_FAULT);
    return order != PROXY_RESET;
}

static bool link_send_up(struct proxy_link *link)
{
    size_t sent = 1;
    size_t length = 0;
    while (sent > 0 && (length = proxy_pipe_due(&link->up)) > 0) {
        if (!proxy_pipe_send(&link->up, length, &sent))
            return false;
    }
    return true;
}

/* Until a fault was requested or the socket takes no more. */
static bool link_send_down(struct proxy_link *link)
{
    size_t length = 0;
    while (atomic_load(&link->order) == PROXY_NO_FAULT && !link->down.finished &&
           (length = proxy_pipe_due(&link->down)) > 0) {
        length = link_before_fault(link, length);
        while (length > 0) {
            size_t sent = 0;
            if (!proxy_pipe_send(&link->down, length, &sent))
                return false;
            length -= sent;
            if (sent == 0)
                (void)poll(NULL, 0, PROXY_BLOCKED_MS);
            if (atomic_load(&link->proxy->stopping))
                return false;
        }
    }
    return true;
}

/* One round: reads what has come, passes on what is due. False when the connection has ended. */
static bool link_turn(struct proxy_link *link)
{
    const struct proxy *proxy = link->proxy;
    bool open = !atomic_load(&proxy->blackhole);
    struct pollfd fds[2] = {{.fd = open && !link->up.ended ? link->client : -1, .events = POLLIN},
                            {.fd = open && !link->down.ended ? link->down.from : -1, .events = POLLIN}};
    int wait = open ? proxy_pipe_wait(&link->down, proxy_pipe_wait(&link->up, PROXY_TICK_MS)) : PROXY_TICK_MS;
    if (poll(fds, 2, wait) < 0 && errno != EINTR)
        return false;
    int latency_ms = atomic_load(&proxy->latency_ms);
    open = open && !atomic_load(&proxy->blackhole); /* it may have been set meanwhile */
    if (open && fds[0].revents != 0 && !proxy_pipe_fill(&link->up, latency_ms, 0))
        return false;
    if (open && fds[1].revents != 0 && !proxy_pipe_fill(&link->down, latency_ms, atomic_load(&proxy->rate)))
        return false;
    if (open && !(link_send_up(link) && link_send_down(link)))
        return false;
    proxy_pipe_finish(&link->up);
    proxy_pipe_finish(&link->down);
    return link_apply_fault(link) && !(link->up.finished && link->down.finished);
}

static void *proxy_run_link(void *arg)
{
    struct proxy_link *link = arg;
    int server = net_connect(link->proxy->target_port);
    link->up = (struct proxy_pipe){.from = link->client, .to = server};
    link->down = (struct proxy_pipe){.from = server, .to = link->client};
    if (server < 0)
        proxy_reset(link->client);
    while (server >= 0 && !atomic_load(&link->proxy->stopping) && link_turn(link))
        continue;
    proxy_pipe_fini(&link->up);
    proxy_pipe_fini(&link->down);
    if (server >= 0)
        (void)close(server);
    (void)close(link->client);
    atomic_store(&link->done, true);
    return NULL;
}

/* ---- the proxy ---- */

/* A slot that is free or whose connection has ended; NULL when there is none. */
static struct proxy_link *proxy_slot(struct proxy *proxy)
{
    for (int i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        struct proxy_link *link = &proxy->links[i];
        if (link->used && !atomic_load(&link->done))
            continue;
        if (link->used)
            (void)pthread_join(link->thread, NULL);
        link->used = false;
        return link;
    }
    return NULL;
}

static void proxy_accept(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct proxy_link *link = proxy_slot(proxy);
    if (client < 0)
        return;
    if (atomic_load(&proxy->refusing) || link == NULL) {
        proxy_reset(client);
        (void)close(client);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    (void)atomic_fetch_add(&proxy->connections, 1);
    link->proxy = proxy;
    link->client = client;
    atomic_store(&link->done, false);
    atomic_store(&link->order, PROXY_NO_FAULT);
    link->used = pthread_create(&link->thread, NULL, proxy_run_link, link) == 0;
    if (!link->used)
        (void)close(client);
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    while (!atomic_load(&proxy->stopping)) {
        struct pollfd pollfd = {.fd = proxy->listener, .events = POLLIN};
        if (poll(&pollfd, 1, PROXY_TICK_MS) > 0)
            proxy_accept(proxy);
    }
    for (int i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        if (proxy->links[i].used)
            (void)pthread_join(proxy->links[i].thread, NULL);
    }
    return NULL;
}

struct proxy *proxy_new(int target_port)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        abort();
    proxy->port = net_reserve_port();
    proxy->listener = net_listen(proxy->port);
    proxy->target_port = target_port;
    assert_int_equal(pthread_mutex_init(&proxy->lock, NULL), 0);
    assert_true(proxy->listener >= 0);
    assert_int_equal(pthread_create(&proxy->acceptor, NULL, proxy_run, proxy), 0);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_set_latency(struct proxy *proxy, int ms)
{
    atomic_store(&proxy->latency_ms, ms);
}

void proxy_set_rate(struct proxy *proxy, size_t bytes_per_second)
{
    atomic_store(&proxy->rate, bytes_per_second);
}

void proxy_set_blackhole(struct proxy *proxy, bool blackhole)
{
    atomic_store(&proxy->blackhole, blackhole);
}

void proxy_set_refusing(struct proxy *proxy, bool refusing)
{
    atomic_store(&proxy->refusing, refusing);
}

void proxy_inject(struct proxy *proxy, enum proxy_fault fault)
{
    for (int i = 0; i < PROXY_CONNECTIONS_MAX; i++)
        atomic_store(&proxy->links[i].order, (int)fault);
}

static void proxy_arm(struct proxy *proxy, bool armed, size_t bytes, enum proxy_fault fault)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->armed = armed;
    proxy->fault_after = bytes;
    proxy->fault = fault;
    (void)pthread_mutex_unlock(&proxy->lock);
}

void proxy_inject_after(struct proxy *proxy, size_t bytes, enum proxy_fault fault)
{
    proxy_arm(proxy, true, bytes, fault);
}

bool proxy_has_injected(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    bool injected = !proxy->armed;
    (void)pthread_mutex_unlock(&proxy->lock);
    for (int i = 0; i < PROXY_CONNECTIONS_MAX; i++)
        injected = injected && atomic_load(&proxy->links[i].order) == PROXY_NO_FAULT;
    return injected;
}

void proxy_restore(struct proxy *proxy)
{
    proxy_arm(proxy, false, 0, PROXY_NO_FAULT);
    proxy_set_latency(proxy, 0);
    proxy_set_rate(proxy, 0);
    proxy_set_refusing(proxy, false);
    proxy_set_blackhole(proxy, false);
}

size_t proxy_bytes_down(const struct proxy *proxy)
{
    return atomic_load(&proxy->answered);
}

int proxy_connections(const struct proxy *proxy)
{
    return atomic_load(&proxy->connections);
}

void proxy_free(struct proxy *proxy)
{
    atomic_store(&proxy->stopping, true);
    (void)pthread_join(proxy->acceptor, NULL);
    (void)close(proxy->listener);
    (void)pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}
