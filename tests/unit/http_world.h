/*
 * A real server on a loop of the test's own, with a handler that answers at once or later, and clients in the
 * same thread: the loop turns only while the test waits for something.
 *
 *     /now     answers at once with the query as its body
 *     /later   answers with the query when the test says so (world_answer), or never
 *     /mid     answers at once with MID_SIZE bytes: as many as may be written together with another answer
 *     /big     answers at once with BIG_SIZE bytes
 *     /client  answers at once with the client's address
 */
#ifndef TEST_UNIT_HTTP_WORLD_H
#define TEST_UNIT_HTTP_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"
#include "support/wait.h"
#include "unit/check.h"

enum { BIG_SIZE = 8 * 1024 * 1024, MID_SIZE = HTTP_OUTPUT_BYTES - 1024, LATER_MAX = 64, CLIENTS_MAX = 256 };

struct client {
    int fd;     /* -1: not open */
    bool reads; /* what comes is taken while the loop turns */
    bool ended; /* the server has closed */
    int error;  /* how, when it was not orderly */
    struct buf in;
};

struct world {
    uv_loop_t loop;
    struct http_server *server;
    struct http_server_options options;
    struct http_metrics metrics;
    struct loop_lag loop_lag;
    atomic_int open;
    int port;
    struct blob *big, *mid;
    bool tight;                             /* the kernel holds little for anybody */
    struct http_exchange *later[LATER_MAX]; /* not answered yet, in order of arrival */
    int later_count;
    int handled, refused, abandoned, finished, closed;
    struct client client[CLIENTS_MAX];
};

/* Every exchange carries a mark of its own, so that a handler's state can be seen to belong to its request.
 */
struct world_state {
    struct http_exchange *mine;
};

static inline void world_respond(struct world *w, struct http_exchange *x, int status, struct span body)
{
    struct blob *b = blob_new(body);
    struct http_response r = {.status = status, .body = b, .content_type = "text/plain"};
    (void)w;
    http_exchange_respond(x, &r);
    blob_unref(b);
}

static inline void world_handle(void *arg, struct http_exchange *x)
{
    struct world *w = arg;
    const struct http_request *r = http_exchange_request(x);
    struct world_state *state = http_exchange_state(x);
    state->mine = x;
    w->handled++;
    if (span_equal(r->path, SPAN("/later"))) {
        assert_true(w->later_count < LATER_MAX);
        w->later[w->later_count++] = x;
    } else if (span_equal(r->path, SPAN("/mid"))) {
        http_exchange_respond(x, &(struct http_response){.status = 200, .body = w->mid});
    } else if (span_equal(r->path, SPAN("/big"))) {
        http_exchange_respond(x, &(struct http_response){.status = 200, .body = w->big});
    } else if (span_equal(r->path, SPAN("/client"))) {
        char text[IP_TEXT_MAX];
        struct ip client = http_exchange_client(x);
        world_respond(w, x, 200, (struct span){text, ip_write(&client, text)});
    } else {
        world_respond(w, x, 200, r->query.data == NULL ? SPAN("-") : r->query);
    }
}

static inline void world_refuse(void *arg, struct http_exchange *x, int status)
{
    struct world *w = arg;
    w->refused++;
    world_respond(w, x, status, SPAN("refused"));
}

static inline struct http_exchange *world_take_later(struct world *w, int i)
{
    struct http_exchange *x = w->later[i];
    assert_true(i < w->later_count);
    w->later_count--;
    for (int j = i; j < w->later_count; j++)
        w->later[j] = w->later[j + 1];
    return x;
}

static inline void world_abandon(void *arg, struct http_exchange *x)
{
    struct world *w = arg;
    int i = 0;
    while (i < w->later_count && w->later[i] != x)
        i++;
    assert_ptr_equal(((struct world_state *)http_exchange_state(x))->mine, x);
    (void)world_take_later(w, i); /* fails when it was answered or abandoned before */
    w->abandoned++;
}

/* Answers the i-th of those that wait, with its query. */
static inline void world_answer(struct world *w, int i)
{
    struct http_exchange *x = world_take_later(w, i);
    assert_ptr_equal(((struct world_state *)http_exchange_state(x))->mine, x);
    world_respond(w, x, 200, http_exchange_request(x)->query);
}

/* Limits are generous; a test sets those in w->options that it is about before it calls world_open. */
static inline void world_init(struct world *w)
{
    *w = (struct world){.port = 0};
    w->options = (struct http_server_options){
        .handler = {w, sizeof(struct world_state), world_handle, world_refuse, world_abandon},
        .metrics = &w->metrics,
        .loop_lag = &w->loop_lag,
        .head_max = 4096,
        .body_max = 4096,
        .head_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .write_timeout_ms = 60000,
        .max_connections = 1000,
        .max_refusals = 64,
        .open_connections = &w->open,
    };
    for (int i = 0; i < CLIENTS_MAX; i++)
        w->client[i] = (struct client){.fd = -1};
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
}

