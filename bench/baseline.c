/*
 * The baseline: the cost of HTTP responses on this machine without parsing, routing or authentication.
 *
 *   baseline PORT RESPONSES
 *
 * One thread and a level-triggered epoll; one read and one writev per readiness event. Every request, that is
 * everything up to an empty line, is answered from the file RESPONSES: one or more whole responses as a
 * server sent them (`curl -i`), one after the other, each with a Content-Length. With many of them each
 * request gets a pseudo-random one: the same work over more memory than the processor's caches hold.
 */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS = 256, READ_SIZE = 64 * 1024, TAIL = 3, RESPONSES_PER_WRITE = 64 };

struct response {
    struct iovec head;
    struct iovec body;
};

static struct response *responses;
static size_t response_count;

struct conn {
    int fd;
    unsigned pending;  /* requests read and not yet answered */
    size_t sent;       /* bytes of the first pending response that are written already */
    uint64_t random;   /* selects the response to the first pending request */
    unsigned tail_len; /* the end of what was read, in case an empty line is split between reads */
    char tail[TAIL];
};

static size_t content_length(const char *head)
{
    const char *field = strcasestr(head, "\r\ncontent-length:");
    if (field == NULL)
        die("a response without Content-Length");
    return (size_t)strtoul(field + strlen("\r\ncontent-length:"), NULL, 10);
}

/* Splits the file into heads and bodies, in place. */
static void load_responses(const char *path)
{
    size_t len;
    char *at = read_file(path, &len);
    char *end = at + len;
    size_t room = 0;
    while (at < end) {
        char *empty_line = strstr(at, "\r\n\r\n");
        if (empty_line == NULL)
            die("%s: not an HTTP response", path);
        char *body = empty_line + 4;
        size_t body_len = content_length(at);
        if (body_len > (size_t)(end - body))
            die("%s: the last response is cut off", path);
        if (response_count == room) {
            room = room == 0 ? 1 : 2 * room;
            responses = realloc(responses, room * sizeof *responses);
            if (responses == NULL)
                die("out of memory");
        }
        responses[response_count++] =
            (struct response){.head = {at, (size_t)(body - at)}, .body = {body, body_len}};
        at = body + body_len;
    }
    if (response_count == 0)
        die("%s: no responses", path);
}

static void close_conn(struct conn *c)
{
    (void)close(c->fd);
    free(c);
}

/* Counts the empty lines in what was just read; the buffer has TAIL bytes of room before `data`. */
static unsigned count_requests(struct conn *c, char *data, size_t len)
{
    char *at = data - c->tail_len;
    char *end = data + len;
    memcpy(at, c->tail, c->tail_len);
    unsigned count = 0;
    for (char *found; (found = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) != NULL; at = found + 4)
        count++;
    size_t rest = (size_t)(end - at);
    c->tail_len = (unsigned)(rest < TAIL ? rest : TAIL);
    memcpy(c->tail, end - c->tail_len, c->tail_len);
    return count;
}

/* Lists the buffers of the next pending responses, without counting them as sent. */
static unsigned gather(const struct conn *c, struct iovec *buffers)
{
    uint64_t random = c->random;
    unsigned n = 0;
    for (unsigned i = 0; i < c->pending && i < RESPONSES_PER_WRITE; i++) {
        const struct response *r = &responses[prng_below(&random, response_count)];
        buffers[n++] = r->head;
        buffers[n++] = r->body;
    }
    size_t skip = c->sent;
    for (struct iovec *p = buffers; skip > 0; p++) {
        size_t used = skip < p->iov_len ? skip : p->iov_len;
        p->iov_base = (char *)p->iov_base + used;
        p->iov_len -= used;
        skip -= used;
    }
    return n;
}

static void count_written(struct conn *c, size_t written)
{
    c->sent += written;
    while (c->pending > 0) {
        uint64_t random = c->random;
        const struct response *r = &responses[prng_below(&random, response_count)];
        size_t whole = r->head.iov_len + r->body.iov_len;
        if (c->sent < whole)
            return;
        c->sent -= whole;
        c->random = random;
        c->pending--;
    }
}

/* False when the connection is lost. Nothing is read until the client has taken all responses. */
static int send_responses(int epoll, struct conn *c, int was_waiting)
{
    while (c->pending > 0) {
        struct iovec buffers[2 * RESPONSES_PER_WRITE];
        unsigned count = gather(c, buffers);
        ssize_t written = writev(c->fd, buffers, (int)count);
        if (written < 0 && errno != EAGAIN)
            return 0;
        unsigned before = c->pending;
        count_written(c, written < 0 ? 0 : (size_t)written);
        if (c->pending > 0 && before - c->pending < RESPONSES_PER_WRITE)
            break;
    }
    if (was_waiting != (c->pending > 0))
        net_rewatch(epoll, c->fd, c->pending > 0 ? EPOLLOUT : EPOLLIN, c);
    return 1;
}

static int serve(int epoll, struct conn *c)
{
    static char buffer[TAIL + READ_SIZE];
    if (c->pending > 0)
        return send_responses(epoll, c, 1);
    ssize_t len = read(c->fd, buffer + TAIL, READ_SIZE);
    if (len <= 0)
        return len < 0 && errno == EAGAIN;
    c->pending = count_requests(c, buffer + TAIL, (size_t)len);
    return send_responses(epoll, c, 0);
}

static void accept_all(int epoll, int listener)
{
    static uint64_t seed = 1;
    int fd;
    while ((fd = net_accept(listener)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (c == NULL)
            die("out of memory");
        c->fd = fd;
        c->random = prng_next(&seed) | 1U;
        net_watch(epoll, fd, EPOLLIN, c);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: baseline PORT RESPONSES");
    load_responses(argv[2]);
    int listener = net_listen((int)parse_number(argv[1], 1, 65535));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    net_watch(epoll, listener, EPOLLIN, NULL);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;
            if (c == NULL)
                accept_all(epoll, listener);
            else if (!serve(epoll, c))
                close_conn(c);
        }
    }
}
