/* A connection that follows a Sentinel which says what the test wants: truth, lies, nothing. */
#include "redis/sentinel_watch.h"

#include "base/log.h"
#include "redis/resp.h"
#include "support/text.h"
#include "unit/redis_fake.h"

static struct fake redis;
static struct fake sentinel;
static char truth[64]; /* the answer that names `redis` */

/* A conversation with one Sentinel, which has an answer already. */
static void begin(const char *answer)
{
    fake_open(&redis);
    fake_open(&sentinel);
    session_begin_by_sentinel(&redis, &sentinel, "127.0.0.1", truth);
    if (answer != NULL)
        sentinel.sentinel = answer;
}

static void end(void)
{
    session_end();
    assert_int_equal(session.metrics.sentinels_connected, 0);
    session.other = NULL;
    fake_fini(&sentinel);
}

static size_t questions(void)
{
    size_t count = 0;
    const char *log = buf_c_str(&sentinel.log);
    while ((log = strstr(log, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster\n")) != NULL) {
        count++;
        log++;
    }
    return count;
}

TEST(whom_it_names_is_connected_to)
{
    begin(NULL);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.metrics.sentinels_connected, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    assert_non_null(strstr(buf_c_str(&redis.log), "ROLE\n"));
    end();
}

TEST(it_is_asked_every_second_and_when_it_publishes)
{
    begin(NULL);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(questions(), 1);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(questions() == 2);
    assert_in_range(wait_now_ms() - began, SENTINEL_INTERVAL_MS / 2, SENTINEL_INTERVAL_MS + wait_slack_ms());
    began = wait_now_ms();
    fake_say(&sentinel, ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$3\r\nabc\r\n");
    SESSION_UNTIL(questions() == 3);
    assert_in_range(wait_now_ms() - began, 0, wait_slack_ms());
    assert_int_equal(session.lost, 0);
    end();
}

TEST(without_subscription_it_is_asked_all_the_same)
{
    begin(NULL);
    sentinel.subscribe = "-NOPERM no channels for you\r\n";
    session_connect();
    SESSION_UNTIL(session.ready == 1 && questions() == 3);
    assert_int_equal(session.lost, 0);
    assert_int_equal(sentinel.accepted, 1);
    end();
}

TEST(whoever_says_that_it_is_no_master_is_not_taken)
{
    begin(NULL);
    redis.role = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:7\r\n";
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 3);
    assert_int_equal(session.ready, 0);
    redis.role = "*1\r\n$6\r\nmaster\r\n";
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST(a_master_that_is_none_any_more_is_left)
{
    begin(NULL);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    redis.role = "*1\r\n$5\r\nslave\r\n";
    SESSION_UNTIL(session.lost == 1);
    redis.role = "*1\r\n$6\r\nmaster\r\n";
    SESSION_UNTIL(session.ready == 2);
    end();
}

/* Nothing comes of it, nothing breaks, and the truth is believed afterwards. */
static void expect_lie_refused(const char *lie)
{
    begin(lie);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_int_equal(session.ready, 0);
    assert_int_equal(redis.accepted, 0);
    assert_int_equal(session.metrics.sentinels_connected, 0);
    sentinel.sentinel = truth;
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST(lies_are_refused)
{
    static const char *const lies[] = {
        "*-1\r\n",
        "-ERR unknown command\r\n",
        "+OK\r\n",
        ":6379\r\n",
        "*0\r\n",
        "*2\r\n*0\r\n*0\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n99999\r\n",
        "*2\r\n$1\r\n\n\r\n$4\r\n6379\r\n",
        "%1\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n",
        "*1000000000\r\n",
        "*9223372036854775807\r\n",
        "$-5\r\n",
        "$99999999999999999999\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$1048577\r\n", /* and nothing follows */
        ">0\r\n_\r\n",
        ">1\r\n:1\r\n_\r\n",
        ">2\r\n$7\r\nmessage\r\n_\r\n*-1\r\n",
        "*-1\r\n*-1\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(lies); i++)
        expect_lie_refused(lies[i]);
}

/* Sends what has no end on every connection that the watch makes, as fast as it is taken. */
static void pour(const char *piece)
{
    for (int i = 0; i < FAKE_CONNS_MAX; i++)
        if (sentinel.conn[i].fd >= 0 && sentinel.conn[i].sent > 0 && sentinel.conn[i].out.len == 0)
            buf_append_str(&sentinel.conn[i].out, piece);
}

/* What was logged while `answer` came three times, and went on without end where `pours` is true. Owned. */
static char *log_of(const char *answer, bool pours)
{
    enum { PIECE = 256 * 1024, ATTEMPTS = 3 };
    char *piece = text_repeat('x', PIECE);
    FILE *log = tmpfile();
    assert_non_null(log);
    assert_int_equal(log_start(fileno(log), LOG_DEBUG), 0);
    begin(answer);
    session_connect();
    while (session.metrics.redis_disconnects_total < ATTEMPTS) {
        if (pours)
            pour(piece);
        session_turn();
    }
    end();
    log_stop();
    char *said = calloc(1, PIECE);
    assert_non_null(said);
    rewind(log);
    assert_true(fread(said, 1, PIECE - 1, log) > 0);
    (void)fclose(log);
    free(piece);
    return said;
}

TEST(an_answer_without_end_is_cut)
{
    char *said = log_of("$9000000000000000\r\n", true);
    assert_non_null(strstr(said, "no answer in time"));
    free(said);
}

TEST(an_answer_that_is_too_large_is_refused)
{
    char *text = text_repeat('x', SENTINEL_ANSWER_MAX);
    struct buf answer = BUF_INIT;
    buf_printf(&answer, "$%d\r\n%s\r\n", SENTINEL_ANSWER_MAX, text);
    char *said = log_of(buf_c_str(&answer), false);
    assert_non_null(strstr(said, resp_oversize.str));
    free(said);
    buf_fini(&answer);
    free(text);
}

TEST(silence_is_not_waited_for_for_long)
{
    begin(NULL);
    sentinel.mute = true;
    int64_t began = wait_now_ms();
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_in_range(wait_now_ms() - began, SENTINEL_TIMEOUT_MS / 2, SENTINEL_TIMEOUT_MS + wait_slack_ms());
    sentinel.mute = false;
    SESSION_UNTIL(session.ready == 1);
    end();
}

/* It is left, since what it says next would be taken for the answer to another question; and asked anew. */
TEST(a_reply_that_nobody_asked_for_is_not_believed)
{
    static const char *const replies[] = {"+OK\r\n", "-ERR no\r\n", "*-1\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        begin(NULL);
        session_connect();
        SESSION_UNTIL(session.ready == 1 && session.metrics.sentinels_connected == 1);
        fake_say(&sentinel, replies[i]);
        SESSION_UNTIL(session.metrics.sentinels_connected == 0);
        SESSION_UNTIL(session.metrics.sentinels_connected == 1);
        assert_int_equal(sentinel.accepted, 2);
        assert_int_equal(session.lost, 0);
        end();
    }
}

/* A Sentinel that is lost costs nothing while its Redis is there. */
TEST(a_sentinel_that_goes_leaves_the_connection_alone)
{
    begin(NULL);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake_stop_listening(&sentinel);
    fake_drop_all(&sentinel);
    SESSION_UNTIL(session.metrics.sentinels_connected == 0);
    session_turn_for(SENTINEL_INTERVAL_MS + SENTINEL_TIMEOUT_MS);
    assert_int_equal(session.lost, 0);
    fake_listen(&sentinel, "127.0.0.1", sentinel.port);
    SESSION_UNTIL(session.metrics.sentinels_connected == 1);
    assert_int_equal(session.lost, 0);
    end();
}

/* Whatever it is about to do, it can be closed: the loop ends with nothing left. */
TEST(it_can_be_closed_at_any_time)
{
    for (int turns = 0; turns < 20; turns++) {
        begin(NULL);
        sentinel.slice = 7; /* so that there are many steps */
        session_connect();
        for (int i = 0; i < turns; i++)
            session_turn();
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whom_it_names_is_connected_to),
        cmocka_unit_test(it_is_asked_every_second_and_when_it_publishes),
        cmocka_unit_test(without_subscription_it_is_asked_all_the_same),
        cmocka_unit_test(whoever_says_that_it_is_no_master_is_not_taken),
        cmocka_unit_test(a_master_that_is_none_any_more_is_left),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(an_answer_without_end_is_cut),
        cmocka_unit_test(an_answer_that_is_too_large_is_refused),
        cmocka_unit_test(silence_is_not_waited_for_for_long),
        cmocka_unit_test(a_reply_that_nobody_asked_for_is_not_believed),
        cmocka_unit_test(a_sentinel_that_goes_leaves_the_connection_alone),
        cmocka_unit_test(it_can_be_closed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
