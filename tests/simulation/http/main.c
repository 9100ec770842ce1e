/*
 * Runs src/http in simulations, each from one seed. One or two servers run on one loop. The clients send
 * anything in pieces of any size, read or do not read, and end at any moment.
 *
 *   simulation_http [--seconds N] [--from SEED] [--count N] [--brief]   many seeds, until one fails
 *   simulation_http --seed SEED [--trace] [--faults MASK] [--length S]  one, with each event if wanted
 */
#include "simulation/events.h"
#include "simulation/http/scenario.h"
#include "simulation/loop.h"
#include "simulation/memory.h"
#include "simulation/random.h"
#include "simulation/runs.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH_S = 60, DRAIN_DELAY_S = 2, DRAIN_S = 60 };

struct totals {
    uint64_t simulated_ns, connections, requests, rejections, evicted;
};

struct scenario scenario;
static void *totals;

static unsigned below(unsigned n)
{
    return random_below(STREAM_SCENARIO, n);
}

static void configure(unsigned faults)
{
    struct span which;
    memset(&scenario, 0, sizeof scenario);
    scenario.faults = faults;
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
        if (below(3) == 0)
            scenario.faults &= ~(1U << kind);
    scenario.servers = has_fault(FAULT_SERVERS) ? 2 : 1;
    scenario.max_connections = has_fault(FAULT_LIMIT) ? 2 + (int)below(12) : STREAMS_MAX;
    scenario.options = (struct http_server_options){.handler = application_handler(),
                                                    .metrics = &scenario.metrics,
                                                    .limits.head_max = 100 + below(1000),
                                                    .limits.body_max = 20 + below(500),
                                                    .limits.head_timeout_ms = 500 + below(5000),
                                                    .limits.idle_timeout_ms = 300 + below(8000),
                                                    .limits.write_timeout_ms = 500 + below(5000),
                                                    .limits.unsent_max = 64 * 1024 + below(1000000)};
    if (has_fault(FAULT_AGE))
        scenario.options.limits.max_connection_age_ms = 500 + below(5000);
    TRACE("server", "limit %d, head %zu, body %zu, timeouts %u %u %u ms", scenario.max_connections,
          scenario.options.limits.head_max, scenario.options.limits.body_max,
          (unsigned)scenario.options.limits.head_timeout_ms,
          (unsigned)scenario.options.limits.idle_timeout_ms,
          (unsigned)scenario.options.limits.write_timeout_ms);
    if (ip_networks_parse(SPAN("10.2.0.0/16"), &scenario.proxies, &which) != NULL)
        trace_fail("no networks");
    if (has_fault(FAULT_PROXIES))
        scenario.options.trusted_proxies = &scenario.proxies;
}

static void start(uv_loop_t *loop)
{
    struct addr address = addr_any_v4(&(struct addr){.port = 8080});
    if (http_balancer_new(scenario.servers, scenario.max_connections, &scenario.balancer) != 0)
        trace_fail("no balancer");
    scenario.options.balancer = scenario.balancer;
    for (int i = 0; i < scenario.servers; i++) {
        scenario.options.number = i;
        if (http_server_new(loop, &scenario.options, &scenario.server[i]) != 0 ||
            http_server_listen(scenario.server[i], &address, -1) != 0)
            trace_fail("no server");
    }
}

/* --- while it runs --- */

static void on_posted_check(void *arg)
{
    (void)arg;
    if (!scenario.closing)
        check_all();
}

/* By the process, which may be stopped. */
static void on_check(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    loop_post(on_posted_check, NULL);
    events_add_in(50 * (uint64_t)MS, on_check, NULL, 0);
}

static void on_stop(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    process_stop(random_duration(STREAM_SCENARIO, 8 * SECOND), below(3) == 0);
    events_add_in(random_bits(STREAM_SCENARIO) % (20 * SECOND), on_stop, NULL, 0);
}

static void on_wall(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    process_set_wall((int64_t)below(20000) - 10000);
    events_add_in(random_bits(STREAM_SCENARIO) % (10 * SECOND), on_wall, NULL, 0);
}

static void run_for(uv_loop_t *loop, uint64_t ns)
{
    uint64_t until_ns = now_ns() + ns;
    (void)loop_run_until(loop, until_ns);
    if (now_ns() < until_ns)
        trace_fail("nothing keeps the loop alive");
}

/* --- the end --- */

