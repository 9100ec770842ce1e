/* The check whether Redis holds a catalogue: two commands, and what their replies amount to. */
#include "unit/fixtures/cache_invalidation.h"

static void begin_check(void)
{
    checked = NOT_CHECKED;
    catalogue_check(&catalogue);
    assert_string_equal(fake_redis_next(), "SCARD test:api_keys");
}

/* The reply to SCARD, whose result is not enough. */
static void expect_index_read(const char *reply)
{
    fake_redis_answer(reply_of(reply));
    assert_int_equal(checked, NOT_CHECKED);
    assert_string_equal(fake_redis_next(), "ZCARD test:index");
}

static void expect_checked(const struct redis_reply *reply, enum catalogue_state state)
{
    fake_redis_answer(reply);
    assert_int_equal(checked, state);
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(keys_alone_are_a_catalogue, invalidation_set_up, invalidation_tear_down)
{
    begin_check();
    expect_checked(reply_integer(1), CATALOGUE_PRESENT);
    begin_check();
    expect_checked(reply_of("-WRONGTYPE x\r\n"), CATALOGUE_PRESENT);
}

TEST_CASE_WITH(what_two_replies_amount_to, invalidation_set_up, invalidation_tear_down)
{
    static const struct {
        const char *keys, *index;
        enum catalogue_state state;
    } cases[] = {
        {":0\r\n", ":0\r\n", CATALOGUE_MISSING},
        {":0\r\n", ":3\r\n", CATALOGUE_PRESENT},
        {":0\r\n", "-WRONGTYPE x\r\n", CATALOGUE_PRESENT},
        {":0\r\n", "-NOPERM x\r\n", CATALOGUE_PRESENT}, /* not to be seen: Redis is believed */
        {":0\r\n", "-ERR x\r\n", CATALOGUE_UNKNOWN},
        {":0\r\n", "-NOPERMISSION\r\n", CATALOGUE_UNKNOWN},
        {"-NOPERM x\r\n", ":0\r\n", CATALOGUE_PRESENT},
        {"-NOPERM x\r\n", "-NOPERM x\r\n", CATALOGUE_PRESENT},
        {"-ERR x\r\n", ":0\r\n", CATALOGUE_UNKNOWN},
        {"-ERR x\r\n", ":1\r\n", CATALOGUE_PRESENT},
        {"-LOADING x\r\n", "-LOADING x\r\n", CATALOGUE_UNKNOWN},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        metrics.catalogue_missing = metrics.api_keys_missing = 0;
        begin_check();
        expect_index_read(cases[i].keys);
        expect_checked(reply_of(cases[i].index), cases[i].state);
        assert_int_equal(metrics.catalogue_missing, cases[i].state == CATALOGUE_MISSING);
        bool missing = strcmp(cases[i].keys, ":0\r\n") == 0 && cases[i].state != CATALOGUE_UNKNOWN;
        assert_int_equal(metrics.api_keys_missing, missing);
    }
}

TEST_CASE_WITH(one_check_is_under_way_at_a_time, invalidation_set_up, invalidation_tear_down)
{
    begin_check();
    catalogue_check(&catalogue);
    assert_int_equal(fake_redis.count, 1);
    expect_index_read(":0\r\n");
    catalogue_check(&catalogue);
    assert_int_equal(fake_redis.count, 1);
    expect_checked(reply_integer(1), CATALOGUE_PRESENT);
}

/* Redis was loaded between the two commands. Once, since the set may change all the time. */
TEST_CASE_WITH(a_check_is_repeated_when_the_missing_set_has_changed, invalidation_set_up,
               invalidation_tear_down)
{
    for (int again = 0; again < 2; again++) {
        begin_check();
        expect_index_read(":0\r\n");
        validity.possible_losses++;
        fake_redis_answer(reply_integer(1));
        assert_int_equal(checked, NOT_CHECKED);
        assert_string_equal(fake_redis_next(), "SCARD test:api_keys");
        if (again == 0) {
            expect_checked(reply_integer(1), CATALOGUE_PRESENT);
        } else {
            expect_index_read(":0\r\n");
            validity.possible_losses++;
            expect_checked(reply_integer(1), CATALOGUE_PRESENT);
        }
    }
}

TEST_CASE_WITH(a_check_that_is_lost_or_not_sent_confirms_nothing, invalidation_set_up, invalidation_tear_down)
{
    begin_check();
    expect_checked(NULL, CATALOGUE_LOST);
    begin_check();
    expect_index_read(":0\r\n");
    expect_checked(NULL, CATALOGUE_LOST);
    fake_redis.sends_left = 0;
    checked = NOT_CHECKED;
    catalogue_check(&catalogue);
    assert_int_equal(checked, CATALOGUE_UNKNOWN);
    fake_redis.sends_left = 1;
    begin_check();
    expect_checked(reply_integer(0), CATALOGUE_UNKNOWN); /* the second command is not sent */
    fake_redis.sends_left = -1;
    begin_check();
    expect_checked(reply_integer(1), CATALOGUE_PRESENT);
}

/* What an earlier SCARD has found may have been on a connection that is lost, and says nothing of this one.
 */
TEST_CASE_WITH(keys_that_cannot_be_counted_mark_no_read, invalidation_set_up, invalidation_tear_down)
{
    begin_check();
    expect_checked(reply_integer(3), CATALOGUE_PRESENT);
    assert_true(validity_mark(&validity) != 0);
    fake_redis.sends_left = 0;
    catalogue_check(&catalogue);
    assert_int_equal(validity_mark(&validity), 0);
    assert_int_equal(validity_key_count(&validity), -1);
}
