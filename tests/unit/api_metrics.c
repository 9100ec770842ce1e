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

TEST_CASE(responses_are_counted_by_route_and_status)
{
    struct request_metrics t = {0};
    request_metrics_count(&t, ROUTE_LIST, 200, 1000);
    request_metrics_count(&t, ROUTE_LIST, 200, 1000);
    request_metrics_count(&t, ROUTE_CARD_BY_ID, 404, 1000);
    request_metrics_count(&t, ROUTE_CARD_BY_LINK, 304, 70000);
    request_metrics_count(&t, ROUTE_NONE, 505, 1000);
    request_metrics_count(&t, ROUTE_NONE, 418, 1000);
    EACH_TEXT (text, "\nchanneld_requests_total{route=\"list\",status=\"200\"} 2\n",
               "\nchanneld_requests_total{route=\"card_by_id\",status=\"404\"} 1\n",
               "\nchanneld_requests_total{route=\"card_by_link\",status=\"304\"} 1\n",
               "\nchanneld_requests_total{route=\"other\",status=\"505\"} 1\n",
               "\nchanneld_requests_total{route=\"other\",status=\"0\"} 1\n")
        assert_true(written(&t, text));
    assert_int_equal(metric_get(&t.request_duration_seconds[ROUTE_LIST].bucket[0]), 2);
    assert_int_equal(metric_get(&t.request_duration_seconds[ROUTE_CARD_BY_LINK].bucket[1]), 1);
}

/* rate() sees nothing of an increase with which a series begins. */
TEST_CASE(series_of_each_route_begin_at_0)
{
    static const char *const routes[] = {"list", "card_by_id", "card_by_link"};
    static const int statuses[] = {200, 304, 400, 401, 404, 429, 500, 503};
    struct request_metrics t = {0};
    for (size_t r = 0; r < TEST_COUNT(routes); r++) {
        for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
            char line[80];
            (void)snprintf(line, sizeof line, "{route=\"%s\",status=\"%d\"} 0\n", routes[r], statuses[i]);
            assert_true(written(&t, line));
        }
    }
    assert_true(written(&t, "{route=\"openapi\",status=\"200\"} 0\n"));
    assert_true(written(&t, "{route=\"other\",status=\"500\"} 0\n"));
    assert_true(written(&t, "{route=\"other\",status=\"503\"} 0\n"));
}

TEST_CASE(other_statuses_are_absent_until_used)
{
    struct request_metrics t = {0};
    assert_false(written(&t, "{route=\"card_by_id\",status=\"405\"}"));
    assert_false(written(&t, "{route=\"other\",status=\"200\"}"));
}

TEST_CASE(every_status_has_a_counter)
{
    struct request_metrics t = {0};
    int known = 0;
    for (int status = 100; status < 600; status++) {
        if (strcmp(http_status_text(status), "Unknown") == 0)
            continue;
        char line[80];
        request_metrics_count(&t, ROUTE_NONE, status, 1);
        (void)snprintf(line, sizeof line, "{route=\"other\",status=\"%d\"} 1\n", status);
        assert_true(written(&t, line));
        known++;
    }
    assert_int_equal(known, REQUEST_METRICS_STATUS_COUNT);
}

TEST_CASE(outcomes_of_keys_and_codings_are_counted)
{
    struct request_metrics t = {0};
    request_metrics_count_key(&t, AUTH_INVALID);
    request_metrics_count_coded(&t, CODING_ZSTD);
    assert_int_equal(metric_get(&t.auth_total[2]), 1);
    assert_int_equal(metric_get(&t.coded_responses_total[1]), 1);
}
