/*
 * What a fleet does after its Redis was gone: the clients, the Redis of small capacity, and the table.
 *
 *   outage --workers PORT,... --gate PORT --redis PORT --capacity N --rate R --misses SHARE --hot FILE --tail
 * FILE
 *          --key KEY --clients polite|naive|once [--before S] [--outage S] [--after S]
 *
 * One thread and epoll. At first each worker is sent every target of --hot, with a Redis that has no limit.
 * From then on R requests per second arrive, however slow the responses are, each at a random worker. The
 * share --misses of them is for the next target of --tail, which no worker has read yet, the others for a
 * random one of --hot. A request that fails is repeated as --clients says, each time at a random worker.
 */
#include "common.h"
#include "outage_gate.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    READ_SIZE = 1 << 18,
    HEAD_MAX = 2048,
    REQUEST_MAX = 1024,
    WORKERS_MAX = 64,
    CONNECTIONS_MAX = 18000,
    ATTEMPTS_POLITE = 5, /* as examples/python/channels.py */
    ATTEMPTS_NAIVE = 4,
    TICK_NS = 1000000,
    WHEEL_TICK_NS = 10000000,
    WHEEL_SLOTS = 4096, /* 41 s */
    STEADY_SECONDS = 5  /* in a row, that are a recovery */
};

static const double WANTED_SHARE = 0.99;
static const uint64_t IN_TIME_NS = 2100000000; /* the request timeout, and what the machine takes */

/* What a client wants; it lives until it has it or gives up. */
struct want {
    const char *target;
    bool hot, warming;
    int attempts;
    int worker; /* only while warming */
    struct want *next;
};

/* A connection: with a request, or idle in the list of its worker. */
struct client {
    struct source source;
    int fd, worker;
    struct want *want; /* NULL: idle */
    bool connected;
    uint64_t sent_ns;
    size_t head_len, body_left;
    int status, retry_after;
    char head[HEAD_MAX];
    struct client *next;
};

struct worker {
    int port;
    struct client *idle;
    size_t warmed;
};

struct targets {
    char **line;
    size_t count;
};

struct second {
    uint64_t requests, sent, ok, server_errors, others, hot, hot_ok, given_up;
};

struct recovery {
    long steady; /* seconds in a row */
    long after;  /* how many seconds after the return of Redis; -1: not yet */
};

static struct outage {
    const char *key, *clients;
    int gate_port, redis_port;
    double capacity, rate, misses;
    long before, outage, after;
    struct worker workers[WORKERS_MAX];
    int worker_count;
    struct targets hot, tail;
    size_t next_tail;

    int epoll;
    struct gate *gate;
    struct client *free_clients;
    struct want *wheel[WHEEL_SLOTS]; /* what is to be sent, by time */
    uint64_t wheel_at;               /* the slot that is next */
    uint64_t random;
    int warm_workers;
    double next_arrival_ns;
    struct second now;
    uint64_t passed; /* of the gate, until this second began */
    struct recovery all, of_hot;
    uint64_t lost; /* requests given up after the return */
} o = {.random = 88172645463325252U,
       .before = 5,
       .outage = 40,
       .after = 45,
       .all.after = -1,
       .of_hot.after = -1};

static double fraction(void)
{
    return ((double)(prng_next(&o.random) >> 11) + 1) / 9007199254740993.0;
}

/* --- requests --- */

static void finish(struct client *c, int status);

static void wait_ns(struct want *w, uint64_t delay_ns)
{
    uint64_t slot = (now_ns() + delay_ns) / WHEEL_TICK_NS;
    slot = slot < o.wheel_at ? o.wheel_at : slot;
    slot = slot >= o.wheel_at + WHEEL_SLOTS ? o.wheel_at + WHEEL_SLOTS - 1 : slot;
    w->next = o.wheel[slot % WHEEL_SLOTS];
    o.wheel[slot % WHEEL_SLOTS] = w;
}

static void close_client(struct client *c)
{
    (void)close(c->fd);
    c->fd = -1;
    c->want = NULL;
    c->next = o.free_clients;
    o.free_clients = c;
}

