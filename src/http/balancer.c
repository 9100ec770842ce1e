/*
 * Counts of connections, and a pipe for each server as its inbox; see balancer.h. A pipe is a queue and a
 * wake-up in one. The pipes outlive the servers, so that a server can write to the inbox of another one that
 * is being closed.
 */
#include "http/balancer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static_assert(sizeof(struct http_accepted) <= PIPE_BUF, "a write is atomic");

struct seat {
    atomic_int count;
    int inbox[2]; /* the ends of a pipe: to read from, to write to */
};

struct http_balancer {
    int servers, max;
    atomic_int reserved;
    atomic_int unfinished; /* servers */
    atomic_bool ended;     /* a connection has ended since the last one was placed */
    struct seat seat[];
};

int http_balancer_new(int servers, int max, struct http_balancer **out)
{
    struct http_balancer *b = calloc(1, sizeof *b + (size_t)servers * sizeof b->seat[0]);
    if (b == NULL)
        return -ENOMEM;
    b->max = max;
    atomic_init(&b->unfinished, servers);
    for (; b->servers < servers; b->servers++)
        if (pipe2(b->seat[b->servers].inbox, O_NONBLOCK | O_CLOEXEC) != 0) {
            int err = -errno;
            http_balancer_free(b);
            return err;
        }
    *out = b;
    return 0;
}

void http_balancer_free(struct http_balancer *b)
{
    struct http_accepted left;
    for (int i = 0; b != NULL && i < b->servers; i++) {
        while (http_balancer_receive(b, i, &left, 1) > 0)
            close(left.fd);
        close(b->seat[i].inbox[0]);
        close(b->seat[i].inbox[1]);
    }
    free(b);
}

int http_balancer_count(const struct http_balancer *b, int server)
{
    return atomic_load(&b->seat[server].count);
}

int http_balancer_total(const struct http_balancer *b)
{
    return atomic_load(&b->reserved);
}

void http_balancer_finish(struct http_balancer *b)
{
    atomic_fetch_sub(&b->unfinished, 1);
}

bool http_balancer_is_drained(const struct http_balancer *b)
{
    return atomic_load(&b->unfinished) == 0 && http_balancer_total(b) == 0;
}

static bool http_balancer_reserve(struct http_balancer *b)
{
    int reserved = atomic_load(&b->reserved);
    while (reserved < b->max)
        if (atomic_compare_exchange_weak(&b->reserved, &reserved, reserved + 1))
            return true;
    return false;
}

static int http_balancer_fewest(const struct http_balancer *b, int *count)
{
    int server = 0;
    *count = http_balancer_count(b, 0);
    for (int i = 1; i < b->servers; i++) {
        int n = http_balancer_count(b, i);
        if (n < *count) {
            *count = n;
            server = i;
        }
    }
    return server;
}

/*
 * Chooses a server and counts the connection for it. If its count has changed since it was read, another
 * choice is made: of two connections that are placed at the same time, the second one sees the first.
 *
 * The mean does not include the new connection, which is reserved already, unless another one has just ended:
 * a client with a connection for each request has probably replaced it, and would otherwise be handed over
 * nearly always.
 */
static int http_balancer_choose(struct http_balancer *b, int self)
{
    int own = atomic_exchange(&b->ended, false) ? 0 : 1;
    int server = 0;
    int count = 0;
    do {
        server = self;
        count = http_balancer_count(b, self);
        if (count * b->servers > http_balancer_total(b) - own)
            server = http_balancer_fewest(b, &count);
    } while (!atomic_compare_exchange_weak(&b->seat[server].count, &count, count + 1));
    return server;
}

/* Returns false if the inbox is full. */
static bool http_balancer_send_to(struct http_balancer *b, int server, const struct http_accepted *accepted)
{
    return write(b->seat[server].inbox[1], accepted, sizeof *accepted) == (ssize_t)sizeof *accepted;
}

enum http_placement http_balancer_place(struct http_balancer *b, int self,
                                        const struct http_accepted *accepted)
{
    const struct http_accepted placed = {.fd = accepted->fd, .peer = accepted->peer};
    if (!http_balancer_reserve(b))
        return HTTP_AT_LIMIT;
    int server = http_balancer_choose(b, self);
    if (server == self)
        return HTTP_PLACED_HERE;
    if (http_balancer_send_to(b, server, &placed))
        return HTTP_PLACED_ELSEWHERE;
    atomic_fetch_sub(&b->seat[server].count, 1);
    atomic_fetch_add(&b->seat[self].count, 1);
    return HTTP_PLACED_HERE;
}

void http_balancer_release(struct http_balancer *b, int server)
{
    atomic_store(&b->ended, true);
    int before = atomic_fetch_sub(&b->seat[server].count, 1);
    assert(before > 0);
    before = atomic_fetch_sub(&b->reserved, 1);
    assert(before > 0);
}

bool http_balancer_pass(struct http_balancer *b, int self, const struct http_accepted *accepted)
{
    struct http_accepted passed = *accepted;
    passed.passes++;
    return passed.passes < (unsigned)b->servers && http_balancer_send_to(b, (self + 1) % b->servers, &passed);
}

int http_balancer_inbox(const struct http_balancer *b, int server)
{
    return b->seat[server].inbox[0];
}

int http_balancer_receive(struct http_balancer *b, int server, struct http_accepted *out, int most)
{
    ssize_t len = read(b->seat[server].inbox[0], out, (size_t)most * sizeof *out);
    assert(len <= 0 || (size_t)len % sizeof *out == 0);
    return len > 0 ? (int)((size_t)len / sizeof *out) : 0;
}
