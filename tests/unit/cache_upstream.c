/*
 * The move of a connection to other settings, on connections to Redis that the test plays: when it happens,
 * in which order, and what becomes of what was sent.
 */
#include "cache/upstream.h"

#include "support/text.h"
#include "unit/fixtures/cache_connection.h"
#include "unit/fixtures/redis_config.h"

enum { PERMISSIONS = 6 };

/* To the oldest command on it. */
static void reply(struct redis_connection *c, const struct redis_reply *with)
{
    (void)fake_redis_answer_to(c, with);
}

/* --- the session, its check, and its events --- */

static struct redis_session *session;
static struct catalogue catalogue;
static struct upstream upstream;
static struct keyspace keyspace;
static struct redis_config *config[4];
static struct buf events;

static void on_handshake_done(void *arg, struct redis_connection *c)
{
    (void)arg;
    upstream_check(&upstream, c);
}

/* Of the connection in use. */
static void on_checked(void *arg, enum catalogue_state state)
{
    (void)arg;
    if (state == CATALOGUE_LOST)
        return;
    buf_append_str(&events, "handshake ");
    redis_connection_accept(redis_session_connection(session));
}

static bool checks_eviction;

static void on_ready(void *arg)
{
    (void)arg;
    upstream_ready(&upstream, checks_eviction);
    buf_printf(&events, "ready:%d ", (int)redis_config_number(redis_session_config(session)));
}

static void on_heartbeat(void *arg)
{
    (void)arg;
    buf_append_str(&events, "heartbeat ");
}

static void on_lost(void *arg)
{
    (void)arg;
    buf_append_str(&events, "lost ");
}

static void on_replaced(void *arg)
{
    (void)arg;
    buf_append_str(&events, "replaced ");
}

static void on_push(void *arg, struct span kind, const struct redis_reply *element)
{
    (void)arg;
    (void)element;
    buf_printf(&events, "%.*s ", (int)kind.len, kind.data);
}

#define PING SPAN("*1\r\n$4\r\nPING\r\n")

/* Of a command of the cache's: another cannot be sent now. */
static void on_reply(void *arg, const struct redis_reply *answer, enum redis_origin origin)
{
    (void)arg;
    (void)origin;
    int err = redis_connection_send_command(redis_session_connection(session), PING, on_reply, NULL);
    buf_printf(&events, "%s ", answer != NULL ? "reply" : err == -ENOTCONN ? "failed" : "sent");
}

static void expect_events(const char *expected)
{
    assert_string_equal(buf_message(&events), expected);
    buf_clear(&events);
}

/* A reply to each command: all are permitted, and where the connection is in use there is a catalogue. */
static void finish_handshake(int n)
{
    struct redis_connection *c = &connections[n];
    connection_shake_hands(c);
    for (int i = 0; i < PERMISSIONS && !c->was_ready; i++)
        reply(c, reply_of("_\r\n"));
    if (c == redis_session_connection(session))
        reply(c, reply_integer(1));
}

/* The handshake, and the check of the next connection: Redis has so many API keys and channels. */
static void finish_next(int n, int api_keys, int channels)
{
    finish_handshake(n);
    reply(&connections[n], reply_integer(api_keys));
    if (api_keys == 0)
        reply(&connections[n], reply_integer(channels));
}

static void on_outside_read(void *arg)
{
    (void)arg;
}

static struct cache_parts parts;

static int set_up(void **state)
{
    static const struct redis_session_options options = {
        .connection = {.on_ready = on_ready, .on_heartbeat = on_heartbeat, .on_push = on_push},
        .on_handshake_done = on_handshake_done,
        .on_lost = on_lost,
        .on_replaced = on_replaced,
        .on_outside_read = on_outside_read};
    (void)state;
    connections_init();
    for (int i = 0; i < (int)TEST_COUNT(config); i++)
        config[i] = config_numbered((uint64_t)i);
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    assert_int_equal(redis_session_new(NULL, &options, &session), 0);
    catalogue_init(&catalogue, &(struct catalogue_options){
                                   .keyspace = &keyspace, .session = session, .checked = on_checked});
    parts = (struct cache_parts){.keyspace = &keyspace, .session = session, .catalogue = &catalogue};
    upstream_init(&upstream, &parts);
    return redis_session_use(session, config[0]);
}

