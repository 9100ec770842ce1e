/*
 * The nodes of a cluster: what they answer, whatever that is; the node of the slot, and another one after
 * MOVED, a failover or a node that is lost.
 */
#include "redis/cluster.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/fixtures/redis_fake.h"
#include "unit/reply.h"

/* --- CLUSTER SLOTS and errors --- */

/* The answer of the node "asked". */
static const char *read_slots(const char *text, struct locator_answer *out)
{
    static char host[] = "asked";
    static const struct redis_endpoint endpoint = {.discovery = {.slot = 100}};
    static const struct redis_endpoint asked = {.host = host};
    return cluster_protocol.read(&endpoint, &asked, 0, reply_of(text), out);
}

/* "master; replica ...; node ..." of slot 100, or the problem. */
static const char *slots_of(const char *text)
{
    static struct locator_answer answer;
    static char out[1024];
    const char *problem = read_slots(text, &answer);
    if (problem != NULL)
        return problem;
    size_t n = (size_t)snprintf(out, sizeof out, "%s:%d;", answer.master.host, answer.master.port);
    for (int i = 0; i < answer.replicas; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, " %s:%d", answer.replica[i].host,
                              answer.replica[i].port);
    n += (size_t)snprintf(out + n, sizeof out - n, ";");
    for (int i = 0; i < answer.nodes; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, " %s:%d", answer.node[i].host, answer.node[i].port);
    return out;
}

#define NODE(len, host, port)     "*3\r\n$" len "\r\n" host "\r\n:" port "\r\n$2\r\nid\r\n"
#define RANGE(count, first, last) "*" count "\r\n:" first "\r\n:" last "\r\n"

TEST_CASE(slots_name_the_master_and_replicas_of_the_slot)
{
    assert_string_equal(slots_of("*3\r\n" RANGE("3", "0", "99") NODE("1", "a", "1") RANGE("5", "100", "100")
                                     NODE("1", "b", "2") NODE("1", "c", "3") NODE("5", "10::1", "4") RANGE(
                                         "4", "101", "16383") NODE("1", "a", "1") NODE("4", "d.-_", "65535")),
                        "b:2; c:3 10::1:4; a:1 b:2 c:3 10::1:4 d.-_:65535");
}

TEST_CASE(slots_without_a_host_are_at_the_node_that_was_asked)
{
    assert_string_equal(slots_of("*1\r\n" RANGE("3", "0", "16383") NODE("0", "", "1")), "asked:1;; asked:1");
    assert_string_equal(slots_of("*1\r\n" RANGE("3", "0", "16383") "*2\r\n$-1\r\n:7\r\n"),
                        "asked:7;; asked:7");
    assert_string_equal(
        slots_of("*1\r\n" RANGE("3", "0", "16383") "*4\r\n$1\r\na\r\n:7\r\n$1\r\ni\r\n*2\r\n$2\r\n"
                                                   "ip\r\n$1\r\nx\r\n"),
        "a:7;; a:7");
}

#define METADATA(len, name, value_len, value) "%1\r\n$" len "\r\n" name "\r\n$" value_len "\r\n" value "\r\n"
#define UNNAMED(port, metadata)               "*4\r\n$1\r\n?\r\n:" port "\r\n$1\r\ni\r\n" metadata

/* "?" is a node without a host name, which need not be the one that was asked. */
TEST_CASE(slots_without_a_host_name_are_at_the_address_of_the_metadata)
{
    assert_string_equal(
        slots_of("*1\r\n" RANGE("3", "0", "16383") UNNAMED("7", METADATA("2", "ip", "8", "10.0.0.1"))),
        "10.0.0.1:7;; 10.0.0.1:7");
    assert_string_equal(
        slots_of("*1\r\n" RANGE("3", "0", "16383") UNNAMED("7", METADATA("8", "hostname", "4", "name"))),
        "name:7;; name:7");
    assert_string_equal(
        slots_of("*1\r\n" RANGE("3", "0", "16383") UNNAMED("7", METADATA("2", "ip", "0", ""))),
        "asked:7;; asked:7");
    assert_string_equal(slots_of("*1\r\n" RANGE("3", "0", "16383") NODE("1", "?", "1")),
                        "it does not know the host of the node");
    assert_string_equal(slots_of("*1\r\n" RANGE("3", "0", "16383") UNNAMED("7", "*0\r\n")),
                        "it does not know the host of the node");
    assert_string_equal(slots_of("*1\r\n" RANGE("5", "0", "16383") NODE("1", "a", "1") NODE("1", "?", "2")
                                     UNNAMED("3", METADATA("2", "ip", "8", "10.0.0.1"))),
                        "a:1; 10.0.0.1:3; a:1 10.0.0.1:3");
}

