/* A connection that follows a Sentinel: whom it names, wrong answers, none; failovers. */
#include "redis/sentinel.h"

#include <stdlib.h>

#include "redis/resp.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

static const char MESSAGE[] = ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$3\r\nabc\r\n";

static struct fake_redis redis;
static struct fake_redis sentinel;
static char named[128]; /* the answer that names `redis` */

/* With one Sentinel, and its answer; NULL: the one that names `redis`. */
static void begin(const char *answer)
{
    fake_open(&redis);
    fake_open(&sentinel);
    session_begin_by_sentinel(&redis, &sentinel, "127.0.0.1", named);
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

static void begin_ready(void)
{
    begin(NULL);
    session_start();
}

static size_t queries(void)
{
    return text_count(buf_c_str(&sentinel.log), "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster\n");
}

TEST_CASE(sentinel_is_asked_every_second_and_at_each_message)
{
    begin_ready();
    assert_int_equal(session.metrics.sentinels_connected, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    assert_non_null(strstr(buf_c_str(&redis.log), "ROLE\n"));
    assert_int_equal(queries(), 1);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(queries() == 2);
    assert_int_equal(wait_now_ms() - began, LOCATOR_INTERVAL_MS);
    began = wait_now_ms();
    fake_send(&sentinel, MESSAGE);
    SESSION_UNTIL(queries() == 3);
    assert_int_equal(wait_now_ms(), began);
    assert_int_equal(session.lost, 0);
    end();
}

TEST_CASE(denied_subscription_leaves_the_polling)
{
    begin(NULL);
    sentinel.subscribe = "-NOPERM no channels for you\r\n";
    session_connect();
    SESSION_UNTIL(session.ready == 1 && queries() == 3);
    assert_int_equal(session.lost, 0);
    assert_int_equal(sentinel.accepted, 1);
    end();
}

TEST_CASE(server_that_is_not_a_master_is_refused)
{
    begin(NULL);
    redis.role = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:7\r\n";
    session_start_refused();
    redis.role = "*1\r\n$6\r\nmaster\r\n";
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST_CASE(demoted_master_is_left)
{
    begin_ready();
    redis.role = "*1\r\n$5\r\nslave\r\n";
    SESSION_UNTIL(session.lost == 1);
    redis.role = "*1\r\n$6\r\nmaster\r\n";
    SESSION_UNTIL(session.ready == 2);
    end();
}

/* Nothing is connected to, and a valid answer is used afterwards. */
static void check_refused(const char *answer)
{
    begin(answer);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_int_equal(session.ready, 0);
    assert_int_equal(redis.accepted, 0);
    assert_int_equal(session.metrics.sentinels_connected, 0);
    sentinel.sentinel = named;
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST_CASE(invalid_answers_are_refused)
{
    static const char *const answers[] = {
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
    for (size_t i = 0; i < TEST_COUNT(answers); i++)
        check_refused(answers[i]);
}

TEST_CASE(oversize_answer_is_refused)
{
    char *text = text_repeat('x', SENTINEL_ANSWER_MAX);
    char *answer = text_printf("$%d\r\n%s\r\n", SENTINEL_ANSWER_MAX, text);
    session_log(LOG_DEBUG);
    begin(answer);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 3);
    end();
    assert_non_null(strstr(session_logged(), resp_oversize.str));
    free(answer);
    free(text);
}

/* And it has twice as much time for the next answer. */
TEST_CASE(silent_sentinel_times_out)
{
    begin(NULL);
    sentinel.mute = true;
    int64_t began = wait_now_ms();
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_int_equal(wait_now_ms() - began, LOCATOR_LIMIT_MS);
    began = wait_now_ms();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 2);
    assert_in_range(wait_now_ms() - began, 2 * LOCATOR_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS / 2,
                    2 * LOCATOR_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS);
    sentinel.mute = false;
    SESSION_UNTIL(session.ready == 1);
    end();
}

/* Its next reply would be taken for that to another command. */
TEST_CASE(reply_without_a_command_ends_the_connection_to_the_sentinel)
{
    static const char *const replies[] = {"+OK\r\n", "-ERR no\r\n", "*-1\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        begin(NULL);
        session_connect();
        SESSION_UNTIL(session.ready == 1 && session.metrics.sentinels_connected == 1);
        fake_send(&sentinel, replies[i]);
        SESSION_UNTIL(session.metrics.sentinels_connected == 0);
        SESSION_UNTIL(session.metrics.sentinels_connected == 1);
        assert_int_equal(sentinel.accepted, 2);
        assert_int_equal(session.lost, 0);
        end();
    }
}

/* A Sentinel that is lost costs nothing while its Redis is there. */
TEST_CASE(lost_sentinel_leaves_the_connection_to_redis)
{
    begin_ready();
    fake_stop_listening(&sentinel);
    fake_drop_all(&sentinel, false);
    SESSION_UNTIL(session.metrics.sentinels_connected == 0);
    session_turn_for(LOCATOR_INTERVAL_MS + LOCATOR_LIMIT_MS);
    assert_int_equal(session.lost, 0);
    fake_listen(&sentinel, "127.0.0.1", sentinel.port);
    SESSION_UNTIL(session.metrics.sentinels_connected == 1);
    assert_int_equal(session.lost, 0);
    end();
}

/* The loop ends with nothing left. */
TEST_CASE(close_at_any_moment)
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

TEST_CASE(failover_moves_the_connection_at_once)
{
    static struct fake_redis promoted;
    static char next[128];
    fake_open(&promoted);
    begin(NULL);
    session.third = &promoted;
    session_start();
    sentinel_name(next, "127.0.0.1", promoted.port);
    sentinel.sentinel = next;
    fake_send(&sentinel, MESSAGE);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(wait_now_ms(), began);
    assert_int_equal(session.lost, 1);
    assert_int_equal(promoted.accepted, 1);
    assert_int_equal(session.metrics.redis_failovers_total[REDIS_FAILOVER_MASTER], 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    session.third = NULL;
    end();
    fake_fini(&promoted);
}
