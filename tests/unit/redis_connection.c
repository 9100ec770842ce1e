/* A connection to Redis: greeting, replies in order, pushes, errors, and what is no Redis at all. */
#include "support/tempdir.h"
#include "support/text.h"
#include "unit/redis_fake.h"

enum { LARGE = 8 * 1024 * 1024 };

static struct fake fake;

static void begin(void)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
}

static void begin_ready(void)
{
    begin();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
}

TEST(it_greets_and_is_ready)
{
    begin();
    session_connect();
    assert_false(redis_connection_is_ready(session.redis_connection));
    assert_int_equal(session_ask("ECHO", "early"), -ENOTCONN);
    SESSION_UNTIL(session.ready == 1);
    assert_true(redis_connection_is_ready(session.redis_connection));
    assert_buf(&fake.log, "HELLO 3 SETNAME test\nROLE\nPING\n");
    assert_int_equal(session.metrics.redis_connects_total, 1);
    assert_int_equal(session.metrics.redis_connected, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    session_end();
    assert_int_equal(session.lost, 0);
}

TEST(it_authenticates_and_selects)
{
    static char user[] = "reader";
    static char password[] = "secret";
    begin();
    session.target.user = user;
    session.target.password = password;
    session.target.db = 12;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_buf(&fake.log, "HELLO 3 AUTH reader secret SETNAME test\nSELECT 12\nROLE\nPING\n");
    session_end();
}

TEST(a_local_socket_is_as_good)
{
    struct tempdir dir;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    tempdir_init(&dir);
    fake_init(&fake);
    fake.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/redis", dir.path);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake.listener, 4), 0);
    session_begin(&fake, "");
    session.target.transport = REDIS_TRANSPORT_UNIX;
    session.target.host = NULL;
    session.target.path = address.sun_path;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session_ask("ECHO", "x"), 0);
    SESSION_UNTIL(session.answered == 1);
    session_end();
    tempdir_fini(&dir);
}

TEST(a_local_socket_that_is_not_there_is_tried_again)
{
    static char path[] = "/nonexistent/redis";
    begin();
    session.target.transport = REDIS_TRANSPORT_UNIX;
    session.target.host = NULL;
    session.target.path = path;
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 3);
    assert_int_equal(session.ready + session.lost, 0);
    session_end();
}

TEST(replies_come_in_the_order_of_the_commands)
{
    enum { COUNT = 1000 };
    begin_ready();
    for (int i = 0; i < COUNT; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        assert_int_equal(session_ask("ECHO", number), 0);
    }
    SESSION_UNTIL(session.answered == COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(session.asked[i].replies, 1);
        assert_int_equal(strtol(session.asked[i].text, NULL, 10), i);
    }
    session_end();
}

TEST(replies_in_single_bytes_are_the_same_replies)
{
    begin();
    fake.slice = 1;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(session_ask(i % 3 == 0 ? "FAIL" : "ECHO", "some text"), 0);
    SESSION_UNTIL(session.answered == 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(session.asked[i].errors, i % 3 == 0);
        assert_string_equal(session.asked[i].text, i % 3 == 0 ? "" : "some text");
    }
    assert_int_equal(session.lost, 0);
    session_end();
}

/* Far more than the system takes at once, so that the rest waits until the peer has read some. */
TEST(what_does_not_fit_into_the_socket_goes_out_in_the_end)
{
    char *large = text_repeat('x', LARGE);
    begin_ready();
    assert_int_equal(session_ask("SET", large), 0);
    assert_int_equal(session_ask("ECHO", "behind"), 0);
    SESSION_UNTIL(session.answered == 2);
    assert_string_equal(session.asked[1].text, "behind");
    assert_int_equal(text_count(buf_c_str(&fake.log), large), 1);
    assert_int_equal(session.lost, 0);
    session_end();
    free(large);
}

TEST(arguments_are_counted_bytes)
{
    begin_ready();
    const char *argv[] = {"ECHO", "a\0b"};
    const size_t lengths[] = {4, 3};
    assert_int_equal(redis_connection_send(session.redis_connection, 2, argv, lengths, session_on_reply,
                                           &session.asked[0]),
                     0);
    session.asked_count = 1;
    SESSION_UNTIL(session.answered == 1);
    assert_int_equal(session.asked[0].replies, 1);
    assert_string_equal(session.asked[0].text, "a"); /* as far as the test's copy goes */
    session_end();
}

TEST(an_error_is_a_reply_and_the_connection_goes_on)
{
    begin_ready();
    assert_int_equal(session_ask("FAIL", NULL), 0);
    assert_int_equal(session_ask("ECHO", "after"), 0);
    SESSION_UNTIL(session.answered == 2);
    assert_int_equal(session.asked[0].errors, 1);
    assert_string_equal(session.asked[1].text, "after");
    assert_int_equal(session.lost, 0);
    session_end();
}