static bool is_unnamed(const char *text)
{
    static struct locator_answer answer;
    assert_null(read_slots(text, &answer));
    return answer.unnamed;
}

TEST_CASE(slots_without_a_host_name_are_marked)
{
    assert_false(is_unnamed("*1\r\n" RANGE("3", "0", "16383") NODE("1", "a", "1")));
    assert_false(is_unnamed("*1\r\n" RANGE("3", "0", "16383") NODE("0", "", "1")));
    assert_true(
        is_unnamed("*1\r\n" RANGE("3", "0", "16383") UNNAMED("7", METADATA("2", "ip", "8", "10.0.0.1"))));
    assert_true(is_unnamed("*1\r\n" RANGE("4", "0", "16383") NODE("1", "a", "1") NODE("1", "?", "1")));
}

TEST_CASE(slots_of_any_shape_are_refused)
{
    static const char *const none[] = {
        "*0\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n:100\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n*2\r\n:0\r\n:16383\r\n",
        "*1\r\n*3\r\n$1\r\n0\r\n:16383\r\n" NODE("1", "a", "1"),
        "*1\r\n*3\r\n:0\r\n$5\r\n16383\r\n" NODE("1", "a", "1"),
        "*1\r\n" RANGE("3", "101", "16383") NODE("1", "a", "1"),
        "*1\r\n" RANGE("3", "16383", "0") NODE("1", "a", "1"),
        "*1\r\n" RANGE("3", "-9223372036854775808", "99") NODE("1", "a", "1"),
    };
    static const char *const bad[] = {
        "*1\r\n" RANGE("3", "0", "16383") "$1\r\na\r\n",
        "*1\r\n" RANGE("3", "0", "16383") "*0\r\n",
        "*1\r\n" RANGE("3", "0", "16383") "*1\r\n$1\r\na\r\n",
        "*1\r\n" RANGE("3", "0", "16383") "*2\r\n:1\r\n:1\r\n",
        "*1\r\n" RANGE("3", "0", "16383") "*2\r\n$1\r\na\r\n$1\r\n1\r\n",
        "*1\r\n" RANGE("3", "0", "16383") NODE("1", "a", "0"),
        "*1\r\n" RANGE("3", "0", "16383") NODE("1", "a", "65536"),
        "*1\r\n" RANGE("3", "0", "16383") NODE("3", "a b", "1"),
        "*1\r\n" RANGE("3", "0", "16383") NODE("3", "a/b", "1"),
    };
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_string_equal(slots_of(none[i]), "it knows no node that has the slot");
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_string_equal(slots_of(bad[i]), "its answer is not an address");
    assert_string_equal(slots_of("+OK\r\n"), "its answer is not a list of slots");
    assert_string_equal(slots_of("%1\r\n+a\r\n+b\r\n"), "its answer is not a list of slots");
    /* A replica or a node that cannot be read is left out. */
    assert_string_equal(
        slots_of("*2\r\n" RANGE("5", "0", "100") NODE("1", "a", "1") "*0\r\n" NODE("1", "b", "2") "*0\r\n"),
        "a:1; b:2; a:1 b:2");
}

TEST_CASE(more_replicas_and_nodes_than_are_kept)
{
    enum { MANY = 100 };
    char *text = text_printf("*1\r\n*%d\r\n:0\r\n:16383\r\n", MANY + 2);
    for (int i = 0; i < MANY; i++) {
        char *node = text_printf("*3\r\n$1\r\na\r\n:%d\r\n$1\r\ni\r\n", i + 1);
        text = text_append(text, node);
        free(node);
    }
    static struct locator_answer answer;
    assert_null(read_slots(text, &answer));
    assert_int_equal(answer.replicas, LOCATOR_REPLICAS_MAX);
    assert_int_equal(answer.nodes, LOCATOR_NODES_MAX);
    free(text);
}

