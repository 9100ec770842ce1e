/*
 * Reads that Redis is not to track: CLIENT CACHING NO is sent right before each of them or, where the memory
 * does not suffice for both, neither is; its reply is nobody else's. Without tracking by key it is not sent.
 */
#include <errno.h>

#include "unit/fixtures/redis_fake.h"

static int countdown; /* the allocation that fails, counted from 1; 0: none */

static bool fails_now(void)
{
    return countdown > 0 && --countdown == 0;
}

#include "support/failing_malloc.h"

static const char NOPERM[] = "-NOPERM this user has no permissions to run the 'client|caching' command\r\n";

static struct fake_redis fake;

static void open_tracking(enum redis_tracking_mode tracking)
{
    session_open(&fake);
    session.tracking.mode = tracking;
    session.tracking.prefix = SPAN("c:");
    session_start();
    assert_int_equal(redis_connection_is_tracking(session_connection()), tracking != REDIS_TRACKING_OFF);
    buf_clear(&fake.log);
}

static void await_answers(void)
{
    SESSION_UNTIL(session.answered == session.sent_count);
}

TEST_CASE(untracked_read_is_announced_to_redis)
{
    open_tracking(REDIS_TRACKING_KEYS);
    assert_int_equal(session_send("ECHO", "tracked"), 0);
    assert_int_equal(session_send_untracked("ECHO", "a"), 0);
    assert_int_equal(session_send_untracked("FAIL", NULL), 0);
    assert_int_equal(session_send("ECHO", "b"), 0);
    await_answers();
    assert_buf(&fake.log, "ECHO tracked\nCLIENT CACHING NO\nECHO a\nCLIENT CACHING NO\nFAIL\nECHO b\n");
    assert_string_equal(session.sent[0].text, "tracked");
    assert_string_equal(session.sent[1].text, "a");
    assert_int_equal(session.sent[2].errors, 1);
    assert_string_equal(session.sent[3].text, "b");
    session_end();
}

TEST_CASE(untracked_read_is_a_plain_one_without_tracking_by_key)
{
    static const enum redis_tracking_mode others[] = {REDIS_TRACKING_OFF, REDIS_TRACKING_BROADCAST};
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        open_tracking(others[i]);
        assert_int_equal(session_send_untracked("ECHO", "a"), 0);
        await_answers();
        assert_buf(&fake.log, "ECHO a\n");
        session_end();
    }
}

TEST_CASE(untracked_read_is_a_plain_one_where_tracking_is_refused)
{
    session_open(&fake);
    session.tracking.mode = REDIS_TRACKING_KEYS;
    fake.tracking = "-ERR unknown subcommand 'TRACKING'\r\n";
    session_start();
    assert_false(redis_connection_is_tracking(session_connection()));
    buf_clear(&fake.log);
    assert_int_equal(session_send_untracked("ECHO", "a"), 0);
    await_answers();
    assert_buf(&fake.log, "ECHO a\n");
    session_end();
}

TEST_CASE(untracked_read_is_refused_without_a_connection)
{
    session_open(&fake);
    session.tracking.mode = REDIS_TRACKING_KEYS;
    session_connect();
    assert_int_equal(session_try_send_untracked("ECHO", "early"), -ENOTCONN);
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session_send_untracked("HANG", NULL), 0);
    session_turn_for(5);
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(session.sent[0].losses, 1);
    assert_int_equal(session_try_send_untracked("ECHO", "late"), -ENOTCONN);
    session_end();
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

/* The read is tracked then, and answered. */
TEST_CASE(refusal_to_leave_a_read_untracked_is_logged_once)
{
    session_log(LOG_WARN);
    open_tracking(REDIS_TRACKING_KEYS);
    const char *tracking = fake.tracking;
    for (int round = 1; round <= 2; round++) {
        fake.tracking = NOPERM;
        for (int i = 0; i < 3; i++)
            assert_int_equal(session_send_untracked("ECHO", "a"), 0);
        await_answers();
        assert_int_equal(session.lost, round - 1);
        fake.tracking = tracking;
        fake_drop_all(&fake, false);
        SESSION_UNTIL(session.ready == round + 1);
    }
    for (size_t i = 0; i < session.sent_count; i++)
        assert_string_equal(session.sent[i].text, "a");
    const char *logged = session_logged();
    assert_int_equal(count_of(logged, "redis refuses CLIENT CACHING"), 1);
    assert_int_equal(count_of(logged, "no permissions to run"), 1);
    session_end();
}

/*
 * With so many commands pending that there is room for one more, or none, in the queue. Each allocation fails
 * in turn; what was sent is answered in order, which session_end() checks. Returns how many there were.
 */
enum { PENDING_CAPACITY = 64 }; /* before the queue grows */

static int fail_each_allocation(int pending)
{
    for (int n = 1;; n++) {
        open_tracking(REDIS_TRACKING_KEYS);
        fake.mute = true;
        session_send_many(pending, "x");
        SESSION_UNTIL(fake.log.len == (size_t)pending * strlen("ECHO x\n"));
        buf_clear(&fake.log);
        countdown = n;
        int err = session_try_send_untracked("ECHO", "a");
        bool failed = countdown == 0;
        countdown = 0;
        assert_int_equal(err, failed ? -ENOMEM : 0);
        session.sent_count += !failed;
        assert_int_equal(session_send_untracked("ECHO", "b"), 0);
        const char *expected =
            failed ? "CLIENT CACHING NO\nECHO b\n" : "CLIENT CACHING NO\nECHO a\nCLIENT CACHING NO\nECHO b\n";
        SESSION_UNTIL(fake.log.len >= strlen(expected));
        assert_buf(&fake.log, expected);
        fake.mute = false;
        fake_drop_all(&fake, false);
        SESSION_UNTIL(session.ready == 2);
        assert_int_equal(session.answered, session.sent_count);
        session_end();
        if (!failed)
            return n - 1;
    }
}

TEST_CASE(without_memory_neither_the_announcement_nor_the_read_is_sent)
{
    for (int free_slots = 0; free_slots <= 2; free_slots++)
        assert_in_range(fail_each_allocation(PENDING_CAPACITY - free_slots), free_slots < 2 ? 2 : 1, 10);
}
