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
    struct key_counts *counts = key_metrics_counts_of(m, api_key_name_span(name));
    int of_status = status / 100 - 2;
    metric_add(&counts->of[of_status < KEY_2XX ? KEY_2XX : of_status > KEY_5XX ? KEY_5XX : of_status], 1);
    if (status == 401)
        metric_add(&counts->of[KEY_EXPIRED], 1);
    if (status == 429)
        metric_add(&counts->of[KEY_LIMITED], 1);
}

static void key_metrics_add(struct key_counts *to, const struct key_counts *from)
{
    for (int i = 0; i < KEY_COUNTS; i++)
        metric_add(&to->of[i], metric_get(&from->of[i]));
}

void key_metrics_accumulate(struct key_metrics *sum, const struct key_metrics *from)
{
    unsigned used = atomic_load_explicit(&from->used, memory_order_acquire);
    for (unsigned i = 0; i < used; i++)
        key_metrics_add(key_metrics_counts_of(sum, api_key_name_span(&from->name[i])), &from->counts[i]);
    key_metrics_add(&sum->unnamed, &from->unnamed);
    key_metrics_add(&sum->other, &from->other);
}

/*
 * Writes a family: these counts of each name, of keys without one, and of all others, as values of `label`;
 * and sets them to 0. Of the classes those that occurred, and that of success from the start: a series that
 * begins with its first event has no rate for it.
 */
static void key_metrics_write_family(struct buf *out, struct key_metrics *sum, const char *family,
                                     const char *label, enum key_count first, enum key_count last)
{
    static const char *const texts[] = {"2xx", "3xx", "4xx", "5xx", "expired", "rate"};
    unsigned used = atomic_load_explicit(&sum->used, memory_order_relaxed);
    for (unsigned n = 0; n < used + 2; n++) {
        struct span name = n < used ? api_key_name_span(&sum->name[n]) : n == used ? SPAN("") : OTHER;
        struct key_counts *counts = n < used ? &sum->counts[n] : n == used ? &sum->unnamed : &sum->other;
        for (enum key_count i = first; i <= last; i++) {
            uint64_t count = metric_get(&counts->of[i]);
            if (count > 0 || i == KEY_2XX || i > KEY_5XX)
                buf_printf(out, "%s{name=\"%.*s\",%s=\"%s\"} %llu\n", family, (int)name.len, name.data, label,
                           texts[i], (unsigned long long)count);
            metric_set(&counts->of[i], 0);
        }
    }
}

void key_metrics_write(struct buf *out, struct key_metrics *sum)
{
    metrics_write_head(out, "channeld_key_requests_total", "counter",
                       "Requests answered with a known API key, by its name and the class of the status.");
    key_metrics_write_family(out, sum, "channeld_key_requests_total", "status_class", KEY_2XX, KEY_5XX);
    metrics_write_head(
        out, "channeld_key_refused_total", "counter",
        "Requests refused because their API key has expired (401) or is over its rate (429), by its name.");
    key_metrics_write_family(out, sum, "channeld_key_refused_total", "reason", KEY_EXPIRED, KEY_LIMITED);
}
