/* channelctl load --replace: the file becomes the catalogue in one step, or not at all. */

#include "support/ctl.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static const char first[] = "{\"max_channel_id\":1,\"title\":\"one\",\"link\":\"https://max.ru/one\"}\n"
                            "{\"max_channel_id\":2,\"title\":\"two\",\"link\":\"https://max.ru/two\"}\n";
static const char second[] = "{\"max_channel_id\":3,\"title\":\"three\",\"link\":\"https://max.ru/three\"}\n"
                             "{\"max_channel_id\":2,\"title\":\"two\",\"link\":\"https://max.ru/two\"}\n";

static int load_first(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "stays");
    ctl_expect_load(first, NULL, 0);
    return 0;
}

TEST_CASE_WITH(replace_removes_what_the_file_lacks, load_first, NULL)
{
    ctl_expect(ctl_load(second, "--replace"), 0, "2 channels: 1 changed, 0 refused, 1 removed", NULL);
    ctl_expect_index("3 2");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 0);
    assert_int_equal(redis_integer(&redis, "SCARD channels:api_keys"), 1);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound();
}

static void expect_nothing_replaced(const char *text, const char *why, const char *index)
{
    struct ctl_run run = ctl_load(text, "--replace");
    ctl_expect_text(run.err, "nothing was replaced or removed");
    ctl_expect(run, 1, " 0 removed in ", why);
    ctl_expect_index(index);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    ctl_expect_sound();
}

/* A damaged file must never remove channels. */
TEST_CASE_WITH(replace_with_a_bad_line_only_adds, load_first, NULL)
{
    expect_nothing_replaced(CTL_CHANNEL(9) "broken\n" CTL_CHANNEL(2) CTL_CHANNEL(8), "lines were refused",
                            "1 2 9 8");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 2);
}

static void expect_refused(const char *path, const char *why)
{
    struct ctl_run run = CTL("load", path, "--replace");
    ctl_expect_text(run.err, "channelctl: stopped before anything was loaded\n");
    ctl_expect(run, 1, "", why);
    ctl_expect_index("1 2");
    ctl_expect_sound();
}

TEST_CASE_WITH(replace_with_an_empty_file_removes_nothing, load_first, NULL)
{
    AUTOFREE char *path = text_printf("%s/empty", redis.dir.path);
    assert_true(text_write_file(path, ""));
    expect_refused(path, "channelctl: the file has no channels\n");
    assert_true(text_write_file(path, "\n\n"));
    expect_refused(path, "channelctl: the file has no channels\n");
}

TEST_CASE_WITH(replace_with_a_file_that_cannot_be_read_removes_nothing, load_first, NULL)
{
    expect_refused("/", "channelctl: cannot read /: Is a directory\n");
}

/* A key of another type is found when the others are in the next index. They are merged in steps of a
 * thousand. */
TEST_CASE_WITH(replace_with_a_foreign_key_adds_in_file_order, load_first, NULL)
{
    redis_do(&redis, "SET channels:card:7 text");
    AUTOFREE char *text = text_printf(CTL_CHANNEL(7));
    AUTOFREE char *expected = text_printf("1 2");
    for (int i = 2500; i > 0; i--) {
        AUTOFREE char *line = text_printf("{\"max_channel_id\":-%d}\n", i);
        AUTOFREE char *id = text_printf(" -%d", i);
        text = text_append(text, line);
        expected = text_append(expected, id);
    }
    struct ctl_run run = ctl_load(text, "--replace");
    ctl_expect_text(run.err, "nothing was replaced or removed, because lines were refused");
    ctl_expect(run, 1, " 0 removed in ", "channels:card:7 in Redis is not a hash");
    ctl_expect_index(expected);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    redis_do(&redis, "DEL channels:card:7");
    ctl_expect_sound();
}

TEST_CASE_WITH(replace_discards_the_rest_of_a_killed_load, load_first, NULL)
{
    redis_do(&redis, "ZADD channels:index.next 1 777");
    redis_do(&redis, "HSET channels:card:777 max_channel_id 777 link https://max.ru/lost");
    redis_do(&redis, "SET channels:link:https://max.ru/lost 777");
    ctl_expect_load(second, "--replace", 0);
    ctl_expect_index("3 2");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound();
}