static void send_request(struct client *c)
{
    char text[REQUEST_MAX];
    int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: %s\r\n\r\n",
                       c->want->target, o.key);
    if (send(c->fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        finish(c, 0);
}

/* --- responses --- */

/* The number of a field of the head, which ends with NUL; 0 when there is none. */
static int field(const char *head, const char *name)
{
    const char *at = strcasestr(head, name);
    return at == NULL ? 0 : atoi(at + strlen(name));
}

/* Returns the bytes taken. */
static size_t take_head(struct client *c, const char *data, size_t len)
{
    size_t before = c->head_len;
    size_t taken = len < HEAD_MAX - 1 - before ? len : HEAD_MAX - 1 - before;
    memcpy(c->head + before, data, taken);
    c->head_len += taken;
    c->head[c->head_len] = '\0';
    char *end = strstr(c->head, "\r\n\r\n");
    if (end == NULL) {
        if (c->head_len == HEAD_MAX - 1)
            die("a head of more than %d bytes", HEAD_MAX);
        return taken;
    }
    *end = '\0';
    c->status = atoi(c->head + 9);
    c->retry_after = field(c->head, "\nretry-after:");
    c->body_left = (size_t)field(c->head, "\ncontent-length:");
    return (size_t)(end + 4 - c->head) - before;
}

/* Returns true when the response has ended. */
static bool take_bytes(struct client *c, const char *data, size_t len)
{
    if (c->status == 0) {
        size_t taken = take_head(c, data, len);
        data += taken;
        len -= taken;
    }
    if (len > c->body_left)
        die("more than a response: %.*s", (int)len, data);
    c->body_left -= len;
    return c->status != 0 && c->body_left == 0;
}

static void on_client_ready(struct source *source, uint32_t events)
{
    static char buffer[READ_SIZE];
    struct client *c = (struct client *)source;
    if (c->fd < 0)
        return;
    if (!c->connected && (events & EPOLLOUT) != 0) {
        c->connected = true;
        net_rewatch(o.epoll, c->fd, EPOLLIN, c);
        send_request(c);
        return;
    }
    ssize_t len = recv(c->fd, buffer, sizeof buffer, 0);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0 || c->want == NULL)
        finish(c, 0);
    else if (take_bytes(c, buffer, (size_t)len))
        finish(c, c->status);
}

/* --- attempts --- */

static void open_client(struct client *c, int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket: %s", strerror(errno));
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->source.on_ready = on_client_ready;
    c->connected = false;
    (void)connect(c->fd, (struct sockaddr *)&address, sizeof address); /* an error makes it ready */
    net_watch(o.epoll, c->fd, EPOLLIN | EPOLLOUT, c);
}

/* An idle connection of the worker that is still open, else NULL. */
static struct client *take_idle(struct worker *worker)
{
    struct client *c = worker->idle;
    if (c != NULL)
        worker->idle = c->next;
    return c;
}

