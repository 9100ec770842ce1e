/*
 * A cheap load generator.
 *
 *   loadgen --port P --targets FILE [--key KEY] [--connections C] [--depth D]
 *           [--seconds S | --requests N | --sweep | --hold] [--header 'Name: value'] [--close] [--distinct]
 *
 * One thread and epoll. Each of C connections sends D requests in one write, waits for all D responses, and
 * sends again. The requests are composed beforehand, one for each line of FILE, and chosen at random (with
 * --requests and --seconds) or each once, in order (--sweep). Only status and length of a response are read.
 *
 * Prints one line of NAME VALUE pairs: requests errors seconds rate p50_us p99_us cpu_us body_bytes. Latency
 * is from the write of a batch to the end of the response; cpu_us is this program's own processor time per
 * request.
 *
 * --distinct: each request has an X-Request-Id of its own, so no header section is that of the request
 * before.
 *
 * --close: a connection for each request. C of them are open at a time; latency includes the handshake.
 *
 * --hold opens idle connections instead: one after the other, each with one request, as a client does that
 * keeps its connection for later. Then it prints `holding C` and waits until its standard input ends.
 */
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS = 512, READ_SIZE = 1 << 20, DEPTH_MAX = 512, HEAD_MAX = 4096, LATENCY_MAX_US = 2000000 };

struct conn {
    int fd;
    unsigned pending; /* requests sent and not yet answered */
    uint64_t sent_ns;
    uint64_t body_left; /* of the body that is being skipped */
    size_t head_len;    /* of a head that came in pieces */
    char head[HEAD_MAX];
};

static struct loadgen {
    int port;
    long connections, depth, seconds;
    uint64_t limit; /* of requests */
    int sweep, hold, close, distinct;
    const char *targets, *key, *header;
    int epoll;

    struct iovec *requests;
    size_t request_count;
    uint64_t started; /* requests sent or being sent */
    uint64_t random;
    uint64_t completed; /* responses read to their end */
    uint64_t errors;    /* of these, with a status other than 200 */
    uint64_t body_bytes;
    uint32_t *latency; /* how many responses took this many microseconds */
} g = {.connections = 1, .depth = 1, .limit = UINT64_MAX, .random = 88172645463325252U};

/* --- Requests ------------------------------------------------------------------------------------------- */

/* One request for each line of the file. */
static void make_requests(void)
{
    size_t len;
    char *lines = read_file(g.targets, &len);
    size_t room = 0;
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *text;
        char id[64] = "";
        if (g.distinct)
            (void)snprintf(id, sizeof id, "X-Request-Id: %zu\r\n", 10000 + g.request_count);
        int text_len =
            asprintf(&text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s%s%s%s%s%s%s\r\n", line, g.port,
                     g.close ? "Connection: close\r\n" : "", g.key != NULL ? "X-Api-Key: " : "",
                     g.key != NULL ? g.key : "", g.key != NULL ? "\r\n" : "",
                     g.header != NULL ? g.header : "", g.header != NULL ? "\r\n" : "", id);
        if (g.request_count == room) {
            room = room == 0 ? 1024 : 2 * room;
            g.requests = realloc(g.requests, room * sizeof *g.requests);
        }
        if (text_len < 0 || g.requests == NULL)
            die("out of memory");
        g.requests[g.request_count++] = (struct iovec){text, (size_t)text_len};
    }
    free(lines);
    if (g.request_count == 0)
        die("%s: no targets", g.targets);
}

static struct iovec next_request(void)
{
    uint64_t n = g.sweep ? g.started : prng_below(&g.random, g.request_count);
    g.started++;
    return g.requests[n];
}

static void send_batch(struct conn *c)
{
    struct iovec batch[DEPTH_MAX];
    size_t bytes = 0;
    unsigned count = 0;
    while (count < (unsigned)g.depth && g.started < g.limit) {
        batch[count] = next_request();
        bytes += batch[count++].iov_len;
    }
    if (count == 0)
        return;
    ssize_t written = writev(c->fd, batch, (int)count);
    if (written < 0)
        die("write: %s", strerror(errno));
    if ((size_t)written < bytes)
        die("the socket does not take a whole batch; use a smaller --depth");
    c->pending = count;
}

