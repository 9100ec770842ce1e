/* channelctl load: what it writes, what it skips, what it refuses. */

#include "integration/ctl.h"

static struct redis redis;

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

static int empty(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    redis_do(&redis, "CONFIG RESETSTAT");
    return 0;
}

static void load_writes_the_four_shapes(void **state)
{
    (void)state;
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":-7,\"title\":\"T\",\"link\":\"https://max.ru/seven\","
                    "\"category\":null,\"followers_history\":{ \"2026-11-20\" : 1 },\"views_24h\":5,"
                    "\"updated_at\":\"2026-11-20T10:06:06\"}\n",
                    NULL, 0);
    char *title = redis_text(&redis, "HGET channels:card:-7 title");
    char *history = redis_text(&redis, "HGET channels:card:-7 followers_history");
    char *id = redis_text(&redis, "GET channels:link:https://max.ru/seven");
    assert_string_equal(title, "T");
    assert_string_equal(history, "{\"2026-11-20\":1}");
    assert_string_equal(id, "-7");
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 1);
    assert_int_equal(redis_integer(&redis, "HLEN channels:card:-7"), 6);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 3);
    free(title);
    free(history);
    free(id);
}

static char *field_of(long long id, const char *name)
{
    return redis_text(&redis, "HGET channels:card:%lld %s", id, name);
}

static void every_value_is_stored_as_it_was(void **state)
{
    (void)state;
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":-9223372036854775808,\"title\":\"a\\\"\\n\\u0007\\ud83d\\ude00\","
                    "\"description\":\"\",\"views_24h\":9223372036854775807,\"er_24h\":-1}\n",
                    NULL, 0);
    char *title = field_of(INT64_MIN, "title");
    char *description = field_of(INT64_MIN, "description");
    char *views = field_of(INT64_MIN, "views_24h");
    char *rate = field_of(INT64_MIN, "er_24h");
    assert_string_equal(title, "a\"\n\x07\xF0\x9F\x98\x80");
    assert_string_equal(description, "");
    assert_string_equal(views, "9223372036854775807");
    assert_string_equal(rate, "-1");
    free(title);
    free(description);
    free(views);
    free(rate);
}

static void what_became_null_is_removed(void **state)
{
    (void)state;
    redis_do(&redis, "HSET channels:card:7 unheard_of x");
    ctl_expect_load(&redis, "{\"max_channel_id\":7,\"title\":\"T\",\"category\":\"c\"}\n", NULL, 0);
    ctl_expect_load(&redis, "{\"max_channel_id\":7,\"title\":\"U\",\"category\":null}\n", NULL, 0);
    assert_int_equal(redis_integer(&redis, "HLEN channels:card:7"), 2);
    ctl_expect_sound(&redis);
}

static void each_channel_is_one_transaction(void **state)
{
    char *path = text_printf("%s/many.ndjson", redis.dir.path);
    const char *args[] = {"load", path, NULL};
    (void)state;
    catalogue_write_file(path, 1000);
    ctl_expect_status(&redis, args, 0);
    assert_int_equal(redis_calls(&redis, "exec"), 1000 + 1); /* and the one that gives the lock back */
    assert_int_equal(redis_calls(&redis, "hset"), 1000);
    ctl_expect_sound(&redis);
    free(path);
}

static void unchanged_channels_are_not_written(void **state)
{
    char *path = text_printf("%s/many.ndjson", redis.dir.path);
    const char *args[] = {"load", path, NULL};
    (void)state;
    catalogue_write_file(path, 600);
    ctl_expect_status(&redis, args, 0);
    redis_do(&redis, "HSET %s title changed", "channels:card:1008");
    redis_do(&redis, "CONFIG RESETSTAT");
    struct ctl_run run = ctl_run(&redis, args);
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "loaded 1 channel (599 unchanged, 0 refused)");
    assert_int_equal(redis_calls(&redis, "exec"), 1 + 1);
    assert_int_equal(redis_calls(&redis, "zadd"), 0);
    ctl_run_free(&run);
    free(path);
}

