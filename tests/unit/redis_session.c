/* What becomes of a command, wherever it is executed: on a fake connection, and at a fake other node. */
#include "redis/session.h"

#include "unit/fixtures/cache_connection.h"
#include "unit/fixtures/redis_config.h"

static struct redis_config *config;
static struct redis_session *session;
static struct redis_connection *connection;
static char events[256]; /* in their order, each with a space behind it */

static void note(const char *event)
{
    size_t len = strlen(events);
    (void)snprintf(events + len, sizeof events - len, "%s ", event);
}

#define expect_events(expected)                \
    do {                                       \
        assert_string_equal(events, expected); \
        events[0] = '\0';                      \
    } while (0)

static void on_handshake_done(void *arg, struct redis_connection *c)
{
    (void)arg;
    (void)c;
    note("handshake");
}

static void on_ready(void *arg)
{
    (void)arg;
    note("ready");
}

static void on_lost(void *arg)
{
    (void)arg;
    note("lost");
}

static void on_replaced(void *arg)
{
    (void)arg;
    note("replaced");
}

static void on_outside_read(void *arg)
{
    (void)arg;
    note("redirect");
}

static void on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    char event[64];
    struct span text = reply == NULL ? SPAN("none") : reply_text(reply);
    if (text.data == NULL)
        text = SPAN("other");
    (void)snprintf(event, sizeof event, "%s:%.*s%s", (const char *)arg, (int)text.len, text.data,
                   reply != NULL && origin == REDIS_ORIGIN_OUTSIDE ? "@" : "");
    note(event);
}

static int set_up(void **state)
{
    const struct redis_session_options options = {.connection = {.on_ready = on_ready},
                                                  .on_lost = on_lost,
                                                  .on_handshake_done = on_handshake_done,
                                                  .on_replaced = on_replaced,
                                                  .on_outside_read = on_outside_read};
    (void)state;
    events[0] = '\0';
    connections_init();
    config = config_numbered(0);
    config->endpoint.discovery.kind = REDIS_DISCOVERY_CLUSTER;
    assert_int_equal(redis_session_new(NULL, &options, &session), 0);
    assert_int_equal(redis_session_use(session, config), 0);
    connection = redis_session_connection(session);
    connection_shake_hands(connection);
    redis_connection_accept(connection);
    expect_events("handshake ready ");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_session_close(session, connections_on_closed, NULL);
    connection_finish_closing();
    assert_true(connections_closed);
    redis_config_unref(config);
    return 0;
}

/* A GET, with this name in the events. */
static int send_get_by(const char *name, unsigned how)
{
    struct buf command = BUF_INIT;
    command_write(&command, 2, (const char *[]){"GET", name});
    int err = redis_session_send(session, buf_span(&command), how, on_reply, (char *)(uintptr_t)name);
    buf_fini(&command);
    return err;
}

static void send_get(const char *name)
{
    assert_int_equal(send_get_by(name, 0), 0);
}

TEST_CASE_WITH(replies_of_the_stream_come_in_order, set_up, tear_down)
{
    send_get("a");
    send_get("b");
    answer("GET a", reply_string("1"));
    answer("GET b", reply_of("_\r\n"));
    expect_events("a:1 b:other ");
}

TEST_CASE_WITH(ask_is_followed, set_up, tear_down)
{
    send_get("a");
    send_get("b");
    answer("GET a", ask());
    expect_events("redirect ");
    answer("GET b", reply_string("2"));
    expect_events("b:2 ");
    answer("ASKING GET a", reply_string("1"));
    expect_events("a:1@ ");
}

TEST_CASE_WITH(what_a_replica_lacks_is_read_from_its_master, set_up, tear_down)
{
    connection->replica = true;
    for (int i = 0; i < 2; i++) {
        send_get("a");
        answer("GET a", reply_of(i == 0 ? "_\r\n" : "*2\r\n:0\r\n_\r\n"));
        expect_events("redirect ");
        answer("ASKING GET a", reply_of("_\r\n"));
        expect_events("a:other@ ");
    }
    send_get("b");
    answer("GET b", reply_string("2"));
    expect_events("b:2 ");
}

