/* A name with two addresses: whatever is wrong with the first, the second is tried before any pause. */
#include <netdb.h>

#include "unit/store_fake.h"

int __real_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                          const char *node, const char *service, const struct addrinfo *hints);
int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                          const char *node, const char *service, const struct addrinfo *hints);

static struct fake good; /* at the second address */
static struct fake bad;  /* at the first */
static uv_getaddrinfo_cb told;
static int look_ups;

/* Puts 127.0.0.2 before what was found. */
static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    const struct addrinfo hints = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *first = NULL;
    if (status == 0 && getaddrinfo("127.0.0.2", NULL, &hints, &first) == 0)
        first->ai_next = found;
    told(request, status, first);
}

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                          const char *node, const char *service, const struct addrinfo *hints)
{
    (void)node;
    told = done;
    look_ups++;
    return __real_uv_getaddrinfo(loop, request, on_found, "127.0.0.1", service, hints);
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
    expect_second(RCONN_CONNECT_TIMEOUT_MS);
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
