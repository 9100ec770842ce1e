/* Durations land in the bucket whose bound they do not exceed, and are written cumulatively. */
#include "base/histogram.h"

#include <stdlib.h>

#include "base/metrics.h"
#include "unit/check.h"

TEST(a_duration_lands_in_the_first_bucket_that_is_not_below_it)
{
    static const struct {
        uint64_t ns;
        int bucket;
    } cases[] = {{0, 0},       {50000, 0},   {50001, 1},       {100000, 1},      {100001, 2},     {999999, 4},
                 {1000000, 4}, {1000001, 5}, {2500000000, 14}, {2500000001, 15}, {UINT64_MAX, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct histogram h = {0};
        histogram_observe(&h, cases[i].ns);
        for (int b = 0; b <= HISTOGRAM_BUCKETS; b++)
            assert_int_equal(metric_get(&h.bucket[b]), b == cases[i].bucket);
        assert_int_equal(metric_get(&h.sum_ns), cases[i].ns);
    }
}

TEST(bounds_and_their_texts_are_the_same_numbers)
{
    uint64_t before = 0;
#define CHECK(us, text)         \
    assert_true((us) > before); \
    before = (us);              \
    assert_int_equal((uint64_t)(strtod(text, NULL) * 1e6 + 0.5), us);
    HISTOGRAM_BOUNDS(CHECK)
#undef CHECK
}

TEST(buckets_are_written_cumulatively_with_sum_and_count)
{
    struct histogram h = {0};
    struct buf out = BUF_INIT;
    histogram_observe(&h, 40000);
    histogram_observe(&h, 60000);
    histogram_observe(&h, 3000000001);
    histogram_write(&out, "channeld_d_seconds", "route=\"list\"", &h);
    const char *text = buf_c_str(&out);
    assert_non_null(strstr(text, "channeld_d_seconds_bucket{route=\"list\",le=\"0.00005\"} 1\n"));
    assert_non_null(strstr(text, "channeld_d_seconds_bucket{route=\"list\",le=\"0.0001\"} 2\n"));
    assert_non_null(strstr(text, "channeld_d_seconds_bucket{route=\"list\",le=\"2.5\"} 2\n"));
    assert_non_null(strstr(text, "channeld_d_seconds_bucket{route=\"list\",le=\"+Inf\"} 3\n"
                                 "channeld_d_seconds_sum{route=\"list\"} 3.000100001\n"
                                 "channeld_d_seconds_count{route=\"list\"} 3\n"));
    buf_clear(&out);
    histogram_write(&out, "channeld_d_seconds", "", &h);
    text = buf_c_str(&out);
    assert_non_null(
        strstr(text, "channeld_d_seconds_bucket{le=\"+Inf\"} 3\nchanneld_d_seconds_sum 3.000100001\n"));
    buf_fini(&out);
}

TEST(adding_up_touches_every_bucket)
{
    struct histogram sum = {0};
    struct histogram one = {0};
    for (int b = 0; b <= HISTOGRAM_BUCKETS; b++)
        metric_set(&one.bucket[b], (uint64_t)b + 1);
    metric_set(&one.sum_ns, 77);
    histogram_accumulate(&sum, &one);
    histogram_accumulate(&sum, &one);
    for (int b = 0; b <= HISTOGRAM_BUCKETS; b++)
        assert_int_equal(metric_get(&sum.bucket[b]), 2 * ((uint64_t)b + 1));
    assert_int_equal(metric_get(&sum.sum_ns), 154);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_lands_in_the_first_bucket_that_is_not_below_it),
        cmocka_unit_test(bounds_and_their_texts_are_the_same_numbers),
        cmocka_unit_test(buckets_are_written_cumulatively_with_sum_and_count),
        cmocka_unit_test(adding_up_touches_every_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
