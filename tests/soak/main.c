/*
 * The soak test: readers and writers as in the coherence test, a random fault every few seconds, and a
 * monitor of memory, descriptors and latency. Every response is judged.
 *
 *     soak [--seconds N] [--interval N] [--seed N] [--bound-ms N] [--curve FILE]
 *
 * --bound-ms: how long after a change the former version may be served. Exit code 0 when no response was
 * wrong and channeld was as well at the end as at the beginning, else 1.
 */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "coherence/clock.h"
#include "soak/monitor.h"
#include "support/http.h"
#include "support/wait.h"

enum {
    SECONDS = 600,
    FIRST_REQUESTS = 64,
    GAP_MS = 3000,
    QUIET_MS = 20000,
    BOUND_MS = 50,
    BOUND_SANITIZED_MS = 300
};

/* Deadlines are short, so that connections come and go; the cache is too small for everything. */
static const char *const SETTINGS[] = {"CHANNELD_HEADER_TIMEOUT=2s", "CHANNELD_WRITE_TIMEOUT=3s",
                                       "CHANNELD_IDLE_TIMEOUT=20s", NULL};

struct soak {
    int seconds;
    int interval_s;
    uint64_t seed;
    int bound_ms;
    const char *curve;
    struct run run;
    struct monitor monitor;
    _Atomic uint64_t faults;
};

static void usage(void)
{
    (void)fputs("usage: soak [--seconds N] [--interval N] [--seed N] [--bound-ms N] [--curve FILE]\n",
                stderr);
    exit(2);
}

static int number(const char *text)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 1000000)
        usage();
    return (int)value;
}

static void read_options(struct soak *soak, int argc, char **argv)
{
    static const struct option known[] = {
        {"seconds", required_argument, NULL, 's'}, {"interval", required_argument, NULL, 'i'},
        {"seed", required_argument, NULL, 'r'},    {"bound-ms", required_argument, NULL, 'b'},
        {"curve", required_argument, NULL, 'c'},   {NULL, 0, NULL, 0}};
    soak->seconds = SECONDS;
    soak->interval_s = 1; /* hardly any longer one is without a fault */
    soak->seed = 1;
    soak->bound_ms = BOUND_MS;
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 's')
            soak->seconds = number(optarg);
        else if (flag == 'i')
            soak->interval_s = number(optarg);
        else if (flag == 'r')
            soak->seed = (uint64_t)number(optarg);
        else if (flag == 'b')
            soak->bound_ms = number(optarg);
        else if (flag == 'c')
            soak->curve = optarg;
        else
            usage();
    }
}

static void choose_load(struct options *o, const struct soak *soak)
{
    *o = (struct options){
        .seconds = soak->seconds,
        .workers = 2,
        .writers = 2,
        .readers = 2,
        .connections = 8,
        .channels = 2000,
        .changes = 500,
        .reads = 8000,
        .page_permille = 10,
        .bound_ms = soak->bound_ms,
        .stale_limit_ms = 1500,
        .fault_gap_ms = GAP_MS,
        .seed = soak->seed,
        .faults[FAULT_ROTATE] = true, /* channeld's user then has a password to rotate */
        .cache_size = "3MiB",
        .env = SETTINGS,
    };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    o->bound_ms = soak->bound_ms > BOUND_SANITIZED_MS ? soak->bound_ms : BOUND_SANITIZED_MS;
    o->reads = 2000;
#endif
}

/* Any fault of a Redis without replicas. */
static enum fault_kind random_fault(uint64_t *chance)
{
    enum fault_kind kind;
    do
        kind = (enum fault_kind)random_below(chance, FAULT_KINDS);
    while (!fault_applies(kind, 0, false));
    return kind;
}

/* Any fault at any time, until the time is over. */
static void cause_faults(struct soak *soak)
{
    uint64_t chance = soak->seed;
    int64_t end = clock_now() + (int64_t)soak->seconds * CLOCK_S;
    while (clock_now() < end) {
        clock_sleep(((int64_t)GAP_MS / 2 + random_below(&chance, GAP_MS)) * CLOCK_MS);
        (void)atomic_fetch_add(&soak->faults, 1);
        run_fault(&soak->run, random_fault(&chance));
        (void)atomic_fetch_add(&soak->faults, 1);
    }
}

struct rest {
    struct server *server;
    struct sample sample; /* the latest */
    double descriptors;   /* that there should be */
};

/* The test's own requests to the admin port leave connections that close a moment later. */
static bool is_at_rest(void *arg)
{
    struct rest *s = arg;
    s->sample = monitor_read(s->server);
    return s->sample.connections == 0 && s->sample.descriptors <= s->descriptors;
}

/* A worker's loop opens a descriptor of its own with its first connection: each has had one after this. */
static void connect_to_workers(const struct server *server)
{
    for (int i = 0; i < FIRST_REQUESTS; i++)
        (void)http_get_status(server->port, "/", NULL);
}

static bool soak_run(struct soak *soak)
{
    struct run *run = &soak->run;
    struct server *server = &run->server;
    run_start(run);
    server_await_metric(server, "channeld_redis_connected", run->options.workers);
    connect_to_workers(server);
    server_await_metric_below(server, "channeld_connections_open", 0);
    struct sample before = monitor_read(server);
    struct rest end = {.server = server, .descriptors = before.descriptors};
    run_start_readers(run);
    monitor_start(&soak->monitor);
    cause_faults(soak);
    monitor_stop(&soak->monitor);
    run_settle(run);
    (void)wait_until(is_at_rest, &end, QUIET_MS);
    run_stop(run);
    run_summary(run);
    return monitor_judge(&soak->monitor, &before, &end.sample) && report_violations(run->report) == 0;
}

int main(int argc, char **argv)
{
    struct soak *soak = calloc(1, sizeof *soak);
    if (soak == NULL)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    read_options(soak, argc, argv);
    choose_load(&soak->run.options, soak);
    soak->monitor =
        (struct monitor){.run = &soak->run, .interval_s = soak->interval_s, .faults = &soak->faults};
    if (soak->curve != NULL && (soak->monitor.curve = fopen(soak->curve, "we")) == NULL) {
        perror(soak->curve);
        return 2;
    }
    bool well = soak_run(soak);
    if (soak->monitor.curve != NULL)
        (void)fclose(soak->monitor.curve);
    monitor_free(&soak->monitor);
    run_fini(&soak->run);
    free(soak);
    return well ? 0 : 1;
}
