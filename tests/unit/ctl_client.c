/* What channelctl's connection makes of a peer that goes, that is silent, or that answers as no Redis should.
 */
#include "ctl/client.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/wait.h"
#include "unit/check.h"

static struct client client;
static int peer;

static void begin(void)
{
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client = (struct client){.redis = redisConnectFd(ends[0])};
    assert_non_null(client.redis);
    peer = ends[1];
}

static void end(void)
{
    (void)close(peer);
    client_close(&client);
}

static void say(const char *bytes)
{
    assert_int_equal(write(peer, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

static void expect_failure(const char *reason)
{
    if (strstr(client_error(&client), reason) == NULL)
        fail_msg("no '%s' in: %s", reason, client_error(&client));
}

TEST(commands_that_cannot_be_sent_are_a_lost_connection)
{
    begin();
    (void)close(peer);
    peer = -1;
    CLIENT_SEND(&client, SPAN("PING"));
    assert_int_equal(client_push(&client), -EIO);
    expect_failure("the connection to Redis was lost: ");
    end();
}

TEST(replies_that_do_not_come_are_not_waited_for_for_ever)
{
    enum { PATIENCE_MS = 50 };
    begin();
    assert_int_equal(redisSetTimeout(client.redis, (struct timeval){.tv_usec = PATIENCE_MS * 1000L}),
                     REDIS_OK);
    CLIENT_SEND(&client, SPAN("PING"));
    int64_t began = wait_now_ms();
    assert_int_equal(client_receive_done(&client), -EIO);
    assert_in_range(wait_now_ms() - began, PATIENCE_MS / 2, PATIENCE_MS + wait_slack_ms());
    expect_failure("no answer in time");
    end();
}

TEST(an_error_inside_the_reply_of_exec_is_a_failure)
{
    begin();
    say("*3\r\n:1\r\n-WRONGTYPE no\r\n+OK\r\n");
    assert_null(client_receive(&client));
    expect_failure("Redis refused: WRONGTYPE no");
    end();
}

TEST(only_the_error_that_the_key_holds_another_kind_is_handed_out)
{
    begin();
    say("-WRONGTYPE no\r\n-READONLY no\r\n*1\r\n-WRONGTYPE no\r\n");
    redisReply *reply = client_receive_or_wrongtype(&client);
    assert_non_null(reply);
    assert_span(reply_text(reply), NULL);
    freeReplyObject(reply);
    assert_null(client_receive_or_wrongtype(&client));
    expect_failure("Redis refused: READONLY no");
    assert_null(client_receive_or_wrongtype(&client));
    expect_failure("Redis refused: WRONGTYPE no");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_that_cannot_be_sent_are_a_lost_connection),
        cmocka_unit_test(replies_that_do_not_come_are_not_waited_for_for_ever),
        cmocka_unit_test(an_error_inside_the_reply_of_exec_is_a_failure),
        cmocka_unit_test(only_the_error_that_the_key_holds_another_kind_is_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
