/*
 * A Redis that lies: the real store and its connection over a socket pair, and a server that says anything,
 * cut anywhere. Nothing breaks, nothing is lost, everything ends, and whatever the store answers is either a
 * failure or of the contract's shape.
 *
 * An input is a line of moves and then what the server says. Moves:
 *     g   the server does a part of the handshake        c d   ask for card 1 or 2
 *         as it should; three are all of it
 *     x   it closes the connection                       l     ask for a card by link
 *     t   time passes: the connection's timer            p q   ask for page 1 or 2
 *     u   time passes: the timer of the requests         k     ask whether a key is valid
 *     f   whoever asked first goes away                  *     the server says all that is left
 *     m   of the allocations from now on, one fails: the next byte tells which ('@' is the first, 'A' the
 * second) Any other byte: the server says so many bytes ('@' is 1, 'A' 2, '0' 49).
 */
#include "base/clock.h"
#include "cache/cache_internal.h"
#include "fuzz/contract.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory.h"
#include "redis/connection_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKED_MAX = 32, MOVES_MAX = 64, TURNS_MAX = 2000, CACHE_BYTES = 256 * 1024 };

redisContext *__real_redisConnectWithOptions(const redisOptions *options);
redisContext *__wrap_redisConnectWithOptions(const redisOptions *options);

/* --- time that passes as the input wants --- */

static uint64_t now_ns = 1000000000000;

uint64_t clock_now_ns(void)
{
    return now_ns;
}

uint64_t clock_boot_ms(void)
{
    return now_ns / 1000000;
}

void clock_stamp_utc(char out[CLOCK_STAMP_LEN])
{
    memset(out, '0', CLOCK_STAMP_LEN);
}

static void let_pass(uint64_t ms)
{
    now_ns += ms * 1000000;
}

struct asked {
    struct cache_request request;
    enum cache_query_type target;
    bool waits;
};

/* --- the world --- */

static struct world {
    uv_loop_t loop;
    struct redis_endpoint target;
    struct keyspace keyspace;
    struct cache_metrics metrics;
    struct redis_metrics redis_metrics;
    struct loop_lag loop_lag;
    struct cache *cache;
    int peer;          /* the server's end; -1: none */
    int greeted;       /* parts of the handshake that it did, and nothing else so far; -1: something else */
    bool memory_fails; /* at some allocation of this run */
    struct span left;  /* what it has not said yet */
    struct asked asked[ASKED_MAX];
    int asked_count;
    bool closed;
} w;

redisContext *__wrap_redisConnectWithOptions(const redisOptions *options)
{
    int pair[2];
    redisOptions mine = *options;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (w.peer >= 0)
        close(w.peer);
    w.peer = pair[1];
    w.greeted = 0;
    mine.type = REDIS_CONN_USERFD;
    mine.endpoint.fd = pair[0];
    redisContext *context = __real_redisConnectWithOptions(&mine);
    if (context == NULL)
        close(pair[0]);
    return context;
}

static void turn(void)
{
    char chunk[4096];
    at_work = true;
    for (int i = 0; i < 2; i++)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    at_work = false;
    while (w.peer >= 0 && read(w.peer, chunk, sizeof chunk) > 0) {
    }
}

static void say(struct span bytes)
{
    for (int turns = 0; bytes.len > 0 && w.peer >= 0; turns++) {
        ssize_t n = send(w.peer, bytes.data, bytes.len, MSG_NOSIGNAL);
        FUZZ_CHECK(turns < TURNS_MAX);
        if (n < 0 && errno != EAGAIN)
            return;
        bytes = n > 0 ? span_skip(bytes, (size_t)n) : bytes;
        turn();
    }
}

