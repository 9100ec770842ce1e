/* Counting requests; see metrics.h. */
#include "api/metrics.h"

#include "http/response.h"

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
