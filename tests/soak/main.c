/*
 * The soak: readers and writers as in the coherence test, vandals beside them, a fault chosen by chance every
 * few seconds, and a witness who looks whether channeld grows, leaks descriptors or gets slower. Every answer
 * is judged.
 *
 *     soak [--seconds N] [--interval N] [--seed N] [--curve FILE]
 *
 * Exit code 0 when no answer was wrong and channeld was as well at the end as at the beginning, else 1.
 */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "coherence/clock.h"
#include "soak/vandal.h"
#include "soak/verdict.h"
#include "support/http.h"
#include "support/wait.h"

enum {
    SECONDS = 600,
    GREETINGS = 64,
    GAP_MS = 3000,
    QUIET_MS = 20000,
    BOUND_MS = 50,
    BOUND_SANITIZED_MS = 300
};

/* Deadlines are short, so that the vandals' connections come and go; and the cache is too small for all. */
static const char *const SETTINGS[] = {"CHANNELD_HEADER_TIMEOUT=2s", "CHANNELD_WRITE_TIMEOUT=3s",
                                       "CHANNELD_IDLE_TIMEOUT=20s", NULL};

struct soak {
    int seconds;
    int interval_s;
    uint64_t seed;
    const char *curve;
    struct run run;
    struct vandal vandal;
    struct witness witness;
    _Atomic uint64_t faults;
};

static void usage(void)
{
    (void)fputs("usage: soak [--seconds N] [--interval N] [--seed N] [--curve FILE]\n", stderr);
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
    static const struct option known[] = {{"seconds", required_argument, NULL, 's'},
                                          {"interval", required_argument, NULL, 'i'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"curve", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    soak->seconds = SECONDS;
    soak->interval_s = 1; /* of longer ones hardly any is without a fault */
    soak->seed = 1;
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 's')
            soak->seconds = number(optarg);
        else if (flag == 'i')
            soak->interval_s = number(optarg);
        else if (flag == 'r')
            soak->seed = (uint64_t)number(optarg);
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
        .bound_ms = BOUND_MS,
        .stale_limit_ms = 1500,
        .fault_gap_ms = GAP_MS,
        .seed = soak->seed,
        .cache_size = "3MiB",
        .env = SETTINGS,
    };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    o->bound_ms = BOUND_SANITIZED_MS;
    o->reads = 2000;
#endif
}

/* Any fault at any time, until the time is over. */
static void cause_faults(struct soak *soak)
{
    uint64_t chance = soak->seed;
    int64_t end = clock_now() + (int64_t)soak->seconds * CLOCK_S;
    while (clock_now() < end) {
        clock_sleep(((int64_t)GAP_MS / 2 + random_below(&chance, GAP_MS)) * CLOCK_MS);
        (void)atomic_fetch_add(&soak->faults, 1);
        run_fault(&soak->run, (enum fault_kind)random_below(&chance, FAULT_KINDS));
        (void)atomic_fetch_add(&soak->faults, 1);
    }
}

struct stillness {
    struct server *server;
    struct sample sample; /* the latest */
    double descriptors;   /* that there should be */
};

/* Our own questions on the admin port leave connections that close a moment later. */
static bool is_still(void *arg)
{
    struct stillness *s = arg;
    s->sample = witness_look(s->server);
    return s->sample.connections == 0 && s->sample.descriptors <= s->descriptors;
}

/* A worker's loop opens a descriptor of its own with its first connection: each has had one after this. */
static void greet_workers(const struct server *server)
{
    for (int i = 0; i < GREETINGS; i++)
        (void)http_get_status(server->port, "/", NULL);
}

static bool soak_run(struct soak *soak)
{
    struct run *run = &soak->run;
    struct server *server = &run->server;
    run_start(run);
    server_await_metric(server, "channeld_redis_connected", run->options.workers);
    greet_workers(server);
    server_await_metric_below(server, "channeld_connections_open", 0);
    struct sample before = witness_look(server);
    struct stillness end = {.server = server, .descriptors = before.descriptors};
    run_start_readers(run);
    vandal_start(&soak->vandal, server->port, run->model->key_text[0], soak->seed);
    witness_start(&soak->witness);
    cause_faults(soak);
    witness_stop(&soak->witness);
    vandal_stop(&soak->vandal);
    run_settle(run);
    (void)wait_until(is_still, &end, QUIET_MS);
    run_stop(run);
    run_summary(run);
    printf("acts of vandals: %" PRIu64 "\n", atomic_load(&soak->vandal.acts));
    return verdict_reach(&soak->witness, &before, &end.sample) && report_violations(run->report) == 0;
}

int main(int argc, char **argv)
{
    struct soak *soak = calloc(1, sizeof *soak);
    if (soak == NULL)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    read_options(soak, argc, argv);
    choose_load(&soak->run.options, soak);
    soak->witness =
        (struct witness){.run = &soak->run, .interval_s = soak->interval_s, .faults = &soak->faults};
    if (soak->curve != NULL && (soak->witness.curve = fopen(soak->curve, "we")) == NULL) {
        perror(soak->curve);
        return 2;
    }
    bool well = soak_run(soak);
    if (soak->witness.curve != NULL)
        (void)fclose(soak->witness.curve);
    witness_free(&soak->witness);
    run_fini(&soak->run);
    free(soak);
    return well ? 0 : 1;
}
