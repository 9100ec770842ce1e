/* Counting requests; see metrics.h. */
#include "api/metrics.h"

#include "base/hash.h"
#include "http/response.h"

#include <stdlib.h>

/* The last stands for any other. */
#define STATUSES(X) HTTP_STATUSES(X) X(0, "")

enum {
#define PLACE(status, text) STATUS_##status,
    STATUSES(PLACE)
#undef PLACE
};
_Static_assert((int)STATUS_0 == (int)REQUEST_METRICS_STATUS_COUNT, "each has a counter");

#define BIT(status) (1U << STATUS_##status)

/* The statuses that the route itself gives. Rejections come from the HTTP server. */
#define OF_KEY_ROUTE (BIT(200) | BIT(304) | BIT(400) | BIT(401) | BIT(404) | BIT(429) | BIT(500) | BIT(503))

static const uint32_t BEGINS[ROUTE_COUNT] = {
    [ROUTE_NONE] = BIT(404) | BIT(500) | BIT(503),
    [ROUTE_OPENAPI] = BIT(200) | BIT(304),
    [ROUTE_LIST] = OF_KEY_ROUTE,
    [ROUTE_CARD_BY_ID] = OF_KEY_ROUTE,
    [ROUTE_CARD_BY_LINK] = OF_KEY_ROUTE,
};

#define TEXT(status, text) #status,
static const char *const STATUS_TEXTS[] = {STATUSES(TEXT)};
#undef TEXT

const struct metric request_metrics_by_status = {
    .name = "channeld_requests_total",
    .kind = METRIC_counter,
    .offset = offsetof(struct request_metrics, requests_total),
    .help = "Requests answered, by route and status.",
    .label = {METRIC_LABEL("route", ROUTE_NAMES), {"status", STATUS_TEXTS, STATUS_0 + 1}},
    .begins = BEGINS,
};

static int request_metrics_place_of(int status)
{
    static const int statuses[] = {
#define NUMBER(status, text) status,
        STATUSES(NUMBER)
#undef NUMBER
    };
    int i = 0;
    while (i < STATUS_0 && statuses[i] != status)
        i++;
    return i;
}

void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns)
{
    metric_add(&t->requests_total[route][request_metrics_place_of(status)], 1);
    histogram_observe(&t->request_duration_seconds[route], duration_ns);
}

/* --- by the name of the API key --- */

/* Searches are short. */
_Static_assert(KEY_METRICS_PLACES * 2 < KEY_METRICS_SLOTS, "the slots are too few");

enum { PLACE_UNNAMED, PLACE_OTHER };

/* The slot of the name, or the free one that it would take. */
static uint16_t *key_metrics_find_slot(struct key_metrics *m, struct span name)
{
    size_t at = hash_bytes(name, m->seed) % KEY_METRICS_SLOTS;
    while (m->slot[at] != 0 && !span_equal(api_key_name_span(&m->name[m->slot[at]]), name))
        at = (at + 1) % KEY_METRICS_SLOTS;
    return &m->slot[at];
}

static struct key_counts *key_metrics_counts_of(struct key_metrics *m, struct span name)
{
    if (name.len == 0)
        return &m->counts[PLACE_UNNAMED];
    uint16_t *slot = key_metrics_find_slot(m, name);
    unsigned used = atomic_load_explicit(&m->used, memory_order_relaxed);
    if (*slot == 0 && used == KEY_METRICS_PLACES)
        return &m->counts[PLACE_OTHER];
    if (*slot == 0) {
        api_key_name_set(&m->name[used], name);
        atomic_store_explicit(&m->used, used + 1, memory_order_release);
        *slot = (uint16_t)used;
    }
    return &m->counts[*slot];
}

struct key_metrics *key_metrics_new(void)
{
    struct key_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->seed = random_seed(m);
    atomic_store(&m->used, PLACE_OTHER);
    (void)key_metrics_counts_of(m, SPAN("other"));
    return m;
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

void key_metrics_accumulate(struct key_metrics *sum, const struct key_metrics *from)
{
    unsigned used = atomic_load_explicit(&from->used, memory_order_acquire);
    for (unsigned n = 0; n < used; n++) {
        struct key_counts *to = key_metrics_counts_of(sum, api_key_name_span(&from->name[n]));
        for (int i = 0; i < KEY_COUNTS; i++)
            metric_add(&to->of[i], metric_get(&from->counts[n].of[i]));
    }
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
    for (unsigned n = 0; n < used; n++) {
        struct span name = api_key_name_span(&sum->name[n]);
        for (enum key_count i = first; i <= last; i++) {
            uint64_t count = metric_get(&sum->counts[n].of[i]);
            if (count > 0 || i == KEY_2XX || i > KEY_5XX)
                buf_printf(out, "%s{name=\"%.*s\",%s=\"%s\"} %llu\n", family, (int)name.len, name.data, label,
                           texts[i], (unsigned long long)count);
            metric_set(&sum->counts[n].of[i], 0);
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
