/*
 * A cheap source of load.
 *
 *   hammer --port P --targets FILE [--key KEY] [--connections C] [--depth D]
 *          [--seconds S | --requests N | --sweep] [--header 'Name: value']
 *
 * One thread and epoll. Each of C connections sends D requests in one write, waits for all D answers, and
 * sends again. The requests are made beforehand, one for each line of FILE, and chosen at random (with
 * --requests and --seconds) or each once, in order (--sweep). Of an answer only status and length are looked
 * at.
 *
 * Prints one line of NAME VALUE pairs: requests errors seconds rate p50_us p99_us cpu_us body_bytes. The
 * latency is from the write of a batch to the end of the answer; cpu_us is this program's own processor time
 * a request.
 */
#include "answers.h"
#include "net.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS = 512, READ_SIZE = 1 << 20, DEPTH_MAX = 512, SLOWEST_US = 2000000 };

struct conn {
    int fd;
    unsigned under_way;
    uint64_t sent_ns;
    struct answer_reader reader;
};

static struct hammer {
    int port;
    long connections, depth, seconds;
    uint64_t limit; /* of requests */
    int sweep;
    const char *targets, *key, *header;

    struct iovec *requests;
    size_t request_count;
    uint64_t started; /* requests sent or being sent */
    uint64_t random;
    struct answer_totals totals;
    uint32_t *latency; /* how many answers took this many microseconds */
} h = {.connections = 1, .depth = 1, .limit = UINT64_MAX, .random = 88172645463325252U};

/* One request for each line of the file. */
static void make_requests(void)
{
    size_t len;
    char *lines = read_file(h.targets, &len);
    size_t room = 0;
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *text;
        int text_len = asprintf(&text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s%s%s%s%s\r\n", line,
                                h.port, h.key != NULL ? "X-Api-Key: " : "", h.key != NULL ? h.key : "",
                                h.key != NULL ? "\r\n" : "", h.header != NULL ? h.header : "",
                                h.header != NULL ? "\r\n" : "");
        if (h.request_count == room) {
            room = room == 0 ? 1024 : 2 * room;
            h.requests = realloc(h.requests, room * sizeof *h.requests);
        }
        if (text_len < 0 || h.requests == NULL)
            die("out of memory");
        h.requests[h.request_count++] = (struct iovec){text, (size_t)text_len};
    }
    free(lines);
    if (h.request_count == 0)
        die("%s: no targets", h.targets);
}

static struct iovec next_request(void)
{
    uint64_t n = h.sweep ? h.started : prng_below(&h.random, h.request_count);
    h.started++;
    return h.requests[n];
}

static void send_batch(struct conn *c)
{
    struct iovec batch[DEPTH_MAX];
    size_t bytes = 0;
    unsigned count = 0;
    while (count < (unsigned)h.depth && h.started < h.limit) {
        batch[count] = next_request();
        bytes += batch[count++].iov_len;
    }
    if (count == 0)
        return;
    ssize_t written = writev(c->fd, batch, (int)count);
    if (written < 0)
        die("write: %s", strerror(errno));
    if ((size_t)written < bytes)
        die("the socket does not take a whole batch; a smaller --depth will do");
    c->under_way = count;
}

static void read_answers(struct conn *c)
{
    static char buffer[READ_SIZE];
    ssize_t len = read(c->fd, buffer, sizeof buffer);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0)
        die("the server closed a connection after %llu answers", (unsigned long long)h.totals.whole);
    unsigned ended = answers_read(&c->reader, &h.totals, buffer, (size_t)len);
    if (ended == 0)
        return;
    if (ended > c->under_way)
        die("more answers than requests");
    uint64_t now = now_ns();
    uint64_t us = (now - c->sent_ns) / 1000;
    h.latency[us < SLOWEST_US ? us : SLOWEST_US] += ended;
    c->under_way -= ended;
    if (c->under_way == 0) {
        c->sent_ns = now;
        send_batch(c);
    }
}

static uint64_t percentile(double part)
{
    uint64_t rank = (uint64_t)(part * (double)h.totals.whole);
    uint64_t seen = 0;
    for (uint64_t us = 0; us <= SLOWEST_US; us++) {
        seen += h.latency[us];
        if (seen > rank)
            return us;
    }
    return SLOWEST_US;
}

static void report(uint64_t took_ns, uint64_t used_ns)
{
    double seconds = (double)took_ns / 1e9;
    double whole = (double)h.totals.whole;
    printf("requests %llu errors %llu seconds %.3f rate %.0f p50_us %llu p99_us %llu cpu_us %.3f body_bytes "
           "%llu\n",
           (unsigned long long)h.totals.whole, (unsigned long long)h.totals.errors, seconds, whole / seconds,
           (unsigned long long)percentile(0.50), (unsigned long long)percentile(0.99),
           (double)used_ns / 1e3 / whole, (unsigned long long)h.totals.body_bytes);
}

static void run(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct conn *conns = calloc((size_t)h.connections, sizeof *conns);
    if (conns == NULL)
        die("out of memory");
    for (long i = 0; i < h.connections; i++) {
        conns[i].fd = net_connect(h.port);
        net_watch(epoll, conns[i].fd, EPOLLIN, &conns[i]);
    }
    uint64_t began = now_ns();
    uint64_t used = cpu_ns();
    uint64_t until = h.seconds > 0 ? began + (uint64_t)h.seconds * 1000000000U : UINT64_MAX;
    for (long i = 0; i < h.connections; i++) {
        conns[i].sent_ns = now_ns();
        send_batch(&conns[i]);
    }
    while (h.totals.whole < h.limit && now_ns() < until) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, 1000);
        for (int i = 0; i < count; i++)
            read_answers(events[i].data.ptr);
    }
    report(now_ns() - began, cpu_ns() - used);
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"port", 1, NULL, 'p'},     {"targets", 1, NULL, 't'},
        {"key", 1, NULL, 'k'},      {"connections", 1, NULL, 'c'},
        {"depth", 1, NULL, 'd'},    {"seconds", 1, NULL, 's'},
        {"requests", 1, NULL, 'n'}, {"sweep", 0, NULL, 'a'},
        {"header", 1, NULL, 'h'},   {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'p':
            h.port = (int)parse_number(optarg, 1, 65535);
            break;
        case 't':
            h.targets = optarg;
            break;
        case 'k':
            h.key = optarg;
            break;
        case 'c':
            h.connections = parse_number(optarg, 1, 100000);
            break;
        case 'd':
            h.depth = parse_number(optarg, 1, DEPTH_MAX);
            break;
        case 's':
            h.seconds = parse_number(optarg, 1, 3600);
            break;
        case 'n':
            h.limit = (uint64_t)parse_number(optarg, 1, INT32_MAX);
            break;
        case 'a':
            h.sweep = 1;
            break;
        case 'h':
            h.header = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (h.port == 0 || h.targets == NULL || optind != argc)
        die("--port and --targets are needed; nothing but options is");
    if (h.seconds == 0 && h.limit == UINT64_MAX && !h.sweep)
        die("one of --seconds, --requests and --sweep is needed");
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    make_requests();
    if (h.sweep && h.limit > h.request_count)
        h.limit = h.request_count;
    h.latency = calloc(SLOWEST_US + 1, sizeof *h.latency);
    if (h.latency == NULL)
        die("out of memory");
    run();
    return 0;
}