static int set_up_connected(void **state)
{
    assert_int_equal(set_up(state), 0);
    finish_handshake(0);
    expect_events("handshake ready:0 ");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_session_close(session, connections_on_closed, NULL);
    connection_finish_closing();
    assert_true(connections_closed);
    upstream_fini(&upstream);
    catalogue_fini(&catalogue);
    for (size_t i = 0; i < TEST_COUNT(config); i++)
        redis_config_unref(config[i]);
    buf_fini(&events);
    return 0;
}

#define CONNECTED_TEST(name) TEST_CASE_WITH(name, set_up_connected, tear_down)

static void use(int n)
{
    assert_int_equal(redis_session_use(session, config[n]), 0);
}

CONNECTED_TEST(next_connection_replaces_the_one_in_use_when_it_is_ready)
{
    use(1);
    assert_int_equal(connections_made, 2);
    assert_ptr_equal(connections[1].options.endpoint, redis_config_endpoint(config[1]));
    assert_ptr_equal(redis_session_connection(session), &connections[0]);
    finish_next(1, 1, 0);
    assert_ptr_equal(redis_session_connection(session), &connections[1]);
    assert_false(connections[0].open);
    expect_events("replaced ready:1 ");
    connection_finish_closing();
    connections[1].options.on_heartbeat(connections[1].options.arg);
    connections[1].options.on_push(connections[1].options.arg, SPAN("invalidate"), NULL);
    redis_connection_fail(&connections[1], "reset");
    finish_handshake(1);
    expect_events("heartbeat invalidate lost handshake ready:1 ");
}

/* They could be sent on neither connection before the cache knows of the other. */
CONNECTED_TEST(pending_commands_fail_before_the_other_connection_is_there)
{
    use(1);
    assert_int_equal(redis_connection_send_command(&connections[0], PING, on_reply, NULL), 0);
    finish_next(1, 1, 0);
    expect_events("replaced failed ready:1 ");
}

CONNECTED_TEST(redis_without_catalogue_does_not_replace_another)
{
    use(1);
    finish_next(1, 0, 0);
    assert_string_equal(connections[1].failure, UPSTREAM_NO_CATALOGUE);
    assert_ptr_equal(redis_session_connection(session), &connections[0]);
    expect_events("");
    finish_next(1, 0, 3); /* it has been loaded meanwhile */
    expect_events("replaced ready:1 ");
}

/* Of the other data no more is known than without a move. */
CONNECTED_TEST(catalogue_that_cannot_be_checked_is_accepted)
{
    use(1);
    finish_handshake(1);
    reply(&connections[1], reply_of("-NOPERM no\r\n"));
    reply(&connections[1], reply_of("-NOPERM no\r\n"));
    expect_events("replaced ready:1 ");
}

/* The reply to the check of one permission; the others are granted. */
static void reply_to_permission(int n, int number, const char *text)
{
    struct redis_connection *c = &connections[n];
    for (int i = 0; i < PERMISSIONS; i++)
        reply(c, reply_of(i == number ? text : "_\r\n"));
}

CONNECTED_TEST(user_without_a_permission_does_not_replace_another)
{
    static const char *const what[PERMISSIONS] = {"channels",     "links",
                                                  "pages",        "the size of the index",
                                                  "the API keys", "the names and expiries of API keys"};
    use(1);
    for (int i = 0; i < PERMISSIONS; i++) {
        connection_shake_hands(&connections[1]);
        reply_to_permission(1, i, "-NOPERM denied\r\n");
        assert_string_equal(connections[1].failure,
                            text_temp(UPSTREAM_NO_PERMISSION "%s: NOPERM denied", what[i]));
        expect_events("");
    }
    finish_next(1, 1, 0);
    expect_events("replaced ready:1 ");
}

