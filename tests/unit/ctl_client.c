/* The connection of channelctl to a server that disconnects, stays silent or replies with errors. */
#include "ctl/client.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/wait.h"
#include "unit/check.h"

static struct client client;
static int peer;

static struct redis_config *make_config(void)
{
    static char url[] = "redis://127.0.0.1";
    static char none[] = "";
    const struct redis_options options = {url, none, none, none, none, none, none};
    struct redis_endpoint endpoint;
    struct redis_config *config = NULL;
    const char *setting = NULL;
    assert_int_equal(redis_endpoint_init(&endpoint, &options, NULL), 0);
    assert_int_equal(redis_config_new(&endpoint, &options, 1, &config, NULL, &setting), 0);
    return config;
}

static void begin_within(int reply_ms)
{
    const struct redis_client_limits limits = {.reply_ms = reply_ms};
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client = (struct client){.config = make_config()};
    const struct redis_endpoint *endpoint = redis_config_endpoint(client.config);
    assert_int_equal(redis_client_new(endpoint, NULL, "test", &client.redis), 0);
    assert_int_equal(redis_client_connect_fd(client.redis, ends[0], &limits), 0);
    peer = ends[1];
}

static void begin(void)
{
    begin_within(WAIT_DEADLINE_MS);
}

static void end(void)
{
    (void)close(peer);
    client_close(&client);
}

static void reply_with(const char *bytes)
{
    assert_int_equal(write(peer, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

static void assert_failure(const char *reason)
{
    if (strstr(client_error(&client), reason) == NULL)
        fail_msg("no '%s' in: %s", reason, client_error(&client));
}

TEST_CASE(client_reports_a_closed_connection_when_sending)
{
    begin();
    (void)close(peer);
    peer = -1;
    CLIENT_SEND(&client, SPAN("PING"));
    assert_int_equal(client_flush(&client), -EIO);
    assert_failure("the connection to Redis was lost: ");
    end();
}

TEST_CASE(client_reports_a_timeout)
{
    enum { TIMEOUT_MS = 50 };
    begin_within(TIMEOUT_MS);
    CLIENT_SEND(&client, SPAN("PING"));
    int64_t began = wait_now_ms();
    assert_int_equal(client_receive(&client)->type, REPLY_NIL);
    assert_int_equal(client_status(&client), -EIO);
    assert_true(wait_now_ms() - began >= TIMEOUT_MS / 2);
    assert_failure("no reply in time");
    end();
}

TEST_CASE(client_reports_an_error_inside_exec)
{
    begin();
    CLIENT_SEND(&client, SPAN("EXEC"));
    reply_with("*3\r\n:1\r\n-WRONGTYPE no\r\n+OK\r\n");
    assert_int_equal(client_receive(&client)->type, REPLY_NIL);
    assert_failure("Redis refused: WRONGTYPE no");
    end();
}

TEST_CASE(client_returns_wrongtype_errors_only)
{
    begin();
    for (int i = 0; i < 2; i++)
        CLIENT_SEND(&client, SPAN("GET"));
    reply_with("-WRONGTYPE no\r\n-READONLY no\r\n");
    assert_true(reply_is_wrongtype(client_receive_or_wrongtype(&client)));
    assert_int_equal(client_status(&client), 0);
    assert_int_equal(client_receive_or_wrongtype(&client)->type, REPLY_NIL);
    assert_failure("Redis refused: READONLY no");
    end();
}

TEST_CASE(failure_stays_and_later_replies_are_nil)
{
    begin();
    for (int i = 0; i < 3; i++)
        CLIENT_SEND(&client, SPAN("GET"));
    reply_with("-READONLY no\r\n:1\r\n-ERR later\r\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_receive(&client)->type, REPLY_NIL);
    assert_int_equal(client_receive_integer(&client), 0);
    assert_int_equal(client_status(&client), -EIO);
    assert_failure("Redis refused: READONLY no");
    end();
}
