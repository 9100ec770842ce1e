/* Metrics: counting, histograms, the lag of a loop, adding up, and the text that Prometheus reads. */
#include "base/metrics.h"

#include <stdlib.h>

#include "unit/check.h"

#define SAMPLE_METRICS(X)                                \
    X(starts_total, counter, "Starts.")                  \
    X(open, gauge, "Open now.")                          \
    X(lag_seconds, gauge_max, "The largest lag.")        \
    X(wait_seconds, histogram, "Time of waiting.")       \
    X(files, gauge, "Files.", "state", "open", "closed") \
    X(read_seconds, histogram, "Time of reads.", "route", "one", "list")

struct sample {
    SAMPLE_METRICS(METRIC_MEMBER)
    _Atomic uint64_t answers[2][3];
};

static const struct metric TABLE[] = {
#define ROW(name, ...) METRIC_ROW(struct sample, name, name, __VA_ARGS__)
    SAMPLE_METRICS(ROW){"channeld_answers",
                        METRIC_counter,
                        offsetof(struct sample, answers),
                        "Answers.",
                        {METRIC_LABEL("route", "one", "list"), METRIC_LABEL("status", "200", "404", "500")},
                        1U << 2},
#undef ROW
};

enum { ROWS = sizeof TABLE / sizeof TABLE[0] };

TEST_CASE(gauge_goes_up_and_down)
{
    struct sample m = {0};
    metric_add(&m.open, 3);
    metric_sub(&m.open, 1);
    metric_add(&m.starts_total, 0);
    assert_int_equal(metric_get(&m.open), 2);
    assert_int_equal(metric_get(&m.starts_total), 0);
    metric_set(&m.open, UINT64_MAX);
    assert_int_equal(metric_get(&m.open), UINT64_MAX);
}