/* A renamed command, or a Redis that is not able to read now. */
CONNECTED_TEST(any_refusal_counts_as_one)
{
    static const char *const refusals[] = {"ERR unknown command 'ZCARD'", "LOADING x"};
    use(1);
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        connection_shake_hands(&connections[1]);
        reply_to_permission(1, 3, text_temp("-%s\r\n", refusals[i]));
        assert_string_equal(connections[1].failure,
                            text_temp(UPSTREAM_REFUSED "the size of the index: %s", refusals[i]));
        expect_events("");
    }
}

/* It is about the data, or asks for another node. */
CONNECTED_TEST(an_error_that_is_no_refusal_does_not_count)
{
    config[1]->endpoint.discovery.kind = REDIS_DISCOVERY_CLUSTER;
    use(1);
    connection_shake_hands(&connections[1]);
    for (int i = 0; i < PERMISSIONS; i++)
        reply(&connections[1], ask());
    reply(&connections[1], reply_integer(1));
    expect_events("replaced ready:1 ");
    use(2);
    connection_shake_hands(&connections[2]);
    reply_to_permission(2, 3, "-WRONGTYPE x\r\n");
    reply(&connections[2], reply_integer(1));
    expect_events("replaced ready:2 ");
}

/* What has served goes on with what it may read. */
CONNECTED_TEST(permissions_are_checked_until_the_connection_was_ready)
{
    redis_connection_fail(&connections[0], "reset");
    expect_events("lost ");
    finish_handshake(0);
    expect_events("handshake ready:0 ");
    use(1);
    finish_handshake(1);
    redis_connection_fail(&connections[1], "reset");
    connection_shake_hands(&connections[1]);
    reply_to_permission(1, 0, "-NOPERM denied\r\n");
    expect_events("");
    assert_false(connections[1].ready);
}

TEST_CASE_WITH(first_connection_needs_all_permissions, set_up, tear_down)
{
    connection_shake_hands(&connections[0]);
    reply_to_permission(0, PERMISSIONS - 1, "-NOPERM denied\r\n");
    expect_events("");
    finish_handshake(0);
    expect_events("handshake ready:0 ");
}

TEST_CASE_WITH(lost_check_of_permissions_is_repeated, set_up, tear_down)
{
    for (int answered = 0; answered < PERMISSIONS; answered++) {
        connection_shake_hands(&connections[0]);
        for (int i = 0; i < answered; i++)
            reply(&connections[0], reply_of("_\r\n"));
        redis_connection_fail(&connections[0], "reset");
    }
    expect_events("");
    finish_handshake(0);
    expect_events("handshake ready:0 ");
}

TEST_CASE_WITH(check_of_permissions_that_cannot_be_sent_fails_the_attempt, set_up, tear_down)
{
    struct redis_connection *c = &connections[0];
    for (int sent = 0; sent < PERMISSIONS; sent++) {
        fake_redis.sends_left = sent;
        connection_shake_hands(c);
        assert_string_equal(c->failure, "out of memory");
        c->failure[0] = '\0';
    }
    fake_redis.sends_left = -1;
    finish_handshake(0);
    expect_events("handshake ready:0 ");
}

/* Until there was a reply. An error is one: the user may not run the command. */
TEST_CASE_WITH(eviction_policy_is_read_once, set_up, tear_down)
{
    checks_eviction = true;
    finish_handshake(0);
    assert_string_equal(fake_redis_next(), "INFO memory");
    redis_connection_fail(&connections[0], "reset");
    finish_handshake(0);
    answer("INFO memory", reply_of("-NOPERM denied\r\n"));
    redis_connection_fail(&connections[0], "reset");
    finish_handshake(0);
    assert_int_equal(fake_redis.count, 0);
    expect_events("handshake ready:0 lost handshake ready:0 lost handshake ready:0 ");
    checks_eviction = false;
}

/* The connection of a cluster is the next one. */
static void use_cluster(int n)
{
    config[n]->endpoint.discovery.kind = REDIS_DISCOVERY_CLUSTER;
    use(n);
    finish_handshake(n);
}

