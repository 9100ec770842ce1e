/* channelctl load: bad lines are named, and the rest is loaded all the same. */

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
    return 0;
}

static void bad_lines_are_named_and_the_rest_is_loaded(void **state)
{
    static const char text[] = "{\"max_channel_id\":1,\"title\":\"one\"}\n"
                               "{\"max_channel_id\":2,\"views_24h\":\"many\",\"avatar\":3}\n"
                               "not json\n"
                               "{\"title\":\"no id\"}\n"
                               "\n"
                               "{\"max_channel_id\":5,\"updated_at\":\"yesterday\"}\n"
                               "{\"max_channel_id\":6,\"title\":\"six\"}\n"
                               "[7]\n";
    static const char *const named[] = {
        "file.ndjson:2: views_24h: \"many\" is not a 64-bit integer or null",
        "file.ndjson:2: avatar: 3 is not a string or null",
        "file.ndjson:3: not a JSON object (",
        "file.ndjson:4: max_channel_id is missing",
        "file.ndjson:6: updated_at: \"yesterday\" is not a date and time YYYY-MM-DDTHH:MM:SS or null",
        "file.ndjson:8: not a JSON object\n"};
    (void)state;
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 1);
    for (size_t i = 0; i < TEST_COUNT(named); i++)
        ctl_expect_text(run.err, named[i]);
    assert_int_equal(text_count(run.err, "\n"), TEST_COUNT(named));
    ctl_expect_text(run.out, "loaded 2 channels (0 unchanged, 5 refused)");
    ctl_expect_index(&redis, "1 6");
    ctl_run_free(&run);
}

/* Members to put behind a good id, from both sides of each rule. */
static const char *const accepted[] = {
    "\"title\":\"\"",
    "\"title\":null",
    "\"link\":\"https://max.ru/a\"",
    "\"link\":\"https://max.ru/a/b\"",
    "\"link\":null",
    "\"is_a_plus_flag\":0",
    "\"is_a_plus_flag\":1",
    "\"er_24h\":-9223372036854775808",
    "\"er_24h\":9223372036854775807",
    "\"followers_history\":null",
    "\"followers_history\":{}",
    "\"updated_at\":\"2028-02-29T23:59:59\"",
    "\"updated_at\":null",
};

static const char *const refused[][2] = {
    {"title", "\"title\":1"},
    {"title", "\"title\":[]"},
    {"title", "\"title\":\"a\",\"title\":\"b\""},
    {"Title", "\"Title\":\"a\""},
    {"unheard_of", "\"unheard_of\":null"},
    {"max_channel_id", "\"max_channel_id\":9"},
    {"link", "\"link\":\"\""},
    {"link", "\"link\":\"http://max.ru/a\""},
    {"link", "\"link\":\"https://web.max.ru/a\""},
    {"link", "\"link\":\"https://MAX.ru/a\""},
    {"link", "\"link\":\"https://max.ru/\""},
    {"link", "\"link\":\"https://max.ru/a/\""},
    {"link", "\"link\":\"https://max.ru/a?b\""},
    {"is_a_plus_flag", "\"is_a_plus_flag\":2"},
    {"is_a_plus_flag", "\"is_a_plus_flag\":-1"},
    {"is_a_plus_flag", "\"is_a_plus_flag\":true"},
    {"er_24h", "\"er_24h\":1.0"},
    {"er_24h", "\"er_24h\":1e2"},
    {"er_24h", "\"er_24h\":9223372036854775808"},
    {"er_24h", "\"er_24h\":-9223372036854775809"},
    {"er_24h", "\"er_24h\":\"1\""},
    {"followers_history", "\"followers_history\":[]"},
    {"followers_history", "\"followers_history\":\"{}\""},
    {"followers_history", "\"followers_history\":{\"2026-02-29\":1}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":1.5}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":null}"},
    {"updated_at", "\"updated_at\":\"2026-02-29T00:00:00\""},
    {"updated_at", "\"updated_at\":\"2026-11-20T24:00:00\""},
    {"updated_at", "\"updated_at\":\"2026-11-20T00:00:00Z\""},
    {"updated_at", "\"updated_at\":\"2026-11-20 00:00:00\""},
    {"updated_at", "\"updated_at\":1}"},
};

static void each_rule_accepts_what_is_right(void **state)
{
    char *text = text_printf("%s", "");
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(accepted); i++) {
        char *line = text_printf("{\"max_channel_id\":%zu,%s}\n", i, accepted[i]);
        text = text_append(text, line);
        free(line);
    }
    ctl_expect_load(&redis, text, NULL, 0);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), TEST_COUNT(accepted));
    free(text);
}