TEST_CASE_WITH(replace_removes_stray_link_keys, load_first, NULL)
{
    redis_do(&redis, "SET channels:link:https://max.ru/gone 999");
    redis_do(&redis, "SET channels:link:https://max.ru/other 2");
    redis_do(&redis, "SET channels:link:https://max.ru/text text");
    redis_do(&redis, "HSET channels:card:junk a b");
    ctl_expect_load(second, "--replace", 0);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound();
}

static bool is_replaced(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "ZCOUNT channels:index -inf inf") == 2 &&
           redis_integer(&redis, "EXISTS channels:card:3 channels:index.next") == 1;
}

TEST_CASE_WITH(interrupted_removal_says_what_is_left, load_first, NULL)
{
    static const char fill[] =
        "for i = 1, 300000 do redis.call('SET', 'channels:link:https://max.ru/' .. i, i) end";
    AUTOFREE char *path = text_printf("%s/second.ndjson", redis.dir.path);
    assert_true(text_write_file(path, second));
    redis_do(&redis, "EVAL %s 0", fill);
    struct process process;
    ctl_start(&process, (const char *const[]){"load", path, "--replace", NULL});
    assert_true(wait_until(is_replaced, NULL, WAIT_DEADLINE_MS));
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, "",
               "the catalogue was replaced, but keys of removed channels may be left");
    assert_true(redis_integer(&redis, "DBSIZE") > 100000);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader channels:index.next"), 0);
    ctl_expect_load(second, "--replace", 0);
    ctl_expect_sound();
}

/* They may belong to another program. */
TEST_CASE_WITH(replace_removes_no_keys_of_another_type, load_first, NULL)
{
    redis_do(&redis, "LPUSH channels:link:https://max.ru/list x");
    redis_do(&redis, "SET channels:card:999 x");
    redis_do(&redis, "SET channels:card:junk x");
    ctl_expect(ctl_load(second, "--replace"), 0, ", 1 removed in ", NULL);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 9);
    ctl_expect(CTL("verify"), 1, "card 999: is not a hash", NULL);
}

TEST_CASE_WITH(replace_counts_a_repeated_channel_once, load_first, NULL)
{
    AUTOFREE char *text = text_printf("%s{\"max_channel_id\":3,\"title\":\"last\"}\n", second);
    ctl_expect(ctl_load(text, "--replace"), 0, NULL, "1 line repeated a channel");
    ctl_expect_index("3 2");
    CTL_EXPECT_REPLY("last", "HGET channels:card:3 title");
    ctl_expect_sound();
}

