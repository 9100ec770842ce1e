/* Counting requests by name; see key_metrics.h. */
#include "api/key_metrics.h"

/* Searches are short: at most 200 of 512 slots are taken. */
_Static_assert(KEY_METRICS_NAMES * 2 < KEY_METRICS_SLOTS, "the slots are too few");

static const struct span OTHER = {"other", 5};

/* The slot of the name, or the free one that it would take. */
static uint16_t *key_metrics_find_slot(struct key_metrics *m, struct span name)
{
    size_t at = hash_bytes(name, m->seed) % KEY_METRICS_SLOTS;
    while (m->slot[at] != 0 && !span_equal(api_key_name_span(&m->name[m->slot[at] - 1]), name))
        at = (at + 1) % KEY_METRICS_SLOTS;
    return &m->slot[at];
}

/* The counts of a name, or "other" if there is no place for it. */
static struct key_counts *key_metrics_counts_of(struct key_metrics *m, struct span name)
{
    if (name.len == 0)
        return &m->unnamed;
    uint16_t *slot = key_metrics_find_slot(m, name);
    unsigned used = atomic_load_explicit(&m->used, memory_order_relaxed);
    if (*slot != 0)
        return &m->counts[*slot - 1];
    if (used == KEY_METRICS_NAMES || span_equal(name, OTHER))
        return &m->other;
    api_key_name_set(&m->name[used], name);
    atomic_store_explicit(&m->used, used + 1, memory_order_release);
    *slot = (uint16_t)(used + 1);
    return &m->counts[used];
}

void key_metrics_count(struct key_metrics *m, const struct api_key_name *name, int status)
{
    int of_status = status / 100 - 2;
    int last = of_status < KEY_METRICS_CLASSES ? of_status : KEY_METRICS_CLASSES - 1;
    struct key_counts *counts = key_metrics_counts_of(m, api_key_name_span(name));
    metric_add(&counts->requests[last > 0 ? last : 0], 1);
    if (status == 401)
        metric_add(&counts->expired, 1);
    if (status == 429)
        metric_add(&counts->limited, 1);
}

static void key_metrics_add(struct key_counts *to, const struct key_counts *from)
{
    for (int i = 0; i < KEY_METRICS_CLASSES; i++)
        metric_add(&to->requests[i], metric_get(&from->requests[i]));
    metric_add(&to->expired, metric_get(&from->expired));
    metric_add(&to->limited, metric_get(&from->limited));
}

void key_metrics_accumulate(struct key_metrics *sum, const struct key_metrics *from)
{
    unsigned used = atomic_load_explicit(&from->used, memory_order_acquire);
    for (unsigned i = 0; i < used; i++)
        key_metrics_add(key_metrics_counts_of(sum, api_key_name_span(&from->name[i])), &from->counts[i]);
    key_metrics_add(&sum->unnamed, &from->unnamed);
    key_metrics_add(&sum->other, &from->other);
}

/* Classes that occurred, and the class of success from the start: a series that begins with its first event
 * has no rate for it. */
static void key_metrics_write_requests(struct buf *out, struct span name, struct key_counts *counts)
{
    for (int i = 0; i < KEY_METRICS_CLASSES; i++) {
        uint64_t count = metric_get(&counts->requests[i]);
        if (count > 0 || i == 0)
            buf_printf(out, "channeld_key_requests_total{name=\"%.*s\",status_class=\"%dxx\"} %llu\n",
                       (int)name.len, name.data, i + 2, (unsigned long long)count);
        metric_set(&counts->requests[i], 0);
    }
}

static void key_metrics_write_refused(struct buf *out, struct span name, const char *reason,
                                      _Atomic uint64_t *count)
{
    buf_printf(out, "channeld_key_refused_total{name=\"%.*s\",reason=\"%s\"} %llu\n", (int)name.len,
               name.data, reason, (unsigned long long)metric_get(count));
    metric_set(count, 0);
}

static void key_metrics_write_refusals(struct buf *out, struct span name, struct key_counts *counts)
{
    key_metrics_write_refused(out, name, "expired", &counts->expired);
    key_metrics_write_refused(out, name, "rate", &counts->limited);
}

/* Calls `write` for each name, for keys without one, and for all others. */
static void key_metrics_write_each(struct buf *out, struct key_metrics *sum,
                                   void (*write)(struct buf *out, struct span name,
                                                 struct key_counts *counts))
{
    unsigned used = atomic_load_explicit(&sum->used, memory_order_relaxed);
    for (unsigned i = 0; i < used; i++)
        write(out, api_key_name_span(&sum->name[i]), &sum->counts[i]);
    write(out, SPAN(""), &sum->unnamed);
    write(out, OTHER, &sum->other);
}

void key_metrics_write(struct buf *out, struct key_metrics *sum)
{
    metrics_write_head(out, "channeld_key_requests_total", "counter",
                       "Requests answered with a known API key, by its name and the class of the status.");
    key_metrics_write_each(out, sum, key_metrics_write_requests);
    metrics_write_head(
        out, "channeld_key_refused_total", "counter",
        "Requests refused because their API key has expired (401) or is over its rate (429), by its name.");
    key_metrics_write_each(out, sum, key_metrics_write_refusals);
}