/* The last line of the table is no JSON, so it has no field to name. */
static void each_rule_refuses_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        char *line = text_printf("{\"max_channel_id\":%zu,%s}\n", i, refused[i][1]);
        char *named = i + 1 == TEST_COUNT(refused) ? text_printf("file.ndjson:1: not a JSON object (")
                                                   : text_printf("file.ndjson:1: %s: ", refused[i][0]);
        struct ctl_run run = ctl_load(&redis, line, NULL);
        if (run.status != 1 || strstr(run.err, named) == NULL)
            fail_msg("%s: %d, no '%s' in: %s", line, run.status, named, run.err);
        assert_int_equal(text_count(run.err, "\n"), 1);
        ctl_run_free(&run);
        free(named);
        free(line);
    }
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

static void history_of_more_days_is_kept_as_it_is(void **state)
{
    static const char days[] = "{\"2026-11-09\":-1,\"2026-11-10\":0,\"2026-11-11\":1,\"2026-11-12\":2,"
                               "\"2026-11-13\":3,\"2026-11-14\":4,\"2026-11-15\":5,\"2026-11-16\":6,"
                               "\"2026-11-17\":7,\"2026-11-18\":8,\"2026-11-19\":9}";
    char *line = text_printf("{\"max_channel_id\":1,\"followers_history\":%s}\n", days);
    (void)state;
    ctl_expect_load(&redis, line, NULL, 0);
    char *stored = redis_text(&redis, "HGET channels:card:1 followers_history");
    assert_string_equal(stored, days);
    free(stored);
    free(line);
}

static void id_is_required(void **state)
{
    static const char *const lines[] = {"{}\n", "{\"max_channel_id\":null}\n", "{\"max_channel_id\":\"1\"}\n",
                                        "{\"max_channel_id\":1.0}\n",
                                        "{\"max_channel_id\":9223372036854775808}\n"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        struct ctl_run run = ctl_load(&redis, lines[i], NULL);
        assert_int_equal(run.status, 1);
        ctl_expect_text(run.err, ":1: max_channel_id");
        ctl_run_free(&run);
    }
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

static void only_the_first_problems_are_printed(void **state)
{
    char *text = text_printf("%s", "");
    (void)state;
    for (int i = 0; i < 25; i++)
        text = text_append(text, "broken\n");
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 1);
    assert_int_equal(text_count(run.err, "file.ndjson:"), 20);
    ctl_expect_text(run.err, "file.ndjson:20: ");
    ctl_expect_text(run.err, "and 5 more\n");
    ctl_expect_text(run.out, "25 refused");
    ctl_run_free(&run);
    free(text);
}

/* What a file says must not reach the terminal as it is. */
static void control_characters_of_names_are_not_printed(void **state)
{
    (void)state;
    struct ctl_run run = ctl_load(&redis, "{\"max_channel_id\":1,\"a\\u001b[2Jb\":1}\n", NULL);
    ctl_expect_text(run.err, ":1: a?[2Jb: no such field");
    ctl_run_free(&run);
}

/* A line with a title so long that the whole has `length` bytes. */
static char *line_of(size_t length, int id)
{
    char *head = text_printf("{\"max_channel_id\":%d,\"title\":\"", id);
    char *title = text_repeat('x', length - strlen(head) - 2);
    char *line = text_printf("%s%s\"}\n", head, title);
    free(title);
    free(head);
    return line;
}

static void lines_up_to_the_limit_are_loaded(void **state)
{
    enum { LIMIT = 1024 * 1024 };
    char *text = line_of(LIMIT, 1);
    (void)state;
    char *longer = line_of(LIMIT + 1, 2);
    char *much_longer = line_of((size_t)5 * LIMIT, 3);
    text = text_append(text, longer);
    text = text_append(text, much_longer);
    text = text_append(text, "{\"max_channel_id\":4}\n{\"max_channel_id\":\"five\"}\n");
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "file.ndjson:2: the line is longer than 1048576 bytes");
    ctl_expect_text(run.err, "file.ndjson:3: the line is longer than 1048576 bytes");
    ctl_expect_text(run.err, "file.ndjson:5: max_channel_id: ");
    ctl_expect_index(&redis, "1 4");
    assert_int_equal(redis_integer(&redis, "HSTRLEN channels:card:1 title"), LIMIT - 31);
    ctl_run_free(&run);
    free(longer);
    free(much_longer);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bad_lines_are_named_and_the_rest_is_loaded, empty),
        cmocka_unit_test_setup(each_rule_accepts_what_is_right, empty),
        cmocka_unit_test_setup(each_rule_refuses_what_is_wrong, empty),
        cmocka_unit_test_setup(history_of_more_days_is_kept_as_it_is, empty),
        cmocka_unit_test_setup(id_is_required, empty),
        cmocka_unit_test_setup(only_the_first_problems_are_printed, empty),
        cmocka_unit_test_setup(control_characters_of_names_are_not_printed, empty),
        cmocka_unit_test_setup(lines_up_to_the_limit_are_loaded, empty),
    };
    return cmocka_run_group_tests(tests, start, end);
}
