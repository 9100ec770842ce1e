/* What Sentinels say: an address, a list of replicas, or a reason; whatever is sent, of any type and length.
 */
#include "redis/sentinel.h"

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

static const char *read_master(const char *bytes, struct redis_address *out)
{
    redisReply *reply = parse(bytes);
    const char *objection = sentinel_read_master(reply, out);
    freeReplyObject(reply);
    return objection;
}

/* "*2 $len host $len port" */
static const char *read_pair(const char *host, const char *port, struct redis_address *out)
{
    char *bytes = text_printf("*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host, strlen(port), port);
    const char *objection = read_master(bytes, out);
    free(bytes);
    return objection;
}

TEST(addresses_and_names_are_taken)
{
    static const char *const hosts[] = {"127.0.0.1", "::1", "fe80::1", "redis-0.redis_h.svc", "R"};
    for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
        struct redis_address a;
        assert_null(read_pair(hosts[i], "6379", &a));
        assert_string_equal(a.host, hosts[i]);
        assert_int_equal(a.port, 6379);
    }
}

TEST(no_master_is_told_from_nonsense)
{
    struct redis_address a;
    assert_string_equal(read_master("*-1\r\n", &a), "it knows no master of that name");
    assert_string_equal(read_master("_\r\n", &a), "it knows no master of that name");
    assert_string_equal(read_master("+OK\r\n", &a), "its answer is no address");
}

TEST(what_is_no_address_is_refused)
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

TEST(a_host_is_as_long_as_a_name_may_be)
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
    struct sentinel_answer answer;
    int count = 0;
    for (const char *kind = "*%"; *kind != '\0'; kind++) {
        char *one = replica(*kind, "7001", flags, link);
        char *list = text_printf("*1\r\n%s", one);
        redisReply *reply = parse(list);
        assert_null(sentinel_read_replicas(reply, &answer));
        count += down ? answer.downs : answer.replicas;
        freeReplyObject(reply);
        free(list);
        free(one);
    }
    return count;
}

static int healthy(const char *flags, const char *link)
{
    return count_replicas(flags, link, false);
}

static int down(const char *flags, const char *link)
{
    return count_replicas(flags, link, true);
}

TEST(replicas_that_are_called_down_are_told_from_those_that_are_behind)
{
    assert_int_equal(down("s_down,slave", "ok"), 2);
    assert_int_equal(down("slave,o_down", "err"), 2);
    assert_int_equal(down("slave,disconnected", "ok"), 2);
    assert_int_equal(down("slave", "err"), 0);
    assert_int_equal(down("slave", "ok"), 0);
    assert_int_equal(down("master,s_down", "ok"), 0);
}

TEST(replicas_that_are_up_and_linked_are_taken)
{
    assert_int_equal(healthy("slave", "ok"), 2); /* as an array and as a map */
    assert_int_equal(healthy("slave,reconf_sent", "ok"), 2);
    assert_int_equal(healthy("slave", "err"), 0);
    assert_int_equal(healthy("slave", ""), 0);
    assert_int_equal(healthy("s_down,slave", "ok"), 0);
    assert_int_equal(healthy("slave,o_down", "ok"), 0);
    assert_int_equal(healthy("slave,disconnected", "ok"), 0);
    assert_int_equal(healthy("master", "ok"), 0);
    assert_int_equal(healthy("", "ok"), 0);
    assert_int_equal(healthy(",,", "ok"), 0);
}

TEST(of_a_list_what_cannot_be_read_is_left_out)
{
    struct sentinel_answer answer;
    char *good = replica('*', "7001", "slave", "ok");
    char *bad = replica('*', "70010x", "slave", "ok");
    char *list = text_printf("*9\r\n%s%s:1\r\n*0\r\n*1\r\n$5\r\nflags\r\n$-1\r\n%%0\r\n*2\r\n:1\r\n:2\r\n%s",
                             good, bad, good);
    redisReply *reply = parse(list);
    assert_null(sentinel_read_replicas(reply, &answer));
    assert_int_equal(answer.replicas, 2);
    assert_string_equal(answer.replica[0].host, "10.0.0.1");
    assert_int_equal(answer.replica[1].port, 7001);
    freeReplyObject(reply);
    free(list);
    free(bad);
    free(good);
}

TEST(more_replicas_than_there_is_room_for_are_left_out)
{
    struct sentinel_answer answer;
    char *list = text_printf("*%d\r\n", SENTINEL_REPLICAS_MAX + 1);
    char *good = replica('*', "7001", "slave", "ok");
    for (int i = 0; i <= SENTINEL_REPLICAS_MAX; i++)
        list = text_append(list, good);
    redisReply *reply = parse(list);
    assert_null(sentinel_read_replicas(reply, &answer));
    assert_int_equal(answer.replicas, SENTINEL_REPLICAS_MAX);
    freeReplyObject(reply);
    free(good);
    free(list);
}

TEST(what_is_no_list_is_refused)
{
    static const char *const replies[] = {"*-1\r\n", "+OK\r\n", ":1\r\n", "-ERR no\r\n", "%0\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        struct sentinel_answer answer = {.replicas = 5};
        redisReply *reply = parse(replies[i]);
        assert_non_null(sentinel_read_replicas(reply, &answer));
        assert_int_equal(answer.replicas, 0);
        freeReplyObject(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_names_are_taken),
        cmocka_unit_test(no_master_is_told_from_nonsense),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_host_is_as_long_as_a_name_may_be),
        cmocka_unit_test(replicas_that_are_up_and_linked_are_taken),
        cmocka_unit_test(replicas_that_are_called_down_are_told_from_those_that_are_behind),
        cmocka_unit_test(of_a_list_what_cannot_be_read_is_left_out),
        cmocka_unit_test(more_replicas_than_there_is_room_for_are_left_out),
        cmocka_unit_test(what_is_no_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