/* A card that is right but not listed, or not linked, is not "unchanged". */
static void missing_index_entry_and_link_key_are_restored(void **state)
{
    static const char text[] = "{\"max_channel_id\":1,\"link\":\"https://max.ru/one\"}\n";
    (void)state;
    ctl_expect_load(&redis, text, NULL, 0);
    redis_do(&redis, "ZREM channels:index 1");
    ctl_expect_load(&redis, text, NULL, 0);
    ctl_expect_sound(&redis);
    redis_do(&redis, "DEL channels:link:https://max.ru/one");
    ctl_expect_load(&redis, text, NULL, 0);
    ctl_expect_sound(&redis);
}

static void file_order_is_page_order_and_places_are_kept(void **state)
{
    (void)state;
    ctl_expect_load(&redis, "{\"max_channel_id\":30}\n{\"max_channel_id\":-10}\n{\"max_channel_id\":20}\n",
                    NULL, 0);
    ctl_expect_index(&redis, "30 -10 20");
    ctl_expect_load(
        &redis, "{\"max_channel_id\":5}\n{\"max_channel_id\":20,\"title\":\"x\"}\n{\"max_channel_id\":4}\n",
        NULL, 0);
    ctl_expect_index(&redis, "30 -10 20 5 4");
    redis_do(&redis, "ZADD channels:index 1e300 99");
    redis_do(&redis, "HSET channels:card:99 max_channel_id 99");
    ctl_expect_load(&redis, "{\"max_channel_id\":6}\n", NULL, 1); /* nothing fits behind that score */
}

static void later_line_of_a_channel_wins(void **state)
{
    (void)state;
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":1,\"title\":\"first\",\"link\":\"https://max.ru/a\"}\n"
                    "{\"max_channel_id\":2}\n"
                    "{\"max_channel_id\":1,\"title\":\"second\",\"link\":\"https://max.ru/b\"}\n",
                    NULL, 0);
    char *title = field_of(1, "title");
    assert_string_equal(title, "second");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/a"), 0);
    ctl_expect_index(&redis, "1 2");
    ctl_expect_sound(&redis);
    free(title);
}

static void new_link_removes_the_key_of_the_old_one(void **state)
{
    (void)state;
    ctl_expect_load(&redis, "{\"max_channel_id\":1,\"link\":\"https://max.ru/old\"}\n", NULL, 0);
    ctl_expect_load(&redis, "{\"max_channel_id\":1,\"link\":\"https://max.ru/new\"}\n", NULL, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/old"), 0);
    ctl_expect_sound(&redis);
    ctl_expect_load(&redis, "{\"max_channel_id\":1,\"link\":null}\n", NULL, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/new"), 0);
    ctl_expect_sound(&redis);
}

static void expect_owner(const char *link, const char *id)
{
    char *owner = redis_text(&redis, "GET channels:link:https://max.ru/%s", link);
    assert_string_equal(owner, id);
    free(owner);
}

static void links_can_change_hands(void **state)
{
    (void)state;
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n"
                    "{\"max_channel_id\":2,\"link\":\"https://max.ru/b\"}\n",
                    NULL, 0);
    struct ctl_run run = ctl_load(&redis,
                                  "{\"max_channel_id\":1,\"link\":\"https://max.ru/b\"}\n"
                                  "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n",
                                  NULL);
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.err, "2 links belonged to another channel before");
    ctl_run_free(&run);
    ctl_expect_sound(&redis);
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":3,\"link\":\"https://max.ru/b\"}\n"
                    "{\"max_channel_id\":1,\"link\":\"https://max.ru/c\"}\n",
                    NULL, 0);
    expect_owner("b", "3");
    ctl_expect_sound(&redis);
}

