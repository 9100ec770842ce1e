/*
 * The baseline of uncached reads: the cost of reading Redis for every request without processing the replies.
 *
 *   baseline_redis PORT REDIS_PORT KEY_DIGEST
 *
 * A server like baseline.c. For each `GET .../by-id/ID/` it sends the commands that channeld sends without
 * its cache, SISMEMBER of the key's digest and HMGET of all fields, over one connection: one write
 * for all requests of one event loop iteration. The response to a request is its fields one after the other,
 * without JSON or validation, and there is one write per client that has responses.
 */
#include "common.h"
#include "model/channel.h" /* the names of the fields */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 256, IN_SIZE = 16 * 1024, WAITING_MAX = 1 << 16, REPLIES_SIZE = 1 << 20, HEAD_MAX = 512 };

/* Bytes to be written. */
struct out {
    char *data;
    size_t len, sent, room;
};

struct conn {
    int fd; /* -1: closed, but some of its replies are still to come */
    unsigned waiting;
    int to_flush; /* has responses since the last flush */
    struct out out;
    size_t in_len;
    char in[IN_SIZE];
};

struct bytes {
    const char *data;
    size_t len;
};

static struct conn *const redis_event =
    (struct conn *)&redis_event; /* any address that is not a connection */

static struct server {
    int epoll, listener, redis;
    char sismember[160];
    size_t sismember_len;
    int redis_is_full;      /* its socket takes no more commands for now */
    struct out field_names; /* for HMGET */
    struct out commands;
    char *replies;
    size_t replies_len;
    struct conn *waiting[WAITING_MAX]; /* in the order of the replies: a ring */
    unsigned first, end;
    struct conn *to_flush[EVENTS];
    unsigned flush_count;
} s;

static void out_reserve(struct out *o, size_t more)
{
    if (o->len + more <= o->room)
        return;
    o->room = 2 * (o->len + more);
    o->data = realloc(o->data, o->room);
    if (o->data == NULL)
        die("out of memory");
}

static void out_append(struct out *o, const char *data, size_t len)
{
    out_reserve(o, len);
    memcpy(o->data + o->len, data, len);
    o->len += len;
}

/* Writes what the socket takes; -1 when the connection is lost, else whether something is left. */
static int out_write(struct out *o, int fd)
{
    ssize_t n = write(fd, o->data + o->sent, o->len - o->sent);
    if (n < 0 && errno != EAGAIN)
        return -1;
    o->sent += n < 0 ? 0 : (size_t)n;
    if (o->sent < o->len)
        return 1;
    o->sent = o->len = 0;
    return 0;
}

static void out_append_name(struct out *o, const char *name)
{
    char text[64];
    out_append(o, text, (size_t)snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(name), name));
}

static void release(struct conn *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
    if (c->waiting > 0)
        return;
    free(c->out.data);
    free(c);
}

static void send_commands(struct conn *c, const char *id, size_t id_len)
{
    static const char prefix[] = "channels:card:";
    struct out *o = &s.commands;
    out_append(o, s.sismember, s.sismember_len);
    char key[96];
    int len = snprintf(key, sizeof key, "*%d\r\n$5\r\nHMGET\r\n$%zu\r\n%s", 2 + CHANNEL_FIELD_COUNT,
                       sizeof prefix - 1 + id_len, prefix);
    out_append(o, key, (size_t)len);
    out_append(o, id, id_len);
    out_append(o, "\r\n", 2);
    out_append(o, s.field_names.data, s.field_names.len);
    s.waiting[s.end++ % WAITING_MAX] = c;
    c->waiting++;
    if (s.end - s.first >= WAITING_MAX)
        die("too many requests under way");
}

/* Sends the commands of all whole requests. Returns 0 when the connection is to be closed. */
static int read_requests(struct conn *c)
{
    ssize_t n = read(c->fd, c->in + c->in_len, IN_SIZE - c->in_len);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    c->in_len += (size_t)n;
    char *at = c->in;
    char *end = c->in + c->in_len;
    for (char *found; (found = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) != NULL; at = found + 4) {
        char *id = memmem(at, (size_t)(found - at), "/by-id/", 7);
        if (id == NULL)
            return 0;
        id += 7;
        send_commands(c, id, strspn(id, "-0123456789"));
    }
    c->in_len = (size_t)(end - at);
    memmove(c->in, at, c->in_len);
    return c->in_len < IN_SIZE;
}

static void schedule_flush(struct conn *c)
{
    if (c->to_flush || c->fd < 0)
        return;
    c->to_flush = 1;
    s.to_flush[s.flush_count++] = c;
}

static void flush_responses(void)
{
    for (unsigned i = 0; i < s.flush_count; i++) {
        struct conn *c = s.to_flush[i];
        c->to_flush = 0;
        /* A lost connection is noticed, and released, when it is read from. */
        if (out_write(&c->out, c->fd) > 0)
            net_rewatch(s.epoll, c->fd, EPOLLIN | EPOLLOUT, c);
    }
    s.flush_count = 0;
}