TEST_CASE(duration_is_counted_in_the_first_bucket_not_below_it)
{
    static const struct {
        uint64_t ns;
        int bucket;
    } cases[] = {{0, 0},       {50000, 0},   {50001, 1},       {100000, 1},      {100001, 2},     {999999, 4},
                 {1000000, 4}, {1000001, 5}, {2500000000, 14}, {2500000001, 15}, {UINT64_MAX, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct histogram h = {0};
        histogram_observe(&h, cases[i].ns);
        for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
            assert_int_equal(metric_get(&h.bucket[b]), b == cases[i].bucket);
        assert_int_equal(metric_get(&h.sum_ns), cases[i].ns);
    }
}

static const char *written(const struct sample *m, struct buf *out)
{
    metrics_write(out, TABLE, ROWS, m);
    return buf_c_str(out);
}

TEST_CASE(buckets_are_written_cumulatively_with_sum_and_count)
{
    struct sample m = {0};
    SCOPED_BUF(out);
    for (int i = 0; i < 2; i++) {
        struct histogram *h = i == 0 ? &m.read_seconds[1] : &m.wait_seconds;
        histogram_observe(h, 40000);
        histogram_observe(h, 60000);
        histogram_observe(h, 3000000001);
    }
    const char *text = written(&m, &out);
    EACH_TEXT (line, "\nchanneld_read_seconds_bucket{route=\"list\",le=\"0.00005\"} 1\n",
               "\nchanneld_read_seconds_bucket{route=\"list\",le=\"0.0001\"} 2\n",
               "\nchanneld_read_seconds_bucket{route=\"list\",le=\"2.5\"} 2\n",
               "\nchanneld_read_seconds_bucket{route=\"list\",le=\"+Inf\"} 3\n",
               "\nchanneld_read_seconds_sum{route=\"list\"} 3.000100001\n",
               "\nchanneld_read_seconds_count{route=\"list\"} 3\n",
               "\nchanneld_read_seconds_count{route=\"one\"} 0\n",
               "\nchanneld_wait_seconds_bucket{le=\"+Inf\"} 3\nchanneld_wait_seconds_sum 3.000100001\n")
        assert_non_null(strstr(text, line));
}

/* An observation is in the bucket with its text, and one that is longer by a nanosecond is not. */
TEST_CASE(bucket_bounds_equal_their_texts)
{
    EACH_TEXT (seconds, "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
               "0.05", "0.1", "0.25", "0.5", "1", "2.5") {
        struct sample m = {0};
        SCOPED_BUF(out);
        char line[64];
        uint64_t ns = (uint64_t)(strtod(seconds, NULL) * 1e9 + 0.5);
        histogram_observe(&m.wait_seconds, ns);
        histogram_observe(&m.wait_seconds, ns + 1);
        (void)snprintf(line, sizeof line, "channeld_wait_seconds_bucket{le=\"%s\"} 1\n", seconds);
        assert_non_null(strstr(written(&m, &out), line));
    }
}

TEST_CASE(accumulation_sums_every_bucket_and_every_value_of_a_label)
{
    struct sample sum = {0};
    struct sample one = {.files = {3, 4}, .answers = {{0, 1, 2}, {3, 4, 5}}};
    for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
        metric_set(&one.read_seconds[1].bucket[b], (uint64_t)b + 1);
    metric_set(&one.read_seconds[1].sum_ns, 77);
    metrics_accumulate(TABLE, ROWS, &sum, &one);
    metrics_accumulate(TABLE, ROWS, &sum, &one);
    for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
        assert_int_equal(metric_get(&sum.read_seconds[1].bucket[b]), 2 * ((uint64_t)b + 1));
    assert_int_equal(metric_get(&sum.read_seconds[1].sum_ns), 154);
    assert_int_equal(metric_get(&sum.files[1]), 8);
    for (int i = 0; i < 6; i++)
        assert_int_equal(metric_get(&sum.answers[i / 3][i % 3]), 2 * i);
}

TEST_CASE(series_begin_at_0_or_with_their_first_event)
{
    struct sample m = {.answers = {{0, 7, 0}, {0, 0, 3}}};
    SCOPED_BUF(out);
    assert_non_null(strstr(written(&m, &out), "counter\nchanneld_answers{route=\"one\",status=\"200\"} 0\n"
                                              "channeld_answers{route=\"one\",status=\"404\"} 7\n"
                                              "channeld_answers{route=\"list\",status=\"200\"} 0\n"
                                              "channeld_answers{route=\"list\",status=\"404\"} 0\n"
                                              "channeld_answers{route=\"list\",status=\"500\"} 3\n"));
    assert_non_null(strstr(buf_c_str(&out), "\nchanneld_files{state=\"closed\"} 0\n"));
}

TEST_CASE(accumulation_sums_all_but_the_largest)
{
    struct sample sum = {0};
    struct sample workers[3] = {{.starts_total = 1, .open = 10, .lag_seconds = 4},
                                {.starts_total = 2, .open = 20, .lag_seconds = 9},
                                {.starts_total = 4, .open = 40, .lag_seconds = 2}};
    histogram_observe(&workers[1].wait_seconds, 70);
    histogram_observe(&workers[2].wait_seconds, 7);
    for (int i = 0; i < 3; i++)
        metrics_accumulate(TABLE, ROWS, &sum, &workers[i]);
    assert_int_equal(metric_get(&sum.starts_total), 7);
    assert_int_equal(metric_get(&sum.open), 70);
    assert_int_equal(metric_get(&sum.lag_seconds), 9);
    assert_int_equal(metric_get(&sum.wait_seconds.bucket[0]), 2);
    assert_int_equal(metric_get(&sum.wait_seconds.sum_ns), 77);
}

TEST_CASE(exposition_has_help_type_and_value_of_each_row)
{
    struct sample m = {.starts_total = 12, .open = UINT64_MAX, .lag_seconds = 3};
    SCOPED_BUF(out);
    metrics_write(&out, TABLE, ROWS, &m);
    assert_true(span_starts_with(buf_span(&out), SPAN("# HELP channeld_starts_total Starts.\n"
                                                      "# TYPE channeld_starts_total counter\n"
                                                      "channeld_starts_total 12\n"
                                                      "# HELP channeld_open Open now.\n"
                                                      "# TYPE channeld_open gauge\n"
                                                      "channeld_open 18446744073709551615\n"
                                                      "# HELP channeld_lag_seconds The largest lag.\n"
                                                      "# TYPE channeld_lag_seconds gauge\n"
                                                      "channeld_lag_seconds 3\n"
                                                      "# HELP channeld_wait_seconds Time of waiting.\n"
                                                      "# TYPE channeld_wait_seconds histogram\n"
                                                      "channeld_wait_seconds_bucket{le=\"0.00005\"} 0\n")));
    assert_non_null(
        strstr(buf_c_str(&out), "\nchanneld_wait_seconds_sum 0.000000000\nchanneld_wait_seconds_count 0\n"));
}
