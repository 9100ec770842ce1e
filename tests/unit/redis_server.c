/*
 * Replies that the client reads for itself: a server's version, its role, its link to the master, and the
 * answers of Sentinels; whatever is sent, of any type and length.
 */
#include "redis/server.h"

#include "redis/sentinel.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/reply.h"

/* --- HELLO, ROLE, INFO --- */

static void assert_eviction_policy(const char *reply, const char *expected)
{
    struct span policy = redis_server_eviction_policy(reply_of(reply));
    assert_true(span_equal(policy, span_of(expected)) && (policy.data == NULL) == (*expected == '\0'));
}

TEST_CASE(eviction_policy_is_one_that_needs_no_ttl)
{
    assert_eviction_policy("=49\r\ntxt:# Memory\r\nmaxmemory_policy:allkeys-lru\r\nx:1\r\n\r\n",
                           "allkeys-lru");
    assert_eviction_policy("$29\r\nmaxmemory_policy:allkeys-lfu\n\r\n", "allkeys-lfu");
    assert_eviction_policy("$29\r\nmaxmemory_policy:volatile-lru\r\n", "");
    assert_eviction_policy("$27\r\nmaxmemory_policy:noeviction\r\n", "");
    assert_eviction_policy("$12\r\nmaxmemory:10\r\n", "");
    assert_eviction_policy("-NOPERM no\r\n", "");
    assert_eviction_policy("_\r\n", "");
    assert_eviction_policy("*1\r\n+maxmemory_policy:allkeys-lru\r\n", "");
}

static bool is_ordered(const char *server, const char *version)
{
    char *bytes = text_printf("%%2\r\n$6\r\nserver\r\n$%zu\r\n%s\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n",
                              strlen(server), server, strlen(version), version);
    bool ordered = redis_server_check_hello(reply_of(bytes)) == NULL;
    free(bytes);
    return ordered;
}

TEST_CASE(tracking_is_ordered_since_redis_7_0_5_and_in_any_valkey)
{
    static const char *const ordered[] = {"7.0.5", "7.0.10", "7.1.0",       "7.2",
                                          "8.0.0", "10.0.1", "255.255.255", "7.0.5-rc1"};
    static const char *const not [] = {"7.0.4",
                                       "7.0",
                                       "7",
                                       "6.2.99",
                                       "6.10.10",
                                       "0.0.0",
                                       "",
                                       "x",
                                       "7.0.x",
                                       "-8.0.0",
                                       "7..5",
                                       "07.0.5",
                                       "99999999999999999999.0.0"};
    for (size_t i = 0; i < TEST_COUNT(ordered); i++)
        if (!is_ordered("redis", ordered[i]))
            fail_msg("%s", ordered[i]);
    for (size_t i = 0; i < TEST_COUNT(not ); i++) {
        if (is_ordered("redis", not [i]))
            fail_msg("%s", not [i]);
        assert_true(is_ordered("valkey", not [i]));
    }
}

