/*
 * Runs the Redis and the cache code of one worker in simulations, each made of one seed.
 *
 *   simulation [--seconds N] [--from SEED] [--count N] [--brief]    many seeds, until one fails
 *   simulation --repeat [--from SEED] [--count N]                   each twice, which must be the same
 *   simulation --seed SEED [--trace] [--faults MASK] [--length S]   one, with each event if wanted
 *
 * Each run is a process of its own, so that nothing of one reaches the next, and a crash is a failure. One
 * that fails is repeated with fewer kinds of faults and for a shorter time, and the command that still shows
 * it is printed.
 */
#include "simulation/clients.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/net.h"
#include "simulation/oracle.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LENGTH_S = 100, /* of a run, before it is quiet */
    QUIET_S = 30,   /* within which everything recovers */
    ANSWER_S = 8,   /* within which all is answered then */
    REFUSED_S = 60, /* the longest pause before Redis is asked again for keys that it has refused */
    LIMIT_S = 60    /* of real time: it hangs */
};

struct run {
    uint64_t seed;
    unsigned faults;
    unsigned length_s;
};

/* What all runs have done, in memory that they share. */
struct totals {
    uint64_t simulated_ns, commands, answers[CACHE_SOURCES], sum;
    char why[48]; /* the last run failed */
};

static struct totals *totals;

/* --- one run --- */

static struct cache_metrics cache_metrics;
static struct redis_metrics redis_metrics;
static struct loop_lag loop_lag;