static int asked_again;

static void ask_once_more(struct session *s, const redisReply *reply)
{
    (void)s;
    if (reply != NULL && asked_again < 5) {
        asked_again++;
        assert_int_equal(session_ask("ECHO", "more"), 0);
    }
}

TEST(commands_may_be_sent_from_a_reply)
{
    asked_again = 0;
    begin_ready();
    session.during_reply = ask_once_more;
    assert_int_equal(session_ask("ECHO", "first"), 0);
    SESSION_UNTIL(session.answered == 6);
    session_end();
}

TEST(pushes_are_no_replies)
{
    begin_ready();
    fake_say(&fake, ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_int_equal(session_ask("ECHO", "a"), 0);
    session_turn_for(20);
    fake_say(&fake, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert_int_equal(session_ask("ECHO", "b"), 0);
    SESSION_UNTIL(session.answered == 2);
    assert_string_equal(session.asked[0].text, "a");
    assert_string_equal(session.asked[1].text, "b");
    assert_int_equal(session.lost, 0);
    session_end();
}

/* Ends the connection on which bytes come that cannot be, and makes a new one. */
static void expect_lost_after(const char *bytes, bool with_command)
{
    begin_ready();
    if (with_command)
        assert_int_equal(session_ask("HANG", NULL), 0);
    session_turn_for(5);
    fake_say(&fake, bytes);
    SESSION_UNTIL(session.lost == 1);
    assert_false(session.metrics.redis_connected);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(session_ask("ECHO", "again"), 0);
    SESSION_UNTIL(session.answered == session.asked_count);
    assert_int_equal(session.asked[session.asked_count - 1].replies, 1);
    assert_int_equal(session.lost, 1);
    session_end();
}

TEST(a_reply_that_nobody_asked_for_ends_the_connection)
{
    expect_lost_after("+surprise\r\n", false);
    expect_lost_after("-ERR surprise\r\n", false);
    expect_lost_after("$3\r\nabc\r\n$3\r\nabc\r\n", true);
}

TEST(what_is_no_reply_ends_the_connection)
{
    expect_lost_after("nonsense\r\n", false);
    expect_lost_after("HTTP/1.1 400 Bad Request\r\n\r\n", true);
    expect_lost_after("$-5\r\n", true);
    expect_lost_after("*99999999999999999999\r\n", true);
}

TEST(a_reply_nested_beyond_reason_ends_the_connection)
{
    struct buf deep = BUF_INIT;
    for (int i = 0; i < 10000; i++)
        buf_append_str(&deep, "*1\r\n");
    expect_lost_after(buf_c_str(&deep), true);
    buf_fini(&deep);
}

/* A greeting that fails is tried again, without a word to the owner, until it succeeds. */
static void expect_retry(const char **reply, const char *error)
{
    begin();
    session.target.db = 1;
    const char *good = *reply;
    *reply = error;
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 3);
    assert_int_equal(session.ready + session.lost, 0);
    assert_false(redis_connection_is_ready(session.redis_connection));
    fake.hello = HELLO_REPLY;
    *reply = good;
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.lost, 0);
    session_end();
}

TEST(a_refused_greeting_is_tried_again)
{
    expect_retry(&fake.hello, "-WRONGPASS invalid username-password pair\r\n");
    expect_retry(&fake.hello, "-ERR unknown command 'HELLO'\r\n");
    expect_retry(&fake.select, "-ERR DB index is out of range\r\n");
    expect_retry(&fake.ping, "-LOADING Redis is loading the dataset in memory\r\n");
    expect_retry(&fake.ping, "-MASTERDOWN Link with MASTER is down\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_greets_and_is_ready),
        cmocka_unit_test(it_authenticates_and_selects),
        cmocka_unit_test(a_local_socket_is_as_good),
        cmocka_unit_test(a_local_socket_that_is_not_there_is_tried_again),
        cmocka_unit_test(replies_come_in_the_order_of_the_commands),
        cmocka_unit_test(replies_in_single_bytes_are_the_same_replies),
        cmocka_unit_test(what_does_not_fit_into_the_socket_goes_out_in_the_end),
        cmocka_unit_test(arguments_are_counted_bytes),
        cmocka_unit_test(an_error_is_a_reply_and_the_connection_goes_on),
        cmocka_unit_test(commands_may_be_sent_from_a_reply),
        cmocka_unit_test(pushes_are_no_replies),
        cmocka_unit_test(a_reply_that_nobody_asked_for_ends_the_connection),
        cmocka_unit_test(what_is_no_reply_ends_the_connection),
        cmocka_unit_test(a_reply_nested_beyond_reason_ends_the_connection),
        cmocka_unit_test(a_refused_greeting_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