static void respond(struct conn *c, const struct bytes *field, size_t total)
{
    out_reserve(&c->out, HEAD_MAX + total);
    int len = snprintf(
        c->out.data + c->out.len, HEAD_MAX,
        "HTTP/1.1 200 OK\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\nX-Content-Type-Options: nosniff\r\n"
        "ETag: \"00000000000000000000000000000000\"\r\nCache-Control: private, no-cache\r\n\r\n",
        total);
    c->out.len += (size_t)len;
    for (int i = 0; i < CHANNEL_FIELD_COUNT; i++)
        out_append(&c->out, field[i].data, field[i].len);
    schedule_flush(c);
}

/* Checks the type of a RESP line and reads its number. NULL when the line is not complete. */
static const char *read_line(const char *at, const char *end, char type, long *number)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL)
        return NULL;
    if (*at != type)
        die("unexpected reply of redis: %.*s", (int)(line_end - at), at);
    *number = strtol(at + 1, NULL, 10);
    return line_end + 1;
}

/* Reads the replies to one request. Returns their end, or NULL when they are not complete. */
static const char *read_replies(const char *at, const char *end, struct bytes *field, size_t *total)
{
    long number;
    *total = 0;
    if ((at = read_line(at, end, ':', &number)) == NULL)
        return NULL;
    if (number != 1)
        die("redis does not have the key's digest");
    if ((at = read_line(at, end, '*', &number)) == NULL)
        return NULL;
    for (int i = 0; i < CHANNEL_FIELD_COUNT; i++) {
        if ((at = read_line(at, end, '$', &number)) == NULL)
            return NULL;
        field[i] = (struct bytes){at, number < 0 ? 0 : (size_t)number};
        if (number < 0)
            continue;
        if (end - at < number + 2)
            return NULL;
        *total += field[i].len;
        at += number + 2;
    }
    return at;
}

static void read_redis(void)
{
    ssize_t n = read(s.redis, s.replies + s.replies_len, REPLIES_SIZE - s.replies_len);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        die("redis closed the connection");
    s.replies_len += n < 0 ? 0 : (size_t)n;
    const char *at = s.replies;
    const char *end = at + s.replies_len;
    struct bytes field[CHANNEL_FIELD_COUNT];
    size_t total;
    for (const char *next; (next = read_replies(at, end, field, &total)) != NULL; at = next) {
        struct conn *c = s.waiting[s.first++ % WAITING_MAX];
        c->waiting--;
        if (c->fd >= 0)
            respond(c, field, total);
        else
            release(c);
        if (s.flush_count == EVENTS)
            flush_responses();
    }
    s.replies_len = (size_t)(end - at);
    memmove(s.replies, at, s.replies_len);
    flush_responses();
}

static void accept_all(void)
{
    int fd;
    while ((fd = net_accept(s.listener)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (c == NULL)
            die("out of memory");
        c->fd = fd;
        net_watch(s.epoll, fd, EPOLLIN, c);
    }
}

static void serve(struct conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) != 0 && out_write(&c->out, c->fd) == 0)
        net_rewatch(s.epoll, c->fd, EPOLLIN, c);
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && !read_requests(c))
        release(c);
}

/* One write for the commands of the whole iteration. */
static void flush_commands(void)
{
    if (s.commands.len == 0)
        return;
    int left = out_write(&s.commands, s.redis);
    if (left < 0)
        die("redis closed the connection");
    if (left != s.redis_is_full)
        net_rewatch(s.epoll, s.redis, left ? EPOLLIN | EPOLLOUT : EPOLLIN, redis_event);
    s.redis_is_full = left;
}

int main(int argc, char **argv)
{
    if (argc != 4 || strlen(argv[3]) != 64)
        die("usage: baseline_redis PORT REDIS_PORT KEY_DIGEST");
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    s.listener = net_listen((int)parse_number(argv[1], 1, 65535));
    s.redis = net_connect((int)parse_number(argv[2], 1, 65535));
    s.replies = malloc(REPLIES_SIZE);
#define FIELD_NAME(name, type, in_summary) out_append_name(&s.field_names, #name);
    CHANNEL_FIELDS(FIELD_NAME)
    s.sismember_len =
        (size_t)snprintf(s.sismember, sizeof s.sismember,
                         "*3\r\n$9\r\nSISMEMBER\r\n$17\r\nchannels:api_keys\r\n$64\r\n%s\r\n", argv[3]);
    net_watch(s.epoll, s.listener, EPOLLIN, NULL);
    net_watch(s.epoll, s.redis, EPOLLIN, redis_event);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(s.epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL)
                accept_all();
            else if (events[i].data.ptr == redis_event)
                read_redis();
            else
                serve(events[i].data.ptr, events[i].events);
        }
        flush_commands();
    }
}
