/*
 * A malicious Redis: the real cache and its connection over a socket pair, and a server that sends any bytes,
 * split anywhere. Nothing crashes or leaks, every request ends, and each result is either a failure or has
 * the contract's shape.
 *
 * An input is a line of steps and then the bytes that the server sends. Steps:
 *     g   the server does one part of the handshake;     c d   query card 1 or 2
 *         three complete it
 *     x   it closes the connection                       l     query a card by link
 *     t   time passes until the next timer is due        p q   query page 1 or 2
 *     u   half a second passes, a request's timeout      k     query whether a key is valid
 *     f   the oldest request is cancelled                *     the server sends all bytes that are left
 *
 * Any other byte: the server sends so many bytes ('@': 1, 'A': 2, '0': 49).
 *
 * Time is virtual and nothing is random, so an input always does the same, however slow the machine is.
 */
#include "base/clock.h"
#include "cache/cache.h"
#include "fuzz/contract.h"
#include "fuzz/fuzz.h"
#include "redis/endpoint.h"
#include "redis/metrics.h"
#define ENTRIES_CHECK_WRAP
#include "unit/entries_check.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    QUERIES_MAX = 32,
    STEPS_MAX = 64,
    SENDS_MAX = 2000,
    TIMERS_MAX = 16,
    REQUEST_TIMEOUT_MS = 500,
    CACHE_BYTES = 256 * 1024
};

redisContext *__real_redisConnectWithOptions(const redisOptions *options);
redisContext *__wrap_redisConnectWithOptions(const redisOptions *options);
ssize_t __wrap_getrandom(void *buffer, size_t length, unsigned flags);
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
void __real_uv_close(uv_handle_t *handle, uv_close_cb closed);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed);

/* --- virtual time --- */

static uint64_t now_ns = 1000000000000;

uint64_t clock_now_ns(void)
{
    return now_ns;
}

uint64_t clock_boot_ms(void)
{
    return now_ns / 1000000;
}

int64_t clock_wall_s(void)
{
    return (int64_t)(now_ns / 1000000000);
}

/* Seeds of hash tables and the jitter of reconnection: the same in each run. */
ssize_t __wrap_getrandom(void *buffer, size_t length, unsigned flags)
{
    (void)flags;
    memset(buffer, 0x5a, length);
    return (ssize_t)length;
}

/* The timers that were started and not closed; in libuv they are active, but never due. */
static struct {
    uv_timer_t *handle; /* NULL: a free slot */
    uv_timer_cb callback;
    uint64_t due_ms;
} timers[TIMERS_MAX];

static int find_timer(const uv_timer_t *handle)
{
    for (int i = 0; i < TIMERS_MAX; i++) {
        if (timers[i].handle == handle)
            return i;
    }
    return -1;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat)
{
    static const uint64_t never = UINT64_MAX / 4;
    int slot = find_timer(timer);
    if (slot < 0)
        slot = find_timer(NULL);
    FUZZ_CHECK(slot >= 0 && repeat == 0);
    timers[slot].handle = timer;
    timers[slot].callback = callback;
    timers[slot].due_ms = clock_boot_ms() + timeout;
    return __real_uv_timer_start(timer, callback, never, 0);
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    int slot = handle->type == UV_TIMER ? find_timer((const uv_timer_t *)handle) : -1;
    if (slot >= 0)
        timers[slot].handle = NULL;
    __real_uv_close(handle, closed);
}

/* The active timer that is due first, or -1. */
static int next_timer(void)
{
    int next = -1;
    for (int i = 0; i < TIMERS_MAX; i++) {
        if (timers[i].handle == NULL || !uv_is_active((const uv_handle_t *)timers[i].handle))
            continue;
        if (next < 0 || timers[i].due_ms < timers[next].due_ms)
            next = i;
    }
    return next;
}

static void fire(int slot)
{
    uv_timer_t *timer = timers[slot].handle;
    if (timers[slot].due_ms > clock_boot_ms())
        now_ns = timers[slot].due_ms * 1000000;
    (void)uv_timer_stop(timer);
    timers[slot].callback(timer);
}

struct query {
    struct cache_request request;
    enum cache_query_type type;
    bool pending;
};

/* --- the server and the cache under test --- */

