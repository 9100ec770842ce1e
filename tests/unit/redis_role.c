/* What a Redis says of itself: its version, its role, its link to the master; and whatever else is sent
 * instead. */
#include "redis/role.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"

/* The reply that these bytes are. Owned. */
static redisReply *parse(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    if (redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL)
        fail_msg("no reply: %s", bytes);
    redisReaderFree(reader);
    return reply;
}

static bool is_ordered(const char *server, const char *version)
{
    char *bytes = text_printf("%%2\r\n$6\r\nserver\r\n$%zu\r\n%s\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n",
                              strlen(server), server, strlen(version), version);
    redisReply *reply = parse(bytes);
    bool ordered = redis_hello_check(reply) == NULL;
    freeReplyObject(reply);
    free(bytes);
    return ordered;
}

TEST(redis_is_relied_on_from_7_0_5_and_valkey_whatever_its_version)
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

TEST(a_server_that_does_not_tell_what_it_is_is_not_relied_on)
{
    static const char *const replies[] = {"%0\r\n",
                                          "*0\r\n",
                                          "+OK\r\n",
                                          ":1\r\n",
                                          "_\r\n",
                                          "%1\r\n$6\r\nserver\r\n:1\r\n",
                                          "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n",
                                          "%1\r\n$7\r\nversion\r\n$5\r\n8.0.0\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        redisReply *reply = parse(replies[i]);
        assert_non_null(redis_hello_check(reply));
        freeReplyObject(reply);
    }
}

static bool role_is(const char *bytes, bool as_replica)
{
    redisReply *reply = parse(bytes);
    bool is = redis_role_check(reply, as_replica) == NULL;
    freeReplyObject(reply);
    return is;
}

TEST(a_role_is_what_was_looked_for_or_not)
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

TEST(a_replica_tells_whom_it_follows)
{
    struct redis_role role;
    redisReply *reply = parse("*5\r\n$5\r\nslave\r\n$7\r\nredis-0\r\n:6380\r\n$4\r\nsync\r\n:7\r\n");
    assert_null(redis_read_role(reply, &role));
    assert_int_equal(role.kind, REDIS_ROLE_REPLICA);
    assert_false(role.linked);
    assert_string_equal(role.master.host, "redis-0");
    assert_int_equal(role.master.port, 6380);
    freeReplyObject(reply);
    reply = parse("*5\r\n$5\r\nslave\r\n$11\r\nfe80::1%eth\r\n:6380\r\n$9\r\nconnected\r\n:7\r\n");
    assert_null(redis_read_role(reply, &role)); /* an address that is of no use makes it no less a replica */
    assert_true(role.linked);
    assert_int_equal(role.master.port, 0);
    freeReplyObject(reply);
}

/* Of "line,line,...": what the connection to such a replica is worth. */
static const char *link_objection(const char *lines)
{
    char *info = text_printf("# Replication\r\nrole:slave\r\n%s\r\nslave_priority:100\r\n", lines);
    char *bytes = text_printf("=%zu\r\ntxt:%s\r\n", strlen(info) + 4, info);
    struct redis_link link;
    redisReply *reply = parse(bytes);
    const char *objection = redis_read_link(reply, &link);
    if (objection == NULL)
        objection = redis_link_check(&link);
    freeReplyObject(reply);
    free(bytes);
    free(info);
    return objection;
}

TEST(a_link_is_good_while_the_master_is_heard)
{
    assert_null(
        link_objection("master_link_status:up\r\nmaster_last_io_seconds_ago:0\r\nmaster_sync_in_progress:0"));
    assert_null(link_objection("master_last_io_seconds_ago:15\r\nmaster_link_status:up"));
    assert_string_equal(link_objection("master_link_status:up\r\nmaster_last_io_seconds_ago:16"),
                        "its master has been silent for too long");
    assert_string_equal(
        link_objection(
            "master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_link_down_since_seconds:3"),
        "its link to the master is down");
    assert_string_equal(
        link_objection("master_link_status:up\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:1"),
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
        if (link_objection(nonsense[i]) == NULL)
            fail_msg("%s", nonsense[i]);
}

TEST(what_is_no_information_is_refused)
{
    static const char *const replies[] = {"+OK\r\n", ":1\r\n",     "_\r\n",
                                          "*0\r\n",  "$0\r\n\r\n", "$1\r\n\n\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        struct redis_link link;
        redisReply *reply = parse(replies[i]);
        assert_non_null(redis_read_link(reply, &link));
        freeReplyObject(reply);
    }
}

TEST(a_command_that_is_denied_is_told_from_a_server_in_trouble)
{
    static const char *const denied[] = {"-NOPERM this user has no permissions to run the 'role' command\r\n",
                                         "-ERR unknown command 'ROLE'\r\n"};
    static const char *const others[] = {"-BUSY Redis is busy\r\n", "-LOADING Redis is loading\r\n",
                                         "-NOAUTH Authentication required.\r\n", "-\r\n"};
    for (size_t i = 0; i < TEST_COUNT(denied); i++) {
        redisReply *reply = parse(denied[i]);
        assert_true(redis_is_denied(reply));
        freeReplyObject(reply);
    }
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        redisReply *reply = parse(others[i]);
        assert_false(redis_is_denied(reply));
        freeReplyObject(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redis_is_relied_on_from_7_0_5_and_valkey_whatever_its_version),
        cmocka_unit_test(a_server_that_does_not_tell_what_it_is_is_not_relied_on),
        cmocka_unit_test(a_role_is_what_was_looked_for_or_not),
        cmocka_unit_test(a_replica_tells_whom_it_follows),
        cmocka_unit_test(a_link_is_good_while_the_master_is_heard),
        cmocka_unit_test(what_is_no_information_is_refused),
        cmocka_unit_test(a_command_that_is_denied_is_told_from_a_server_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
