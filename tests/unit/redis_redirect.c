/* Commands that another node of a cluster executes: in order, once, and never for ever. */
#include "redis/redirect.h"

#include <stdlib.h>

#include "base/clock.h"
#include "redis/resp.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

static struct fake_redis first;
static struct fake_redis second;
static struct redirects *redirects;
static int closed;

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

static void begin(void)
{
    fake_open(&first);
    fake_open(&second);
    session_begin_by_cluster(&first, &second);
    memset(told, 0, sizeof told);
    sent = answered = closed = 0;
    static struct redis_config config;
    config = (struct redis_config){.references = 2, .endpoint = session.endpoint}; /* it is never freed */
    const struct redirects_options options = {
        .config = &config, .client_name = "test", .metrics = &session.metrics, .loop_lag = &session.loop_lag};
    assert_int_equal(redirects_new(&session.loop, &options, &redirects), 0);
}

static void end(void)
{
    redirects_close(redirects, on_closed, NULL);
    session_close_loop();
    assert_int_equal(closed, 1);
    for (int i = 0; i < sent; i++)
        assert_in_range(told[i].calls, 0, 1);
    session.other = NULL;
    fake_fini(&first);
    fake_fini(&second);
}

static struct redis_address at(const struct fake_redis *f)
{
    struct redis_address a = {.port = f->port};
    (void)snprintf(a.host, sizeof a.host, "127.0.0.1");
    return a;
}

static void send_to(const struct redis_address *node, const char *name, const char *argument)
{
    struct buf command = BUF_INIT;
    command_write(&command, 2, (const char *[]){name, argument});
    assert_true(sent < COMMANDS_MAX);
    assert_int_equal(redirects_send(redirects, node, buf_span(&command), on_reply, &told[sent++]), 0);
    buf_fini(&command);
}

static void send_get(struct fake_redis *f)
{
    const struct redis_address node = at(f);
    send_to(&node, "GET", "x");
}

TEST_CASE(each_command_is_preceded_by_asking)
{
    begin();
    const struct redis_address there = at(&first);
    for (int i = 0; i < 4; i++)
        send_to(&there, "ECHO", i % 2 == 0 ? "even" : "odd");
    assert_int_equal(answered, 0); /* never from within */
    SESSION_UNTIL(answered == 4);
    send_to(&there, "ECHO", "later");
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

TEST_CASE(node_that_refers_to_another_is_followed)
{
    char ask[64];
    begin();
    (void)snprintf(ask, sizeof ask, "-ASK 8726 :%d\r\n", second.port);
    first.get = ask;
    second.get = "$5\r\nfound\r\n";
    send_get(&first);
    SESSION_UNTIL(answered == 1);
    assert_string_equal(told[0].text, "found");
    end();
}

TEST_CASE(nodes_that_refer_to_each_other_are_not_asked_for_ever)
{
    char there[64];
    char back[64];
    begin();
    (void)snprintf(there, sizeof there, "-ASK 8726 :%d\r\n", second.port);
    (void)snprintf(back, sizeof back, "-ASK 8726 :%d\r\n", first.port);
    first.get = there;
    second.get = back;
    send_get(&first);
    SESSION_UNTIL(answered == 1);
    assert_true(told[0].lost);
    assert_in_range(text_count(buf_c_str(&first.log), "GET x\n"), 1, 4);
    end();
}

/* Whoever sends it again at once must not do so as fast as the network permits. */
TEST_CASE(refusals_are_told_after_a_moment)
{
    static const char *const refusals[] = {"-MOVED 8726 a:1\r\n", "-TRYAGAIN x\r\n", "-CLUSTERDOWN x\r\n",
                                           "-ASK x\r\n"};
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

/* More nodes than connections: those that are not used give way. */
TEST_CASE(connections_are_few)
{
    enum { NODES = 6 };
    begin();
    for (int i = 0; i < NODES; i++) {
        struct redis_address node = at(&first);
        (void)snprintf(node.host, sizeof node.host, "127.0.0.%d", 2 + i); /* where nobody listens */
        send_to(&node, "GET", "x");
    }
    SESSION_UNTIL(answered == NODES);
    send_get(&second);
    SESSION_UNTIL(answered == NODES + 1);
    assert_false(told[NODES].lost);
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