TEST_CASE_WITH(no_other_node_is_asked_where_only_the_stream_is_of_use, set_up, tear_down)
{
    assert_int_equal(send_get_by("a", REDIS_SEND_STREAM_ONLY), 0);
    answer("GET a", ask());
    expect_events("a:other@ ");
    connection->replica = true;
    assert_int_equal(send_get_by("a", REDIS_SEND_STREAM_ONLY), 0);
    answer("GET a", reply_of("_\r\n"));
    expect_events("a:other@ ");
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(untracked_read, set_up, tear_down)
{
    assert_int_equal(send_get_by("a", REDIS_SEND_UNTRACKED), 0);
    answer("UNTRACKED GET a", ask());
    answer("ASKING GET a", reply_string("1"));
    expect_events("redirect a:1@ ");
}

TEST_CASE_WITH(what_another_node_executes_fails_with_the_connection, set_up, tear_down)
{
    send_get("a");
    send_get("b");
    answer("GET a", ask());
    redis_connection_fail(connection, "reset");
    expect_events("redirect lost a:none b:none ");
    assert_int_equal(fake_redis.count, 0);
    assert_int_equal(send_get_by("c", 0), -ENOTCONN);
}

TEST_CASE_WITH(what_another_node_executes_is_of_its_attempt, set_up, tear_down)
{
    redis_connection_fail(connection, "reset");
    expect_events("lost ");
    connection_shake_hands(connection);
    send_get("a");
    answer("GET a", ask());
    expect_events("handshake redirect ");
    redis_connection_fail(connection, "reset");
    expect_events("a:none ");
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(connections_with_other_settings_share_what_they_have_seen, set_up, tear_down)
{
    struct redis_config *other = config_numbered(1);
    assert_int_equal(redis_session_use(session, other), 0);
    redis_config_unref(other);
    assert_ptr_equal(connections[1].options.replication, connection->options.replication);
}

/* --- a name that has moved --- */

static void move_name(struct redis_connection *of)
{
    of->options.on_moved(of->options.state_arg);
}

static void make_ready(struct redis_connection *c)
{
    connection_shake_hands(c);
    redis_connection_accept(c);
}

TEST_CASE_WITH(name_that_has_moved_makes_a_connection_beside_the_one_in_use, set_up, tear_down)
{
    move_name(connection);
    move_name(connection); /* it is still so ten seconds later */
    assert_int_equal(connections_made, 2);
    assert_ptr_equal(connections[1].options.endpoint, connection->options.endpoint);
    send_get("a");
    answer("GET a", reply_string("1"));
    expect_events("a:1 ");
    assert_ptr_equal(redis_session_connection(session), connection);
    make_ready(&connections[1]);
    expect_events("handshake replaced ready ");
    assert_false(connection->open);
    assert_ptr_equal(redis_session_connection(session), &connections[1]);
    assert_ptr_equal(redis_session_config(session), config);
}

/* It was lost, and looked its name up itself. */
TEST_CASE_WITH(connection_that_comes_back_where_the_name_leads_stays, set_up, tear_down)
{
    move_name(connection);
    redis_connection_fail(connection, "reset");
    expect_events("lost ");
    make_ready(connection);
    expect_events("handshake ready ");
    assert_false(connections[1].open);
    move_name(connection);
    assert_int_equal(connections_made, 3);
}

TEST_CASE_WITH(other_settings_replace_what_follows_the_name, set_up, tear_down)
{
    struct redis_config *settings = config_numbered(1);
    settings->endpoint.discovery.kind = REDIS_DISCOVERY_CLUSTER;
    move_name(connection);
    assert_int_equal(redis_session_use(session, config), 0); /* they are in use, and change nothing */
    assert_true(connections[1].open);
    assert_int_equal(redis_session_use(session, settings), 0);
    redis_config_unref(settings);
    assert_false(connections[1].open);
    move_name(connection); /* those settings look the name up, too */
    assert_int_equal(connections_made, 3);
    make_ready(&connections[2]);
    expect_events("handshake replaced ready ");
}

TEST_CASE_WITH(name_that_moves_without_memory_is_followed_later, set_up, tear_down)
{
    connections_error = -ENOMEM;
    move_name(connection);
    connections_error = 0;
    assert_int_equal(connections_made, 1);
    move_name(connection);
    assert_int_equal(connections_made, 2);
}

/* --- memory --- */

TEST_CASE_WITH(without_memory_nothing_is_sent, set_up, tear_down)
{
    fake_redis.sends_left = 0;
    assert_int_equal(send_get_by("a", 0), -ENOMEM);
    fake_redis.sends_left = 1;
    send_get("a");
    answer("GET a", ask());
    expect_events("redirect a:none ");
}

TEST_CASE_WITH(commands_fail_at_the_end, set_up, tear_down)
{
    send_get("a");
    send_get("b");
    answer("GET a", ask());
    redis_session_close(session, connections_on_closed, NULL);
    expect_events("redirect b:none a:none ");
    connection_finish_closing();
    assert_true(connections_closed);
    redis_config_unref(config);
    assert_int_equal(set_up(NULL), 0);
}

TEST_CASE_WITH(many_commands_at_once, set_up, tear_down)
{
    enum { COMMANDS = 500 };
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COMMANDS; i++)
            send_get("a");
        for (int i = 0; i < COMMANDS; i++) {
            answer("GET a", reply_string("1"));
            expect_events("a:1 ");
        }
    }
}