static void on_connection(void *arg, bool ready)
{
    (void)arg;
    oracle_connection(ready);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static struct redis_config *make_config(void)
{
    static char url[] = "redis://redis.test";
    static char none[] = "";
    struct redis_options options = {url, none, none, none, none, none, none};
    struct redis_endpoint endpoint;
    struct redis_config *config = NULL;
    struct buf why = BUF_INIT;
    const char *setting = NULL;
    net_set_name("redis.test", (const uint8_t[]){1}, 1);
    if (redis_endpoint_init(&endpoint, &options, &why) != 0 ||
        redis_config_new(&endpoint, &options, 1, &config, &why, &setting) != 0)
        trace_fail("no settings: %s", buf_message(&why));
    if (scenario.redis.tls)
        config->tls = (struct ssl_ctx_st *)url; /* any pointer: tls.c does not look at it */
    return config;
}

static struct cache *open_cache(uv_loop_t *loop, struct redis_config *config, const struct keyspace *keyspace)
{
    const struct scenario_settings *s = &scenario.settings;
    const struct cache_options options = {.redis = config,
                                          .client_name = "simulation",
                                          .keyspace = keyspace,
                                          .metrics = &cache_metrics,
                                          .redis_metrics = &redis_metrics,
                                          .loop_lag = &loop_lag,
                                          .request_timeout_ms = s->request_timeout_ms,
                                          .cache_size = s->cache_size,
                                          .broadcast = s->broadcast,
                                          .stale_limit_ms = s->stale_limit_ms,
                                          .stale_keys_limit_ms = s->stale_keys_limit_ms,
                                          .on_connection = on_connection};
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
    bool cached = scenario.settings.cache_size > 1 << 16 && scenario.redis.table_max >= NAMES_COUNT;
    scenario_quieten();
    run_for(loop, QUIET_S * SECOND);
    clients_end();
    run_for(loop, ANSWER_S * SECOND);
    scenario.disturbed_until_ns = 0;
    (void)ask_all(loop);
    if (ask_all(loop) == 0 && cached) {
        run_for(loop, REFUSED_S * SECOND);
        (void)ask_all(loop);
        if (ask_all(loop) == 0)
            trace_fail("nothing is cached");
    }
}

static void close_cache(uv_loop_t *loop, struct cache *cache)
{
    bool closed = false;
    cache_close(cache, on_closed, &closed);
    if (loop_run_until(loop, now_ns() + SECOND) || !closed || uv_loop_close(loop) != 0)
        trace_fail("handles are left");
    if (net_open_sockets() > 0)
        trace_fail("sockets are left");
    events_run_until(now_ns() + 10 * SECOND); /* threads that look names up end by themselves */
}

static void add_totals(void)
{
    totals->simulated_ns += now_ns();
    totals->commands += scenario.redis.commands;
    totals->sum ^= trace_total();
    for (int i = 0; i < CACHE_SOURCES; i++)
        totals->answers[i] += oracle_answers[i];
}

static void simulate(const struct run *r)
{
    uv_loop_t loop;
    struct keyspace keyspace;
    random_begin(r->seed);
    events_begin();
    net_begin();
    process_begin();
    loop_begin();
    oracle_begin();
    scenario_begin(r->faults);
    (void)uv_loop_init(&loop);
    if (keyspace_init(&keyspace, SPAN("{sim}:")) != 0)
        trace_fail("no keyspace");
    struct redis_config *config = make_config();
    struct cache *cache = open_cache(&loop, config, &keyspace);
    clients_begin(cache);
    run_for(&loop, r->length_s * SECOND);
    check_recovery(&loop);
    close_cache(&loop, cache);
    config->tls = NULL;
    redis_config_unref(config);
    if (cache_metrics.cache_audit_failures_total > 0)
        trace_fail("the audit has found a difference that an invalidation explains");
    add_totals();
}

/* --- many runs --- */

/* In a process of its own. Returns whether it passed; what it prints is shown if `shown`. */
static bool passes(const struct run *r, bool shown)
{
    int status = 0;
    (void)fflush(stdout);
    (void)snprintf(totals->why, sizeof totals->why, "it crashed, or hung");
    trace_why = totals->why;
    trace_why_size = sizeof totals->why;
    pid_t child = fork();
    if (child == 0) {
        if (!shown &&
            (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL))
            _Exit(2);
        (void)alarm(LIMIT_S);
        simulate(r);
        (void)fflush(stdout);
        _Exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("simulation");
        exit(2);
    }
    if (shown && WIFSIGNALED(status))
        printf("ended by signal %d: %s\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leaves out kinds of faults, and ends earlier, for as long as it fails. */
static struct run shrink(struct run r)
{
    for (unsigned kind = 0; kind < FAULT_KINDS; kind++) {
        struct run fewer = r;
        fewer.faults &= ~(1U << kind);
        if (fewer.faults != r.faults && !passes(&fewer, false))
            r = fewer;
    }
    for (unsigned cut = r.length_s / 2; cut > 0; cut /= 2)
        while (r.length_s > cut) {
            struct run shorter = r;
            shorter.length_s -= cut;
            if (passes(&shorter, false))
                break;
            r = shorter;
        }
    return r;
}

static void report(const struct run *failed)
{
    printf("seed %llu failed; shrinking\n", (unsigned long long)failed->seed);
    struct run r = shrink(*failed);
    (void)passes(&r, true);
    printf("simulation --seed %llu --faults 0x%x --length %u --trace\n", (unsigned long long)r.seed, r.faults,
           r.length_s);
}

static double cpu_s(void)
{
    struct rusage self;
    struct rusage children;
    (void)getrusage(RUSAGE_SELF, &self);
    (void)getrusage(RUSAGE_CHILDREN, &children);
    return (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec + children.ru_utime.tv_sec +
                    children.ru_stime.tv_sec) +
           (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec + children.ru_utime.tv_usec +
                    children.ru_stime.tv_usec) /
               1e6;
}

static void summarise(uint64_t seeds)
{
    double s = (double)totals->simulated_ns / 1e9;
    double used_s = cpu_s();
    printf("%llu seeds, %.0f simulated seconds in %.1f s of a processor (%.0f per second), %llu commands\n",
           (unsigned long long)seeds, s, used_s, s / used_s, (unsigned long long)totals->commands);
    printf(
        "answers: %llu fresh from the cache, %llu stale, %llu read, %llu shared, %llu failed; sum %016llx\n",
        (unsigned long long)totals->answers[CACHE_SOURCE_HIT],
        (unsigned long long)totals->answers[CACHE_SOURCE_STALE],
        (unsigned long long)totals->answers[CACHE_SOURCE_MISS],
        (unsigned long long)totals->answers[CACHE_SOURCE_COALESCED],
        (unsigned long long)totals->answers[CACHE_SOURCE_NONE], (unsigned long long)totals->sum);
}

/* The same seed twice: what happens must be the same. */
static int run_repeated(struct run r, uint64_t count)
{
    uint64_t first = r.seed;
    for (; r.seed - first < count; r.seed++) {
        uint64_t before = totals->sum;
        bool first_passes = passes(&r, false);
        bool second_passes = passes(&r, false);
        if (!first_passes || !second_passes || totals->sum != before) {
            printf("seed %llu is not the same twice\n", (unsigned long long)r.seed);
            return 1;
        }
    }
    summarise(2 * count);
    return 0;
}

/* Ends with the seconds of a processor, or with the count of seeds: what is 0 does not bound. */
static int run_many(struct run r, double seconds, uint64_t count, bool is_quiet)
{
    uint64_t first = r.seed;
    for (; (seconds <= 0 || cpu_s() < seconds) && (count == 0 || r.seed - first < count); r.seed++) {
        if (passes(&r, false))
            continue;
        if (is_quiet) {
            printf("seed %llu failed after %.1f s: %s\n", (unsigned long long)r.seed, cpu_s(), totals->why);
            return 1;
        }
        report(&r);
        summarise(r.seed - first + 1);
        return 1;
    }
    summarise(r.seed - first);
    return 0;
}

static int run_one(const struct run *r, bool traced)
{
    trace_on = traced;
    bool passed = passes(r, true);
    if (passed)
        summarise(1);
    return passed ? 0 : 1;
}

static uint64_t number_in(const char *text)
{
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "simulation: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"from", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'c'},   {"seed", required_argument, NULL, 'o'},
        {"trace", no_argument, NULL, 't'},         {"faults", required_argument, NULL, 'm'},
        {"length", required_argument, NULL, 'l'},  {"brief", no_argument, NULL, 'b'},
        {"repeat", no_argument, NULL, 'r'},        {NULL, 0, NULL, 0}};
    struct run r = {.seed = 1, .faults = FAULTS_ALL, .length_s = LENGTH_S};
    uint64_t count = 0;
    double seconds = 0;
    bool traced = false;
    bool single = false;
    bool brief = false;
    bool repeated = false;
    for (int option = 0; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 's')
            seconds = (double)number_in(optarg);
        else if (option == 'f' || option == 'o')
            r.seed = number_in(optarg);
        else if (option == 'c')
            count = number_in(optarg);
        else if (option == 'm')
            r.faults = (unsigned)number_in(optarg);
        else if (option == 'l')
            r.length_s = (unsigned)number_in(optarg);
        else if (option == 't')
            traced = true;
        else if (option == 'b')
            brief = true;
        else if (option == 'r')
            repeated = true;
        else
            return 2;
        single = single || option == 'o';
    }
    /* cppcheck-suppress invalidFunctionArg ; -1 is for no file */
    totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (totals == MAP_FAILED) {
        perror("simulation");
        return 2;
    }
    if (repeated)
        return run_repeated(r, count == 0 ? 1 : count);
    return single ? run_one(&r, traced)
                  : run_many(r, seconds, count == 0 && seconds <= 0 ? 100 : count, brief);
}