CONNECTED_TEST(catalogue_on_another_node_is_looked_for_there)
{
    use_cluster(1);
    reply(&connections[1], ask());
    assert_ptr_equal(redirects.config, config[1]);
    answer("ASKING SCARD test:api_keys", reply_integer(0));
    reply(&connections[1], ask());
    answer("ASKING ZCARD test:index", reply_integer(0));
    assert_string_equal(connections[1].failure, UPSTREAM_NO_CATALOGUE);
    expect_events("");
    connections[1].replica = true; /* which does not say ASK, and has not got it */
    finish_handshake(1);
    reply(&connections[1], reply_integer(0));
    answer("ASKING SCARD test:api_keys", reply_integer(0));
    reply(&connections[1], reply_integer(0));
    expect_events("");
    answer("ASKING ZCARD test:index", reply_integer(3));
    expect_events("replaced ready:1 ");
}

CONNECTED_TEST(check_on_another_node_ends_with_its_connection)
{
    use_cluster(1);
    reply(&connections[1], ask());
    redis_connection_fail(&connections[1], "reset");
    assert_int_equal(fake_redis.count, 0);
    assert_string_equal(connections[1].failure, "reset");
    finish_handshake(1);
    reply(&connections[1], ask());
    use(0);
    assert_false(connections[1].open);
    assert_null(redirects.config);
    expect_events("");
}

/* It does not wait for its deadline. */
CONNECTED_TEST(attempt_ends_when_another_node_does_not_reply_to_its_check)
{
    use_cluster(1);
    reply(&connections[1], ask());
    assert_true(fake_redis_answer_to(&redirects, NULL));
    assert_string_equal(connections[1].failure, UPSTREAM_NOT_CHECKED);
    finish_next(1, 1, 0);
    expect_events("replaced ready:1 ");
}

CONNECTED_TEST(lost_check_is_repeated)
{
    use(1);
    finish_handshake(1);
    redis_connection_fail(&connections[1], "reset");
    expect_events("");
    finish_next(1, 1, 0);
    expect_events("replaced ready:1 ");
}

/* The one in use goes on with its own settings, and whichever is ready first serves. */
CONNECTED_TEST(lost_connection_goes_on_trying_beside_the_next)
{
    use(1);
    redis_connection_fail(&connections[0], "reset");
    finish_handshake(0);
    expect_events("lost handshake ready:0 ");
    redis_connection_fail(&connections[0], "reset");
    finish_next(1, 1, 0);
    assert_false(connections[0].open);
    expect_events("lost replaced ready:1 ");
}

TEST_CASE_WITH(first_connection_may_be_replaced_before_it_is_ready, set_up, tear_down)
{
    use(1);
    finish_next(1, 1, 0);
    expect_events("replaced ready:1 ");
}

CONNECTED_TEST(same_settings_are_no_move)
{
    use(0);
    assert_int_equal(connections_made, 1);
    use(1);
    use(1);
    assert_int_equal(connections_made, 2);
}

CONNECTED_TEST(newer_settings_end_the_attempt_with_older_ones)
{
    use(1);
    use(2);
    assert_int_equal(connections_made, 3);
    assert_false(connections[1].open);
    connection_finish_closing();
    finish_next(2, 1, 0);
    expect_events("replaced ready:2 ");
    connection_finish_closing();
    use(3);
    use(2); /* those in use again: no attempt is left */
    assert_false(connections[3].open);
    assert_true(connections[2].open);
}

/* What is in use and what is tried stays as it is. */
CONNECTED_TEST(move_that_cannot_begin)
{
    use(1);
    connections_error = -ENOMEM;
    assert_int_equal(redis_session_use(session, config[2]), -ENOMEM);
    assert_true(connections[0].open && connections[1].open);
    finish_next(1, 1, 0);
    expect_events("replaced ready:1 ");
}

CONNECTED_TEST(closing_ends_both)
{
    use(1);
    finish_handshake(1); /* its check is pending */
}
