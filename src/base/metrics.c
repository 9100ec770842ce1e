/* Histograms, and adding up and writing metrics by their tables; see metrics.h. */
#include "base/metrics.h"

#include <stdio.h>

/* The upper bounds of the buckets, and in seconds as they are exposed. */
static const uint64_t BOUND_NS[HISTOGRAM_BUCKETS] = {
    50000,    100000,   250000,    500000,    1000000,   2500000,    5000000,    10000000,
    25000000, 50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, UINT64_MAX};

static const char *const BOUND_TEXT[HISTOGRAM_BUCKETS] = {
    "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01",
    "0.025",   "0.05",   "0.1",     "0.25",   "0.5",   "1",      "2.5",   "+Inf"};

void histogram_observe(struct histogram *h, uint64_t ns)
{
    int i = 0; /* most durations are short: the first comparison is nearly always the last */
    while (ns > BOUND_NS[i])
        i++;
    metric_add(&h->bucket[i], 1);
    metric_add(&h->sum_ns, ns);
}

/* `labels`: the text in braces, such as `route="list"`, or empty. */
static void histogram_write(struct buf *out, const char *name, const char *labels, const struct histogram *h)
{
    const char *comma = labels[0] == '\0' ? "" : ",";
    uint64_t count = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
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

/* The bytes of one value. A histogram is counters, too. */
static size_t metrics_size(const struct metric *m)
{
    return m->kind == METRIC_histogram ? sizeof(struct histogram) : sizeof(uint64_t);
}

static size_t metrics_count(const struct metric_label *label)
{
    return label->name != NULL ? label->count : 1;
}

void metrics_accumulate(const struct metric *table, size_t count, void *to, const void *from)
{
    for (const struct metric *m = table; m < table + count; m++) {
        size_t end = m->offset + metrics_count(&m->label[0]) * metrics_count(&m->label[1]) * metrics_size(m);
        for (size_t at = m->offset; at < end; at += sizeof(uint64_t)) {
            _Atomic uint64_t *sum = (void *)((char *)to + at);
            uint64_t value = metric_get((const void *)((const char *)from + at));
            if (m->kind != METRIC_gauge_max)
                metric_add(sum, value);
            else if (value > metric_get(sum))
                metric_set(sum, value);
        }
    }
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

/* The value with these places among the values of the labels. */
static void metrics_write_value(struct buf *out, const struct metric *m, const void *value, size_t first,
                                size_t second)
{
    enum { LABELS_MAX = 128 };
    char labels[LABELS_MAX] = "";
    size_t len = 0;
    for (int l = 0; l < 2 && m->label[l].name != NULL; l++)
        len += (size_t)snprintf(labels + len, sizeof labels - len, "%s%s=\"%s\"", l > 0 ? "," : "",
                                m->label[l].name, m->label[l].values[l == 0 ? first : second]);
    assert(len < sizeof labels);
    if (m->kind == METRIC_histogram) {
        histogram_write(out, m->name, labels, value);
        return;
    }
    uint64_t number = metric_get(value);
    if (number > 0 || (m->late >> second & 1U) == 0)
        buf_printf(out, len > 0 ? "%s{%s} %llu\n" : "%s%s %llu\n", m->name, labels,
                   (unsigned long long)number);
}

void metrics_write(struct buf *out, const struct metric *table, size_t count, const void *values)
{
    static const char *const types[] = {[METRIC_counter] = "counter",
                                        [METRIC_gauge] = "gauge",
                                        [METRIC_gauge_max] = "gauge",
                                        [METRIC_histogram] = "histogram"};
    for (const struct metric *m = table; m < table + count; m++) {
        metrics_write_head(out, m->name, types[m->kind], m->help);
        size_t columns = metrics_count(&m->label[1]);
        for (size_t i = 0; i < metrics_count(&m->label[0]) * columns; i++)
            metrics_write_value(out, m, (const char *)values + m->offset + i * metrics_size(m), i / columns,
                                i % columns);
    }
}
