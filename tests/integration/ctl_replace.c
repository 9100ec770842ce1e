/* channelctl load --replace: the file becomes the catalogue in one step, or not at all. */

#include "integration/ctl.h"

#include <signal.h>

static struct redis redis;

static const char first[] = "{\"max_channel_id\":1,\"title\":\"one\",\"link\":\"https://max.ru/one\"}\n"
                            "{\"max_channel_id\":2,\"title\":\"two\",\"link\":\"https://max.ru/two\"}\n";
static const char second[] = "{\"max_channel_id\":3,\"title\":\"three\",\"link\":\"https://max.ru/three\"}\n"
                             "{\"max_channel_id\":2,\"title\":\"two\",\"link\":\"https://max.ru/two\"}\n";

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

static int load_first(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "stays");
    ctl_expect_load(&redis, first, NULL, 0);
    return 0;
}

static void what_the_file_lacks_is_removed(void **state)
{
    (void)state;
    struct ctl_run run = ctl_load(&redis, second, "--replace");
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "loaded 1 channel (1 unchanged, 0 refused, 1 removed)");
    ctl_expect_index(&redis, "3 2");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 0);
    assert_int_equal(redis_integer(&redis, "SCARD channels:api_keys"), 1);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

static void expect_nothing_replaced(const char *text, const char *why, const char *index)
{
    struct ctl_run run = ctl_load(&redis, text, "--replace");
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "nothing was replaced or removed");
    ctl_expect_text(run.err, why);
    ctl_expect_text(run.out, " 0 removed)");
    ctl_expect_index(&redis, index);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

/* A damaged file must never take channels away. */
static void one_bad_line_keeps_all_and_adds_the_rest(void **state)
{
    (void)state;
    expect_nothing_replaced(
        "{\"max_channel_id\":9}\nbroken\n{\"max_channel_id\":2}\n{\"max_channel_id\":8}\n",
        "lines were refused", "1 2 9 8");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 2);
}

static void file_without_channels_keeps_all(void **state)
{
    (void)state;
    expect_nothing_replaced("", "the file has no channels", "1 2");
    expect_nothing_replaced("\n\n", "the file has no channels", "1 2");
}

static void unreadable_file_keeps_all(void **state)
{
    const char *args[] = {"load", "/", "--replace", NULL};
    (void)state;
    struct ctl_run run = ctl_run(&redis, args);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "because the file could not be read to its end");
    ctl_expect_index(&redis, "1 2");
    ctl_run_free(&run);
}

/* More than a step of the merge, which goes by a thousand. */
static void large_damaged_file_is_merged_in_its_order(void **state)
{
    char *text = text_printf("broken\n");
    char *expected = text_printf("1 2");
    (void)state;
    for (int i = 2500; i > 0; i--) {
        char *line = text_printf("{\"max_channel_id\":-%d}\n", i);
        char *id = text_printf(" -%d", i);
        text = text_append(text, line);
        expected = text_append(expected, id);
        free(line);
        free(id);
    }
    expect_nothing_replaced(text, "lines were refused", expected);
    free(expected);
    free(text);
}

static void what_a_killed_load_left_is_discarded(void **state)
{
    (void)state;
    redis_do(&redis, "ZADD channels:index.next 1 777");
    redis_do(&redis, "HSET channels:card:777 max_channel_id 777 link https://max.ru/lost");
    redis_do(&redis, "SET channels:link:https://max.ru/lost 777");
    ctl_expect_load(&redis, second, "--replace", 0);
    ctl_expect_index(&redis, "3 2");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound(&redis);
}

static void stray_links_are_removed(void **state)
{
    (void)state;
    redis_do(&redis, "SET channels:link:https://max.ru/gone 999");
    redis_do(&redis, "SET channels:link:https://max.ru/other 2");
    redis_do(&redis, "SET channels:link:https://max.ru/text text");
    redis_do(&redis, "LPUSH channels:link:https://max.ru/list x");
    redis_do(&redis, "SET channels:card:junk x");
    ctl_expect_load(&redis, second, "--replace", 0);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound(&redis);
}

static void repeated_channels_count_once(void **state)
{
    char *text = text_printf("%s{\"max_channel_id\":3,\"title\":\"last\"}\n", second);
    (void)state;
    struct ctl_run run = ctl_load(&redis, text, "--replace");
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.err, "1 line repeated a channel");
    ctl_expect_index(&redis, "3 2");
    char *title = redis_text(&redis, "HGET channels:card:3 title");
    assert_string_equal(title, "last");
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    free(title);
    free(text);
}

static void replaces_under(const char *prefix, const char *text)
{
    char *path = text_printf("%s/prefix.ndjson", redis.dir.path);
    const char *args[] = {"--redis-prefix", prefix, "load", path, "--replace", NULL};
    assert_true(text_write_file(path, text));
    ctl_expect_status(&redis, args, 0);
    free(path);
}

/* A prefix that is also a pattern must not reach the keys of others. */
static void other_prefixes_are_left_alone(void **state)
{
    (void)state;
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

static bool three_is_loaded(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "EXISTS channels:card:3") == 1;
}