/* Who had it before does not matter, nor how far apart the lines are. */
static void second_line_with_a_link_is_refused_each_time(void **state)
{
    (void)state;
    char *text = text_printf("{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n");
    for (int i = 10; i < 610; i++) { /* more than a batch */
        char *line = text_printf("{\"max_channel_id\":%d}\n", i);
        text = text_append(text, line);
        free(line);
    }
    text = text_append(text, "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n");
    ctl_expect_load(&redis, "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n", NULL, 0);
    for (int i = 0; i < 3; i++) {
        struct ctl_run run = ctl_load(&redis, text, NULL);
        assert_int_equal(run.status, 1);
        ctl_expect_text(
            run.err, "file.ndjson:602: link: https://max.ru/a is the link of channel 1 in an earlier line");
        ctl_expect_text(run.out, i == 0 ? "loaded 601 channels (0 unchanged, 1 refused)"
                                        : "loaded 0 channels (601 unchanged, 1 refused)");
        expect_owner("a", "1");
        ctl_run_free(&run);
    }
    free(text);
}

static void neighbours_cannot_share_a_link_either(void **state)
{
    (void)state;
    struct ctl_run run = ctl_load(&redis,
                                  "{\"max_channel_id\":0,\"link\":\"https://max.ru/a\"}\n"
                                  "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n",
                                  "--replace");
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err,
                    "file.ndjson:2: link: https://max.ru/a is the link of channel 0 in an earlier line");
    ctl_expect_text(run.err, "nothing was replaced or removed, because lines were refused");
    expect_owner("a", "0");
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

/* A later line of the first channel gives it up: then it is free. */
static void a_link_that_was_given_up_can_be_taken(void **state)
{
    (void)state;
    ctl_expect_load(&redis,
                    "{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n"
                    "{\"max_channel_id\":1,\"link\":\"https://max.ru/b\"}\n"
                    "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n",
                    NULL, 0);
    expect_owner("a", "2");
    expect_owner("b", "1");
    ctl_expect_sound(&redis);
}

/* Line 4 would free "a" for line 3, which is written together with it, but is refused itself. */
static void a_refused_line_gives_up_nothing(void **state)
{
    (void)state;
    struct ctl_run run = ctl_load(&redis,
                                  "{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n"
                                  "{\"max_channel_id\":3,\"link\":\"https://max.ru/c\"}\n"
                                  "{\"max_channel_id\":2,\"link\":\"https://max.ru/a\"}\n"
                                  "{\"max_channel_id\":1,\"link\":\"https://max.ru/c\"}\n",
                                  NULL);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "file.ndjson:3: link: https://max.ru/a is the link of channel 1");
    ctl_expect_text(run.err, "file.ndjson:4: link: https://max.ru/c is the link of channel 3");
    expect_owner("a", "1");
    expect_owner("c", "3");
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

/* A key in the way may be somebody else's: it is named and left alone, and what is good is loaded. */
static void keys_of_another_type_are_named_with_their_line(void **state)
{
    static const char text[] = "{\"max_channel_id\":1,\"title\":\"one\"}\n"
                               "{\"max_channel_id\":7}\n"
                               "{\"max_channel_id\":8,\"link\":\"https://max.ru/eight\"}\n";
    (void)state;
    redis_do(&redis, "SET channels:card:7 text");
    redis_do(&redis, "LPUSH channels:link:https://max.ru/eight x");
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "file.ndjson:2: channels:card:7 in Redis is not a hash: delete it");
    ctl_expect_text(run.err, "file.ndjson:3: channels:link:https://max.ru/eight in Redis is not a string: ");
    ctl_expect_text(run.out, "loaded 1 channel (0 unchanged, 2 refused)");
    assert_int_equal(redis_integer(&redis, "STRLEN channels:card:7"), 4);
    redis_do(&redis, "DEL channels:card:7 channels:link:https://max.ru/eight");
    ctl_expect_load(&redis, text, NULL, 0);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