static inline void world_open(struct world *w)
{
    struct addr address;
    struct sockaddr_in in = {0};
    socklen_t len = sizeof in;
    char *big = malloc(BIG_SIZE);
    assert_non_null(big);
    for (size_t i = 0; i < BIG_SIZE; i++)
        big[i] = (char)('A' + i % 26);
    w->big = blob_new((struct span){big, BIG_SIZE});
    w->mid = blob_new((struct span){big, MID_SIZE});
    assert_true(w->big != NULL && w->mid != NULL);
    free(big);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(http_server_new(&w->loop, &w->options, &w->server), 0);
    assert_int_equal(addr_parse(SPAN("127.0.0.1:0"), &address), 0);
    assert_int_equal(http_server_listen(w->server, &address), 0);
    assert_int_equal(getsockname(w->server->listener.fd, (struct sockaddr *)&in, &len), 0);
    w->port = ntohs(in.sin_port);
    const int unsent = 4096;
    if (w->tight)
        assert_int_equal(setsockopt(w->server->listener.fd, SOL_SOCKET, SO_SNDBUF, &unsent, sizeof unsent),
                         0);
}

/* --- clients ----------------------------------------------------------------------------------------------
 */

static inline void client_receive(struct client *c)
{
    static char chunk[64 * 1024];
    ssize_t n = 0;
    while (c->fd >= 0 && c->reads && !c->ended && (n = read(c->fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            c->error = errno;
            break;
        }
        buf_append(&c->in, chunk, (size_t)n);
    }
    if (c->fd >= 0 && c->reads)
        c->ended = true;
}

/* One turn of the loop and of every client; waits a little when nothing is to be done. */
static inline void world_turn(struct world *w)
{
    struct pollfd fd[1 + CLIENTS_MAX];
    nfds_t n = 0;
    fd[n++] = (struct pollfd){.fd = uv_backend_fd(&w->loop), .events = POLLIN};
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (w->client[i].fd >= 0 && w->client[i].reads && !w->client[i].ended)
            fd[n++] = (struct pollfd){.fd = w->client[i].fd, .events = POLLIN};
    int wait = uv_backend_timeout(&w->loop);
    (void)poll(fd, n, wait < 0 || wait > 20 ? 20 : wait);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    for (int i = 0; i < CLIENTS_MAX; i++)
        client_receive(&w->client[i]);
}

#define WORLD_UNTIL(w, condition)                                                   \
    do {                                                                            \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                           \
        while (!(condition)) {                                                      \
            if (wait_left_ms(until_) == 0)                                          \
                fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__, #condition); \
            world_turn(w);                                                          \
        }                                                                           \
    } while (0)

static inline void world_turn_for(struct world *w, int ms)
{
    int64_t until = wait_now_ms() + ms;
    while (wait_now_ms() < until)
        world_turn(w);
}

static inline struct client *client_open(struct world *w)
{
    struct client *c = NULL;
    for (int i = 0; i < CLIENTS_MAX && c == NULL; i++)
        if (w->client[i].fd < 0)
            c = &w->client[i];
    assert_non_null(c);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const int unread = w->tight ? 4096 : 64 * 1024;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &unread, sizeof unread);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    buf_fini(&c->in);
    *c = (struct client){.fd = fd, .reads = true};
    return c;
}

static inline void client_send_bytes(struct client *c, struct span bytes)
{
    assert_int_equal(send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL), (ssize_t)bytes.len);
}

static inline void client_send(struct client *c, const char *text)
{
    client_send_bytes(c, span_of(text));
}

static inline void client_close(struct client *c)
{
    close(c->fd);
    c->fd = -1;
}

/* Resets the connection: what is unread is lost on both sides. */
static inline void client_reset(struct client *c)
{
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(c);
}

/* How often the text stands in what the client has. */
static inline int client_count(struct client *c, const char *text)
{
    int n = 0;
    const char *all = buf_c_str(&c->in);
    for (const char *at = all; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* The bodies of all complete answers, joined by spaces, and checks that nothing else is there. */
static inline void client_expect_bodies(struct client *c, const char *pending)
{
    struct buf bodies = BUF_INIT;
    assert_non_null(buf_c_str(&c->in)); /* numbers are read as text that ends */
    struct span rest = buf_span(&c->in);
    while (rest.len > 0) {
        const char *end = memmem(rest.data, rest.len, "\r\n\r\n", 4);
        const char *length = memmem(rest.data, rest.len, "Content-Length: ", 16);
        assert_non_null(end);
        assert_true(span_starts_with(rest, SPAN("HTTP/1.1 ")));
        size_t head = (size_t)(end - rest.data) + 4;
        size_t body = length != NULL && length < end ? strtoul(length + 16, NULL, 10) : 0;
        assert_true(rest.len >= head + body);
        if (bodies.len > 0)
            buf_append_char(&bodies, ' ');
        buf_append(&bodies, rest.data + head, body);
        rest = span_skip(rest, head + body);
    }
    assert_buf(&bodies, pending);
    buf_fini(&bodies);
}

/* --- the end ----------------------------------------------------------------------------------------------
 */

static inline void world_on_finished(void *arg)
{
    struct world *w = arg;
    w->finished++;
}

static inline void world_on_closed(void *arg)
{
    struct world *w = arg;
    w->closed++;
}

/* Ends the server, at once and with whatever is open, and then the loop: nothing may be left. */
static inline void world_fini(struct world *w)
{
    http_server_close(w->server, world_on_closed, w);
    assert_int_equal(uv_run(&w->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(w->closed, 1);
    assert_int_equal(w->later_count, 0);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(w->metrics.connections_open, 0);
    assert_int_equal(w->open, 0);
    assert_int_equal(w->big->refs, 1);
    assert_int_equal(w->mid->refs, 1);
    blob_unref(w->big);
    blob_unref(w->mid);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (w->client[i].fd >= 0)
            close(w->client[i].fd);
        buf_fini(&w->client[i].in);
    }
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

#endif
