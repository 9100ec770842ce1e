/* Passing on commands one at a time; see gate.h. */
#include "loader/gate.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/ctl.h"

/* --- RESP --- */

/* The length of the first value, a command or a reply; 0: it is not complete. */
static size_t value_length(const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    if (end == NULL)
        return 0;
    size_t at = (size_t)(end + 1 - data);
    long count = strtol(data + 1, NULL, 10);
    if (strchr("$=", data[0]) != NULL)
        at += count < 0 ? 0 : (size_t)count + 2;
    if (strchr("*~>%", data[0]) == NULL)
        return at <= len ? at : 0;
    for (long i = data[0] == '%' ? 2 * count : count; i > 0; i--) {
        size_t element = value_length(data + at, len - at);
        if (element == 0)
            return 0;
        at += element;
    }
    return at;
}

static size_t command_length(const struct gate_connection *c)
{
    return value_length(c->commands.data, c->commands.len);
}

bool gate_has_command(const struct gate_connection *c)
{
    return command_length(c) > 0;
}

const char *gate_word(const struct gate_connection *c, size_t n)
{
    static char word[GATE_WORD_MAX];
    const char *at = c->commands.data;
    size_t left = c->commands.len;
    size_t words = (size_t)strtol(at + 1, NULL, 10);
    const char *end = memchr(at, '\n', left);
    if (n >= words || end == NULL)
        return "";
    left -= (size_t)(end + 1 - at);
    at = end + 1;
    for (size_t i = 0; i < n; i++) {
        size_t length = value_length(at, left);
        at += length;
        left -= length;
    }
    const char *text = memchr(at, '\n', left);
    (void)snprintf(word, sizeof word, "%.*s", (int)strtol(at + 1, NULL, 10), text + 1);
    return word;
}

/* --- Bytes --- */

static void consume(struct gate_bytes *b, size_t n)
{
    b->len -= n;
    memmove(b->data, b->data + n, b->len);
}

/* False at the end of the connection. */
static bool receive(int fd, struct gate_bytes *b)
{
    assert_true(b->len < sizeof b->data);
    ssize_t n = recv(fd, b->data + b->len, sizeof b->data - b->len, 0);
    b->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* The client may have closed the connection. */
static void transmit(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void connection_close(struct gate_connection *c)
{
    close_end(&c->client);
    close_end(&c->server);
    c->commands.len = c->reply.len = 0;
    c->point = GATE_SENT;
}

/* --- Passing on --- */

static void receive_reply(struct gate_connection *c)
{
    c->reply.len = 0;
    while (value_length(c->reply.data, c->reply.len) == 0)
        assert_true(receive(c->server, &c->reply));
    c->point = GATE_EXECUTED;
}

/* Halves are passed on one by one only when a fault is to come between them: so most commands are one packet.
 */
static void forward(struct gate_connection *c, enum gate_point point)
{
    size_t length = command_length(c);
    size_t from = c->point == GATE_HALF_FORWARDED ? length / 2 : 0;
    size_t to = point == GATE_HALF_FORWARDED ? length / 2 : length;
    transmit(c->server, c->commands.data + from, to - from);
    if (point == GATE_HALF_FORWARDED)
        c->point = GATE_HALF_FORWARDED;
    else
        receive_reply(c);
}

static void reply(struct gate_connection *c, enum gate_point point)
{
    size_t from = c->point == GATE_HALF_REPLIED ? c->reply.len / 2 : 0;
    size_t to = point == GATE_HALF_REPLIED ? c->reply.len / 2 : c->reply.len;
    transmit(c->client, c->reply.data + from, to - from);
    c->point = point;
}

void gate_pass(struct gate_connection *c, enum gate_point point)
{
    assert_true(gate_has_command(c));
    if (c->point < GATE_EXECUTED && c->point < point)
        forward(c, point);
    if (c->point >= GATE_EXECUTED && c->point < point)
        reply(c, point);
    if (c->point < GATE_REPLIED)
        return;
    consume(&c->commands, command_length(c));
    c->point = GATE_SENT;
}

/* --- Connections --- */

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void send_at_once(int fd)
{
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void accept_client(struct gate *g)
{
    struct gate_connection *c = &g->connection;
    struct sockaddr_in address = loopback(redis.port);
    assert_int_equal(c->client, -1);
    c->client = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC);
    c->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(c->client >= 0 && c->server >= 0);
    assert_int_equal(connect(c->server, (struct sockaddr *)&address, sizeof address), 0);
    send_at_once(c->client);
    send_at_once(c->server);
}

void gate_cut(struct gate *g, bool late)
{
    if (late) {
        gate_drop_late(g);
        g->late = g->connection;
        g->connection.server = -1;
        close_end(&g->connection.client);
        g->late.client = -1;
    }
    connection_close(&g->connection);
}

void gate_refuse(struct gate *g)
{
    close_end(&g->listener);
}

void gate_drop_late(struct gate *g)
{
    connection_close(&g->late);
}

/* --- The process --- */

void gate_start(struct gate *g, const char *name, const char *const *args)
{
    int port = 0;
    struct redis gated = {.dir = redis.dir};
    *g = (struct gate){.running = true,
                       .listener = listen_anywhere(&port),
                       .connection = {.client = -1, .server = -1},
                       .late = {.client = -1, .server = -1}};
    (void)snprintf(gated.url, sizeof gated.url, "redis://127.0.0.1:%d", port);
    ctl_start_named(&g->process, &gated, name, args);
    g->ended = (int)syscall(SYS_pidfd_open, g->process.pid, 0);
    assert_true(g->ended >= 0);
}

static void reap(struct gate *g)
{
    assert_true(process_wait(&g->process, WAIT_DEADLINE_MS) >= 0);
    g->running = false;
}

bool gate_wait(struct gate *g)
{
    struct gate_connection *c = &g->connection;
    while (g->running && !gate_has_command(c)) {
        struct pollfd fds[] = {{.fd = c->client, .events = POLLIN},
                               {.fd = c->client < 0 ? g->listener : -1, .events = POLLIN},
                               {.fd = g->ended, .events = POLLIN}};
        int ready = poll(fds, 3, WAIT_DEADLINE_MS * 6);
        if (ready <= 0)
            fail_msg("channelctl neither ends nor sends a command");
        if (fds[0].revents != 0 && !receive(c->client, &c->commands))
            connection_close(c);
        else if (fds[1].revents != 0)
            accept_client(g);
        else if (fds[0].revents == 0 && fds[2].revents != 0)
            reap(g);
    }
    return g->running;
}

void gate_kill(struct gate *g)
{
    process_kill(&g->process);
    g->running = false;
}

void gate_end(struct gate *g)
{
    if (g->running)
        gate_kill(g);
    connection_close(&g->connection);
    gate_drop_late(g);
    close_end(&g->listener);
    close_end(&g->ended);
}