/* Starts a replacing load from a pipe that has loaded something already; returns the pipe. */
static int start_slowly(struct process *process)
{
    char *path = NULL;
    int fd = ctl_make_fifo(&redis, &path);
    const char *args[] = {"load", path, "--replace", NULL};
    ctl_start(process, &redis, args);
    ctl_feed(fd, second);
    for (int i = 1000; i < 1300; i++) {
        char *line = text_printf("{\"max_channel_id\":%d}\n", i);
        ctl_feed(fd, line);
        free(line);
    }
    assert_true(wait_until(three_is_loaded, NULL, WAIT_DEADLINE_MS));
    free(path);
    return fd;
}

static void readers_see_the_old_list_until_the_end(void **state)
{
    struct process process;
    (void)state;
    int fd = start_slowly(&process);
    ctl_expect_index(&redis, "1 2");
    (void)close(fd);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 0);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 302);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

static void two_loads_at_once_never_install_a_part(void **state)
{
    struct process process;
    (void)state;
    int fd = start_slowly(&process);
    redis_do(&redis, "DEL channels:index.next"); /* as another one does when it begins */
    (void)close(fd);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "another load has changed the next index");
    ctl_expect_index(&redis, "1 2");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:card:2"), 2);
    ctl_run_free(&run);
}

static bool somebody_waits(void *arg)
{
    char *err = process_stderr(arg);
    bool waits = strstr(err, "waiting for another load to end (channelctl on ") != NULL;
    free(err);
    return waits;
}

static void killed_load_leaves_the_old_catalogue(void **state)
{
    struct process process;
    char *path = text_printf("%s/second.ndjson", redis.dir.path);
    const char *args[] = {"load", path, "--replace", NULL};
    (void)state;
    assert_true(text_write_file(path, second));
    int fd = start_slowly(&process);
    process_kill(&process);
    (void)close(fd);
    ctl_expect_index(&redis, "1 2");
    assert_in_range(redis_integer(&redis, "PTTL channels:loader"), 1, 15000);
    redis_do(&redis, "PEXPIRE channels:loader 100000"); /* until it is seen to wait */
    ctl_start(&process, &redis, args);
    assert_true(wait_until(somebody_waits, &process, WAIT_DEADLINE_MS));
    redis_do(&redis, "PEXPIRE channels:loader 1");
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 0);
    ctl_expect_index(&redis, "3 2");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 6);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    free(path);
}

static long long lazily_freed(void)
{
    char *info = redis_text(&redis, "INFO memory");
    const char *found = strstr(info, "lazyfreed_objects:");
    assert_non_null(found);
    long long count = strtoll(found + strlen("lazyfreed_objects:"), NULL, 10);
    free(info);
    return count;
}

static bool more_is_freed(void *arg)
{
    return lazily_freed() > *(long long *)arg;
}

/* Redis would stand still for as long as it takes to free it. */
static void the_old_index_is_freed_in_the_background(void **state)
{
    enum { CHANNELS = 300 };
    (void)state;
    char *text = text_printf("%s", "");
    for (int i = 0; i < CHANNELS; i++) {
        char *card = text_printf("{\"max_channel_id\":%d}\n", i);
        text = text_append(text, card);
        free(card);
    }
    ctl_expect_load(&redis, text, "--replace", 0);
    long long before = lazily_freed();
    ctl_expect_load(&redis, text, "--replace", 0);
    assert_true(wait_until(more_is_freed, &before, WAIT_DEADLINE_MS));
    ctl_expect_sound(&redis);
    free(text);
}

static void an_index_of_another_type_is_replaced(void **state)
{
    (void)state;
    redis_do(&redis, "SET channels:index text");
    ctl_expect_load(&redis, second, "--replace", 0);
    ctl_expect_index(&redis, "3 2");
    ctl_expect_sound(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_the_file_lacks_is_removed, load_first),
        cmocka_unit_test_setup(one_bad_line_keeps_all_and_adds_the_rest, load_first),
        cmocka_unit_test_setup(file_without_channels_keeps_all, load_first),
        cmocka_unit_test_setup(unreadable_file_keeps_all, load_first),
        cmocka_unit_test_setup(large_damaged_file_is_merged_in_its_order, load_first),
        cmocka_unit_test_setup(what_a_killed_load_left_is_discarded, load_first),
        cmocka_unit_test_setup(stray_links_are_removed, load_first),
        cmocka_unit_test_setup(repeated_channels_count_once, load_first),
        cmocka_unit_test_setup(other_prefixes_are_left_alone, load_first),
        cmocka_unit_test_setup(readers_see_the_old_list_until_the_end, load_first),
        cmocka_unit_test_setup(two_loads_at_once_never_install_a_part, load_first),
        cmocka_unit_test_setup(killed_load_leaves_the_old_catalogue, load_first),
        cmocka_unit_test_setup(the_old_index_is_freed_in_the_background, load_first),
        cmocka_unit_test_setup(an_index_of_another_type_is_replaced, load_first),
    };
    return cmocka_run_group_tests(tests, start, end);
}