static void ttls_are_removed_also_where_nothing_else_changed(void **state)
{
    static const char text[] = "{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n"
                               "{\"max_channel_id\":2,\"link\":\"https://max.ru/b\"}\n"
                               "{\"max_channel_id\":3}\n";
    (void)state;
    ctl_expect_load(&redis, text, NULL, 0);
    redis_do(&redis, "EXPIRE channels:card:1 1000");
    redis_do(&redis, "EXPIRE channels:link:https://max.ru/b 1000");
    redis_do(&redis, "EXPIRE channels:index 1000");
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.err, "2 channels had a TTL, which was removed\n");
    ctl_expect_text(run.err, "the index had a TTL, which was removed\n");
    ctl_expect_text(run.out, "loaded 2 channels (1 unchanged, 0 refused)");
    assert_int_equal(redis_integer(&redis, "PTTL channels:card:1"), -1);
    assert_int_equal(redis_integer(&redis, "PTTL channels:link:https://max.ru/b"), -1);
    assert_int_equal(redis_integer(&redis, "PTTL channels:index"), -1);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

static void former_link_of_another_channel_stays(void **state)
{
    (void)state;
    ctl_expect_load(&redis, "{\"max_channel_id\":1,\"link\":\"https://max.ru/a\"}\n", NULL, 0);
    redis_do(&redis, "SET channels:link:https://max.ru/a 2");
    ctl_expect_load(&redis, "{\"max_channel_id\":1,\"link\":\"https://max.ru/b\"}\n", NULL, 0);
    expect_owner("a", "2");
    expect_owner("b", "1");
}

static void other_prefix_and_host_are_used(void **state)
{
    char *path = text_printf("%s/one.ndjson", redis.dir.path);
    const char *args[] = {"--redis-prefix", "p[1]*:", "--channel-host=c.example", "load", path, NULL};
    (void)state;
    assert_true(text_write_file(path, "{\"max_channel_id\":1,\"link\":\"https://c.example/x\"}\n"));
    ctl_expect_status(&redis, args, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS p[1]*:card:1 p[1]*:link:https://c.example/x p[1]*:index"),
                     3);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 3);
    free(path);
}

static void summary_says_how_much(void **state)
{
    (void)state;
    struct ctl_run run = ctl_load(&redis, "{\"max_channel_id\":1}\r\n\n  \n{\"max_channel_id\":2}", NULL);
    assert_int_equal(run.status, 0);
    assert_int_equal(strncmp(run.out, "loaded 2 channels (0 unchanged, 0 refused) in ", 46), 0);
    assert_int_equal(text_count(run.out, "\n"), 1);
    assert_string_equal(run.err, ""); /* no terminal, no progress */
    ctl_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(load_writes_the_four_shapes, empty),
        cmocka_unit_test_setup(every_value_is_stored_as_it_was, empty),
        cmocka_unit_test_setup(what_became_null_is_removed, empty),
        cmocka_unit_test_setup(each_channel_is_one_transaction, empty),
        cmocka_unit_test_setup(unchanged_channels_are_not_written, empty),
        cmocka_unit_test_setup(missing_index_entry_and_link_key_are_restored, empty),
        cmocka_unit_test_setup(file_order_is_page_order_and_places_are_kept, empty),
        cmocka_unit_test_setup(later_line_of_a_channel_wins, empty),
        cmocka_unit_test_setup(new_link_removes_the_key_of_the_old_one, empty),
        cmocka_unit_test_setup(links_can_change_hands, empty),
        cmocka_unit_test_setup(second_line_with_a_link_is_refused_each_time, empty),
        cmocka_unit_test_setup(neighbours_cannot_share_a_link_either, empty),
        cmocka_unit_test_setup(a_link_that_was_given_up_can_be_taken, empty),
        cmocka_unit_test_setup(a_refused_line_gives_up_nothing, empty),
        cmocka_unit_test_setup(keys_of_another_type_are_named_with_their_line, empty),
        cmocka_unit_test_setup(ttls_are_removed_also_where_nothing_else_changed, empty),
        cmocka_unit_test_setup(former_link_of_another_channel_stays, empty),
        cmocka_unit_test_setup(other_prefix_and_host_are_used, empty),
        cmocka_unit_test_setup(summary_says_how_much, empty),
    };
    return cmocka_run_group_tests(tests, start, end);
}
