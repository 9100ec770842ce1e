/* Samples of channeld from outside, and their judgement; see monitor.h. */

#include "soak/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

enum { POLL_MS = 50, INTERVAL_MS = 1000 }; /* hardly any longer one is without a fault */

struct sample monitor_read(struct server *server)
{
    struct sample s = {0};
    char *metrics = server_metrics(server);
    s.resident_bytes = server_metric_in(metrics, "process_resident_memory_bytes");
    s.threads = server_metric_in(metrics, "process_threads");
    s.connections = server_metric_in(metrics, "channeld_connections_open");
    s.descriptors = server_metric_in(metrics, "process_open_fds") - s.connections;
    free(metrics);
    return s;
}

static void gather(struct run *run, struct latency *sum)
{
    memset(sum, 0, sizeof *sum);
    for (int i = 0; i < run->options.readers; i++) {
        for (int b = 0; b < LATENCY_BUCKETS; b++)
            sum->count[b] += atomic_load_explicit(&run->reader[i].latency.count[b], memory_order_relaxed);
    }
}

/* The time within which 99 % of the interval's answers came. */
static uint64_t p99_of(const struct latency *now, const struct latency *before)
{
    uint64_t all = 0;
    uint64_t seen = 0;
    for (int b = 0; b < LATENCY_BUCKETS; b++)
        all += now->count[b] - before->count[b];
    for (int b = 0; b < LATENCY_BUCKETS; b++) {
        seen += now->count[b] - before->count[b];
        if (seen > 0 && seen * 100 >= all * 99)
            return latency_us(b);
    }
    return 0;
}

static void measure_latency(struct monitor *monitor, struct sample *s)
{
    struct latency now;
    uint64_t faults = atomic_load(monitor->faults);
    gather(monitor->run, &now);
    s->p99_us = p99_of(&now, &monitor->before);
    s->calm = faults == monitor->faults_before && faults % 2 == 0;
    monitor->before = now;
    monitor->faults_before = faults;
    monitor->sampled = clock_now();
}

static void keep(struct monitor *monitor, const struct sample *s)
{
    if (monitor->count == monitor->capacity) {
        monitor->capacity = monitor->capacity == 0 ? 64 : 2 * monitor->capacity;
        monitor->samples = realloc(monitor->samples, monitor->capacity * sizeof *monitor->samples);
        if (monitor->samples == NULL)
            abort();
    }
    monitor->samples[monitor->count++] = *s;
}

static void *watch(void *arg)
{
    struct monitor *monitor = arg;
    while (!atomic_load(&monitor->finished)) {
        if (clock_now() - monitor->sampled < (int64_t)INTERVAL_MS * CLOCK_MS) {
            clock_sleep((int64_t)POLL_MS * CLOCK_MS);
            continue;
        }
        struct sample s = monitor_read(&monitor->run->server);
        measure_latency(monitor, &s);
        keep(monitor, &s);
    }
    return NULL;
}

void monitor_start(struct monitor *monitor)
{
    atomic_init(&monitor->finished, false);
    monitor->sampled = clock_now();
    if (pthread_create(&monitor->thread, NULL, watch, monitor) != 0)
        abort();
}

void monitor_stop(struct monitor *monitor)
{
    atomic_store(&monitor->finished, true);
    (void)pthread_join(monitor->thread, NULL);
}

void monitor_free(struct monitor *monitor)
{
    free(monitor->samples);
}

/* ---- the judgement ---- */

enum {
    QUARTERS = 4,
    SAMPLES_MIN = 2 * QUARTERS,
    LATENCY_SAMPLES_MIN = 40, /* fewer say more about the machine */
    GROWTH_BYTES = 4 << 20,
    GROWTH_PART = 50,
    SLOWER = 3,
    SLOWER_US = 5000
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool SANITIZED = true;
#else
static const bool SANITIZED = false;
#endif

static double resident(const struct sample *s)
{
    return s->resident_bytes;
}

static double p99(const struct sample *s)
{
    return (double)s->p99_us;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median over a quarter (from 0) of the time; 0 when there is nothing to go by. */
static double median(const struct monitor *monitor, size_t quarter, bool calm_only,
                     double (*of)(const struct sample *))
{
    double *value = calloc(monitor->count + 1, sizeof *value);
    size_t n = 0;
    if (value == NULL)
        abort();
    for (size_t i = monitor->count * quarter / QUARTERS; i < monitor->count * (quarter + 1) / QUARTERS; i++) {
        if (!calm_only || monitor->samples[i].calm)
            value[n++] = of(&monitor->samples[i]);
    }
    qsort(value, n, sizeof *value, ascending);
    double middle = n == 0 ? 0 : value[n / 2];
    free(value);
    return middle;
}

static bool judge_memory(const struct monitor *monitor)
{
    double early = median(monitor, 1, false, resident);
    double late = median(monitor, QUARTERS - 1, false, resident);
    bool flat = SANITIZED || late <= early + early / GROWTH_PART + GROWTH_BYTES;
    printf("resident memory: %.1f MB in the second quarter, %.1f MB in the last: %s\n", early / 1e6,
           late / 1e6,
           SANITIZED ? "not judged"
           : flat    ? "flat"
                     : "GROWN");
    return flat;
}

static bool judge_latency(const struct monitor *monitor)
{
    double early = median(monitor, 1, true, p99);
    double late = median(monitor, QUARTERS - 1, true, p99);
    bool steady = early == 0 || late <= SLOWER * early + SLOWER_US;
    printf("p99 in calm intervals: %.0f us in the second quarter, %.0f us in the last: %s\n", early, late,
           steady ? "steady" : "SLOWER");
    return steady;
}

static bool judge_leftovers(const struct sample *before, const struct sample *after)
{
    bool same = before->descriptors >= after->descriptors && before->threads == after->threads &&
                after->connections == 0;
    printf("descriptors %.0f before, %.0f after; threads %.0f, %.0f; connections left %.0f: %s\n",
           before->descriptors, after->descriptors, before->threads, after->threads, after->connections,
           same ? "the same" : "CHANGED");
    return same;
}

bool monitor_judge(const struct monitor *monitor, const struct sample *before, const struct sample *after)
{
    bool well = judge_leftovers(before, after);
    if (monitor->count >= SAMPLES_MIN)
        well = judge_memory(monitor) && well;
    if (monitor->count >= LATENCY_SAMPLES_MIN)
        well = judge_latency(monitor) && well;
    return well;
}