static void remove_idle(struct client *c)
{
    struct client **at = &o.workers[c->worker].idle;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

static void give_up(struct want *w)
{
    o.now.given_up++;
    free(w);
}

static void attempt(struct want *w)
{
    int number = w->warming ? w->worker : (int)prng_below(&o.random, (uint64_t)o.worker_count);
    struct worker *worker = &o.workers[number];
    struct client *c = take_idle(worker);
    bool idle = c != NULL;
    o.now.sent++;
    if (!idle) {
        c = o.free_clients;
        if (c == NULL) { /* as many as the machine lets us have: the request fails */
            o.now.others++;
            give_up(w);
            return;
        }
        o.free_clients = c->next;
    }
    if (w->target == NULL)
        w->target = o.tail.line[o.next_tail++ % o.tail.count];
    w->attempts++;
    c->want = w;
    c->worker = number;
    c->sent_ns = now_ns();
    c->head_len = c->body_left = 0;
    c->status = c->retry_after = 0;
    if (idle)
        send_request(c);
    else
        open_client(c, worker->port);
}

/* What api.md asks of clients; the naive repeat at once. */
static void repeat(struct want *w, int retry_after)
{
    bool polite = strcmp(o.clients, "polite") == 0;
    int most = polite ? ATTEMPTS_POLITE : strcmp(o.clients, "naive") == 0 ? ATTEMPTS_NAIVE : 1;
    if (w->attempts >= most) {
        give_up(w);
        return;
    }
    double seconds = 0;
    if (polite) {
        seconds = ldexp(0.25, w->attempts - 1);
        seconds = (retry_after > seconds ? retry_after : seconds) * (1 + fraction() / 2);
    }
    wait_ns(w, (uint64_t)(seconds * 1e9));
}

static void warm_next(struct want *w)
{
    struct worker *worker = &o.workers[w->worker];
    if (worker->warmed < o.hot.count) {
        w->target = o.hot.line[worker->warmed++];
        attempt(w);
        return;
    }
    free(w);
    if (++o.warm_workers == o.worker_count)
        o.next_arrival_ns = (double)now_ns();
}

static void count(const struct want *w, int status, bool in_time)
{
    bool ok = status == 200 && in_time;
    o.now.ok += ok;
    o.now.server_errors += status >= 500;
    o.now.others += !ok && status < 500;
    o.now.hot += w->hot;
    o.now.hot_ok += w->hot && ok;
}

/* The response has ended; 0: the connection has. */
static void finish(struct client *c, int status)
{
    struct want *w = c->want;
    if (w == NULL)
        remove_idle(c);
    if (status == 0) {
        close_client(c);
    } else {
        c->want = NULL;
        c->next = o.workers[c->worker].idle;
        o.workers[c->worker].idle = c;
    }
    if (w == NULL)
        return;
    if (w->warming) {
        if (status == 200)
            warm_next(w);
        else
            wait_ns(w, 100000000);
        return;
    }
    count(w, status, now_ns() - c->sent_ns <= IN_TIME_NS);
    if (status == 200)
        free(w);
    else
        repeat(w, c->retry_after);
}

/* --- arrivals and retries --- */

static struct want *new_want(const char *target, bool hot)
{
    struct want *w = calloc(1, sizeof *w);
    if (w == NULL)
        die("out of memory");
    w->target = target;
    w->hot = hot;
    return w;
}

static void arrive(void)
{
    while (o.next_arrival_ns <= (double)now_ns()) {
        bool hot = fraction() > o.misses;
        const char *target = hot ? o.hot.line[prng_below(&o.random, o.hot.count)] : NULL;
        o.next_arrival_ns += -log(fraction()) / o.rate * 1e9;
        o.now.requests++;
        attempt(new_want(target, hot));
    }
}

static void run_wheel(void)
{
    uint64_t until = now_ns() / WHEEL_TICK_NS;
    for (; o.wheel_at <= until; o.wheel_at++) {
        struct want *w = o.wheel[o.wheel_at % WHEEL_SLOTS];
        o.wheel[o.wheel_at % WHEEL_SLOTS] = NULL;
        while (w != NULL) {
            struct want *next = w->next;
            attempt(w);
            w = next;
        }
    }
}

static void turn(void)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(o.epoll, events, EVENTS, 1);
    for (int i = 0; i < n; i++) {
        struct source *source = events[i].data.ptr;
        source->on_ready(source, events[i].events);
    }
    gate_run(o.gate);
    run_wheel();
    if (o.next_arrival_ns > 0)
        arrive();
}

/* --- the table --- */

static double share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

static void note(struct recovery *r, double ok, long at)
{
    r->steady = ok >= WANTED_SHARE ? r->steady + 1 : 0;
    if (r->after < 0 && r->steady == STEADY_SECONDS)
        r->after = at - STEADY_SECONDS;
}

/* `at`: of its end, from the return of Redis on. */
static void end_second(long at)
{
    const struct second *s = &o.now;
    uint64_t answered = s->ok + s->server_errors + s->others;
    uint64_t passed = gate_passed(o.gate);
    printf("%6ld %9llu %9llu %8llu %8llu %7llu %8.1f %8.1f %9llu %9llu %9llu\n", at,
           (unsigned long long)s->requests, (unsigned long long)s->sent, (unsigned long long)s->ok,
           (unsigned long long)s->server_errors, (unsigned long long)s->others, 100 * share(s->ok, answered),
           100 * share(s->hot_ok, s->hot), (unsigned long long)(passed - o.passed),
           (unsigned long long)gate_waiting(o.gate), (unsigned long long)s->given_up);
    (void)fflush(stdout);
    if (at > 0) {
        o.lost += s->given_up;
        note(&o.all, share(s->ok, answered), at);
        note(&o.of_hot, share(s->hot_ok, s->hot), at);
    }
    o.passed = passed;
    o.now = (struct second){0};
}

static void run_for(long seconds, long at)
{
    uint64_t began = now_ns();
    for (long i = 1; i <= seconds; i++) {
        while (now_ns() - began < (uint64_t)i * 1000000000U)
            turn();
        end_second(at + i);
    }
}