static void replaces_under(const char *prefix, const char *text)
{
    AUTOFREE char *path = text_printf("%s/prefix.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    ctl_expect(CTL("--redis-prefix", prefix, "load", path, "--replace"), 0, NULL, NULL);
}

/* Also when the prefix is a glob pattern that matches them. */
TEST_CASE_WITH(replace_keeps_other_prefixes, load_first, NULL)
{
    redis_do(&redis, "FLUSHALL");
    replaces_under("pa:", second);
    replaces_under("p[a]:", second);
    replaces_under("p*:", second);
    replaces_under("p?:", second);
    replaces_under("p\\?:", second);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 25);
    replaces_under("p*:", "{\"max_channel_id\":1}\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 22);
    replaces_under("p[a]:", "{\"max_channel_id\":1}\n");
    replaces_under("p?:", "{\"max_channel_id\":1}\n");
    replaces_under("p\\?:", "{\"max_channel_id\":1}\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 13);
    assert_int_equal(redis_integer(&redis, "EXISTS pa:card:2 pa:card:3 pa:index"), 3);
}

TEST_CASE_WITH(replace_shows_the_old_list_until_its_end, load_first, NULL)
{
    struct ctl_held held;
    ctl_start_held(&held, "--replace");
    ctl_expect_index("1 2");
    ctl_release_held(&held);
    ctl_expect(ctl_finish_held(&held), 0, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), CTL_HELD_CHANNELS);
    ctl_expect_sound();
}

TEST_CASE_WITH(replace_fails_if_another_load_has_dropped_its_index, load_first, NULL)
{
    struct ctl_held held;
    ctl_start_held(&held, "--replace");
    redis_do(&redis, "DEL channels:index.next"); /* as another load does when it begins */
    ctl_release_held(&held);
    ctl_expect(ctl_finish_held(&held), 1, NULL, "another load has changed the next index");
    ctl_expect_index("1 2");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:card:2"), 2);
}

static long long lazily_freed(void)
{
    AUTOFREE char *info = redis_text(&redis, "INFO memory");
    const char *found = strstr(info, "lazyfreed_objects:");
    assert_non_null(found);
    return strtoll(found + strlen("lazyfreed_objects:"), NULL, 10);
}

static bool more_is_freed(void *arg)
{
    return lazily_freed() > *(long long *)arg;
}

/* Redis would block for as long as freeing it takes. */
TEST_CASE_WITH(replace_frees_the_old_index_in_the_background, load_first, NULL)
{
    enum { CHANNELS = 300 };
    AUTOFREE char *text = ctl_channels(1, CHANNELS);
    AUTOFREE char *more = ctl_channels(1, CHANNELS + 1);
    ctl_expect_load(text, "--replace", 0);
    long long before = lazily_freed();
    ctl_expect_load(more, "--replace", 0);
    assert_true(wait_until(more_is_freed, &before, WAIT_DEADLINE_MS));
    ctl_expect_sound();
}

/* ---- What caches drop ---- */

/* Appends the keys of a push of invalidations, but those that no cache holds. */
static void collect(void *arg, void *reply)
{
    char **keys = arg;
    redisReply *push = reply;
    const redisReply *names = push->element[1];
    for (size_t i = 0; i < names->elements; i++) {
        const char *name = names->element[i]->str;
        if (strcmp(name, "channels:loader") != 0 && strcmp(name, "channels:index.next") != 0)
            *keys = text_append(text_append(*keys, " "), name);
    }
    freeReplyObject(push);
}

static void call(redisContext *connection, const char *command)
{
    redisReply *reply = redisCommand(connection, command);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* Loads the text, and asserts which keys Redis invalidates in a cache that holds all of them. */
static void expect_invalidated(const char *text, const char *expected)
{
    char *keys = text_printf("%s", "");
    redisContext *cache = redisConnect("127.0.0.1", redis.port);
    assert_non_null(cache);
    cache->privdata = &keys;
    (void)redisSetPushCallback(cache, collect);
    call(cache, "HELLO 3");
    call(cache, "CLIENT TRACKING ON BCAST PREFIX channels:");
    ctl_expect_load(text, "--replace", 0);
    call(cache, "PING"); /* its reply comes behind the invalidations */
    redisFree(cache);
    ctl_expect_owned(keys, expected);
}

TEST_CASE_WITH(replace_invalidates_what_has_changed_and_nothing_else, load_first, NULL)
{
    static const char other_title[] =
        "{\"max_channel_id\":1,\"title\":\"new\",\"link\":\"https://max.ru/one\"}\n";
    const char *two = strchr(first, '\n') + 1;
    AUTOFREE char *changed = text_printf("%s%s", other_title, two);
    AUTOFREE char *turned = text_printf("%s%s", two, other_title);
    expect_invalidated(first, "");
    expect_invalidated(changed, " channels:card:1");
    expect_invalidated(turned, " channels:index");
    expect_invalidated(turned, "");
    expect_invalidated(two, " channels:index channels:card:1 channels:link:https://max.ru/one");
    redis_do(&redis, "DEL channels:link:https://max.ru/two");
    expect_invalidated(two, " channels:link:https://max.ru/two");
    redis_do(&redis, "ZADD channels:index 5 2");
    expect_invalidated(two, " channels:index");
    redis_do(&redis, "ZADD channels:index 5 3");
    expect_invalidated(two, " channels:index");
    ctl_expect_index("2");
    ctl_expect_sound();
}

TEST_CASE_WITH(replace_replaces_an_index_of_another_type, load_first, NULL)
{
    redis_do(&redis, "SET channels:index text");
    ctl_expect_load(second, "--replace", 0);
    ctl_expect_index("3 2");
    ctl_expect_sound();
}