/* "MOVED host:port", "ASK host:port", "DOWN", or "". */
static const char *error_of(const char *text)
{
    static char out[512];
    const struct redis_address here = {.host = "here", .port = 1};
    struct redis_address node = {.host = "", .port = 0};
    const struct redis_reply *error = reply_of(text);
    out[0] = '\0';
    if (cluster_read_ask(error, &here, &node)) {
        (void)snprintf(out, sizeof out, "ASK %s:%d", node.host, node.port);
        return out;
    }
    if (!cluster_is_left(error))
        return "";
    if (!cluster_read_moved(&here, error, &node))
        return "DOWN";
    (void)snprintf(out, sizeof out, "MOVED %s:%d", node.host, node.port);
    return out;
}

TEST_CASE(errors_name_the_node)
{
    assert_string_equal(error_of("-MOVED 3999 127.0.0.1:6381\r\n"), "MOVED 127.0.0.1:6381");
    assert_string_equal(error_of("-MOVED 3999 ::1:6381\r\n"), "MOVED ::1:6381");
    assert_string_equal(error_of("-MOVED 3999 :6381\r\n"), "MOVED here:6381");
    assert_string_equal(error_of("-MOVED 3999 ?:6381\r\n"), "MOVED :0");
    assert_string_equal(error_of("-MOVED 3999 node.example.org:1\r\n"), "MOVED node.example.org:1");
    assert_string_equal(error_of("-ASK 3999 10.0.0.1:6381\r\n"), "ASK 10.0.0.1:6381");
    assert_string_equal(error_of("-ASK 3999 :6381\r\n"), "ASK here:6381");
    assert_string_equal(error_of("-ASK 3999 ?:6381\r\n"), "");
    assert_string_equal(error_of("-CLUSTERDOWN Hash slot not served\r\n"), "DOWN");
    assert_string_equal(error_of("-CLUSTERDOWN The cluster is down\r\n"), "DOWN");
}

TEST_CASE(errors_of_any_shape_are_withstood)
{
    static const char *const moved[] = {"-MOVED \r\n",          "-MOVED 1\r\n",       "-MOVED 1 \r\n",
                                        "-MOVED 1 a\r\n",       "-MOVED 1 a:\r\n",    "-MOVED 1 a:0\r\n",
                                        "-MOVED 1 a:65536\r\n", "-MOVED 1 a/b:1\r\n", "-MOVED 1 a:1 \r\n"};
    static const char *const others[] = {"-ASK \r\n",         "-ASK 1\r\n",     "-ASK 1 a:x\r\n",
                                         "-MOVEDX 1 a:1\r\n", "-ERR MOVED\r\n", "+MOVED 1 a:1\r\n",
                                         "-TRYAGAIN x\r\n",   "$-1\r\n"};
    for (size_t i = 0; i < TEST_COUNT(moved); i++)
        assert_string_equal(error_of(moved[i]), "MOVED :0"); /* the slot is elsewhere, wherever that is */
    for (size_t i = 0; i < TEST_COUNT(others); i++)
        assert_string_equal(error_of(others[i]), "");
}

/* --- the node of the slot --- */

static struct fake_redis redis;
static struct fake_redis node;
static struct fake_redis another;
static char named[SLOTS_SIZE]; /* the node's answer */
static char moved[64];

/* `redis` has the slot, and `node` says so. */
static void begin(void)
{
    fake_open(&redis);
    fake_open(&node);
    fake_open(&another);
    slots_name(named, "127.0.0.1", redis.port, 0);
    node.slots = named;
    session_begin_by_cluster(&redis, &node);
    session.third = &another;
}

static void begin_ready(void)
{
    begin();
    session_start();
}

static void end(void)
{
    session_end();
    assert_int_equal(session.metrics.cluster_nodes_connected, 0);
    session.other = session.third = NULL;
    fake_fini(&node);
    fake_fini(&another);
}