static void run(void)
{
    while (o.warm_workers < o.worker_count)
        turn();
    gate_limit(o.gate, o.capacity);
    o.now = (struct second){0};
    o.passed = gate_passed(o.gate);
    printf("%6s %9s %9s %8s %8s %7s %8s %8s %9s %9s %9s\n", "second", "requests", "sent", "200", "500",
           "other", "% 200", "% of hot", "reads", "waiting", "given up");
    run_for(o.before, -o.outage - o.before);
    gate_close(o.gate);
    run_for(o.outage, -o.outage);
    gate_open(o.gate);
    gate_limit(o.gate, o.capacity);
    run_for(o.after, 0);
    printf("recovered %ld hot %ld given_up %llu\n", o.all.after, o.of_hot.after, (unsigned long long)o.lost);
}

/* --- options --- */

static struct targets read_targets(const char *path)
{
    size_t len;
    struct targets t = {0};
    char *rest = NULL;
    char *text = read_file(path, &len);
    t.line = calloc(len / 2 + 1, sizeof *t.line);
    if (t.line == NULL)
        die("out of memory");
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        t.line[t.count++] = line;
    if (t.count == 0)
        die("%s: no targets", path);
    return t;
}

static void read_workers(char *list)
{
    char *rest = NULL;
    for (char *port = strtok_r(list, ",", &rest); port != NULL; port = strtok_r(NULL, ",", &rest)) {
        if (o.worker_count == WORKERS_MAX)
            die("more than %d workers", WORKERS_MAX);
        o.workers[o.worker_count++].port = (int)parse_number(port, 1, 65535);
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"workers", 1, NULL, 'w'},  {"gate", 1, NULL, 'g'},   {"redis", 1, NULL, 'r'},
        {"capacity", 1, NULL, 'c'}, {"rate", 1, NULL, 'n'},   {"misses", 1, NULL, 'm'},
        {"hot", 1, NULL, 'h'},      {"tail", 1, NULL, 't'},   {"key", 1, NULL, 'k'},
        {"clients", 1, NULL, 'l'},  {"before", 1, NULL, 'b'}, {"outage", 1, NULL, 'o'},
        {"after", 1, NULL, 'a'},    {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'w':
            read_workers(optarg);
            break;
        case 'g':
            o.gate_port = (int)parse_number(optarg, 1, 65535);
            break;
        case 'r':
            o.redis_port = (int)parse_number(optarg, 1, 65535);
            break;
        case 'c':
            o.capacity = (double)parse_number(optarg, 1, 1000000);
            break;
        case 'n':
            o.rate = (double)parse_number(optarg, 1, 1000000);
            break;
        case 'm':
            o.misses = atof(optarg);
            break;
        case 'h':
            o.hot = read_targets(optarg);
            break;
        case 't':
            o.tail = read_targets(optarg);
            break;
        case 'k':
            o.key = optarg;
            break;
        case 'l':
            o.clients = optarg;
            break;
        case 'b':
            o.before = parse_number(optarg, 0, 3600);
            break;
        case 'o':
            o.outage = parse_number(optarg, 0, 3600);
            break;
        case 'a':
            o.after = parse_number(optarg, 1, 3600);
            break;
        default:
            exit(2);
        }
    }
    if (o.worker_count == 0 || o.gate_port == 0 || o.redis_port == 0 || o.capacity == 0 || o.rate == 0 ||
        o.hot.count == 0 || o.tail.count == 0 || o.key == NULL || o.clients == NULL || optind != argc)
        die("an option is missing, or there is another argument");
}

static void make_clients(void)
{
    struct client *clients = calloc(CONNECTIONS_MAX, sizeof *clients);
    if (clients == NULL)
        die("out of memory");
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        clients[i].fd = -1;
        clients[i].next = o.free_clients;
        o.free_clients = &clients[i];
    }
}

static void begin_workers(void)
{
    for (int i = 0; i < o.worker_count; i++) {
        struct want *w = new_want(o.hot.line[0], true);
        w->warming = true;
        w->worker = i;
        wait_ns(w, 0);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    make_clients();
    o.epoll = epoll_create1(EPOLL_CLOEXEC);
    o.gate = gate_new(o.epoll, o.gate_port, o.redis_port);
    o.wheel_at = now_ns() / WHEEL_TICK_NS;
    begin_workers();
    run();
    return 0;
}