TEST_CASE(a_server_without_name_or_version_is_not_trusted_with_tracking)
{
    static const char *const replies[] = {"%0\r\n",
                                          "*0\r\n",
                                          "+OK\r\n",
                                          ":1\r\n",
                                          "_\r\n",
                                          "%1\r\n$6\r\nserver\r\n:1\r\n",
                                          "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n",
                                          "%1\r\n$7\r\nversion\r\n$5\r\n8.0.0\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++)
        assert_non_null(redis_server_check_hello(reply_of(replies[i])));
}

/* A master, or a replica whose link to its master is up. */
static bool role_is(const char *bytes, bool as_replica)
{
    struct redis_role role;
    bool read = redis_server_read_role(reply_of(bytes), &role) == NULL;
    return read &&
           (as_replica ? role.kind == REDIS_ROLE_REPLICA && role.linked : role.kind == REDIS_ROLE_MASTER);
}

TEST_CASE(role_of_masters_and_replicas)
{
    static const char master[] = "*3\r\n$6\r\nmaster\r\n:100\r\n*0\r\n";
    static const char linked[] = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:7\r\n";
    static const char cut[] = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$7\r\nconnect\r\n:7\r\n";
    assert_true(role_is(master, false));
    assert_false(role_is(master, true));
    assert_true(role_is(linked, true));
    assert_false(role_is(linked, false));
    assert_false(role_is(cut, true));
    assert_false(role_is(cut, false));
    static const char *const lies[] = {"*0\r\n",
                                       "*1\r\n:1\r\n",
                                       "+master\r\n",
                                       "*1\r\n$5\r\nslave\r\n",
                                       "*4\r\n$5\r\nslave\r\n_\r\n_\r\n_\r\n",
                                       "*3\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n",
                                       "*-1\r\n",
                                       "-NOPERM no\r\n",
                                       "*1\r\n*1\r\n$6\r\nmaster\r\n",
                                       "*1\r\n$8\r\nsentinel\r\n"};
    for (size_t i = 0; i < TEST_COUNT(lies); i++) {
        assert_false(role_is(lies[i], false));
        assert_false(role_is(lies[i], true));
    }
}

TEST_CASE(role_holds_the_master_of_a_replica)
{
    struct redis_role role;
    const struct redis_reply *reply =
        reply_of("*5\r\n$5\r\nslave\r\n$7\r\nredis-0\r\n:6380\r\n$4\r\nsync\r\n:7\r\n");
    assert_null(redis_server_read_role(reply, &role));
    assert_int_equal(role.kind, REDIS_ROLE_REPLICA);
    assert_false(role.linked);
    assert_string_equal(role.master.host, "redis-0");
    assert_int_equal(role.master.port, 6380);
    reply = reply_of("*5\r\n$5\r\nslave\r\n$11\r\nfe80::1%eth\r\n:6380\r\n$9\r\nconnected\r\n:7\r\n");
    assert_null(
        redis_server_read_role(reply, &role)); /* an address that is of no use makes it no less a replica */
    assert_true(role.linked);
    assert_int_equal(role.master.port, 0);
}

static void connect_to(struct redis_server *server, const char *host)
{
    redis_server_init(server, server->replication, host, host != NULL);
}

/* The first connection. */
static void begin(struct redis_server *server, const char *host)
{
    static struct redis_replication replication;
    replication = (struct redis_replication){0};
    server->replication = &replication;
    connect_to(server, host);
}

/* What is wrong with a replica whose reply to INFO is this. */
static const char *take_link(const struct redis_reply *reply)
{
    struct redis_server server;
    begin(&server, "r");
    server.role.kind = REDIS_ROLE_REPLICA;
    const char *problem = redis_server_take_link(&server, reply, 60000);
    assert_true(server.valid_until_ms == (problem == NULL ? 60000U - (server.lag_s + 1) * 1000 : UINT64_MAX));
    return problem;
}

/* Of "line,line,...": what the connection to such a replica is worth. */
static const char *link_problem(const char *lines)
{
    char *info = text_printf("# Replication\r\nrole:slave\r\n%s\r\nslave_priority:100\r\n", lines);
    char *bytes = text_printf("=%zu\r\ntxt:%s\r\n", strlen(info) + 4, info);
    const char *problem = take_link(reply_of(bytes));
    free(bytes);
    free(info);
    return problem;
}

TEST_CASE(replica_link_is_good_while_the_master_is_heard)
{
    assert_null(
        link_problem("master_link_status:up\r\nmaster_last_io_seconds_ago:0\r\nmaster_sync_in_progress:0"));
    assert_null(link_problem("master_last_io_seconds_ago:15\r\nmaster_link_status:up"));
    assert_string_equal(link_problem("master_link_status:up\r\nmaster_last_io_seconds_ago:16"),
                        "its master has been silent for too long");
    assert_string_equal(
        link_problem(
            "master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_link_down_since_seconds:3"),
        "its link to the master is down");
    assert_string_equal(
        link_problem("master_link_status:up\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:1"),
        "its link to the master is down");
    static const char *const nonsense[] = {"",
                                           "master_link_status",
                                           "xmaster_link_status:up",
                                           "master_link_status:up",
                                           "master_link_status:up\r\nmaster_last_io_seconds_ago:-1",
                                           "master_link_status:up\r\nmaster_last_io_seconds_ago:x",
                                           "master_link_statusx:up",
                                           "master_link_status:"};
    for (size_t i = 0; i < TEST_COUNT(nonsense); i++)
        if (link_problem(nonsense[i]) == NULL)
            fail_msg("%s", nonsense[i]);
}

TEST_CASE(info_of_the_wrong_shape_is_refused)
{
    static const char *const replies[] = {"+OK\r\n", ":1\r\n",     "_\r\n",
                                          "*0\r\n",  "$0\r\n\r\n", "$1\r\n\n\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++)
        assert_non_null(take_link(reply_of(replies[i])));
}

static const char MASTER[] = "*3\r\n$6\r\nmaster\r\n:100\r\n*0\r\n";
static const char UNLINKED[] = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$7\r\nconnect\r\n:7\r\n";
static const char LINKED[] = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:7\r\n";

static bool takes(struct redis_server *server, const char *role, uint64_t sent_ms)
{
    bool taken = redis_server_take_role(server, reply_of(role), REDIS_ROLE_UNKNOWN, sent_ms) == NULL;
    return taken;
}

enum { DOWN_MS = 60000 };

TEST_CASE(replica_has_time_to_catch_up_after_its_link_was_down)
{
    static const struct {
        const char *host;
        uint64_t sent_ms;
        bool usable;
    } rows[] = {
        {"r", DOWN_MS + REDIS_REPLICA_SETTLE_MS - 1, false},
        {"r", DOWN_MS + REDIS_REPLICA_SETTLE_MS, true},
        {"other", DOWN_MS + 1, true},
        {NULL, DOWN_MS + 1, true},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct redis_server server;
        begin(&server, "r");
        assert_false(takes(&server, UNLINKED, DOWN_MS));
        connect_to(&server, rows[i].host);
        assert_int_equal(takes(&server, LINKED, rows[i].sent_ms), rows[i].usable);
    }
}

/* A master that is demoted has no link at first. */
TEST_CASE(server_that_has_become_a_replica_has_time_to_catch_up)
{
    struct redis_server server;
    begin(&server, "r");
    assert_true(takes(&server, MASTER, DOWN_MS - 1));
    assert_false(takes(&server, UNLINKED, DOWN_MS));
    connect_to(&server, "r");
    assert_false(takes(&server, LINKED, DOWN_MS + REDIS_REPLICA_SETTLE_MS - 1));
    assert_true(takes(&server, LINKED, DOWN_MS + REDIS_REPLICA_SETTLE_MS));
}

/* Also if others were tried since. More of them than are remembered make room for the latest. */
TEST_CASE(each_replica_has_its_own_time_to_catch_up)
{
    struct redis_server server;
    begin(&server, "0");
    for (int i = 0; i <= REDIS_CUT_OFFS_MAX; i++) {
        connect_to(&server, (char[]){(char)('0' + i), '\0'});
        assert_false(takes(&server, UNLINKED, DOWN_MS + (uint64_t)i));
    }
    for (int i = 0; i <= REDIS_CUT_OFFS_MAX; i++) {
        connect_to(&server, (char[]){(char)('0' + i), '\0'});
        assert_int_equal(takes(&server, LINKED, DOWN_MS + 100), i == 0);
    }
}

TEST_CASE(master_needs_no_time_to_catch_up)
{
    struct redis_server server;
    begin(&server, NULL);
    assert_false(takes(&server, UNLINKED, 60000));
    connect_to(&server, NULL);
    assert_true(takes(&server, MASTER, 60001));
}

/* The server may be used although it does not permit this command. */
static bool is_denied(const char *error, bool role)
{
    struct redis_server server;
    begin(&server, "r");
    server.role.kind = REDIS_ROLE_REPLICA;
    server.lag_s = 7;
    const char *problem = role ? redis_server_take_role(&server, reply_of(error), REDIS_ROLE_UNKNOWN, 7)
                               : redis_server_take_link(&server, reply_of(error), 7);
    bool denied = problem == NULL;
    assert_int_equal(server.role_denied, denied && role);
    assert_int_equal(server.link_denied, denied && !role);
    assert_int_equal(server.role.kind, denied && role ? REDIS_ROLE_UNKNOWN : REDIS_ROLE_REPLICA);
    assert_true(server.valid_until_ms == (denied && !role ? 7 : UINT64_MAX));
    assert_int_equal(server.lag_s, denied ? 0 : 7);
    return denied;
}

TEST_CASE(denied_commands_are_told_from_other_errors)
{
    static const char *const denied[] = {"-NOPERM this user has no permissions to run the 'role' command\r\n",
                                         "-ERR unknown command 'ROLE'\r\n"};
    static const char *const others[] = {"-BUSY Redis is busy\r\n", "-LOADING Redis is loading\r\n",
                                         "-NOAUTH Authentication required.\r\n", "-\r\n"};
    for (int role = 0; role < 2; role++) {
        for (size_t i = 0; i < TEST_COUNT(denied); i++)
            assert_true(is_denied(denied[i], role != 0));
        for (size_t i = 0; i < TEST_COUNT(others); i++)
            assert_false(is_denied(others[i], role != 0));
    }
}

TEST_CASE(server_must_have_the_wanted_role)
{
    struct redis_server server;
    begin(&server, "r");
    static const struct {
        const char *role;
        enum redis_role_kind wanted;
        bool usable;
    } rows[] = {
        {MASTER, REDIS_ROLE_UNKNOWN, true},
        {LINKED, REDIS_ROLE_UNKNOWN, true},
        {MASTER, REDIS_ROLE_MASTER, true},
        {LINKED, REDIS_ROLE_MASTER, false},
        {MASTER, REDIS_ROLE_REPLICA, false},
        {LINKED, REDIS_ROLE_REPLICA, true},
        {"-NOPERM no\r\n", REDIS_ROLE_MASTER, false},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        connect_to(&server, "r");
        const char *problem = redis_server_take_role(&server, reply_of(rows[i].role), rows[i].wanted, 7);
        assert_int_equal(problem == NULL, rows[i].usable);
        assert_int_equal(server.role.kind != REDIS_ROLE_UNKNOWN, rows[i].usable);
    }
}

TEST_CASE(role_of_a_server_must_not_change)
{
    struct redis_server server;
    begin(&server, "r");
    assert_null(redis_server_take_role(&server, reply_of(MASTER), REDIS_ROLE_UNKNOWN, 7));
    assert_string_equal(redis_server_take_role(&server, reply_of(LINKED), REDIS_ROLE_UNKNOWN, 7),
                        "it was a master and is a replica now");
    connect_to(&server, "r");
    assert_null(redis_server_take_role(&server, reply_of(LINKED), REDIS_ROLE_UNKNOWN, 7));
    assert_string_equal(redis_server_take_role(&server, reply_of(MASTER), REDIS_ROLE_UNKNOWN, 7),
                        "it was a replica and is a master now");
    server.link_denied = true;
    assert_null(redis_server_take_role(&server, reply_of(LINKED), REDIS_ROLE_UNKNOWN, 9));
    assert_true(server.valid_until_ms == 9);
    redis_server_invalidate(&server, 10);
    assert_true(server.valid_until_ms == 9);
    redis_server_invalidate(&server, 8);
    assert_true(server.valid_until_ms == 8);
}

/* --- SENTINEL --- */

/* The n-th reply of a Sentinel that was asked for a replica. */
static const char *read_sentinel(int n, const char *bytes, struct locator_answer *out)
{
    static const struct redis_endpoint endpoint = {.discovery = {.replica = true}};
    return sentinel_protocol.read(&endpoint, NULL, n, reply_of(bytes), out);
}

static const char *read_master(const char *bytes, struct redis_address *out)
{
    static struct locator_answer answer;
    const char *problem = read_sentinel(0, bytes, &answer);
    *out = answer.master;
    return problem;
}

/* "*2 $len host $len port" */
static const char *read_pair(const char *host, const char *port, struct redis_address *out)
{
    char *bytes = text_printf("*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host, strlen(port), port);
    const char *problem = read_master(bytes, out);
    free(bytes);
    return problem;
}

TEST_CASE(master_address_may_be_numeric_or_a_name)
{
    static const char *const hosts[] = {"127.0.0.1", "::1", "fe80::1", "redis-0.redis_h.svc", "R"};
    for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
        struct redis_address a;
        assert_null(read_pair(hosts[i], "6379", &a));
        assert_string_equal(a.host, hosts[i]);
        assert_int_equal(a.port, 6379);
    }
}

TEST_CASE(unknown_master_has_a_reason_of_its_own)
{
    struct redis_address a;
    assert_string_equal(read_master("*-1\r\n", &a), "it knows no master of that name");
    assert_string_equal(read_master("_\r\n", &a), "it knows no master of that name");
    assert_string_equal(read_master("+OK\r\n", &a), "its answer is not an address");
}

TEST_CASE(invalid_master_addresses_are_refused)
{
    static const char *const hosts[] = {"", "a b", "a/b", "a\n", "a\x01", "\xff", "a;b", "a@b", "<a>", "%61"};
    static const char *const ports[] = {"",     "0", "65536", "-1", "6379 ", "x", "99999999999999999999",
                                        "06379"};
    static const char *const replies[] = {
        "*0\r\n",
        "*1\r\n$1\r\na\r\n",
        "*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*2\r\n$1\r\na\r\n:6379\r\n",
        "*2\r\n*0\r\n$4\r\n6379\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "*2\r\n_\r\n_\r\n",
        "%1\r\n$1\r\na\r\n$4\r\n6379\r\n",
        ":6379\r\n",
        "-ERR no\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "$6\r\na:6379\r\n",
    };
    struct redis_address a;
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        assert_non_null(read_pair(hosts[i], "6379", &a));
    for (size_t i = 0; i < TEST_COUNT(ports); i++)
        assert_non_null(read_pair("a", ports[i], &a));
    for (size_t i = 0; i < TEST_COUNT(replies); i++)
        assert_non_null(read_master(replies[i], &a));
}

TEST_CASE(master_host_length_is_bounded)
{
    struct redis_address a;
    char *longest = text_repeat('a', REDIS_HOST_SIZE - 1);
    char *longer = text_repeat('a', REDIS_HOST_SIZE);
    assert_null(read_pair(longest, "1", &a));
    assert_string_equal(a.host, longest);
    assert_non_null(read_pair(longer, "1", &a));
    free(longer);
    free(longest);
}

/* One replica as Sentinel tells of it, with a few of its thirty members. */
static char *replica(char kind, const char *port, const char *flags, const char *link)
{
    const char *const words[] = {"name", "x",     "ip",  "10.0.0.1",           "port",
                                 port,   "flags", flags, "master-link-status", link};
    size_t count = TEST_COUNT(words);
    char *text = text_printf("%c%zu\r\n", kind, kind == '%' ? count / 2 : count);
    for (size_t i = 0; i < count; i++) {
        char *word = text_printf("$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
        text = text_append(text, word);
        free(word);
    }
    return text;
}

/* How many such replicas are taken of two, or are down. */
static int count_replicas(const char *flags, const char *link, bool down)
{
    struct locator_answer answer;
    int count = 0;
    for (const char *kind = "*%"; *kind != '\0'; kind++) {
        char *one = replica(*kind, "7001", flags, link);
        char *list = text_printf("*1\r\n%s", one);
        assert_null(read_sentinel(1, list, &answer));
        count += down ? answer.downs : answer.replicas;
        free(list);
        free(one);
    }
    return count;
}

TEST_CASE(replicas_are_listed_when_linked_and_apart_when_down)
{
    static const struct {
        const char *flags, *link;
        int healthy, down; /* of two: as an array and as a map */
    } rows[] = {
        {"slave", "ok", 2, 0},
        {"slave,reconf_sent", "ok", 2, 0},
        {"slave", "err", 0, 0},
        {"slave", "", 0, 0},
        {"s_down,slave", "ok", 0, 2},
        {"slave,o_down", "ok", 0, 2},
        {"slave,o_down", "err", 0, 2},
        {"slave,disconnected", "ok", 0, 2},
        {"master", "ok", 0, 0},
        {"master,s_down", "ok", 0, 0},
        {"", "ok", 0, 0},
        {",,", "ok", 0, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(count_replicas(rows[i].flags, rows[i].link, false), rows[i].healthy);
        assert_int_equal(count_replicas(rows[i].flags, rows[i].link, true), rows[i].down);
    }
}

TEST_CASE(invalid_replicas_are_left_out)
{
    struct locator_answer answer;
    char *good = replica('*', "7001", "slave", "ok");
    char *bad = replica('*', "70010x", "slave", "ok");
    char *list = text_printf("*9\r\n%s%s:1\r\n*0\r\n*1\r\n$5\r\nflags\r\n$-1\r\n%%0\r\n*2\r\n:1\r\n:2\r\n%s",
                             good, bad, good);
    assert_null(read_sentinel(1, list, &answer));
    assert_int_equal(answer.replicas, 2);
    assert_string_equal(answer.replica[0].host, "10.0.0.1");
    assert_int_equal(answer.replica[1].port, 7001);
    free(list);
    free(bad);
    free(good);
}

TEST_CASE(replicas_beyond_the_bound_are_left_out)
{
    struct locator_answer answer;
    char *list = text_printf("*%d\r\n", LOCATOR_REPLICAS_MAX + 1);
    char *good = replica('*', "7001", "slave", "ok");
    for (int i = 0; i <= LOCATOR_REPLICAS_MAX; i++)
        list = text_append(list, good);
    assert_null(read_sentinel(1, list, &answer));
    assert_int_equal(answer.replicas, LOCATOR_REPLICAS_MAX);
    free(good);
    free(list);
}

TEST_CASE(replicas_of_the_wrong_shape_are_refused)
{
    static const char *const replies[] = {"*-1\r\n", "+OK\r\n", ":1\r\n", "-ERR no\r\n", "%0\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        struct locator_answer answer = {.replicas = 5};
        assert_non_null(read_sentinel(1, replies[i], &answer));
        assert_int_equal(answer.replicas, 0);
    }
}