static struct harness {
    uv_loop_t loop;
    struct redis_config *redis;
    struct keyspace keyspace;
    struct cache_metrics metrics;
    struct redis_metrics redis_metrics;
    struct cache *cache;
    int server;       /* the server's end of the connection; -1: none */
    int handshake;    /* parts that it did, and nothing else so far; -1: something else */
    uint64_t refused; /* trackings, by the connections before this one */
    struct span left; /* bytes that it has not sent yet */
    struct query query[QUERIES_MAX];
    int query_count;
    bool closed;
} w;

redisContext *__wrap_redisConnectWithOptions(const redisOptions *options)
{
    int pair[2];
    redisOptions mine = *options;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (w.server >= 0)
        close(w.server);
    w.server = pair[1];
    w.handshake = 0;
    w.refused = w.redis_metrics.redis_tracking_refused_total;
    mine.type = REDIS_CONN_USERFD;
    mine.endpoint.fd = pair[0];
    redisContext *context = __real_redisConnectWithOptions(&mine);
    if (context == NULL)
        close(pair[0]);
    return context;
}

static void run_loop(void)
{
    char chunk[4096];
    for (int i = 0; i < 2; i++)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    while (w.server >= 0 && read(w.server, chunk, sizeof chunk) > 0) {
    }
}

static void send_bytes(struct span bytes)
{
    for (int sends = 0; bytes.len > 0 && w.server >= 0; sends++) {
        ssize_t n = send(w.server, bytes.data, bytes.len, MSG_NOSIGNAL);
        FUZZ_CHECK(sends < SENDS_MAX);
        if (n < 0 && errno != EAGAIN)
            return;
        bytes = n > 0 ? span_skip(bytes, (size_t)n) : bytes;
        run_loop();
    }
}

/* The handshake of a master: after "ggg" the connection is ready. */
static void do_handshake(void)
{
    static const struct span parts[] = {
        SPAN("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n"),
        SPAN("+OK\r\n=32\r\ntxt:# Replication\r\nrole:master\r\n\r\n"), SPAN("+PONG\r\n")};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    int part = w.handshake;
    send_bytes(part >= 0 && part < PARTS ? parts[part] : SPAN("+OK\r\n"));
    if (part < 0 || w.handshake != part || w.server < 0)
        return;
    w.handshake++;
    run_loop();
    if (w.handshake == PARTS && w.redis_metrics.redis_connects_total == 0) /* what the user may read */
        send_bytes(SPAN("_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:1\r\n"));
    if (w.handshake == PARTS) /* whether there is a catalogue */
        send_bytes(SPAN(":1\r\n:1\r\n"));
    FUZZ_CHECK(w.handshake != PARTS || (w.redis_metrics.redis_connected == 1 &&
                                        w.redis_metrics.redis_tracking_refused_total == w.refused));
}

static void send_some(size_t n)
{
    w.handshake = -1;
    n = n < w.left.len ? n : w.left.len;
    send_bytes((struct span){w.left.data, n});
    w.left = span_skip(w.left, n);
}

static void close_connection(void)
{
    if (w.server >= 0)
        close(w.server);
    w.server = -1;
    run_loop();
}

/* --- queries --- */

#define LINK "https://max.ru/news"

/* An answer by link is a card with that link. */
static bool has_link(const struct blob *body)
{
    static const struct span member = SPAN("\"link\":\"" LINK "\"");
    struct span text = {body->data, body->len};
    while (text.len >= member.len && !span_starts_with(text, member))
        text = span_skip(text, 1);
    return text.len >= member.len;
}

static void check_result(const struct query *q, const struct cache_result *result)
{
    bool has_body = result->status == CACHE_FOUND && q->type != QUERY_AUTH_ONLY;
    FUZZ_CHECK(result->status <= CACHE_FOUND && result->source < CACHE_SOURCES);
    FUZZ_CHECK((result->body != NULL) == has_body);
    if (!has_body)
        return;
    FUZZ_CHECK(result->body->etag_len > 0);
    contract_check_body((struct span){result->body->data, result->body->len}, 200);
    FUZZ_CHECK(q->type != QUERY_PAGE || result->last_page >= 1);
    FUZZ_CHECK(q->type != QUERY_CARD_BY_LINK || has_link(result->body));
    blob_unref(result->body);
}

static void on_result(void *arg, const struct cache_result *result)
{
    struct query *q = arg;
    FUZZ_CHECK(q->pending);
    q->pending = false;
    check_result(q, result);
}