/* The handshake of a master: a seed that begins with "ggg" has a connection that is ready. */
static void greet(void)
{
    static const struct span parts[] = {
        SPAN("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n"
             "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
        SPAN("+OK\r\n"), SPAN("+PONG\r\n")};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    int part = w.greeted;
    say(part >= 0 && part < PARTS ? parts[part] : SPAN("+OK\r\n"));
    if (part < 0 || w.greeted != part || w.peer < 0)
        return;
    w.greeted++;
    turn();
    if (w.greeted == PARTS) /* the handshake is over, and the catalogue is looked for */
        say(SPAN(":1\r\n"));
    FUZZ_CHECK(w.greeted != PARTS || w.memory_fails ||
               redis_connection_is_tracking(w.cache->redis_connection));
}

static void say_some(size_t n)
{
    w.greeted = -1;
    n = n < w.left.len ? n : w.left.len;
    say((struct span){w.left.data, n});
    w.left = span_skip(w.left, n);
}

static void hang_up(void)
{
    if (w.peer >= 0)
        close(w.peer);
    w.peer = -1;
    turn();
}

/* --- questions --- */

static void check_answer(const struct asked *a, const struct cache_result *answer)
{
    bool bodied = answer->status == CACHE_FOUND && a->target != QUERY_AUTH_ONLY;
    FUZZ_CHECK(answer->status <= CACHE_OUT_OF_MEMORY && answer->source < CACHE_SOURCES);
    FUZZ_CHECK((answer->body != NULL) == bodied);
    if (!bodied)
        return;
    FUZZ_CHECK(answer->body->has_etag);
    contract_check_body((struct span){answer->body->data, answer->body->len}, 200);
    FUZZ_CHECK(a->target != QUERY_PAGE || answer->last_page >= 1);
    blob_unref(answer->body);
}

static void on_answer(void *arg, const struct cache_result *answer)
{
    struct asked *a = arg;
    bool was_at_work = at_work;
    at_work = false;
    FUZZ_CHECK(a->waits);
    a->waits = false;
    check_answer(a, answer);
    at_work = was_at_work;
}

static void ask(enum cache_query_type target, int64_t number)
{
    struct cache_result answer;
    struct cache_query q = {.target = target, .number = number, .link = SPAN("https://max.ru/news")};
    if (w.asked_count == ASKED_MAX)
        return;
    struct asked *a = &w.asked[w.asked_count++];
    memset(&q.key, 'k', sizeof q.key);
    *a = (struct asked){.request = {.done = on_answer, .arg = a}, .target = target, .waits = true};
    at_work = true;
    bool answered = cache_get(w.cache, &a->request, &q, &answer);
    at_work = false;
    if (answered) {
        a->waits = false;
        check_answer(a, &answer);
    }
}

/* The first `count` of those who wait go away. */
static void forget(int count)
{
    for (int i = 0; i < w.asked_count && count > 0; i++) {
        if (!w.asked[i].waits)
            continue;
        cache_cancel(&w.asked[i].request);
        w.asked[i].waits = false;
        count--;
    }
}

/* --- moves --- */

/* A timer that runs is over now. */
static void run_out(uv_timer_t *timer, uint64_t ms)
{
    if (!uv_is_active((const uv_handle_t *)timer))
        return;
    w.greeted = -1;
    let_pass(ms);
    uv_timer_cb callback = timer->timer_cb;
    (void)uv_timer_stop(timer);
    at_work = true;
    callback(timer);
    at_work = false;
}

static unsigned length_of(char c)
{
    return (unsigned char)c % 64 + 1;
}

static void move(char what)
{
    switch (what) {
    case 'g':
        greet();
        break;
    case 'x':
        hang_up();
        break;
    case 't':
        run_out(&w.cache->redis_connection->timer, 1000);
        break;
    case 'u':
        run_out(&w.cache->timer, 500);
        break;
    case 'c':
    case 'd':
        ask(QUERY_CARD, what - 'c' + 1);
        break;
    case 'l':
        ask(QUERY_CARD_BY_LINK, 0);
        break;
    case 'p':
    case 'q':
        ask(QUERY_PAGE, what - 'p' + 1);
        break;
    case 'k':
        ask(QUERY_AUTH_ONLY, 0);
        break;
    case 'f':
        forget(1);
        break;
    case '*':
        say_some(w.left.len);
        break;
    default:
        say_some(length_of(what));
    }
    turn();
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
    static char host[] = "127.0.0.1";
    static char user[] = "default";
    if (!begun) {
        FUZZ_CHECK(uv_loop_init(&w.loop) == 0 && keyspace_init(&w.keyspace, SPAN("channels:")) == 0);
        w.target = (struct redis_endpoint){.host = host, .port = 6379, .user = user};
        (void)signal(SIGPIPE, SIG_IGN);
        begun = true;
    }
    w.peer = -1;
    w.asked_count = 0;
    w.memory_fails = false;
    w.closed = false;
    countdown = 0;
    w.metrics = (struct cache_metrics){0};
    w.redis_metrics = (struct redis_metrics){0};
    const struct cache_options options = {
        .target = &w.target,
        .client_name = "fuzz",
        .keyspace = &w.keyspace,
        .metrics = &w.metrics,
        .redis_metrics = &w.redis_metrics,
        .loop_lag = &w.loop_lag,
        .request_timeout_ms = 500,
        .cache_size = CACHE_BYTES,
        .stale_limit_ms = 30000,
        .stale_keys_limit_ms = 30000,
        .on_connection = on_connection,
    };
    FUZZ_CHECK(cache_new(&w.loop, &options, &w.cache) == 0);
}

static void end(void)
{
    forget(ASKED_MAX);
    hang_up();
    cache_close(w.cache, on_closed, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    FUZZ_CHECK(w.closed && uv_loop_alive(&w.loop) == 0);
    FUZZ_CHECK(w.redis_metrics.redis_connected == 0 && w.metrics.cache_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = fuzz_input(data, size);
    struct span moves = fuzz_take(&input, '\n');
    begin();
    w.left = input;
    turn();
    for (size_t i = 0; i < moves.len && i < MOVES_MAX; i++) {
        if (moves.data[i] == 'm' && i + 1 < moves.len) {
            countdown = length_of(moves.data[++i]);
            w.memory_fails = true;
        } else {
            move(moves.data[i]);
        }
    }
    say_some(w.left.len);
    end();
    return 0;
}
