/* Answers are counted by route and status, each in its own place. */
#include "api/metrics.h"

#include "http/response.h"
#include "unit/check.h"

static bool written(const struct request_metrics *t, const char *line)
{
    SCOPED_BUF(out);
    metrics_write(&out, &request_metrics_by_status, 1, t);
    bool found = strstr(buf_c_str(&out), line) != NULL;
    return found;
}

/* rate() sees nothing of an increase with which a series begins. */
TEST_CASE(series_of_each_route_begin_at_0)
{
    static const char *const routes[] = {ROUTE_NAMES};
    static const int statuses[] = {200, 304, 400, 401, 404, 429, 500, 503};
    struct request_metrics t = {0};
    for (size_t r = 0; r < TEST_COUNT(routes); r++) {
        for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
            char line[80];
            (void)snprintf(line, sizeof line, "{route=\"%s\",status=\"%d\"} 0\n", routes[r], statuses[i]);
            assert_true(written(&t, line));
        }
    }
}

TEST_CASE(every_status_has_a_counter)
{
    struct request_metrics t = {0};
    static const int statuses[] = {
#define NUMBER(status, text) status,
        HTTP_STATUSES(NUMBER)};
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        char line[80];
        request_metrics_count(&t, ROUTE_NONE, statuses[i], 1);
        (void)snprintf(line, sizeof line, "{route=\"other\",status=\"%d\"} 1\n", statuses[i]);
        assert_true(written(&t, line));
    }
}

TEST_CASE(outcomes_of_keys_and_codings_are_counted)
{
    struct request_metrics t = {0};
    metric_add(&t.auth_total[AUTH_INVALID], 1);
    metric_add(&t.coded_responses_total[CODING_ZSTD - 1], 1);
    assert_int_equal(metric_get(&t.auth_total[2]), 1);
    assert_int_equal(metric_get(&t.coded_responses_total[1]), 1);
}
