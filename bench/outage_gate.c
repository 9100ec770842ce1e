/* A Redis of small capacity; see outage_gate.h. */
#include "outage_gate.h"

#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, READ_SIZE = 1 << 18 };

/* What is not used may be made up for later: the machine may not have let the program run meanwhile. */
static const double BURST_SECONDS = 0.05;

/* Bytes that wait; those before `done` are gone. */
struct bytes {
    char *data;
    size_t done, len, room;
};

struct end {
    struct source source;
    struct gate_connection *connection;
    int fd;
};

struct gate_connection {
    struct gate *gate;
    struct end client, redis;
    struct bytes commands; /* of the client, that wait for their turn */
    size_t counted;        /* of their bytes: whole commands */
    uint64_t waiting;      /* the number of these, without the free ones */
    struct bytes requests; /* on their way to Redis */
    struct bytes replies;  /* on their way to the client */
    bool ended;
};

struct gate {
    struct source source; /* the listener's */
    int epoll, port, redis_port, listener;
    double per_second, budget;
    uint64_t budget_ns; /* when it was last added to */
    struct gate_connection *connections[CONNECTIONS_MAX];
    int count, next;
    uint64_t passed, waiting;
};

static void append(struct bytes *b, const char *data, size_t len)
{
    if (b->done > 0 && b->len + len > b->room) {
        memmove(b->data, b->data + b->done, b->len - b->done);
        b->len -= b->done;
        b->done = 0;
    }
    if (b->len + len > b->room) {
        b->room = 2 * (b->len + len);
        b->data = realloc(b->data, b->room);
        if (b->data == NULL)
            die("out of memory");
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

/* Returns false when the other side has gone. */
static bool flush(struct bytes *b, int fd)
{
    while (b->done < b->len) {
        ssize_t sent = send(fd, b->data + b->done, b->len - b->done, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN;
        b->done += (size_t)sent;
    }
    b->done = b->len = 0;
    return true;
}

/* --- commands --- */

/* The number of a line such as *3 or $5, and where the next line begins; NULL when it is not whole. */
static const char *parse_line(const char *at, const char *end, char type, size_t *number)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL)
        return NULL;
    if (*at != type)
        die("not a command: %.*s", (int)(line_end - at), at);
    *number = strtoul(at + 1, NULL, 10);
    return line_end + 1;
}

static bool is_free(const char *name, size_t len)
{
    static const char *const names[] = {"PING", "HELLO", "CLIENT", "ROLE", "INFO", "SELECT", "READONLY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (len == strlen(names[i]) && strncasecmp(name, names[i], len) == 0)
            return true;
    }
    return false;
}

/* The length of the first command; 0 when it is not whole. */
static size_t first_command(const char *from, const char *end, bool *free_of_cost)
{
    size_t words, len;
    const char *at = parse_line(from, end, '*', &words);
    for (size_t i = 0; at != NULL && i < words; i++) {
        at = parse_line(at, end, '$', &len);
        if (at == NULL || (size_t)(end - at) < len + 2)
            return 0;
        if (i == 0)
            *free_of_cost = is_free(at, len);
        at += len + 2;
    }
    return at == NULL ? 0 : (size_t)(at - from);
}

static void count_commands(struct gate_connection *c)
{
    struct bytes *b = &c->commands;
    size_t len;
    bool free_of_cost = false;
    while ((len = first_command(b->data + b->done + c->counted, b->data + b->len, &free_of_cost)) > 0) {
        c->counted += len;
        c->waiting += !free_of_cost;
        c->gate->waiting += !free_of_cost;
    }
}

/* Passes commands up to one that is not free. Returns whether there was one. */
static bool pass_one(struct gate_connection *c)
{
    struct bytes *b = &c->commands;
    while (c->counted > 0 && !c->ended) {
        bool free_of_cost = false;
        size_t len = first_command(b->data + b->done, b->data + b->len, &free_of_cost);
        append(&c->requests, b->data + b->done, len);
        b->done += len;
        c->counted -= len;
        if (free_of_cost)
            continue;
        c->waiting--;
        c->gate->waiting--;
        c->gate->passed++;
        return true;
    }
    return false;
}

/* --- connections --- */

/* It is freed by gate_run(): more events of it may be on their way. */
static void end_connection(struct gate_connection *c)
{
    struct linger reset = {.l_onoff = 1};
    if (c->ended)
        return;
    c->ended = true;
    c->gate->waiting -= c->waiting;
    (void)setsockopt(c->client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)close(c->client.fd);
    (void)close(c->redis.fd);
}

static void free_ended(struct gate *g)
{
    int kept = 0;
    for (int i = 0; i < g->count; i++) {
        struct gate_connection *c = g->connections[i];
        if (!c->ended) {
            g->connections[kept++] = c;
            continue;
        }
        free(c->commands.data);
        free(c->requests.data);
        free(c->replies.data);
        free(c);
    }
    g->count = kept;
}

static void on_end_ready(struct source *source, uint32_t events)
{
    static char buffer[READ_SIZE];
    struct end *e = (struct end *)source;
    struct gate_connection *c = e->connection;
    (void)events;
    if (c->ended)
        return;
    ssize_t len = recv(e->fd, buffer, sizeof buffer, 0);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0) {
        end_connection(c);
    } else if (e == &c->redis) {
        append(&c->replies, buffer, (size_t)len);
    } else {
        append(&c->commands, buffer, (size_t)len);
        count_commands(c);
    }
}

