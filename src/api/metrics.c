/* Counting requests; see metrics.h. */
#include "api/metrics.h"

#include "base/hash.h"

#include <stdlib.h>

#define BIT(status) (1U << HTTP_STATUS_##status)

/* The statuses that routes give. Rejections come from the HTTP server. */
#define OF_ROUTES (BIT(200) | BIT(304) | BIT(400) | BIT(401) | BIT(404) | BIT(429) | BIT(500) | BIT(503))

#define TEXT(status, text) #status,
static const char *const STATUS_TEXTS[] = {HTTP_STATUSES(TEXT)};
#undef TEXT

const struct metric request_metrics_by_status = {
    .name = "channeld_requests_total",
    .kind = METRIC_counter,
    .offset = offsetof(struct request_metrics, requests_total),
    .help = "Requests answered, by route and status.",
    .label = {METRIC_LABEL("route", ROUTE_NAMES), {"status", STATUS_TEXTS, HTTP_STATUS_COUNT}},
    .late = ~OF_ROUTES,
};

void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns)
{
    metric_add(&t->requests_total[route][http_status_place(status)], 1);
    histogram_observe(&t->request_duration_seconds[route], duration_ns);
}

/* --- by the name of the API key --- */

enum { PLACE_OTHER = 1 };

/* The place of a name, or that of "other" if no name gets one any more; -1: it has none yet. */
static int key_metrics_find(const struct key_metrics *m, struct span name)
{
    const unsigned used = m->used;
    const uint64_t hash = hash_bytes(name, 0);
    for (unsigned place = 0; place < used; place++)
        if (m->hash[place] == hash && span_equal(span_of(m->name[place]), name))
            return (int)place;
    return used == KEY_METRICS_PLACES ? PLACE_OTHER : -1;
}

static int key_metrics_place_of(struct key_metrics *m, struct span name)
{
    int place = key_metrics_find(m, name);
    if (place >= 0)
        return place;
    (void)pthread_mutex_lock(&m->lock);
    place = key_metrics_find(m, name); /* another thread may have given it one meanwhile */
    if (place < 0) {
        place = (int)m->used;
        m->hash[place] = hash_bytes(name, 0);
        (void)span_put(name, m->name[place]);
        m->used++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return place;
}

struct key_metrics *key_metrics_new(void)
{
    struct key_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    (void)pthread_mutex_init(&m->lock, NULL);
    m->hash[0] = hash_bytes(SPAN(""), 0);
    m->hash[PLACE_OTHER] = hash_bytes(SPAN("other"), 0);
    (void)span_put(SPAN("other"), m->name[PLACE_OTHER]);
    m->used = PLACE_OTHER + 1;
    return m;
}

void key_metrics_free(struct key_metrics *m)
{
    if (m != NULL)
        (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

void key_metrics_count(struct key_metrics *m, const struct api_key_name *name, int status)
{
    int place = key_metrics_place_of(m, api_key_name_span(name));
    int class = status / 100 - 2;
    m->requests[place][class < KEY_CLASSES ? class : KEY_CLASSES - 1]++;
    if (status == 401 || status == 429)
        m->refused[place][status == 429]++;
}

void key_metrics_write(struct buf *out, const struct key_metrics *m)
{
    unsigned used = m->used;
    const char *names[KEY_METRICS_PLACES];
    for (unsigned n = 0; n < used; n++)
        names[n] = m->name[n];
    const struct metric families[] = {
        {.name = "channeld_key_requests_total",
         .offset = offsetof(struct key_metrics, requests),
         .help = "Requests answered with a known API key, by its name and the class of the status.",
         .label = {{"name", names, used}, METRIC_LABEL("status_class", "2xx", "3xx", "4xx", "5xx")},
         .late = ~1U}, /* all but success */
        {.name = "channeld_key_refused_total",
         .offset = offsetof(struct key_metrics, refused),
         .help = "Requests refused because their API key has expired (401) or is over its rate (429), by its "
                 "name.",
         .label = {{"name", names, used}, METRIC_LABEL("reason", "expired", "rate")}},
    };
    metrics_write(out, families, sizeof families / sizeof families[0], m);
}
