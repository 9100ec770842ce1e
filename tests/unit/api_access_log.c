/* The access log: which lines are wanted, what they say, and what is never in them. */
#include "api/access_log.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/text.h"
#include "unit/check.h"

TEST_CASE(errors_are_the_statuses_from_400_on)
{
    uint64_t random = 0;
    assert_true(access_log_wants(ACCESS_LOG_ALL, 200, &random));
    assert_true(access_log_wants(ACCESS_LOG_ALL, 500, &random));
    assert_false(access_log_wants(ACCESS_LOG_ERRORS, 200, &random));
    assert_false(access_log_wants(ACCESS_LOG_ERRORS, 399, &random));
    assert_true(access_log_wants(ACCESS_LOG_ERRORS, 400, &random));
}

/* Within six standard deviations of the mean. The series is the same each time. */
TEST_CASE(share_of_the_successes_is_logged_and_every_error)
{
    enum { RESPONSES = 4000000 };
    const int shares[] = {1, 100, 1250, 5000, ACCESS_LOG_ALL - 1, ACCESS_LOG_ALL};
    for (size_t i = 0; i < TEST_COUNT(shares); i++) {
        uint64_t random = 1;
        double p = (double)shares[i] / ACCESS_LOG_ALL;
        double logged = 0;
        for (int n = 0; n < RESPONSES; n++)
            logged += access_log_wants(shares[i], 200, &random);
        double off = logged - p * RESPONSES;
        if (off * off > 36 * p * (1 - p) * RESPONSES)
            fail_msg("%g of %d at a share of %d", logged, RESPONSES, shares[i]);
        for (int n = 0; n < 10000; n++)
            assert_true(access_log_wants(shares[i], 400, &random));
    }
}

static int share_of(const char *text)
{
    int share = -2;
    assert_int_equal(access_log_parse(span_of(text), &share), 0);
    return share;
}

TEST_CASE(words_and_percentages_are_shares)
{
    assert_int_equal(share_of("off"), ACCESS_LOG_OFF);
    assert_int_equal(share_of("errors"), ACCESS_LOG_ERRORS);
    assert_int_equal(share_of("all"), ACCESS_LOG_ALL);
    assert_int_equal(share_of("0.01%"), 1);
    assert_int_equal(share_of("0.5%"), 50);
    assert_int_equal(share_of("1%"), 100);
    assert_int_equal(share_of("12.34%"), 1234);
    assert_int_equal(share_of("99.99%"), 9999);
    assert_int_equal(share_of("100%"), ACCESS_LOG_ALL);
    assert_int_equal(share_of("100.00%"), ACCESS_LOG_ALL);
}

TEST_CASE(other_texts_are_no_shares)
{
    int share = 0;
    EACH_TEXT (text, "", "%", "0%", "0.00%", "0.001%", "1.001%", "100.01%", "101%", "-1%", "-0.5%", "-1.5%",
               "1000%", "+1%", "01%", "1", "1.%", ".5%", "1.2.3%", "1,5%", "1 %", " 1%", "1%%", "1.a%",
               "99999999999999999999%", "ALL", "error")
        if (access_log_parse(span_of(text), &share) != -EINVAL)
            fail_msg("\"%s\" is %d", text, share);
}

TEST_CASE(refused_requests_have_so_many_lines_per_second)
{
    enum { FLOOD = 1000 };
    const uint64_t second_ns = 1000000000;
    struct access_log_budget budget = {0};
    uint64_t suppressed = 0;
    for (uint64_t second = 0; second < 3; second++) {
        uint64_t left_out = 0;
        for (uint64_t i = 0; i < FLOOD; i++) {
            bool logged = access_log_spend(&budget, second * second_ns + i * 1000, &suppressed);
            assert_int_equal(logged, i < ACCESS_LOG_REFUSED_MAX);
            left_out += logged ? suppressed : 0;
        }
        assert_int_equal(left_out, second == 0 ? 0 : FLOOD - ACCESS_LOG_REFUSED_MAX);
    }
}

