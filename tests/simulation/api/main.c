/*
 * Runs src/api and src/http in simulations, each from one seed. Functions of the simulation replace
 * src/cache. Clients send one request after the other, made from a grammar, and check each response.
 *
 *   simulation_api [--seconds N] [--from SEED] [--count N] [--brief]   many seeds, until one fails
 *   simulation_api --seed SEED [--trace] [--faults MASK] [--length S]  one, with each event if wanted
 */
#include "simulation/api/scenario.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/memory.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/runs.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_S = 60, SETS = 256, CLIENTS = 60, REQUESTS_EACH = 40 };

struct totals {
    uint64_t simulated_ns, responses, cancelled;
};

struct scenario scenario;
static struct loop_lag loop_lag;
static struct http_handler handler;
static void *totals;
static uint64_t end_ns;

static unsigned below(unsigned n)
{
    return random_below(STREAM_SCENARIO, n);
}

/* --- what the server is given --- */

static void on_handle(void *arg, struct http_exchange *x)
{
    struct ip ip = http_exchange_client(x);
    struct client *c = &scenario.client[(unsigned)ip.bytes[14] << 8 | ip.bytes[15]];
    scenario.current = c;
    answers_handle(c, http_exchange_began_ns(x));
    handler.handle(arg, x);
}

/* A full bucket is replaced by another key of its set, and a request is then counted later than it came. So
 * the keys must have different sets, which is tried in the past. NULL: they have not. */
static struct rate_limit *make_limit(void)
{
    uint64_t at_ns = process_monotonic_ns() - 1000 * SECOND;
    struct rate_limit *l = rate_limit_new(&scenario.policy, SETS, at_ns);
    struct digest digest[KEYS];
    bool are_apart = true;
    for (int i = 0; i < KEYS; i++) {
        digest_sha256(span_of(key_texts[i]), &digest[i]);
        (void)rate_limit_count(l, &digest[i], true, at_ns += 100 * SECOND);
    }
    for (int i = 0; i < KEYS; i++) {
        are_apart = rate_limit_count(l, &digest[i], false, at_ns).outcome != RATE_NONE && are_apart;
        rate_limit_remove(l, &digest[i]);
    }
    if (are_apart)
        return l;
    rate_limit_free(l);
    return NULL;
}

static void configure_api(void)
{
    static const char *const allowed[] = {"", "*", NULL};
    static const atomic_int access_logs[] = {ACCESS_LOG_OFF, ACCESS_LOG_ERRORS, ACCESS_LOG_ALL};
    const char *list = allowed[below(3)];
    struct api_options *o = &scenario.api_options;
    *o = (struct api_options){.metrics = &scenario.metrics,
                              .base_path = SPAN("/api/"),
                              .key_metrics = scenario.key_metrics,
                              .hosts = {SPAN("max.ru"), SPAN("web.max.ru")},
                              .cors_origins = span_of(list == NULL ? origins : list),
                              .access_log = &access_logs[below(3)],
                              .log_clients = below(2) == 0,
                              .openapi_auth = below(2) == 0,
                              .compression = below(2) == 0};
    if (has_fault(FAULT_RATE)) {
        scenario.policy = (struct rate_policy){1 + below(100), below(2) == 0 ? 60 : 1, 1 + below(50)};
        while (o->rate_limit == NULL)
            o->rate_limit = make_limit();
    }
}

static void configure(unsigned faults)
{
    memset(&scenario, 0, sizeof scenario);
    scenario.faults = faults;
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
        if (below(3) == 0)
            scenario.faults &= ~(1U << kind);
    scenario.key_metrics = key_metrics_new();
    configure_api();
    if (scenario.key_metrics == NULL || api_new(&scenario.api_options, &scenario.api) != 0)
        trace_fail("no api");
    handler = api_handler(scenario.api);
    scenario.options = (struct http_server_options){.handler = handler,
                                                    .metrics = &scenario.http_metrics,
                                                    .loop_lag = &loop_lag,
                                                    .limits.head_max = 16384,
                                                    .limits.body_max = 65536,
                                                    .limits.head_timeout_ms = 60000,
                                                    .limits.idle_timeout_ms = 60000,
                                                    .limits.write_timeout_ms = 60000};
    scenario.options.handler.handle = on_handle;
}

static void start(uv_loop_t *loop)
{
    struct addr address = addr_any_v4(8080);
    if (http_balancer_new(1, STREAMS_MAX, &scenario.options.balancer) != 0 ||
        http_server_new(loop, &scenario.options, &scenario.server) != 0 ||
        http_server_listen(scenario.server, &address) != 0)
        trace_fail("no server");
}

/* --- clients --- */

static unsigned choice(unsigned n)
{
    return random_below(STREAM_CLIENTS, n);
}

static void on_step(void *arg, uint64_t number);

static void step_in(struct client *c, uint64_t ns)
{
    events_add_in(ns, on_step, c, 0);
}

static void end(struct client *c)
{
    TRACE("client", "%u %s", client_number(c), c->waits ? "resets" : "closes");
    c->done = true;
    if (c->waits)
        stream_reset(c->stream);
    else
        stream_close(c->stream);
}

