/*
 * The soak test: readers and writers as in the coherence test, a random fault every few seconds, and a
 * monitor of memory, descriptors and latency. Every response is judged. It has the options of the coherence
 * test, but for kinds of faults and servers. The exit code is 0 when no response was wrong and channeld was
 * as well at the end as at the beginning, else 1.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"
#include "soak/monitor.h"
#include "support/http.h"
#include "support/wait.h"

enum { FIRST_REQUESTS = 64, QUIET_MS = 20000, ARGUMENTS_MAX = 64 };

/* What the coherence test has no need of. channeld's user has a password to rotate. */
static const char *const DEFAULTS[] = {"soak",      "--seconds",    "600",     "--channels",     "2000",
                                       "--changes", "500",          "--reads", "8000",           "--faults",
                                       "rotate",    "--cache-size", "3MiB",    "--fault-gap-ms", "3000"};

/* Deadlines are short, so that connections come and go; the cache is too small for everything. */
static const char *const SETTINGS[] = {"CHANNELD_HEADER_TIMEOUT=2s", "CHANNELD_WRITE_TIMEOUT=3s",
                                       "CHANNELD_IDLE_TIMEOUT=20s", NULL};

struct soak {
    struct run run;
    struct monitor monitor;
    _Atomic uint64_t faults;
};

static void read_options(struct options *options, int argc, char **argv)
{
    enum { COUNT = sizeof DEFAULTS / sizeof DEFAULTS[0] };
    const char *all[ARGUMENTS_MAX] = {NULL};
    if (argc + COUNT > ARGUMENTS_MAX)
        abort();
    memcpy(all, DEFAULTS, sizeof DEFAULTS);
    memcpy(all + COUNT, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    options_read(options, COUNT + argc - 1, (char **)(uintptr_t)all);
    options->env = SETTINGS;
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
    const struct options *options = &soak->run.options;
    uint64_t chance = options->seed;
    int64_t end = clock_now() + (int64_t)options->seconds * CLOCK_S;
    while (clock_now() < end) {
        clock_sleep(((int64_t)options->fault_gap_ms / 2 + random_below(&chance, options->fault_gap_ms)) *
                    CLOCK_MS);
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
    read_options(&soak->run.options, argc, argv);
    soak->monitor = (struct monitor){.run = &soak->run, .faults = &soak->faults};
    bool well = soak_run(soak);
    monitor_free(&soak->monitor);
    run_fini(&soak->run);
    free(soak);
    return well ? 0 : 1;
}
