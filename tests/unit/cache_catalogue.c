/* The check whether Redis holds a catalogue: two commands, and what their replies amount to. */
#include "cache/catalogue.h"

#include "unit/fake_redis.h"

static struct keyspace keyspace;
static struct catalogue catalogue;
static struct buf command;

static int set_up(void **state)
{
    (void)state;
    command = BUF_INIT;
    if (keyspace_init(&keyspace, SPAN("test:")) != 0)
        return -1;
    catalogue_init(&catalogue, &keyspace);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_fini(&command);
    return 0;
}

static const char SCARD[] = "*2\r\n$5\r\nSCARD\r\n$13\r\ntest:api_keys\r\n";
static const char ZCARD[] = "*2\r\n$5\r\nZCARD\r\n$10\r\ntest:index\r\n";

static void begin_check(void)
{
    assert_true(catalogue_check(&catalogue, &command));
    assert_buf(&command, SCARD);
}

static enum catalogue_state reply(const char *text)
{
    return catalogue_reply(&catalogue, reply_of(text), &command);
}

TEST_CASE_WITH(keys_alone_are_a_catalogue, set_up, tear_down)
{
    begin_check();
    assert_int_equal(reply(":1\r\n"), CATALOGUE_PRESENT);
    assert_int_equal(catalogue_key_count(&catalogue), 1);
    assert_false(catalogue_is_checking(&catalogue));
}

TEST_CASE_WITH(what_two_replies_amount_to, set_up, tear_down)
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
        uint64_t number = catalogue_next_check(&catalogue);
        begin_check();
        assert_int_equal(reply(cases[i].keys), CATALOGUE_CHECKING);
        assert_buf(&command, ZCARD);
        assert_true(catalogue_is_checking(&catalogue));
        assert_int_equal(catalogue_key_count(&catalogue), cases[i].keys[0] == ':' ? 0 : -1);
        assert_int_equal(reply(cases[i].index), cases[i].state);
        assert_int_equal(catalogue_key_count(&catalogue), -1);
        assert_int_equal(catalogue_confirmed(&catalogue) == number, cases[i].state == CATALOGUE_PRESENT);
    }
    begin_check();
    assert_int_equal(reply("-WRONGTYPE x\r\n"), CATALOGUE_PRESENT);
    assert_int_equal(catalogue_key_count(&catalogue), -1);
}

/* What lacks something before the reply is confirmed by the check under way, what does later by the next. */
TEST_CASE_WITH(checks_are_numbered_and_one_is_under_way_at_a_time, set_up, tear_down)
{
    assert_int_equal(catalogue_next_check(&catalogue), 1);
    assert_int_equal(catalogue_confirmed(&catalogue), 0);
    begin_check();
    assert_false(catalogue_check(&catalogue, &command));
    assert_int_equal(catalogue_next_check(&catalogue), 1);
    assert_int_equal(reply(":0\r\n"), CATALOGUE_CHECKING);
    assert_false(catalogue_check(&catalogue, &command));
    assert_int_equal(catalogue_next_check(&catalogue), 1);
    assert_int_equal(catalogue_confirmed(&catalogue), 0);
    assert_int_equal(reply(":1\r\n"), CATALOGUE_PRESENT);
    assert_int_equal(catalogue_confirmed(&catalogue), 1);
    assert_int_equal(catalogue_next_check(&catalogue), 2);
}

TEST_CASE_WITH(a_check_that_is_lost_or_not_sent_confirms_nothing, set_up, tear_down)
{
    begin_check();
    assert_int_equal(catalogue_reply(&catalogue, NULL, &command), CATALOGUE_LOST);
    begin_check();
    assert_int_equal(reply(":0\r\n"), CATALOGUE_CHECKING);
    assert_int_equal(catalogue_reply(&catalogue, NULL, &command), CATALOGUE_LOST);
    begin_check();
    assert_int_equal(catalogue_send_failed(&catalogue), CATALOGUE_UNKNOWN);
    assert_int_equal(catalogue_confirmed(&catalogue), 0);
    assert_int_equal(catalogue_next_check(&catalogue), 4);
    begin_check();
    assert_int_equal(reply(":1\r\n"), CATALOGUE_PRESENT);
    assert_int_equal(catalogue_confirmed(&catalogue), 4);
}
