/* A delaying proxy: one thread accepts, one thread a connection copies. */

#include "support/proxy.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/net.h"
#include "support/test.h"

enum { PROXY_CONNECTIONS_MAX = 64, PROXY_TICK_MS = 20, PROXY_BUFFER = 16384 };

struct proxy_link {
    struct proxy *proxy;
    int client;
    unsigned seed;
    pthread_t thread;
};

struct proxy {
    int listener;
    int port;
    int target_port;
    atomic_size_t slice;
    atomic_int delay_ms;
    atomic_int connections;
    atomic_bool stopping;
    pthread_t acceptor;
    struct proxy_link links[PROXY_CONNECTIONS_MAX];
};

static void proxy_pause(int ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static bool proxy_send(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Late, and in pieces of random sizes. */
static bool proxy_send_slowly(struct proxy_link *link, const char *data, size_t length)
{
    int delay = atomic_load(&link->proxy->delay_ms);
    if (delay > 0)
        proxy_pause(rand_r(&link->seed) % (delay + 1));
    size_t slice = atomic_load(&link->proxy->slice);
    while (length > 0) {
        size_t piece = slice > 0 ? 1 + (size_t)rand_r(&link->seed) % slice : length;
        if (piece > length)
            piece = length;
        if (!proxy_send(link->client, data, piece))
            return false;
        data += piece;
        length -= piece;
    }
    return true;
}

static bool proxy_copy(struct proxy_link *link, int from, int to, bool slowly)
{
    char buffer[PROXY_BUFFER];
    ssize_t got = recv(from, buffer, sizeof buffer, 0);
    if (got <= 0)
        return false;
    return slowly ? proxy_send_slowly(link, buffer, (size_t)got) : proxy_send(to, buffer, (size_t)got);
}

static void *proxy_run_link(void *arg)
{
    struct proxy_link *link = arg;
    int server = net_connect(link->proxy->target_port);
    bool open = server >= 0;
    while (open && !atomic_load(&link->proxy->stopping)) {
        struct pollfd fds[2] = {{.fd = link->client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        if (poll(fds, 2, PROXY_TICK_MS) <= 0)
            continue;
        if (fds[0].revents != 0)
            open = proxy_copy(link, link->client, server, false);
        if (open && fds[1].revents != 0)
            open = proxy_copy(link, server, link->client, true);
    }
    if (server >= 0)
        (void)close(server);
    (void)close(link->client);
    return NULL;
}

static void proxy_accept(struct proxy *proxy, int *used)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct proxy_link *link = &proxy->links[*used];
    *link = (struct proxy_link){.proxy = proxy, .client = client, .seed = (unsigned)*used + 1};
    if (pthread_create(&link->thread, NULL, proxy_run_link, link) != 0) {
        (void)close(client);
        return;
    }
    (*used)++;
    atomic_fetch_add(&proxy->connections, 1);
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    int used = 0;
    while (!atomic_load(&proxy->stopping)) {
        struct pollfd pollfd = {.fd = proxy->listener, .events = POLLIN};
        if (poll(&pollfd, 1, PROXY_TICK_MS) > 0 && used < PROXY_CONNECTIONS_MAX)
            proxy_accept(proxy, &used);
    }
    for (int i = 0; i < used; i++)
        (void)pthread_join(proxy->links[i].thread, NULL);
    return NULL;
}

struct proxy *proxy_new(int target_port, int delay_ms, size_t slice)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        abort();
    proxy->port = net_reserve_port();
    proxy->listener = net_listen(proxy->port);
    proxy->target_port = target_port;
    atomic_store(&proxy->slice, slice);
    atomic_store(&proxy->delay_ms, delay_ms);
    assert_true(proxy->listener >= 0);
    assert_int_equal(pthread_create(&proxy->acceptor, NULL, proxy_run, proxy), 0);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_set_delay(struct proxy *proxy, int delay_ms)
{
    atomic_store(&proxy->delay_ms, delay_ms);
}

void proxy_set_slice(struct proxy *proxy, size_t slice)
{
    atomic_store(&proxy->slice, slice);
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
    free(proxy);
}