static size_t queries(struct fake_redis *f)
{
    return text_count(buf_c_str(&f->log), "CLUSTER SLOTS\n");
}

static const char *moved_to(int port)
{
    (void)snprintf(moved, sizeof moved, "-MOVED 8726 127.0.0.1:%d\r\n", port);
    return moved;
}

TEST_CASE(node_is_asked_every_second)
{
    begin_ready();
    assert_int_equal(session.metrics.cluster_nodes_connected, 1);
    assert_int_equal(queries(&node), 1);
    assert_null(strstr(buf_c_str(&redis.log), "READONLY"));
    assert_null(strstr(buf_c_str(&node.log), "SUBSCRIBE"));
    int64_t began = wait_now_ms();
    SESSION_UNTIL(queries(&node) == 2);
    assert_int_equal(wait_now_ms() - began, LOCATOR_INTERVAL_MS);
    assert_int_equal(session.lost, 0);
    end();
}

TEST_CASE(node_that_does_not_know_its_host_is_where_it_was_asked)
{
    begin();
    slots_name(named, "", redis.port, 0);
    session_start();
    end();
}

/* The host name of the node in use is no longer announced, and its address is: it is the same node. */
TEST_CASE(node_without_a_host_name_stays_in_use)
{
    begin();
    slots_name(named, "localhost", redis.port, 0);
    session_log(LOG_INFO);
    session_start();
    slots_name(named, "?", redis.port, 0);
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&node) == before + 5);
    slots_name(named, "localhost", redis.port, 0);
    SESSION_UNTIL(queries(&node) == before + 10);
    const char *log = session_logged();
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.metrics.redis_failovers_total[REDIS_FAILOVER_MASTER], 0);
    assert_int_equal(session.metrics.redis_failovers_total[REDIS_FAILOVER_SLOT], 0);
    assert_int_equal(text_count(log, "cluster node has no host name: its address is used"), 1);
    assert_non_null(strstr(log, "cluster-announce-hostname is not set"));
    end();
}

TEST_CASE(moved_to_a_node_without_a_host_name)
{
    begin_ready();
    session_log(LOG_INFO);
    (void)snprintf(moved, sizeof moved, "-MOVED 8726 ?:%d\r\n", another.port);
    redis.get = moved;
    slots_name(named, "?", another.port, 0);
    assert_int_equal(session_send("GET", "1"), 0);
    SESSION_UNTIL(session.ready == 2);
    const char *log = session_logged();
    assert_int_equal(session.lost, 1);
    assert_int_equal(session.sent[0].losses, 1);
    assert_int_equal(another.accepted, 1);
    assert_non_null(strstr(log, "MOVED 8726 ?"));
    end();
}

static void expect_counted(enum redis_failover reason)
{
    for (int i = 0; i < REDIS_FAILOVER_KINDS; i++)
        assert_int_equal(session.metrics.redis_failovers_total[i], i == (int)reason);
}

TEST_CASE(failover_moves_the_connection)
{
    begin();
    slots_name(named, "127.0.0.1", redis.port, another.port);
    session_start();
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&node) == before + 2);
    slots_name(named, "127.0.0.1", another.port, redis.port);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(session.lost, 1);
    assert_int_equal(another.accepted, 1);
    expect_counted(REDIS_FAILOVER_MASTER);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    end();
}

/* A failover of which no answer has told, as the master was lost as soon as it was found. */
TEST_CASE(another_master_at_once_is_a_failover)
{
    begin_ready();
    slots_name(named, "127.0.0.1", another.port, 0);
    SESSION_UNTIL(session.ready == 2);
    expect_counted(REDIS_FAILOVER_MASTER);
    end();
}

TEST_CASE(slot_that_migrates_is_no_failover)
{
    begin_ready();
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&node) == before + 2);
    slots_name(named, "127.0.0.1", another.port, 0);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(another.accepted, 1);
    expect_counted(REDIS_FAILOVER_SLOT);
    end();
}

