/* The exposition of workers: every metric is summed and written, under a fit name. */
#include "app/worker.h"

#include <ctype.h>
#include <stdlib.h>

#include "unit/check.h"

/* F(layer, name, kind, help) or F(layer, name, kind, help, label, values...) for each metric. */
#define HTTP_ALL(name, ...)  F(http, name, __VA_ARGS__)
#define API_ALL(name, ...)   F(requests, name, __VA_ARGS__)
#define REDIS_ALL(name, ...) F(redis, name, __VA_ARGS__)
#define CACHE_ALL(name, ...) F(cache, name, __VA_ARGS__)
#define ALL_METRICS        \
    HTTP_METRICS(HTTP_ALL) \
    API_METRICS(API_ALL)   \
    REDIS_METRICS(REDIS_ALL) CACHE_METRICS(CACHE_ALL)

static char *exposition_of(const struct worker_metrics *m)
{
    SCOPED_BUF(out);
    worker_metrics_write(&out, m);
    char *text = strdup(buf_c_str(&out));
    assert_non_null(text);
    return text;
}

static double sample(const char *text, const char *name)
{
    char start[160];
    (void)snprintf(start, sizeof start, "\n%s ", name);
    const char *at = strstr(text, start);
    if (at == NULL) {
        fail_msg("not exposed: %s", name);
        return 0;
    }
    return strtod(at + strlen(start), NULL);
}

static void set_counter(void *value, uint64_t n)
{
    metric_set(value, n);
}

static void set_histogram(void *value, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        histogram_observe(value, 1);
}

#define set_gauge     set_counter
#define set_gauge_max set_counter

/* Two workers had the value `n`. */
static void expect_sum(const char *text, const char *name, enum metric_kind kind, uint64_t n,
                       const struct metric_label *label)
{
    char count[160];
    int len = snprintf(count, sizeof count, "%s%s", name, kind == METRIC_histogram ? "_count" : "");
    if (label->name != NULL)
        (void)snprintf(count + len, sizeof count - (size_t)len, "{%s=\"%s\"}", label->name, label->values[0]);
    assert_true(sample(text, count) == (double)(kind == METRIC_gauge_max ? n : 2 * n));
}

/* Each to another value, with a label the first. */
static void set_all(struct worker_metrics *worker)
{
    uint64_t n = 0;
#define F(layer, name, kind, ...) set_##kind(&worker->layer.name, ++n);
    ALL_METRICS
#undef F
}

TEST_CASE(every_metric_of_each_layer_is_summed_and_exposed)
{
    struct worker_metrics sum = {0};
    struct worker_metrics worker = {0};
    set_all(&worker);
    worker_metrics_accumulate(&sum, &worker);
    worker_metrics_accumulate(&sum, &worker);
    char *text = exposition_of(&sum);
    uint64_t n = 0;
#define F(layer, name, kind, help, ...)                     \
    expect_sum(text, "channeld_" #name, METRIC_##kind, ++n, \
               (const struct metric_label[1]){__VA_OPT__(METRIC_LABEL(__VA_ARGS__))});
    ALL_METRICS
#undef F
    free(text);
}

TEST_CASE(values_of_labels_lag_and_requests_are_summed_and_exposed)
{
    struct worker_metrics sum = {0};
    struct worker_metrics workers[3] = {{.redis.redis_role = {[REDIS_ROLE_MASTER] = 1}},
                                        {.redis.redis_role = {[REDIS_ROLE_REPLICA] = 1}},
                                        {.redis.redis_role = {[REDIS_ROLE_REPLICA] = 1}}};
    metric_add(&workers[2].redis.redis_failovers_total[REDIS_FAILOVER_SLOT], 3);
    histogram_observe(&workers[0].loop_lag, 1000);
    request_metrics_count(&workers[1].requests, ROUTE_CARD_BY_LINK, 200, 1000);
    metric_add(&workers[1].requests.auth_total[AUTH_UNAVAILABLE], 1);
    metric_add(&workers[1].requests.coded_responses_total[CODING_ZSTD - 1], 1);
    for (int i = 0; i < 3; i++)
        worker_metrics_accumulate(&sum, &workers[i]);
    char *text = exposition_of(&sum);
    assert_true(sample(text, "channeld_redis_role{role=\"unknown\"}") == 0);
    assert_true(sample(text, "channeld_redis_role{role=\"master\"}") == 1);
    assert_true(sample(text, "channeld_redis_role{role=\"replica\"}") == 2);
    EACH_TEXT (name, "channeld_loop_lag_seconds_count",
               "channeld_requests_total{route=\"card_by_link\",status=\"200\"}",
               "channeld_request_duration_seconds_count{route=\"card_by_link\"}",
               "channeld_auth_total{outcome=\"unavailable\"}",
               "channeld_coded_responses_total{coding=\"zstd\"}")
        assert_true(sample(text, name) == 1);
    assert_true(sample(text, "channeld_redis_failovers_total{reason=\"slot\"}") == 3);
    assert_null(strstr(text, "identity"));
    free(text);
}

static void check_name(const char *name, enum metric_kind kind, const char *help)
{
    bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name) ||
        !islower((unsigned char)*name))
        fail_msg("not a name: %s", name);
    assert_int_equal(kind == METRIC_counter, total);
    assert_null(strpbrk(help, "\\\n"));
    assert_int_equal(help[strlen(help) - 1], '.');
}

TEST_CASE(names_and_help_texts_are_fit_for_prometheus)
{
#define F(layer, name, kind, help, ...) check_name(#name, METRIC_##kind, help);
    ALL_METRICS
#undef F
}
