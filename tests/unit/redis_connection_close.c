/* Ending a connection: in every state and from within every callback, with nothing left and everyone told
 * once. */
#include "unit/redis_fake.h"

static struct fake fake;

static void begin(void)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
}

/* Closes and lets the loop run dry; the commands under way were told in time. */
static void close_now(size_t owed)
{
    size_t before = session.answered;
    session_close();
    assert_int_equal(session.answered, before + owed);
    assert_int_equal(session.closed, 0); /* from the loop, not from within */
    session_end();
    assert_int_equal(session.lost, 0);
}

TEST(while_it_waits_for_the_next_attempt)
{
    begin();
    fake_stop_listening(&fake);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 2);
    close_now(0);
}

TEST(while_the_name_is_looked_up)
{
    fake_open(&fake);
    session_begin(&fake, "localhost");
    session_connect();
    close_now(0);
}

TEST(while_it_connects)
{
    begin();
    session_connect();
    close_now(0);
}

TEST(while_it_greets)
{
    begin();
    fake.mute = true;
    session_connect();
    SESSION_UNTIL(fake.log.len > 0);
    close_now(0);
}

TEST(when_it_is_ready_and_idle)
{
    begin();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    close_now(0);
}

TEST(when_commands_are_queued_but_not_written)
{
    begin();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    for (int i = 0; i < 200; i++)
        assert_int_equal(session_ask("ECHO", "x"), 0);
    close_now(200);
    for (int i = 0; i < 200; i++)
        assert_int_equal(session.asked[i].losses, 1);
}

TEST(when_commands_are_under_way)
{
    begin();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake.mute = true;
    for (int i = 0; i < 200; i++)
        assert_int_equal(session_ask("ECHO", "x"), 0);
    session_turn_for(20);
    close_now(200);
}

static void close_it(struct session *s)
{
    (void)s;
    session_close();
}

static void close_at_first_answer(struct session *s, const redisReply *reply)
{
    (void)reply;
    if (s->answered == 1)
        close_it(s);
}

TEST(from_within_on_ready)
{
    begin();
    session.during_ready = close_it;
    session_connect();
    SESSION_UNTIL(session.closed == 1);
    session_end();
    assert_int_equal(session.lost, 0);
}

TEST(from_within_a_reply_with_more_behind_it)
{
    begin();
    session.during_reply = close_at_first_answer;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(session_ask("ECHO", "x"), 0);
    SESSION_UNTIL(session.closed == 1);
    session_end();
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.asked[0].replies, 1);
    for (int i = 1; i < 50; i++)
        assert_int_equal(session.asked[i].losses, 1);
}

TEST(from_within_the_word_that_a_command_is_lost)
{
    begin();
    session.during_reply = close_at_first_answer;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake.mute = true;
    for (int i = 0; i < 50; i++)
        assert_int_equal(session_ask("ECHO", "x"), 0);
    session_turn_for(20);
    fake_drop_all(&fake);
    SESSION_UNTIL(session.closed == 1);
    session_end();
    assert_int_equal(session.lost, 1); /* the owner is told first */
}

TEST(from_within_on_lost)
{
    begin();
    session.during_lost = close_it;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake_drop_all(&fake);
    SESSION_UNTIL(session.closed == 1);
    session_end();
    assert_int_equal(session.lost, 1);
}

static int refused_sends;

static void try_to_send(struct session *s, const redisReply *reply)
{
    (void)s;
    if (reply != NULL)
        return;
    const char *argv[] = {"ECHO", "x"};
    assert_int_equal(redis_connection_send(session.redis_connection, 2, argv, NULL, session_on_reply, NULL),
                     -ENOTCONN);
    refused_sends++;
}

TEST(nothing_can_be_sent_while_losses_are_told)
{
    refused_sends = 0;
    begin();
    session.during_reply = try_to_send;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake.mute = true;
    for (int i = 0; i < 10; i++)
        assert_int_equal(session_ask("ECHO", "x"), 0);
    session_turn_for(20);
    fake_drop_all(&fake);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(refused_sends, 10);
    session.during_reply = NULL;
    session_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_it_waits_for_the_next_attempt),
        cmocka_unit_test(while_the_name_is_looked_up),
        cmocka_unit_test(while_it_connects),
        cmocka_unit_test(while_it_greets),
        cmocka_unit_test(when_it_is_ready_and_idle),
        cmocka_unit_test(when_commands_are_queued_but_not_written),
        cmocka_unit_test(when_commands_are_under_way),
        cmocka_unit_test(from_within_on_ready),
        cmocka_unit_test(from_within_a_reply_with_more_behind_it),
        cmocka_unit_test(from_within_the_word_that_a_command_is_lost),
        cmocka_unit_test(from_within_on_lost),
        cmocka_unit_test(nothing_can_be_sent_while_losses_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
