/* channelctl load --replace, as readers and caches see it: the file becomes the catalogue in one step. */

#include "support/ctl.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static const char first[] = "{\"max_channel_id\":1,\"title\":\"one\",\"link\":\"https://max.ru/one\"}\n"
                            "{\"max_channel_id\":2,\"title\":\"two\",\"link\":\"https://max.ru/two\"}\n";
static int load_first(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "stays");
    ctl_expect_load(first, NULL, 0);
    return 0;
}

/* It has left channels beside them. */
TEST_CASE_WITH(samples_may_be_replaced_after_a_load_that_failed, ctl_empty, NULL)
{
    struct ctl_held held;
    ctl_expect(CTL("load", "--sample", "260"), 0, NULL, NULL); /* more than 20% of both */
    ctl_start_held(&held, "--replace");
    redis_do(&redis, "DEL channels:index.next");
    ctl_release_held(&held);
    ctl_expect(ctl_finish_held(&held), 1, NULL, "another load has changed the next index");
    AUTOFREE char *text = ctl_channels(1, CTL_HELD_CHANNELS);
    ctl_expect(ctl_load(text, "--replace"), 0, ", 260 removed in ", NULL);
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
