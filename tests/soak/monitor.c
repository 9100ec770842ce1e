/* Samples of channeld from outside, and their judgement; see monitor.h. */

#include "soak/monitor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

enum { POLL_MS = 50 };

struct sample monitor_read(struct server *server)
{
    struct sample s = {0};
    char *metrics = server_metrics(server);
    s.resident_bytes = server_metric_in(metrics, "process_resident_memory_bytes");
    s.threads = server_metric_in(metrics, "process_threads");
    s.cache_bytes = server_metric_in(metrics, "channeld_cache_bytes");
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

/* The time within which so many thousandths of the interval's answers came. */
static uint64_t within(const struct latency *now, const struct latency *before, int permille)
{
    uint64_t all = 0;
    uint64_t seen = 0;
    for (int b = 0; b < LATENCY_BUCKETS; b++)
        all += now->count[b] - before->count[b];
    for (int b = 0; b < LATENCY_BUCKETS; b++) {
        seen += now->count[b] - before->count[b];
        if (seen > 0 && seen * 1000 >= all * (uint64_t)permille)
            return latency_us(b);
    }
    return 0;
}

static void measure_rates(struct monitor *monitor, struct sample *s)
{
    struct latency now;
    uint64_t failed = 0;
    uint64_t reads = run_reads(monitor->run, &failed);
    uint64_t changes = run_changes(monitor->run);
    uint64_t faults = atomic_load(monitor->faults);
    int64_t at = clock_now();
    double seconds = (double)(at - monitor->sampled) / CLOCK_S;
    gather(monitor->run, &now);
    s->at = (double)(at - monitor->began) / CLOCK_S;
    s->reads_per_s = (double)(reads - monitor->reads_before) / seconds;
    s->changes_per_s = (double)(changes - monitor->changes_before) / seconds;
    s->failed = failed - monitor->failed_before;
    s->p50_us = within(&now, &monitor->before, 500);
    s->p99_us = within(&now, &monitor->before, 990);
    s->p999_us = within(&now, &monitor->before, 999);
    s->calm = faults == monitor->faults_before && faults % 2 == 0;
    monitor->before = now;
    monitor->reads_before = reads;
    monitor->changes_before = changes;
    monitor->failed_before = failed;
    monitor->faults_before = faults;
    monitor->sampled = at;
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
    if (monitor->curve == NULL)
        return;
    (void)fprintf(monitor->curve,
                  "%.1f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                  ",%d\n",
                  s->at, s->resident_bytes, s->descriptors, s->connections, s->threads, s->cache_bytes,
                  s->reads_per_s, s->changes_per_s, s->failed, s->p50_us, s->p99_us, s->p999_us, s->calm);
    (void)fflush(monitor->curve);
}

static void *watch(void *arg)
{
    struct monitor *monitor = arg;
    while (!atomic_load(&monitor->finished)) {
        if (clock_now() - monitor->sampled < (int64_t)monitor->interval_s * CLOCK_S) {
            clock_sleep((int64_t)POLL_MS * CLOCK_MS);
            continue;
        }
        struct sample s = monitor_read(&monitor->run->server);
        measure_rates(monitor, &s);
        keep(monitor, &s);
    }
    return NULL;
}

void monitor_start(struct monitor *monitor)
{
    if (monitor->curve != NULL)
        (void)fputs(
            "second,resident_bytes,descriptors,connections,threads,cache_bytes,reads_per_s,changes_per_s,"
            "failed,p50_us,p99_us,p999_us,calm\n",
            monitor->curve);
    atomic_init(&monitor->finished, false);
    monitor->began = monitor->sampled = clock_now();
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