/* Those that had to wait began in an earlier second than others that are answered now. */
TEST_CASE(refused_requests_that_waited_do_not_renew_the_lines_of_the_others)
{
    enum { FLOOD = 1000 };
    const uint64_t second_ns = 1000000000;
    struct access_log_budget budget = {0};
    uint64_t suppressed = 0;
    int logged = 0;
    for (uint64_t i = 0; i < FLOOD; i++)
        logged += access_log_spend(&budget, i % 2 == 0 ? 5 * second_ns : 4 * second_ns, &suppressed);
    assert_int_equal(logged, ACCESS_LOG_REFUSED_MAX);
}

TEST_CASE(request_id_has_1_to_128_safe_characters)
{
    char long_id[130];
    memset(long_id, 'a', sizeof long_id);
    assert_true(name_valid(SPAN("abcXYZ019_.-"), REQUEST_ID_MAX));
    assert_true(name_valid(SPAN("a"), REQUEST_ID_MAX));
    assert_true(name_valid((struct span){long_id, 128}, REQUEST_ID_MAX));
    assert_false(name_valid((struct span){long_id, 129}, REQUEST_ID_MAX));
    assert_false(name_valid(SPAN(""), REQUEST_ID_MAX));
    assert_false(name_valid(SPAN_ABSENT, REQUEST_ID_MAX));
    for (int c = 0; c < 256; c++) {
        char text[] = {'a', (char)c, 'b'};
        bool harmless = c > 0 && c < 128 &&
                        strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", c);
        assert_int_equal(name_valid((struct span){text, 3}, REQUEST_ID_MAX), harmless);
    }
}

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

/* True if the field has ids, which must be TRACE and PARENT. */
static bool has_ids(const char *traceparent)
{
    struct trace_ids ids = trace_ids_parse(span_of(traceparent));
    assert_int_equal(ids.trace.data == NULL, ids.parent.data == NULL);
    if (ids.trace.data == NULL)
        return false;
    assert_span(ids.trace, TRACE);
    assert_span(ids.parent, PARENT);
    return true;
}

TEST_CASE(trace_ids_need_a_valid_traceparent)
{
    assert_null(trace_ids_parse(SPAN_ABSENT).trace.data);
    EACH_TEXT (text, "00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-00", "01-" TRACE "-" PARENT "-01",
               "cc-" TRACE "-" PARENT "-01-", "fe-" TRACE "-" PARENT "-01-what-the-future-will-be-like")
        assert_true(has_ids(text));
    EACH_TEXT (text, "", TRACE, "00-" TRACE "-" PARENT, "00-" TRACE "-" PARENT "-1",
               "00-" TRACE "-" PARENT "-01-more", "00-" TRACE "-" PARENT "-01 ", "ff-" TRACE "-" PARENT "-01",
               "ff-" TRACE "-" PARENT "-01-more", "FF-" TRACE "-" PARENT "-01", "0g-" TRACE "-" PARENT "-01",
               "0-" TRACE "-" PARENT "-01", "01-" TRACE "-" PARENT "-0", "01-" TRACE "-" PARENT "-01more",
               "01-" TRACE "-" PARENT "-011", "01-" TRACE "-" PARENT "--01",
               "01-" TRACE "-0000000000000000-01", "00_" TRACE "-" PARENT "-01", "00-" TRACE "_" PARENT "-01",
               "00-" TRACE "-" PARENT "_01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
               "00-4bf92f3577b34da6a3ce929d0e0e473g-" PARENT "-01", "00-" TRACE "-00F067AA0BA902B7-01",
               "00-" TRACE "-" PARENT "-0x", "00-00000000000000000000000000000000-" PARENT "-01",
               "00-" TRACE "-0000000000000000-01")
        if (has_ids(text))
            fail_msg("\"%s\" is taken", text);
}

TEST_CASE(generated_ids_are_valid_and_distinct)
{
    enum { COUNT = 1000 };
    static char seen[2 * COUNT][33];
    char text[REQUEST_ID_LEN];
    uint64_t random[2] = {random_seed(seen[0]), random_seed(seen[1])};
    for (int i = 0; i < 2 * COUNT; i++) {
        struct span id = request_id_make(&random[i % 2], text);
        assert_true(name_valid(id, REQUEST_ID_MAX));
        (void)span_put(id, seen[i]);
    }
    qsort(seen, 2 * (size_t)COUNT, sizeof seen[0], (int (*)(const void *, const void *))strcmp);
    for (int i = 1; i < 2 * COUNT; i++)
        assert_string_not_equal(seen[i - 1], seen[i]);
}