TEST_CASE(slot_that_has_migrated_is_no_failover)
{
    begin_ready();
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&node) == before + 2);
    redis.get = moved_to(another.port);
    assert_int_equal(session_send("GET", "1"), 0);
    SESSION_UNTIL(session.ready == 2);
    expect_counted(REDIS_FAILOVER_SLOT);
    end();
}

/* The same node is used again: there was no failover. */
TEST_CASE(master_that_is_lost_and_found_is_no_failover)
{
    begin_ready();
    fake_drop_all(&redis, true);
    SESSION_UNTIL(session.ready == 2);
    expect_counted(REDIS_FAILOVER_KINDS);
    end();
}

/* The command and those behind it are lost, so their owner sends them again. */
TEST_CASE(moved_moves_the_connection_at_once)
{
    begin_ready();
    redis.get = moved_to(another.port);
    assert_int_equal(session_send("ECHO", "1"), 0);
    assert_int_equal(session_send("GET", "2"), 0);
    assert_int_equal(session_send("ECHO", "3"), 0);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(wait_now_ms(), began);
    assert_int_equal(session.sent[0].replies, 1);
    assert_int_equal(session.sent[1].losses, 1);
    assert_int_equal(session.sent[2].losses, 1);
    assert_int_equal(another.accepted, 1);
    assert_int_equal(session.lost, 1);
    end();
}

/* The other nodes take a moment to hear of it. */
TEST_CASE(answers_from_before_moved_are_ignored)
{
    begin_ready();
    redis.get = moved_to(another.port);
    assert_int_equal(session_send("GET", "1"), 0);
    SESSION_UNTIL(session.ready == 2);
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&node) == before + 3);
    assert_int_equal(session.lost, 1);
    slots_name(named, "127.0.0.1", another.port, 0);
    SESSION_UNTIL(queries(&node) == before + 5);
    assert_int_equal(session.lost, 1);
    slots_name(named, "127.0.0.1", redis.port, 0); /* and then it moves back */
    redis.get = "$1\r\n1\r\n";
    SESSION_UNTIL(session.ready == 3);
    end();
}

/* And a wrong MOVED does not hold for long. */
TEST_CASE(moved_to_a_node_that_refuses)
{
    begin_ready();
    redis.get = moved_to(another.port);
    another.role = "-LOADING x\r\n";
    assert_int_equal(session_send("GET", "1"), 0);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(another.accepted, 1);
    assert_int_equal(redis.accepted, 2);
    end();
}

static void send_get(struct session *s)
{
    (void)s;
    (void)session_send("GET", "x");
}

TEST_CASE(nodes_that_refer_to_each_other_are_not_asked_all_the_time)
{
    enum { SECONDS = 5 };
    char back[64];
    begin();
    redis.get = moved_to(another.port);
    (void)snprintf(back, sizeof back, "-MOVED 8726 127.0.0.1:%d\r\n", redis.port);
    another.get = back;
    session.during_ready = send_get;
    session_start();
    session_turn_for(SECONDS * 1000);
    session.during_ready = NULL;
    assert_in_range(redis.accepted + another.accepted, 4, 40 * SECONDS);
    end();
}

TEST_CASE(cluster_that_is_down_ends_the_connection)
{
    begin_ready();
    redis.get = "-CLUSTERDOWN The cluster is down\r\n";
    assert_int_equal(session_send("GET", "1"), 0);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(session.lost, 1);
    assert_int_equal(session.sent[0].losses, 1);
    end();
}

/* The one in the URL is gone by the time of the failover. */
TEST_CASE(nodes_of_the_answer_are_asked_when_the_first_is_lost)
{
    begin();
    slots_name(named, "127.0.0.1", redis.port, another.port);
    session_start();
    another.slots = named;
    redis.slots = named;
    fake_stop_listening(&node);
    fake_drop_all(&node, false);
    SESSION_UNTIL(queries(&another) + queries(&redis) > 0);
    assert_int_equal(session.lost, 0);
    end();
}

/* The node in use names another one, which is queried. */
static void begin_with_another(void)
{
    begin();
    slots_name(named, "127.0.0.1", node.port, another.port);
    another.slots = named;
    session_start();
    SESSION_UNTIL(queries(&another) > 0);
}