/* --- Responses: only the status and Content-Length are read, bodies are skipped ------------------------- */

/* The value of Content-Length; the head ends with an empty line. */
static uint64_t content_length(const char *head, const char *end)
{
    static const char name[] = "\ncontent-length:";
    const char *at = head;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if ((at[1] | 0x20) == 'c' && strncasecmp(at, name, sizeof name - 1) == 0)
            return strtoull(at + sizeof name - 1, NULL, 10);
        at++;
    }
    die("a response without Content-Length: %.*s", (int)(end - head), head);
}

/* Returns how many responses ended with this head: one when it has no body. */
static unsigned take_head(struct conn *c, const char *head, size_t len)
{
    if (len < sizeof "HTTP/1.1 200\r\n\r\n" - 1 || memcmp(head, "HTTP/1.", 7) != 0)
        die("not HTTP: %.*s", (int)len, head);
    if (memcmp(head + 9, "200", 3) != 0)
        g.errors++;
    c->body_left = content_length(head, head + len);
    g.body_bytes += c->body_left;
    return c->body_left == 0;
}

/* Takes the head from the pieces kept so far and the new bytes; returns how many of these belong to it. */
static size_t take_split_head(struct conn *c, const char *data, size_t len, unsigned *ended)
{
    size_t taken = len < HEAD_MAX - c->head_len ? len : HEAD_MAX - c->head_len;
    memcpy(c->head + c->head_len, data, taken);
    size_t before = c->head_len;
    c->head_len += taken;
    const char *end = memmem(c->head, c->head_len, "\r\n\r\n", 4);
    if (end == NULL) {
        if (c->head_len == HEAD_MAX)
            die("a head of more than %d bytes", HEAD_MAX);
        return taken;
    }
    size_t head_len = (size_t)(end + 4 - c->head);
    *ended += take_head(c, c->head, head_len);
    c->head_len = 0;
    return head_len - before;
}

/* Returns how many responses ended in these bytes. */
static unsigned take_bytes(struct conn *c, const char *data, size_t len)
{
    const char *end = data + len;
    unsigned ended = 0;
    while (data < end) {
        size_t rest = (size_t)(end - data);
        if (c->body_left > 0) {
            size_t skipped = rest < c->body_left ? rest : (size_t)c->body_left;
            c->body_left -= skipped;
            data += skipped;
            ended += c->body_left == 0;
            continue;
        }
        const char *head_end = c->head_len > 0 ? NULL : memmem(data, rest, "\r\n\r\n", 4);
        if (head_end != NULL) {
            ended += take_head(c, data, (size_t)(head_end + 4 - data));
            data = head_end + 4;
        } else {
            data += take_split_head(c, data, rest, &ended);
        }
    }
    g.completed += ended;
    return ended;
}

static void connect_to_server(struct conn *c)
{
    c->fd = net_connect(g.port);
    net_watch(g.epoll, c->fd, EPOLLIN, c);
}

static void reconnect(struct conn *c)
{
    (void)close(c->fd);
    connect_to_server(c);
}

static void receive(struct conn *c)
{
    static char buffer[READ_SIZE];
    ssize_t len = read(c->fd, buffer, sizeof buffer);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0)
        die("the server closed a connection after %llu responses", (unsigned long long)g.completed);
    unsigned ended = take_bytes(c, buffer, (size_t)len);
    if (ended == 0)
        return;
    if (ended > c->pending)
        die("more responses than requests");
    uint64_t now = now_ns();
    uint64_t us = (now - c->sent_ns) / 1000;
    g.latency[us < LATENCY_MAX_US ? us : LATENCY_MAX_US] += ended;
    c->pending -= ended;
    if (c->pending == 0) {
        c->sent_ns = now;
        if (g.close)
            reconnect(c);
        send_batch(c);
    }
}

/* --- Runs ----------------------------------------------------------------------------------------------- */

static uint64_t percentile(double part)
{
    uint64_t rank = (uint64_t)(part * (double)g.completed);
    uint64_t seen = 0;
    for (uint64_t us = 0; us <= LATENCY_MAX_US; us++) {
        seen += g.latency[us];
        if (seen > rank)
            return us;
    }
    return LATENCY_MAX_US;
}