/* Only what the application does not answer, or a client over the limit keeps, may be left. */
static void expect_drained(void)
{
    unsigned left = 0;
    for (unsigned i = 0; i < streams_count; i++) {
        bool open = streams[i].opened && !streams[i].closed;
        if (open && scenario.client[i].exchange == NULL)
            trace_fail("a connection outlives the drain: %u", i);
        left += open;
    }
    bool finished = scenario.metrics.connections_open == 0 && http_balancer_is_drained(scenario.balancer);
    if (left == 0 && !finished)
        trace_fail("the drain does not end");
    if (left > 0 && finished)
        trace_fail("the drain ends before its connections");
}

static void drain(uv_loop_t *loop)
{
    for (int i = 0; i < scenario.servers; i++)
        http_server_announce_close(scenario.server[i]);
    scenario.announced_ns = process_monotonic_ns();
    TRACE("server", "announces its end");
    run_for(loop, random_bits(STREAM_SCENARIO) % (DRAIN_DELAY_S * SECOND));
    TRACE("server", "finishes");
    scenario.finishing_ns = process_monotonic_ns();
    for (int i = 0; i < scenario.servers; i++)
        http_server_finish(scenario.server[i]);
    run_for(loop, DRAIN_S * SECOND);
    expect_drained();
}

/* Handed over or passed to a server that was closed before it looked: they are closed with the balancer. */
static int count_in_inboxes(void)
{
    int n = 0;
    for (unsigned i = 0; i < streams_count; i++)
        n += streams[i].accepted && !streams[i].opened && !streams[i].closed;
    return n;
}

static void close_all(uv_loop_t *loop)
{
    scenario.closing = true;
    TRACE("server", "closes");
    for (int i = 0; i < scenario.servers; i++)
        http_server_close(scenario.server[i]);
    if (loop_run_until(loop, now_ns() + SECOND) || uv_loop_close(loop) != 0)
        trace_fail("handles are left");
    for (int i = 0; i < scenario.servers; i++)
        http_server_free(scenario.server[i]);
    if (http_balancer_total(scenario.balancer) > count_in_inboxes())
        trace_fail("connections are counted that are closed");
    http_balancer_free(scenario.balancer);
    if (!streams_finish())
        trace_fail("descriptors are left");
    if (scenario.metrics.connections_open != 0)
        trace_fail("the metric of open connections is not 0");
    clients_fini();
}

static void add_totals(void)
{
    struct totals *t = totals;
    t->simulated_ns += now_ns();
    t->connections += streams_count;
    t->requests += scenario.requests;
    t->rejections += scenario.rejections;
    t->evicted += scenario.metrics.connections_evicted_total;
}

static void simulate(const struct run *r)
{
    uv_loop_t loop;
    long before = memory_live();
    random_begin(r->seed);
    events_begin();
    process_begin();
    loop_begin();
    streams_begin();
    configure(r->faults);
    check_begin();
    (void)uv_loop_init(&loop);
    start(&loop);
    clients_begin((r->length_s + DRAIN_DELAY_S) * SECOND); /* also while the server drains */
    events_add_in(0, on_check, NULL, 0);
    if (has_fault(FAULT_STOPS))
        events_add_in(random_bits(STREAM_SCENARIO) % (20 * SECOND), on_stop, NULL, 0);
    if (has_fault(FAULT_CLOCK))
        events_add_in(SECOND, on_wall, NULL, 0);
    run_for(&loop, r->length_s * SECOND);
    if (has_fault(FAULT_DRAIN))
        drain(&loop);
    close_all(&loop);
    if (memory_live() != before)
        trace_fail("memory is left: %ld blocks", memory_live() - before);
    add_totals();
}

static void summarise(const void *arg, double used_s)
{
    const struct totals *t = arg;
    (void)used_s;
    printf("%llu simulated seconds, %llu connections, %llu requests, %llu rejections, %llu evicted\n",
           (unsigned long long)(t->simulated_ns / SECOND), (unsigned long long)t->connections,
           (unsigned long long)t->requests, (unsigned long long)t->rejections,
           (unsigned long long)t->evicted);
}

int main(int argc, char **argv)
{
    static const char *const topologies[] = {NULL};
    const struct runs runs = {"simulation_http", FAULT_KINDS,           LENGTH_S, topologies, simulate,
                              summarise,         sizeof(struct totals), &totals,  NULL};
    (void)setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    clients_load_corpus();
    return runs_main(argc, argv, &runs);
}