static void restart_another(int away_ms)
{
    int port = another.port;
    fake_stop_listening(&another);
    fake_drop_all(&another, false);
    session_turn_for(away_ms);
    fake_listen(&another, "127.0.0.1", port);
}

/* A master that has stalled does not say that it was replaced. */
TEST_CASE(another_node_than_the_one_in_use_is_asked)
{
    begin_with_another();
    size_t before = queries(&node);
    SESSION_UNTIL(queries(&another) == 4);
    assert_int_equal(queries(&node), before);
    assert_int_equal(session.lost, 0);
    end();
}

/*
 * All other nodes are gone for some seconds, while the node in use serves. When they are back, one of them is
 * asked again: the node in use does not know that the others have replaced it.
 */
TEST_CASE(other_nodes_are_asked_again_after_they_were_lost)
{
    begin_with_another();
    restart_another(10 * LOCATOR_INTERVAL_MS);
    assert_int_equal(session.lost, 0);
    size_t before = queries(&another);
    session_turn_for(60 * LOCATOR_INTERVAL_MS);
    assert_int_equal(session.lost, 0);
    assert_true(queries(&another) > before);
    end();
}

/* The same, little by little: the other node was restarted a few times since the connection is in use. */
TEST_CASE(master_that_was_replaced_is_left_after_restarts_of_the_other_node)
{
    enum { RESTARTS = 4 };
    char replaced[SLOTS_SIZE];
    begin_with_another();
    for (int i = 0; i < RESTARTS; i++) {
        restart_another(LOCATOR_INTERVAL_MS / 2);
        session_turn_for(10 * LOCATOR_INTERVAL_MS);
    }
    assert_int_equal(session.lost, 0);
    /* `node` cannot be reached by the others, and still serves and calls itself the master. */
    slots_name(replaced, "127.0.0.1", another.port, 0);
    another.slots = replaced;
    session_turn_for(120 * LOCATOR_INTERVAL_MS);
    assert_true(session.ready >= 2); /* it may be chosen again by its own reply */
    end();
}

static void check_refused(const char *answer)
{
    begin();
    node.slots = answer;
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_int_equal(session.ready, 0);
    assert_int_equal(redis.accepted, 0);
    node.slots = named;
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST_CASE(invalid_answers_are_refused)
{
    static const char *const answers[] = {
        "*-1\r\n",       "-ERR This instance has cluster support disabled\r\n",
        "*0\r\n",        "+OK\r\n",
        "*16385\r\n",    "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n",
        "$16777217\r\n", "*-1\r\n*-1\r\n"};
    for (size_t i = 0; i < TEST_COUNT(answers); i++)
        check_refused(answers[i]);
}

/* --- the wrong URL --- */

#define HELLO_MODE(len, mode)                                                                              \
    "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n$4\r\nmode\r\n$" len "\r\n" mode \
    "\r\n"

TEST_CASE(node_of_a_cluster_is_refused_as_redis)
{
    session_log(LOG_WARN);
    session_open(&redis);
    redis.hello = HELLO_MODE("7", "cluster");
    session_start_refused();
    assert_non_null(strstr(session_logged(), "a node of a Redis Cluster: use redis+cluster://"));
    redis.hello = HELLO_MODE("10", "standalone");
    SESSION_UNTIL(session.ready == 1);
    session_end();
}

TEST_CASE(redis_without_a_cluster_is_refused_as_a_node)
{
    session_log(LOG_WARN);
    begin();
    node.hello = redis.hello = HELLO_MODE("10", "standalone");
    session_start_refused();
    assert_non_null(strstr(session_logged(), "not a node of a Redis Cluster: use redis://"));
    node.hello = HELLO_MODE("7", "cluster");
    session_turn_for(2000);
    assert_int_equal(session.ready, 0);
    redis.hello = HELLO_MODE("7", "cluster");
    SESSION_UNTIL(session.ready == 1);
    end();
}

/* The loop ends with nothing left. */
TEST_CASE(close_at_any_moment)
{
    for (int turns = 0; turns < 20; turns++) {
        begin();
        node.slice = 7; /* so that there are many steps */
        session_connect();
        for (int i = 0; i < turns; i++)
            session_turn();
        end();
    }
}