static void report(uint64_t took_ns, uint64_t used_ns)
{
    double seconds = (double)took_ns / 1e9;
    double completed = (double)g.completed;
    printf("requests %llu errors %llu seconds %.3f rate %.0f p50_us %llu p99_us %llu cpu_us %.3f body_bytes "
           "%llu\n",
           (unsigned long long)g.completed, (unsigned long long)g.errors, seconds, completed / seconds,
           (unsigned long long)percentile(0.50), (unsigned long long)percentile(0.99),
           (double)used_ns / 1e3 / completed, (unsigned long long)g.body_bytes);
}

static void run(struct conn *conns)
{
    g.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (long i = 0; i < g.connections; i++)
        connect_to_server(&conns[i]);
    uint64_t began = now_ns();
    uint64_t used = cpu_ns();
    uint64_t until = g.seconds > 0 ? began + (uint64_t)g.seconds * 1000000000U : UINT64_MAX;
    for (long i = 0; i < g.connections; i++) {
        conns[i].sent_ns = now_ns();
        send_batch(&conns[i]);
    }
    while (g.completed < g.limit && now_ns() < until) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(g.epoll, events, EVENTS, 1000);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr);
    }
    report(now_ns() - began, cpu_ns() - used);
}

static void hold(struct conn *conns)
{
    for (long i = 0; i < g.connections; i++) {
        struct conn *c = &conns[i];
        c->fd = net_connect(g.port);
        c->sent_ns = now_ns();
        g.limit = (uint64_t)i + 1;
        send_batch(c);
        while (c->pending > 0) {
            struct pollfd readable = {.fd = c->fd, .events = POLLIN};
            if (poll(&readable, 1, 10000) != 1)
                die("no response within ten seconds");
            receive(c);
        }
    }
    if (g.errors > 0)
        die("%llu responses other than 200", (unsigned long long)g.errors);
    printf("holding %ld\n", g.connections);
    (void)fflush(stdout);
    while (getchar() != EOF)
        continue;
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"port", 1, NULL, 'p'},     {"targets", 1, NULL, 't'},
        {"key", 1, NULL, 'k'},      {"connections", 1, NULL, 'c'},
        {"depth", 1, NULL, 'd'},    {"seconds", 1, NULL, 's'},
        {"requests", 1, NULL, 'n'}, {"sweep", 0, NULL, 'a'},
        {"hold", 0, NULL, 'i'},     {"header", 1, NULL, 'h'},
        {"close", 0, NULL, 'e'},    {"distinct", 0, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'p':
            g.port = (int)parse_number(optarg, 1, 65535);
            break;
        case 't':
            g.targets = optarg;
            break;
        case 'k':
            g.key = optarg;
            break;
        case 'c':
            g.connections = parse_number(optarg, 1, 100000);
            break;
        case 'd':
            g.depth = parse_number(optarg, 1, DEPTH_MAX);
            break;
        case 's':
            g.seconds = parse_number(optarg, 1, 3600);
            break;
        case 'n':
            g.limit = (uint64_t)parse_number(optarg, 1, INT32_MAX);
            break;
        case 'a':
            g.sweep = 1;
            break;
        case 'i':
            g.hold = 1;
            break;
        case 'h':
            g.header = optarg;
            break;
        case 'e':
            g.close = 1;
            break;
        case 'u':
            g.distinct = 1;
            break;
        default:
            exit(2);
        }
    }
    if (g.port == 0 || g.targets == NULL || optind != argc)
        die("--port and --targets are needed; other arguments than options are not known");
    if (g.seconds == 0 && g.limit == UINT64_MAX && !g.sweep && !g.hold)
        die("one of --seconds, --requests, --sweep and --hold is needed");
    if (g.hold || g.close)
        g.depth = 1;
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    make_requests();
    if (g.sweep && g.limit > g.request_count)
        g.limit = g.request_count;
    g.latency = calloc(LATENCY_MAX_US + 1, sizeof *g.latency);
    struct conn *conns = calloc((size_t)g.connections, sizeof *conns);
    if (g.latency == NULL || conns == NULL)
        die("out of memory");
    if (g.hold)
        hold(conns);
    else
        run(conns);
    return 0;
}
