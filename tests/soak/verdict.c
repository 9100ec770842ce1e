/* Judging a soak; see verdict.h. */

#include "soak/verdict.h"

#include <stdlib.h>

enum {
    QUARTERS = 4,
    SAMPLES_MIN = 2 * QUARTERS,
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
static double median(const struct witness *w, size_t quarter, bool calm_only,
                     double (*of)(const struct sample *))
{
    double *value = calloc(w->count + 1, sizeof *value);
    size_t n = 0;
    if (value == NULL)
        abort();
    for (size_t i = w->count * quarter / QUARTERS; i < w->count * (quarter + 1) / QUARTERS; i++) {
        if (!calm_only || w->samples[i].calm)
            value[n++] = of(&w->samples[i]);
    }
    qsort(value, n, sizeof *value, ascending);
    double middle = n == 0 ? 0 : value[n / 2];
    free(value);
    return middle;
}

static bool judge_memory(const struct witness *w)
{
    double early = median(w, 1, false, resident);
    double late = median(w, QUARTERS - 1, false, resident);
    bool flat = SANITIZED || late <= early + early / GROWTH_PART + GROWTH_BYTES;
    printf("resident memory: %.1f MB in the second quarter, %.1f MB in the last: %s\n", early / 1e6,
           late / 1e6,
           SANITIZED ? "not judged"
           : flat    ? "flat"
                     : "GROWN");
    return flat;
}

static bool judge_latency(const struct witness *w)
{
    double early = median(w, 1, true, p99);
    double late = median(w, QUARTERS - 1, true, p99);
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

bool verdict_reach(const struct witness *w, const struct sample *before, const struct sample *after)
{
    bool well = judge_leftovers(before, after);
    if (w->count >= SAMPLES_MIN) {
        well = judge_memory(w) && well;
        well = judge_latency(w) && well;
    }
    return well;
}