static void init_end(struct gate_connection *c, struct end *e, int fd)
{
    *e = (struct end){.source = {on_end_ready}, .connection = c, .fd = fd};
    net_watch(c->gate->epoll, fd, EPOLLIN, e);
}

static void on_listener_ready(struct source *source, uint32_t events)
{
    struct gate *g = (struct gate *)source;
    (void)events;
    int fd = g->listener >= 0 ? net_accept(g->listener) : -1;
    if (fd < 0)
        return;
    struct gate_connection *c = calloc(1, sizeof *c);
    if (c == NULL || g->count == CONNECTIONS_MAX)
        die("too many connections to Redis");
    c->gate = g;
    init_end(c, &c->client, fd);
    init_end(c, &c->redis, net_connect(g->redis_port));
    g->connections[g->count++] = c;
}

/* --- the gate --- */

struct gate *gate_new(int epoll, int port, int redis_port)
{
    struct gate *g = calloc(1, sizeof *g);
    if (g == NULL)
        die("out of memory");
    g->source.on_ready = on_listener_ready;
    g->epoll = epoll;
    g->port = port;
    g->redis_port = redis_port;
    gate_open(g);
    return g;
}

void gate_limit(struct gate *g, double per_second)
{
    g->per_second = per_second;
    g->budget = 0;
    g->budget_ns = now_ns();
}

void gate_close(struct gate *g)
{
    (void)close(g->listener);
    g->listener = -1;
    for (int i = 0; i < g->count; i++)
        end_connection(g->connections[i]);
}

void gate_open(struct gate *g)
{
    g->listener = net_listen(g->port);
    net_watch(g->epoll, g->listener, EPOLLIN, g);
}

static void add_to_budget(struct gate *g)
{
    uint64_t now = now_ns();
    double most = g->per_second * BURST_SECONDS;
    g->budget += g->per_second * (double)(now - g->budget_ns) / 1e9;
    g->budget = g->budget > most ? most : g->budget;
    g->budget_ns = now;
}

static void pass_due(struct gate *g)
{
    for (int idle = 0; idle < g->count && (g->per_second == 0 || g->budget >= 1);) {
        g->next = (g->next + 1) % g->count;
        bool passed = pass_one(g->connections[g->next]);
        g->budget -= passed;
        idle = passed ? 0 : idle + 1;
    }
}

void gate_run(struct gate *g)
{
    add_to_budget(g);
    pass_due(g);
    for (int i = 0; i < g->count; i++) {
        struct gate_connection *c = g->connections[i];
        if (!c->ended && !(flush(&c->requests, c->redis.fd) && flush(&c->replies, c->client.fd)))
            end_connection(c);
    }
    free_ended(g);
}

uint64_t gate_passed(const struct gate *g)
{
    return g->passed;
}

uint64_t gate_waiting(const struct gate *g)
{
    return g->waiting;
}
