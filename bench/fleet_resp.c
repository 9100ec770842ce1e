/* See fleet_resp.h. */
#include "fleet_resp.h"

#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVE_SIZE = 256 * 1024, TIMEOUT_MS = 60000 };

/* --- Commands ------------------------------------------------------------------------------------------- */

static void reserve(struct text *t, size_t more)
{
    if (t->len + more <= t->room)
        return;
    t->room = 2 * (t->len + more);
    t->data = realloc(t->data, t->room);
    if (t->data == NULL)
        die("out of memory");
}

void text_append(struct text *t, const void *data, size_t len)
{
    if (len == 0)
        return;
    reserve(t, len);
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}

static void add_header(struct text *t, char type, size_t number)
{
    char header[32];
    int len = snprintf(header, sizeof header, "%c%zu\r\n", type, number);
    text_append(t, header, (size_t)len);
}

void command_begin(struct text *t, size_t words)
{
    add_header(t, '*', words);
}

void command_add(struct text *t, const char *word, size_t len)
{
    add_header(t, '$', len);
    text_append(t, word, len);
    text_append(t, "\r\n", 2);
}

void command_add_text(struct text *t, const char *word)
{
    command_add(t, word, strlen(word));
}

void command_add_number(struct text *t, long long number)
{
    char word[32];
    int len = snprintf(word, sizeof word, "%lld", number);
    command_add(t, word, (size_t)len);
}

void command_compose(struct text *t, const char *words)
{
    size_t count = 1;
    for (const char *at = words; *at != '\0'; at++)
        count += *at == ' ';
    command_begin(t, count);
    for (; count > 0; count--) {
        size_t len = strcspn(words, " ");
        command_add(t, words, len);
        words += len + 1;
    }
}

/* --- Values --------------------------------------------------------------------------------------------- */

/* Reads a line with a type and a number. Returns its end, or NULL when it is not complete. */
static const char *read_header(const char *at, const char *end, long *number)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL)
        return NULL;
    *number = strtol(at + 1, NULL, 10);
    return line_end + 1;
}

/* Returns the end of the value, or NULL when it is not complete. */
static const char *skip_value(const char *at, const char *end)
{
    long number;
    const char *next = read_header(at, end, &number);
    if (next == NULL)
        return NULL;
    switch (*at) {
    case '$':
    case '=':
        if (number < 0)
            return next;
        return end - next < number + 2 ? NULL : next + number + 2;
    case '%':
        number *= 2;
        break;
    case '*':
    case '~':
    case '>':
        break;
    case '-':
        die("redis: %.*s", (int)(next - at - 2), at + 1);
    case '+':
    case ':':
    case '_':
    case '#':
    case ',':
        return next;
    default:
        die("redis: a value of the type %c", *at);
    }
    for (; number > 0 && next != NULL; number--)
        next = skip_value(next, end);
    return next;
}

/* A complete push: its kind, then an array of keys or null. */
static void take_push(struct resp *r, const char *at, const char *end)
{
    static const char kind[] = "$10\r\ninvalidate\r\n";
    long count = 0;
    at = read_header(at, end, &count);
    if ((size_t)(end - at) < sizeof kind || memcmp(at, kind, sizeof kind - 1) != 0)
        die("redis: not a push of invalidation");
    at += sizeof kind - 1;
    r->pushes++;
    if (r->on_invalid == NULL)
        return;
    if (*at == '_') {
        r->on_invalid(r->arg, NULL, 0);
        return;
    }
    at = read_header(at, end, &count);
    for (; count > 0; count--) {
        long len = 0;
        at = read_header(at, end, &len);
        r->on_invalid(r->arg, at, (size_t)len);
        at += len + 2;
    }
}

static void take_values(struct resp *r)
{
    const char *at = r->in.data;
    const char *end = at + r->in.len;
    for (const char *next; at < end && (next = skip_value(at, end)) != NULL; at = next) {
        if (*at == '>')
            take_push(r, at, next);
        else
            r->replies++;
    }
    r->in.len = (size_t)(end - at);
    memmove(r->in.data, at, r->in.len);
}

/* --- Connections ---------------------------------------------------------------------------------------- */

void resp_open(struct resp *r, int port)
{
    *r = (struct resp){.fd = net_connect(port)};
}

void resp_close(struct resp *r)
{
    (void)close(r->fd);
    text_free(&r->in);
    r->fd = -1;
}

void resp_stamp(struct resp *r)
{
    int on = 1;
    if (setsockopt(r->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
        die("SO_TIMESTAMPNS: %s", strerror(errno));
}

static void wait_for(struct resp *r, short events)
{
    struct pollfd p = {.fd = r->fd, .events = events};
    if (poll(&p, 1, TIMEOUT_MS) != 1)
        die("redis does not reply within %d seconds", TIMEOUT_MS / 1000);
}

/* What is received meanwhile is read, as Redis may do nothing else until it is. */
void resp_send(struct resp *r, const struct text *commands)
{
    for (size_t sent = 0; sent < commands->len;) {
        ssize_t n = send(r->fd, commands->data + sent, commands->len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            die("send: %s", strerror(errno));
        if (n > 0)
            sent += (size_t)n;
        if (sent == commands->len)
            return;
        wait_for(r, POLLIN | POLLOUT);
        (void)resp_receive(r);
    }
}

static void take_stamp(struct resp *r, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        struct timespec t;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        r->stamp_ns = (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
    }
}

bool resp_receive(struct resp *r)
{
    static char buffer[RECEIVE_SIZE];
    char control[256];
    struct iovec piece = {buffer, sizeof buffer};
    struct msghdr m = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(r->fd, &m, 0);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        die("redis closed a connection");
    take_stamp(r, &m);
    r->received += (size_t)n;
    text_append(&r->in, buffer, (size_t)n);
    take_values(r);
    return true;
}

/* The kernel copies nothing when TCP data is truncated. */
void resp_discard(struct resp *r)
{
    ssize_t n = recv(r->fd, NULL, RECEIVE_SIZE, MSG_TRUNC);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        die("redis closed a connection");
    if (n > 0)
        r->received += (size_t)n;
}

void resp_call(struct resp *r, const struct text *commands, uint64_t replies)
{
    replies += r->replies;
    resp_send(r, commands);
    while (r->replies < replies) {
        wait_for(r, POLLIN);
        (void)resp_receive(r);
    }
}

char *resp_ask(struct resp *r, const char *words)
{
    struct text t = {0};
    long len = 0;
    command_compose(&t, words);
    resp_send(r, &t);
    t.len = 0;
    for (const char *begin; t.len == 0 || (begin = read_header(t.data, t.data + t.len, &len)) == NULL ||
                            t.data + t.len - begin < len + 2;) {
        reserve(&t, RECEIVE_SIZE);
        wait_for(r, POLLIN);
        ssize_t n = recv(r->fd, t.data + t.len, RECEIVE_SIZE, 0);
        if (n <= 0)
            die("redis closed a connection");
        t.len += (size_t)n;
    }
    if (t.data[0] == '-')
        die("redis: %.*s", (int)t.len, t.data);
    text_append(&t, "", 1);
    return t.data;
}
