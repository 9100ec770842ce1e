/* Commands that another node of a cluster executes: in order, once, and never for ever. */
#include "redis/redirect.h"

#include <stdlib.h>

#include "base/clock.h"
#include "redis/resp.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

static struct fake_redis first;
static struct fake_redis second;
static struct redirects redirects;
static struct wait_group open_parts;
static struct redis_address source;
static int closed, redirected;

enum { COMMANDS_MAX = 16 };

static struct told {
    int calls;
    bool lost, error;
    char text[64];
} told[COMMANDS_MAX];
static int sent, answered;
static int order[COMMANDS_MAX];

static void on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct told *t = arg;
    if (reply != NULL)
        assert_int_equal(origin, REDIS_ORIGIN_OUTSIDE);
    t->calls++;
    t->lost = reply == NULL;
    t->error = reply != NULL && reply->type == REPLY_ERROR;
    if (reply != NULL && reply->str != NULL)
        (void)snprintf(t->text, sizeof t->text, "%.*s", (int)reply->len, reply->str);
    order[answered++] = (int)(t - told);
}

static void on_closed(void *arg)
{
    (void)arg;
    closed++;
}

static void on_redirect(void *arg)
{
    (void)arg;
    redirected++;
}

static void begin(void)
{
    fake_open(&first);
    fake_open(&second);
    session_begin_by_cluster(&first, &second);
    memset(told, 0, sizeof told);
    sent = answered = closed = redirected = 0;
    open_parts = WAIT_GROUP_INIT;
    static struct redis_config config;
    config = (struct redis_config){.references = 2, .endpoint = session.endpoint}; /* it is never freed */
    const struct redirects_options options = {.config = &config,
                                              .source = &source,
                                              .client_name = "test",
                                              .metrics = &session.metrics,
                                              .loop_lag = &session.loop_lag,
                                              .open_parts = &open_parts,
                                              .on_redirect = on_redirect};
    redirects_init(&redirects, &session.loop, &options);
}

static void end(void)
{
    redirects_close(&redirects);
    wait_group_wait(&open_parts, on_closed, NULL);
    session_close_loop();
    assert_int_equal(closed, 1);
    assert_int_equal(answered, sent);
    for (int i = 0; i < sent; i++)
        assert_int_equal(told[i].calls, 1);
    session.other = NULL;
    fake_fini(&first);
    fake_fini(&second);
}

/* A command for which the node in use names that port of 127.0.0.1. */
static void send_to(int port, const char *name, const char *argument)
{
    char text[64];
    struct redis_reply ask = {.type = REPLY_ERROR, .str = text};
    struct buf command = BUF_INIT;
    command_write(&command, 2, (const char *[]){name, argument});
    assert_true(sent < COMMANDS_MAX);
    struct redirected *copy = redirects_copy(&redirects, buf_span(&command), false, on_reply, &told[sent++]);
    buf_fini(&command);
    assert_non_null(copy);
    ask.len = (size_t)snprintf(text, sizeof text, "ASK 8726 127.0.0.1:%d", port);
    redirects_on_reply(copy, &ask, REDIS_ORIGIN_STREAM);
    assert_int_equal(redirected, sent);
}

static void send_get(struct fake_redis *f)
{
    send_to(f->port, "GET", "x");
}

TEST_CASE(each_command_is_preceded_by_asking)
{
    begin();
    for (int i = 0; i < 4; i++)
        send_to(first.port, "ECHO", i % 2 == 0 ? "even" : "odd");
    assert_int_equal(answered, 0); /* never from within */
    SESSION_UNTIL(answered == 4);
    send_to(first.port, "ECHO", "later");
    SESSION_UNTIL(answered == 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(order[i], i);
    assert_string_equal(told[1].text, "odd");
    assert_string_equal(told[4].text, "later");
    assert_non_null(
        strstr(buf_c_str(&first.log), "ASKING\nECHO even\nASKING\nECHO odd\nASKING\nECHO even\n"));
    assert_int_equal(first.accepted, 1);
    assert_int_equal(second.accepted, 0);
    assert_int_equal(session.metrics.cluster_redirects_total, 5);
    assert_int_equal(session.metrics.redis_connected, 0); /* which counts the workers' connections */
    end();
}

/* Whoever sends it again at once must not do so as fast as the network permits. */
TEST_CASE(refusals_are_told_after_a_moment)
{
    static const char *const refusals[] = {"-MOVED 8726 a:1\r\n", "-TRYAGAIN x\r\n", "-CLUSTERDOWN x\r\n",
                                           "-ASK 8726 127.0.0.1:1\r\n"};
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        begin();
        first.get = refusals[i];
        uint64_t began = clock_now_ms();
        send_get(&first);
        SESSION_UNTIL(answered == 1);
        assert_true(told[0].lost);
        assert_int_equal(clock_now_ms() - began, 200);
        end();
    }
}

TEST_CASE(other_errors_are_replies)
{
    begin();
    first.get = "-WRONGTYPE x\r\n";
    send_get(&first);
    SESSION_UNTIL(answered == 1);
    assert_true(told[0].error);
    end();
}

TEST_CASE(unreachable_node_is_given_up)
{
    begin();
    fake_stop_listening(&first);
    uint64_t began = clock_now_ms();
    send_get(&first);
    SESSION_UNTIL(answered == 1);
    assert_true(told[0].lost);
    assert_in_range(clock_now_ms() - began, 200, 250); /* and is not asked for without a pause */
    end();
}

TEST_CASE(lost_connection_fails_what_was_sent)
{
    begin();
    first.get = "";
    send_get(&first);
    SESSION_UNTIL(strstr(buf_c_str(&first.log), "GET x\n") != NULL);
    fake_drop_all(&first, true);
    SESSION_UNTIL(answered == 1);
    assert_true(told[0].lost);
    first.get = "$5\r\nfound\r\n";
    send_get(&first);
    SESSION_UNTIL(answered == 2);
    assert_string_equal(told[1].text, "found");
    end();
}

TEST_CASE(idle_connection_is_closed)
{
    begin();
    send_get(&first);
    SESSION_UNTIL(answered == 1);
    session_turn_for(9000);
    send_get(&first);
    SESSION_UNTIL(answered == 2);
    assert_int_equal(first.accepted, 1);
    session_turn_for(11000);
    assert_int_equal(uv_loop_alive(&session.loop), 0); /* nothing is left, not even a timer */
    send_get(&first);
    SESSION_UNTIL(answered == 3);
    assert_int_equal(first.accepted, 2);
    end();
}

TEST_CASE(another_target_replaces_the_first)
{
    begin();
    first.get = "";
    second.get = "$5\r\nfound\r\n";
    send_get(&first);
    SESSION_UNTIL(strstr(buf_c_str(&first.log), "GET x\n") != NULL);
    send_get(&first);
    send_get(&second);
    SESSION_UNTIL(answered == 3);
    assert_true(told[0].lost && told[1].lost);
    assert_string_equal(told[2].text, "found");
    end();
}

TEST_CASE(close_at_any_moment)
{
    for (int turns = 0; turns < 20; turns++) {
        begin();
        first.slice = 7;
        second.get = "-TRYAGAIN x\r\n";
        for (int i = 0; i < 4; i++)
            send_get(i % 2 == 0 ? &first : &second);
        for (int i = 0; i < turns; i++)
            session_turn();
        end();
        assert_int_equal(answered, 4);
    }
}
