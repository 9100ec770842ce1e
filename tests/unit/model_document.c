/* Response bodies: the contract's envelope, and page arithmetic up to its ends. */
#include "model/channel.h"

#include "support/json.h"
#include "unit/check.h"

TEST_CASE(last_page_follows_the_count)
{
    static const struct {
        int64_t entries;
        int64_t last;
    } cases[] = {{INT64_MIN, 1},
                 {-1, 1},
                 {0, 1},
                 {1, 1},
                 {99, 1},
                 {100, 1},
                 {101, 2},
                 {200, 2},
                 {201, 3},
                 {INT64_MAX, INT64_C(92233720368547759)},
                 {INT64_MAX - 7, INT64_C(92233720368547758)},
                 {INT64_MAX - 6, INT64_C(92233720368547759)}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        assert_int_equal(page_last(cases[i].entries), cases[i].last);
}

TEST_CASE(first_rank_follows_the_page)
{
    assert_int_equal(page_first_rank(1), 0);
    assert_int_equal(page_first_rank(2), 100);
    assert_int_equal(page_first_rank(3), 200);
    assert_int_equal(page_first_rank(1000000), 99999900);
}

TEST_CASE(first_rank_never_overflows)
{
    static const int64_t pages[] = {INT64_C(92233720368547757),
                                    INT64_C(92233720368547758),
                                    INT64_C(92233720368547759),
                                    INT64_C(92233720368547760),
                                    INT64_MAX / 2,
                                    INT64_MAX - 1,
                                    INT64_MAX};
    for (size_t i = 0; i < TEST_COUNT(pages); i++) {
        int64_t rank = page_first_rank(pages[i]);
        assert_true(rank > INT64_C(9000000000000000000));
        assert_true(rank < INT64_MAX - PAGE_SIZE);
        assert_int_equal(rank % PAGE_SIZE, 0);
    }
}

TEST_CASE(last_page_and_first_rank_agree)
{
    for (int64_t entries = 1; entries < 1000; entries++) {
        int64_t last = page_last(entries);
        assert_true(page_first_rank(last) < entries);
        assert_true(page_first_rank(last + 1) >= entries);
    }
}

TEST_CASE(card_is_wrapped_in_the_envelope)
{
    SCOPED_BUF(out);
    document_begin_card(&out);
    buf_append_str(&out, "{\"title\":\"x\"}");
    document_end_card(&out);
    assert_buf(&out, "{\"success\":true,\"data\":{\"title\":\"x\"}}");
}

static void assert_page(const char *items, const struct page_info *info, const char *expected)
{
    SCOPED_BUF(out);
    document_begin_page(&out);
    buf_append_str(&out, items);
    document_end_page(&out, info);
    assert_buf(&out, expected);
    json_assert_same(buf_c_str(&out), expected); /* it parses */
}

TEST_CASE(page_carries_its_pagination)
{
    assert_page("{},{}", &(struct page_info){.page = 1, .last = 2, .count = 2, .has_next = true},
                "{\"success\":true,\"data\":[{},{}],"
                "\"pagination\":{\"page\":1,\"per_page\":100,\"count\":2,\"has_next\":true}}");
}

TEST_CASE(empty_page_is_a_page)
{
    assert_page(
        "", &(struct page_info){.page = INT64_MAX, .last = 1, .count = 0, .has_next = false},
        "{\"success\":true,\"data\":[],"
        "\"pagination\":{\"page\":9223372036854775807,\"per_page\":100,\"count\":0,\"has_next\":false}}");
}
