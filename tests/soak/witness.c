/* Looking at channeld from outside; see witness.h. */

#include "soak/witness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

enum { POLL_MS = 50 };

struct sample witness_look(struct server *server)
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

static void measure_rates(struct witness *w, struct sample *s)
{
    struct latency now;
    uint64_t failed = 0;
    uint64_t reads = run_reads(w->run, &failed);
    uint64_t changes = run_changes(w->run);
    uint64_t faults = atomic_load(w->faults);
    int64_t at = clock_now();
    double seconds = (double)(at - w->sampled) / CLOCK_S;
    gather(w->run, &now);
    s->at = (double)(at - w->began) / CLOCK_S;
    s->reads_per_s = (double)(reads - w->reads_before) / seconds;
    s->changes_per_s = (double)(changes - w->changes_before) / seconds;
    s->failed = failed - w->failed_before;
    s->p50_us = within(&now, &w->before, 500);
    s->p99_us = within(&now, &w->before, 990);
    s->p999_us = within(&now, &w->before, 999);
    s->calm = faults == w->faults_before && faults % 2 == 0;
    w->before = now;
    w->reads_before = reads;
    w->changes_before = changes;
    w->failed_before = failed;
    w->faults_before = faults;
    w->sampled = at;
}

static void keep(struct witness *w, const struct sample *s)
{
    if (w->count == w->capacity) {
        w->capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
        w->samples = realloc(w->samples, w->capacity * sizeof *w->samples);
        if (w->samples == NULL)
            abort();
    }
    w->samples[w->count++] = *s;
    if (w->curve == NULL)
        return;
    (void)fprintf(w->curve,
                  "%.1f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                  ",%d\n",
                  s->at, s->resident_bytes, s->descriptors, s->connections, s->threads, s->cache_bytes,
                  s->reads_per_s, s->changes_per_s, s->failed, s->p50_us, s->p99_us, s->p999_us, s->calm);
    (void)fflush(w->curve);
}

static void *watch(void *arg)
{
    struct witness *w = arg;
    while (!atomic_load(&w->finished)) {
        if (clock_now() - w->sampled < (int64_t)w->interval_s * CLOCK_S) {
            clock_sleep((int64_t)POLL_MS * CLOCK_MS);
            continue;
        }
        struct sample s = witness_look(&w->run->server);
        measure_rates(w, &s);
        keep(w, &s);
    }
    return NULL;
}

void witness_start(struct witness *w)
{
    if (w->curve != NULL)
        (void)fputs(
            "second,resident_bytes,descriptors,connections,threads,cache_bytes,reads_per_s,changes_per_s,"
            "failed,p50_us,p99_us,p999_us,calm\n",
            w->curve);
    atomic_init(&w->finished, false);
    w->began = w->sampled = clock_now();
    if (pthread_create(&w->thread, NULL, watch, w) != 0)
        abort();
}

void witness_stop(struct witness *w)
{
    atomic_store(&w->finished, true);
    (void)pthread_join(w->thread, NULL);
}

void witness_free(struct witness *w)
{
    free(w->samples);
}
