/* Metrics: counting, adding up, and the text format that Prometheus reads. */
#include "base/metrics.h"

#include <ctype.h>
#include <inttypes.h>

#include "unit/check.h"

TEST(counting_goes_up_and_down)
{
    struct metrics m = {0};
    metric_add(&m.connections_open, 3);
    metric_sub(&m.connections_open, 1);
    metric_add(&m.requests_rejected_total, 0);
    assert_int_equal(atomic_load(&m.connections_open), 2);
    assert_int_equal(metric_get(&m.requests_rejected_total), 0);
}

TEST(a_turn_is_observed_once_from_its_first_beginning)
{
    enum { LONG_AGO_NS = 10 };
    struct metrics m = {0};
    loop_lag_end(&m.loop_lag); /* nothing has begun */
    assert_int_equal(m.loop_lag.turns.sum_ns, 0);
    metrics_turn_begins_at(&m, LONG_AGO_NS);
    metrics_turn_begins(&m);
    metrics_turn_begins_at(&m, UINT64_MAX);
    loop_lag_end(&m.loop_lag);
    loop_lag_end(&m.loop_lag);
    uint64_t lag = m.loop_lag.turns.sum_ns;
    assert_true(lag > 0 && lag <= clock_now_ns() - LONG_AGO_NS);
    assert_int_equal(m.loop_lag.turns.bucket[HISTOGRAM_BUCKETS],
                     1);                    /* this machine has been up for longer than 2.5 s */
    metrics_turn_begins_at(&m, UINT64_MAX); /* a clock that goes backwards */
    loop_lag_end(&m.loop_lag);
    assert_int_equal(m.loop_lag.turns.sum_ns, lag);
    assert_int_equal(m.loop_lag.turns.bucket[0], 1);
}

TEST(adding_up_touches_every_metric)
{
    struct metrics sum = {0};
    struct metrics worker = {0};
    uint64_t n = 0;
#define FILL(name, type, help) metric_add(&worker.name, ++n);
    METRICS(FILL)
#undef FILL
    metrics_accumulate(&sum, &worker);
    metrics_accumulate(&sum, &worker);
    n = 0;
#define CHECK(name, type, help) assert_int_equal(atomic_load(&sum.name), 2 * ++n);
    METRICS(CHECK)
#undef CHECK
}

TEST(of_some_metrics_the_largest_counts)
{
    struct metrics sum = {0};
    struct metrics workers[3] = {{.catalogue_updated_timestamp_seconds = 4},
                                 {.catalogue_updated_timestamp_seconds = 9},
                                 {.catalogue_updated_timestamp_seconds = 2}};
    struct buf out = BUF_INIT;
    for (int i = 0; i < 3; i++)
        metrics_accumulate(&sum, &workers[i]);
    metrics_write(&out, &sum);
    assert_non_null(strstr(buf_c_str(&out), "\nchanneld_catalogue_updated_timestamp_seconds 9\n"));
    buf_fini(&out);
}

TEST(each_metric_has_help_type_and_value)
{
    struct metrics m = {0};
    struct buf pending = BUF_INIT;
    struct buf out = BUF_INIT;
    uint64_t n = UINT64_MAX - 100; /* the widest values there are */
#define FILL(name, type, help)                                                                            \
    metric_add(&m.name, ++n);                                                                             \
    buf_printf(&pending,                                                                                  \
               "# HELP channeld_" #name " " help "\n# TYPE channeld_" #name " " #type "\nchanneld_" #name \
               " %" PRIu64 "\n",                                                                          \
               n);
    METRICS(FILL)
#undef FILL
    metrics_write(&out, &m);
    assert_true(span_starts_with(buf_span(&out), buf_span(&pending)));
    buf_fini(&pending);
    buf_fini(&out);
}

TEST(the_start_of_the_exposition_is_known_by_heart)
{
    struct metrics m = {0};
    struct buf out = BUF_INIT;
    metric_add(&m.requests_rejected_total, 12);
    metrics_write(&out, &m);
    assert_true(span_starts_with(
        buf_span(&out),
        SPAN("# HELP channeld_requests_rejected_total Requests refused before routing: malformed, "
             "too large, too slow, or one connection too many.\n"
             "# TYPE channeld_requests_rejected_total counter\n"
             "channeld_requests_rejected_total 12\n")));
    buf_fini(&out);
}

static void check_name(const char *name, const char *type, const char *help)
{
    bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name) ||
        !islower((unsigned char)*name))
        fail_msg("not a name: %s", name);
    assert_string_equal(type, total ? "counter" : "gauge");
    assert_null(strpbrk(help, "\\\n"));
}

TEST(names_and_helps_are_fit_for_prometheus)
{
#define CHECK(name, type, help) check_name(#name, #type, help);
    METRICS(CHECK)
    METRICS_LARGEST(CHECK)
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting_goes_up_and_down),
        cmocka_unit_test(a_turn_is_observed_once_from_its_first_beginning),
        cmocka_unit_test(adding_up_touches_every_metric),
        cmocka_unit_test(of_some_metrics_the_largest_counts),
        cmocka_unit_test(each_metric_has_help_type_and_value),
        cmocka_unit_test(the_start_of_the_exposition_is_known_by_heart),
        cmocka_unit_test(names_and_helps_are_fit_for_prometheus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
