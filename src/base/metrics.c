/* Histograms, and adding up and writing metrics by their tables; see metrics.h. */
#include "base/metrics.h"

static const uint64_t BOUND_NS[HISTOGRAM_BUCKETS] = {
#define BOUND(us, text) (us) * UINT64_C(1000),
    HISTOGRAM_BOUNDS(BOUND)
#undef BOUND
};

static const char *const BOUND_TEXT[HISTOGRAM_BUCKETS + 1] = {
#define TEXT(us, text) text,
    HISTOGRAM_BOUNDS(TEXT)
#undef TEXT
        "+Inf"};

void histogram_observe(struct histogram *h, uint64_t ns)
{
    int i = 0; /* most durations are short: the first comparison is nearly always the last */
    while (i < HISTOGRAM_BUCKETS && ns > BOUND_NS[i])
        i++;
    metric_add(&h->bucket[i], 1);
    metric_add(&h->sum_ns, ns);
}

void histogram_accumulate(struct histogram *to, const struct histogram *from)
{
    for (int i = 0; i <= HISTOGRAM_BUCKETS; i++)
        metric_add(&to->bucket[i], metric_get(&from->bucket[i]));
    metric_add(&to->sum_ns, metric_get(&from->sum_ns));
}

void histogram_write(struct buf *out, const char *name, const char *labels, const struct histogram *h)
{
    const char *comma = labels[0] == '\0' ? "" : ",";
    uint64_t count = 0;
    for (int i = 0; i <= HISTOGRAM_BUCKETS; i++) {
        count += metric_get(&h->bucket[i]);
        buf_printf(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", name, labels, comma, BOUND_TEXT[i],
                   (unsigned long long)count);
    }
    uint64_t sum = metric_get(&h->sum_ns);
    const char *open = labels[0] == '\0' ? "" : "{";
    const char *close = labels[0] == '\0' ? "" : "}";
    buf_printf(out, "%s_sum%s%s%s %llu.%09llu\n", name, open, labels, close,
               (unsigned long long)(sum / 1000000000), (unsigned long long)(sum % 1000000000));
    buf_printf(out, "%s_count%s%s%s %llu\n", name, open, labels, close, (unsigned long long)count);
}

static void metrics_accumulate_one(enum metric_kind kind, void *to, const void *from)
{
    if (kind == METRIC_histogram) {
        histogram_accumulate(to, from);
        return;
    }
    uint64_t value = metric_get(from);
    if (kind != METRIC_gauge_max)
        metric_add(to, value);
    else if (value > metric_get(to))
        metric_set(to, value);
}

void metrics_accumulate(const struct metric *table, size_t count, void *to, const void *from)
{
    for (size_t i = 0; i < count; i++)
        metrics_accumulate_one(table[i].kind, (char *)to + table[i].offset,
                               (const char *)from + table[i].offset);
}

void metrics_write_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_write_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metrics_write_head(out, name, type, help);
    buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

void metrics_write(struct buf *out, const struct metric *table, size_t count, const void *values)
{
    static const char *const types[] = {[METRIC_counter] = "counter",
                                        [METRIC_gauge] = "gauge",
                                        [METRIC_gauge_max] = "gauge",
                                        [METRIC_histogram] = "histogram"};
    for (size_t i = 0; i < count; i++) {
        const struct metric *m = &table[i];
        const void *value = (const char *)values + m->offset;
        metrics_write_head(out, m->name, types[m->kind], m->help);
        if (m->kind == METRIC_histogram)
            histogram_write(out, m->name, "", value);
        else
            buf_printf(out, "%s %llu\n", m->name, (unsigned long long)metric_get(value));
    }
}