static void send_piece(struct client *c)
{
    const struct buf *b = &c->request.bytes;
    size_t left = b->len - c->sent;
    size_t n = choice(3) == 0 ? 1 + choice((unsigned)left) : left;
    TRACE("client", "%u sends %.*s", client_number(c), (int)n, b->data + c->sent);
    stream_send(c->stream, b->data + c->sent, n);
    c->sent += n;
}

static void receive(struct client *c)
{
    stream_take(c->stream, &c->in, choice(4) == 0 ? 1 + choice(400) : SIZE_MAX);
    size_t n = check_response(c);
    if (n == 0)
        return;
    if (c->in.len > n)
        trace_fail("bytes behind a response: %u", client_number(c));
    buf_clear(&c->in);
    c->waits = false;
}

static void on_step(void *arg, uint64_t number)
{
    struct client *c = arg;
    (void)number;
    if (c->done)
        return;
    if (!c->waits && (c->left == 0 || c->request.two_keys || now_ns() > end_ns)) {
        end(c);
        return;
    }
    if (!c->waits) {
        request_make(&c->request);
        c->answer = (struct answer){0};
        c->rate = (struct rate_result){0};
        c->refused = false;
        c->left--;
        c->sent = 0;
        c->waits = true;
    }
    if (has_fault(FAULT_CANCELS) && choice(200) == 0) {
        end(c);
        return;
    }
    if (c->sent < c->request.bytes.len)
        send_piece(c);
    else
        receive(c);
    if (c->waits && c->stream->lost) {
        if (c->stream->opened)
            trace_fail("a connection ends without a response: %u", client_number(c));
        c->done = true; /* uv_tcp_open() has failed */
        return;
    }
    step_in(c, MS + random_duration(STREAM_CLIENTS, 500 * (uint64_t)MS));
}

static void on_connect(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (streams_count >= CLIENTS)
        return;
    unsigned next = streams_count;
    const uint8_t ip[] = {10, 0, (uint8_t)(next >> 8), (uint8_t)next};
    struct client *c = &scenario.client[next];
    c->stream = streams_connect(0, ip);
    c->stream->window += 4000; /* the document is long */
    c->left = 1 + choice(REQUESTS_EACH);
    step_in(c, MS);
    events_add_in(random_bits(STREAM_CLIENTS) % (end_ns / CLIENTS), on_connect, NULL, 0);
}

static void on_change(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    answers_change();
    events_add_in(random_duration(STREAM_WRITER, 2 * SECOND), on_change, NULL, 0);
}

/* --- a run --- */

static void on_accept(struct tcp *s)
{
    TRACE("server", "accepts %u", (unsigned)(s - streams));
}

static void on_close(struct tcp *s)
{
    const struct client *c = &scenario.client[s - streams];
    TRACE("server", "closes %u", client_number(c));
    if (c->waits && !c->done)
        trace_fail("a request loses its response: %u", client_number(c));
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_all(uv_loop_t *loop)
{
    bool closed = false;
    for (unsigned i = 0; i < streams_count; i++)
        if (!scenario.client[i].done)
            trace_fail("a client waits for ever: %u", i);
    http_server_close(scenario.server, on_closed, &closed);
    if (loop_run_until(loop, now_ns() + SECOND) || !closed || uv_loop_close(loop) != 0)
        trace_fail("handles are left");
    check_totals();
    http_balancer_free(scenario.options.balancer);
    api_free(scenario.api);
    rate_limit_free(scenario.api_options.rate_limit);
    free(scenario.key_metrics);
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        buf_fini(&scenario.client[i].in);
        buf_fini(&scenario.client[i].request.bytes);
    }
    if (!streams_finish())
        trace_fail("descriptors are left");
}

static void simulate(const struct run *r)
{
    uv_loop_t loop;
    struct totals *t = totals;
    long before = memory_live();
    random_begin(r->seed);
    events_begin();
    process_begin();
    loop_begin();
    streams_begin();
    check_begin();
    streams_on_accept = on_accept;
    streams_on_close = on_close;
    answers_begin();
    configure(r->faults);
    (void)uv_loop_init(&loop);
    start(&loop);
    end_ns = r->length_s * SECOND;
    events_add_in(0, on_connect, NULL, 0);
    events_add_in(SECOND, on_change, NULL, 0);
    (void)loop_run_until(&loop, end_ns + 10 * SECOND);
    close_all(&loop);
    if (memory_live() != before)
        trace_fail("memory is left: %ld blocks", memory_live() - before);
    t->simulated_ns += now_ns();
    t->responses += scenario.responses;
    t->cancelled += scenario.cancelled;
}

static void summarise(const void *arg, double used_s)
{
    const struct totals *t = arg;
    (void)used_s;
    printf("%llu simulated seconds, %llu responses, %llu cancelled\n",
           (unsigned long long)(t->simulated_ns / SECOND), (unsigned long long)t->responses,
           (unsigned long long)t->cancelled);
}

int main(int argc, char **argv)
{
    static const char *const topologies[] = {NULL};
    const struct runs runs = {"simulation_api", FAULT_KINDS,           LENGTH_S, topologies, simulate,
                              summarise,        sizeof(struct totals), &totals,  NULL};
    (void)setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    return runs_main(argc, argv, &runs);
}
