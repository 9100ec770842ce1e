/* Connection limits, accept budget and shutdown; see server.h. */
#include "http/server.h"

#include "base/wait_group.h"
#include "http/connection.h"
#include "http/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Connections accepted per turn of the loop, in proportion to the requests handled since the last. */
enum { REQUESTS_PER_ACCEPT = 4, ACCEPT_MIN = 4, ACCEPT_MAX = 64 };

struct http_server {
    struct http_server_options options;
    uv_loop_t *loop;
    struct http_listener listener;
    bool listening;
    bool closing;
    struct http_connections *connections;
    int rejections;            /* open connections that are over the limit */
    struct wait_group clients; /* connections that are not closed yet */
    struct wait_group handles; /* those and all other handles */
    void (*finished)(void *arg);
    void *finished_arg;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void on_connection_closed(void *arg, bool over_limit)
{
    struct http_server *s = arg;
    if (over_limit)
        s->rejections--;
    else
        atomic_fetch_sub_explicit(s->options.open_connections, 1, memory_order_relaxed);
    wait_group_done(&s->clients);
    wait_group_done(&s->handles);
}

int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->loop = loop;
    s->options = *options;
    int err = http_connections_new(loop, options, on_connection_closed, s, &s->connections);
    if (err != 0) {
        free(s);
        return err;
    }
    *out = s;
    return 0;
}

/* An idle server accepts few connections per turn, so that they do not delay requests; a busy one accepts
 * more, so that requests do not starve new connections. */
static int accept_budget(void *arg)
{
    struct http_server *s = arg;
    unsigned share = http_connections_take_requests(s->connections) / REQUESTS_PER_ACCEPT;
    if (share < ACCEPT_MIN)
        return ACCEPT_MIN;
    return share > ACCEPT_MAX ? ACCEPT_MAX : (int)share;
}

static bool over_limit(struct http_server *s)
{
    int open = atomic_load_explicit(s->options.open_connections, memory_order_relaxed);
    if (open < s->options.max_connections)
        return false;
    return !s->options.evict_idle || !http_connections_evict(s->connections);
}

static void on_connection(void *arg, int fd, const struct sockaddr_storage *peer)
{
    struct http_server *s = arg;
    struct http_metrics *m = s->options.metrics;
    loop_lag_begin(s->options.loop_lag);
    bool over = over_limit(s);
    metric_add(over ? &m->connections_rejected_total : &m->connections_accepted_total, 1);
    if (over && s->rejections >= s->options.max_rejections) {
        close(fd);
        return;
    }
    if (http_connections_open(s->connections, fd, ip_from_sockaddr(peer), over) != 0)
        return;
    if (over)
        s->rejections++;
    else
        atomic_fetch_add_explicit(s->options.open_connections, 1, memory_order_relaxed);
    wait_group_add(&s->clients, 1);
    wait_group_add(&s->handles, 1);
}

static void on_listener_closed(void *arg)
{
    struct http_server *s = arg;
    wait_group_done(&s->handles);
}

int http_server_listen(struct http_server *s, const struct addr *address)
{
    const struct http_listener_owner self = {accept_budget, on_connection, on_listener_closed, s};
    int err = http_listener_open(&s->listener, s->loop, address, s->options.reuse_port, &self);
    if (err != 0)
        return err;
    s->listening = true;
    wait_group_add(&s->handles, 1);
    return 0;
}

void http_server_announce_close(struct http_server *s)
{
    http_connections_announce_close(s->connections);
}

static void close_listener(struct http_server *s, bool drain)
{
    if (!s->listening)
        return;
    s->listening = false;
    http_listener_close(&s->listener, drain);
}

void http_server_stop_listening(struct http_server *s)
{
    close_listener(s, true);
}

static void on_clients_gone(void *arg)
{
    struct http_server *s = arg;
    if (!s->closing)
        s->finished(s->finished_arg);
}

void http_server_finish(struct http_server *s, void (*finished)(void *arg), void *arg)
{
    s->finished = finished;
    s->finished_arg = arg;
    http_connections_finish(s->connections);
    wait_group_wait(&s->clients, on_clients_gone, s);
}

static void free_server(void *arg)
{
    struct http_server *s = arg;
    void (*closed)(void *arg) = s->closed;
    void *closed_arg = s->closed_arg;
    http_connections_free(s->connections);
    free(s);
    closed(closed_arg);
}

void http_server_close(struct http_server *s, void (*closed)(void *arg), void *arg)
{
    s->closing = true;
    s->closed = closed;
    s->closed_arg = arg;
    close_listener(s, false);
    http_connections_close(s->connections, &s->handles);
    wait_group_wait(&s->handles, free_server, s);
}
