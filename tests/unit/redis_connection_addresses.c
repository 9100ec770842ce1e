/* A name with two addresses: whatever is wrong with the first, the second is tried before any pause. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

#include "unit/redis_fake.h"

static struct fake good; /* at the second address */
static struct fake bad;  /* at the first */
static atomic_int look_ups;

/* In libc's place: each of the two names has the addresses 127.0.0.2 and 127.0.0.1. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strstr(name, ".example") == NULL)
        return real(name, service, req, pai);
    look_ups++;
    int err = real("127.0.0.2", service, req, pai);
    return err != 0 ? err : real("127.0.0.1", service, req, &(*pai)->ai_next);
}

static void begin(void)
{
    look_ups = 0;
    fake_open(&good);
    fake_init(&bad);
    session_begin(&good, "redis.example");
    session.other = &bad;
}

static void end(void)
{
    session.other = NULL;
    fake_fini(&bad);
    session_end();
}

/* Ready by the second address, after one failure and without a second look-up. */
static void expect_second(int at_most_ms)
{
    int64_t began = wait_now_ms();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_true(wait_now_ms() - began <= at_most_ms + wait_slack_ms());
    assert_int_equal(good.accepted, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(look_ups, 1);
    end();
}

TEST(the_first_refuses_the_connection)
{
    begin();
    expect_second(0);
}

TEST(the_first_closes_the_connection)
{
    begin();
    fake_listen(&bad, "127.0.0.2", good.port);
    bad.close_after = 0;
    expect_second(0);
}

TEST(the_first_refuses_the_greeting)
{
    begin();
    fake_listen(&bad, "127.0.0.2", good.port);
    bad.ping = "-LOADING Redis is loading the dataset in memory\r\n";
    expect_second(0);
}

TEST(the_first_is_silent)
{
    begin();
    fake_listen(&bad, "127.0.0.2", good.port);
    bad.mute = true;
    expect_second(REDIS_CONNECTION_CONNECT_TIMEOUT_MS);
}

TEST(when_the_first_is_good_the_second_is_left_alone)
{
    begin();
    fake_listen(&bad, "127.0.0.2", good.port); /* which is not bad this time */
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(good.accepted, 0);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    end();
}

/* The first one names nobody, so the second one is asked, at once. */
TEST(the_second_address_of_a_sentinel_is_asked_as_well)
{
    static struct fake redis;
    static char truth[64];
    look_ups = 0;
    fake_open(&redis);
    fake_open(&good);
    fake_init(&bad);
    fake_listen(&bad, "127.0.0.2", good.port);
    session_begin_by_sentinel(&redis, &good, "sentinel.example", truth);
    session.third = &bad;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(bad.accepted, 1);
    assert_int_equal(good.accepted, 1);
    assert_int_equal(look_ups, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    session_end();
    fake_fini(&good);
    fake_fini(&bad);
}

TEST(when_none_is_good_the_name_is_looked_up_again)
{
    begin();
    fake_stop_listening(&good);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 6);
    assert_true(look_ups >= 3);
    fake_listen(&good, "127.0.0.1", good.port);
    SESSION_UNTIL(session.ready == 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_refuses_the_connection),
        cmocka_unit_test(the_first_closes_the_connection),
        cmocka_unit_test(the_first_refuses_the_greeting),
        cmocka_unit_test(the_first_is_silent),
        cmocka_unit_test(when_the_first_is_good_the_second_is_left_alone),
        cmocka_unit_test(the_second_address_of_a_sentinel_is_asked_as_well),
        cmocka_unit_test(when_none_is_good_the_name_is_looked_up_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
