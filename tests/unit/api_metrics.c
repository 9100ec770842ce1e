/* Answers are counted by route and status, each in its own place, and none is lost. */
#include "api/metrics.h"

#include "http/response.h"
#include "unit/check.h"

static bool written(const struct request_metrics *t, const char *line)
{
    SCOPED_BUF(out);
    request_metrics_write(&out, t);
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
               "\nchanneld_requests_total{route=\"other\",status=\"0\"} 1\n",
               "\nchanneld_request_duration_seconds_count{route=\"list\"} 2\n")
        assert_true(written(&t, text));
    assert_true(
        written(&t, "\nchanneld_request_duration_seconds_bucket{route=\"card_by_link\",le=\"0.00005\"} 0\n"));
    assert_true(
        written(&t, "\nchanneld_request_duration_seconds_bucket{route=\"card_by_link\",le=\"0.0001\"} 1\n"));
}

/* rate() sees nothing of an increase with which a series begins. */
TEST_CASE(series_of_alerts_begin_at_0)
{
    static const char *const routes[] = {"list", "card_by_id", "card_by_link"};
    static const int statuses[] = {200, 401, 404, 500};
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
    assert_false(written(&t, "{route=\"card_by_id\",status=\"400\"}"));
    assert_false(written(&t, "{route=\"other\",status=\"200\"}"));
}

TEST_CASE(coded_responses_are_counted_by_coding)
{
    struct request_metrics t = {0};
    struct request_metrics sum = {0};
    assert_true(written(&t, "\nchanneld_coded_responses_total{coding=\"gzip\"} 0\n"));
    request_metrics_count_coded(&t, CODING_ZSTD);
    request_metrics_accumulate(&sum, &t);
    request_metrics_accumulate(&sum, &t);
    assert_true(written(&sum, "\nchanneld_coded_responses_total{coding=\"gzip\"} 0\n"));
    assert_true(written(&sum, "\nchanneld_coded_responses_total{coding=\"zstd\"} 2\n"));
    assert_false(written(&sum, "identity"));
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

TEST_CASE(key_outcomes_are_counted)
{
    struct request_metrics t = {0};
    request_metrics_count_key(&t, AUTH_VALID);
    request_metrics_count_key(&t, AUTH_VALID);
    request_metrics_count_key(&t, AUTH_INVALID);
    assert_true(written(&t, "channeld_auth_total{outcome=\"valid\"} 2\n"
                            "channeld_auth_total{outcome=\"missing\"} 0\n"
                            "channeld_auth_total{outcome=\"invalid\"} 1\n"
                            "channeld_auth_total{outcome=\"unavailable\"} 0\n"));
}

TEST_CASE(accumulation_sums_everything)
{
    struct request_metrics sum = {0};
    struct request_metrics one = {0};
    request_metrics_count(&one, ROUTE_LIST, 500, 60000);
    request_metrics_count_key(&one, AUTH_UNAVAILABLE);
    request_metrics_accumulate(&sum, &one);
    request_metrics_accumulate(&sum, &one);
    assert_true(written(&sum, "{route=\"list\",status=\"500\"} 2\n"));
    assert_true(written(&sum, "channeld_auth_total{outcome=\"unavailable\"} 2\n"));
    assert_true(written(&sum, "channeld_request_duration_seconds_sum{route=\"list\"} 0.000120000\n"));
}
