/* Runs the Redis and the cache code of one worker in simulations, each from one seed; see runs.h. */
#include "redis/metrics.h"
#include "simulation/cases.h"
#include "simulation/clients.h"
#include "simulation/connects.h"
#include "simulation/costs.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/memory.h"
#include "simulation/net.h"
#include "simulation/oracle.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/runs.h"
#include "simulation/scenario.h"
#include "simulation/settings.h"
#include "simulation/trace.h"

#include <stdio.h>

enum {
    QUIET_S = 30,  /* within which everything recovers */
    ANSWER_S = 8,  /* within which all is answered then */
    REFUSED_S = 60 /* the longest pause before Redis is asked again for keys that it has refused */
};

/* What all runs have done. */
struct totals {
    uint64_t simulated_ns, commands, answers[CACHE_SOURCES];
};

static void *totals;

/* --- one run --- */

static struct cache_metrics cache_metrics;
static struct redis_metrics redis_metrics[CASE_WORKERS_MAX];

static void on_connection(void *arg, bool ready)
{
    (void)arg;
    connects_ready(ready);
    oracle_connection(ready);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* Of the workers that no client asks. */
static void on_other_connection(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static struct cache *open_cache(uv_loop_t *loop, struct redis_config *config, const struct keyspace *keyspace,
                                unsigned number)
{
    const struct scenario_settings *s = &scenario.settings;
    const struct cache_options options = {
        .redis = config,
        .client_name = "simulation",
        .keyspace = keyspace,
        .metrics = &cache_metrics,
        .redis_metrics = &redis_metrics[number],
        .settings = {.request_timeout_ms = s->request_timeout_ms,
                     .cache_size = s->cache_size,
                     .tracking = s->broadcast ? CACHE_TRACKING_BROADCAST : CACHE_TRACKING_KEYS,
                     .ttl_ms = s->ttl_ms,
                     .stale_limit_ms = s->stale_limit_ms},
        .stale_keys_limit_ms = s->stale_keys_limit_ms,
        .on_connection = number == 0 ? on_connection : on_other_connection};
    struct cache *cache = NULL;
    if (cache_new(loop, &options, &cache) != 0)
        trace_fail("no cache");
    return cache;
}

static void run_for(uv_loop_t *loop, uint64_t ns)
{
    uint64_t until_ns = now_ns() + ns;
    (void)loop_run_until(loop, until_ns);
    if (now_ns() < until_ns)
        trace_fail("nothing keeps the loop alive");
}

/* Each object once; returns the number of answers from the cache. */
static unsigned ask_all(uv_loop_t *loop)
{
    unsigned hits = oracle_answers[CACHE_SOURCE_HIT];
    clients_ask_all();
    run_for(loop, ANSWER_S * SECOND);
    if (clients_waiting() > 0)
        trace_fail("requests wait that nobody answers");
    return oracle_answers[CACHE_SOURCE_HIT] - hits;
}

/* Everything is answered again, and the second time from the cache. Keys that Redis has refused are tried
 * again later. */
static void check_recovery(uv_loop_t *loop)
{
    const struct redis_faults *f = &scenario.server[0].faults;
    bool told = !f->deaf && !f->disordered && !f->refuses_tracking;
    bool cached = scenario.settings.cache_size > 1 << 16 && told;
    for (size_t i = 0; i < scenario.servers; i++)
        cached = cached && scenario.server[i].table_max >= NAMES_COUNT;
    scenario_quieten();
    run_for(loop, (QUIET_S + scenario_recovery_s()) * SECOND);
    clients_end();
    run_for(loop, ANSWER_S * SECOND);
    if (scenario.lost_ns + QUIET_S * SECOND < now_ns()) /* else a replica was just tried again in vain */
        scenario.disturbed_until_ns = 0;
    (void)ask_all(loop);
    if (ask_all(loop) == 0 && cached) {
        run_for(loop, REFUSED_S * SECOND);
        (void)ask_all(loop);
        if (ask_all(loop) == 0)
            trace_fail("nothing is cached");
    }
}

/* The worker ends at any moment of its connections, look-ups and requests. */
static void end_early(void)
{
    scenario.quiet = true;
    process_resume();
    clients_end();
    clients_cancel_all();
}

static void close_caches(uv_loop_t *loop, struct cache *caches[], unsigned count)
{
    bool closed[CASE_WORKERS_MAX] = {false};
    for (unsigned i = 0; i < count; i++)
        cache_close(caches[i], on_closed, &closed[i]);
    bool alive = loop_run_until(loop, now_ns() + SECOND);
    for (unsigned i = 0; i < count; i++)
        alive = alive || !closed[i];
    if (alive || uv_loop_close(loop) != 0)
        trace_fail("handles are left");
    if (net_open_sockets() > 0)
        trace_fail("sockets are left");
    events_run_until(now_ns() + 60 * SECOND); /* threads that look names up end by themselves */
}

static void add_totals(void)
{
    struct totals *t = totals;
    t->simulated_ns += now_ns();
    for (size_t i = 0; i < scenario.servers; i++)
        t->commands += scenario.server[i].commands;
    for (int i = 0; i < CACHE_SOURCES; i++)
        t->answers[i] += oracle_answers[i];
}

static void simulate(const struct run *r)
{
    uv_loop_t loop;
    struct keyspace keyspace;
    struct cache *cache[CASE_WORKERS_MAX] = {NULL};
    long live = memory_live();
    random_begin(r->seed);
    events_begin();
    net_begin();
    process_begin();
    loop_begin();
    oracle_begin();
    const struct simulated_case *k = NULL;
    if (r->which_case < 0) {
        scenario_begin(r->faults, scenario_topology(r->topology));
    } else {
        scenario_begin(0, cases_topology((unsigned)r->which_case));
        k = cases_begin((unsigned)r->which_case);
    }
    (void)uv_loop_init(&loop);
    if (keyspace_init(&keyspace, SPAN("{sim}:")) != 0)
        trace_fail("no keyspace");
    unsigned workers = k == NULL ? 1 : k->workers;
    struct redis_config *config = settings_begin();
    connects_begin(workers);
    costs_begin(workers == 1, &cache_metrics);
    for (unsigned i = 0; i < workers; i++)
        cache[i] = open_cache(&loop, config, &keyspace, i);
    settings_apply_to(cache[0]);
    if (k == NULL || k->asks)
        clients_begin(cache[0]);
    if (k == NULL) {
        run_for(&loop, r->length_s * SECOND);
        if (r->seed % 8 == 0)
            end_early();
        else
            check_recovery(&loop);
    } else {
        cases_run(k, &loop, redis_metrics, &cache_metrics);
        clients_end();
        run_for(&loop, ANSWER_S * SECOND);
    }
    settings_apply_to(NULL);
    connects_end();
    close_caches(&loop, cache, workers);
    settings_end();
    if (memory_live() != live)
        trace_fail("%ld allocations are left", memory_live() - live);
    if (cache_metrics.cache_audit_failures_total > 0 && !scenario.server[0].faults.deaf)
        trace_fail("the audit has found a difference that an invalidation explains");
    add_totals();
}

static void summarise(const void *arg, double used_s)
{
    const struct totals *t = arg;
    double s = (double)t->simulated_ns / 1e9;
    printf("%.0f simulated seconds (%.0f per second), %llu commands\n", s, s / used_s,
           (unsigned long long)t->commands);
    printf("answers: %llu fresh from the cache, %llu stale, %llu read, %llu shared, %llu failed\n",
           (unsigned long long)t->answers[CACHE_SOURCE_HIT],
           (unsigned long long)t->answers[CACHE_SOURCE_STALE],
           (unsigned long long)t->answers[CACHE_SOURCE_MISS],
           (unsigned long long)t->answers[CACHE_SOURCE_COALESCED],
           (unsigned long long)t->answers[CACHE_SOURCE_NONE]);
}

int main(int argc, char **argv)
{
    const struct runs runs = {"simulation", FAULT_KINDS,           LENGTH_S, scenario_topologies, simulate,
                              summarise,    sizeof(struct totals), &totals,  cases_name};
    return runs_main(argc, argv, &runs);
}