static void query(enum cache_query_type type, int64_t number)
{
    struct cache_result result;
    struct cache_query wanted = {.type = type, .number = number, .link = SPAN(LINK)};
    if (w.query_count == QUERIES_MAX)
        return;
    struct query *q = &w.query[w.query_count++];
    memset(&wanted.key, 'k', sizeof wanted.key);
    *q = (struct query){.request = {.done = on_result, .arg = q}, .type = type, .pending = true};
    bool complete = cache_get(w.cache, &q->request, &wanted, &result);
    if (complete) {
        q->pending = false;
        check_result(q, &result);
    }
}

/* Cancels the first `count` requests that are pending. */
static void cancel(int count)
{
    for (int i = 0; i < w.query_count && count > 0; i++) {
        if (!w.query[i].pending)
            continue;
        cache_cancel(&w.query[i].request);
        w.query[i].pending = false;
        count--;
    }
}

/* --- steps --- */

static void pass_time_to_next_timer(void)
{
    int timer = next_timer();
    w.handshake = -1;
    if (timer >= 0)
        fire(timer);
}

static void pass_time(uint64_t ms)
{
    uint64_t until = clock_boot_ms() + ms;
    w.handshake = -1;
    for (int timer; (timer = next_timer()) >= 0 && timers[timer].due_ms <= until;) {
        fire(timer);
        run_loop();
    }
    if (clock_boot_ms() < until)
        now_ns = until * 1000000;
}

static unsigned count_of(char c)
{
    return (unsigned char)c % 64 + 1;
}

static void step(char what)
{
    switch (what) {
    case 'g':
        do_handshake();
        break;
    case 'x':
        close_connection();
        break;
    case 't':
        pass_time_to_next_timer();
        break;
    case 'u':
        pass_time(REQUEST_TIMEOUT_MS);
        break;
    case 'c':
    case 'd':
        query(QUERY_CARD, what - 'c' + 1);
        break;
    case 'l':
        query(QUERY_CARD_BY_LINK, 0);
        break;
    case 'p':
    case 'q':
        query(QUERY_PAGE, what - 'p' + 1);
        break;
    case 'k':
        query(QUERY_AUTH_ONLY, 0);
        break;
    case 'f':
        cancel(1);
        break;
    case '*':
        send_some(w.left.len);
        break;
    default:
        send_some(count_of(what));
    }
    run_loop();
    entries_check(cache_entries);
}

/* --- one run --- */

static void on_connection(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static void on_closed(void *arg)
{
    (void)arg;
    w.closed = true;
}

static void begin(void)
{
    static bool begun;
    static char url[] = "redis://127.0.0.1";
    static char none[] = "";
    if (!begun) {
        struct redis_options settings = {url, none, none, none, none, none, none};
        const char *setting = NULL;
        FUZZ_CHECK(uv_loop_init(&w.loop) == 0 && keyspace_init(&w.keyspace, SPAN("channels:")) == 0);
        FUZZ_CHECK(redis_config_new(&settings, SPAN("channels:"), 1, &w.redis, NULL, &setting) == 0);
        (void)signal(SIGPIPE, SIG_IGN);
        begun = true;
    }
    w.server = -1;
    w.query_count = 0;
    w.closed = false;
    w.metrics = (struct cache_metrics){0};
    w.redis_metrics = (struct redis_metrics){0};
    const struct cache_options options = {
        .redis = w.redis,
        .client_name = "fuzz",
        .keyspace = &w.keyspace,
        .metrics = &w.metrics,
        .redis_metrics = &w.redis_metrics,
        .settings = {.request_timeout_ms = REQUEST_TIMEOUT_MS,
                     .cache_size = CACHE_BYTES,
                     .stale_limit_ms = 30000},
        .stale_keys_limit_ms = 30000,
        .on_connection = on_connection,
    };
    FUZZ_CHECK(cache_new(&w.loop, &options, &w.cache) == 0);
}

static void end(void)
{
    cancel(QUERIES_MAX);
    close_connection();
    cache_close(w.cache, on_closed, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    FUZZ_CHECK(w.closed && uv_loop_alive(&w.loop) == 0);
    FUZZ_CHECK(w.redis_metrics.redis_connected == 0 && w.metrics.cache_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = fuzz_input(data, size);
    struct span steps = fuzz_take(&input, '\n');
    begin();
    w.left = input;
    run_loop();
    for (size_t i = 0; i < steps.len && i < STEPS_MAX; i++)
        step(steps.data[i]);
    send_some(w.left.len);
    end();
    return 0;
}
