/* channelctl sample: plausible channels, the same ones every time, fit for load. */

#include "integration/ctl.h"

#include "support/json.h"

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

static char *sample(const char *count, const char *seed)
{
    const char *args[] = {"sample", count, seed != NULL ? "--seed" : NULL, seed, NULL};
    struct ctl_run run = ctl_run(&redis, args);
    if (run.status != 0)
        fail_msg("sample: %d: %s", run.status, run.err);
    free(run.err);
    return run.out;
}

static void samples_are_the_same_for_the_same_seed(void **state)
{
    (void)state;
    char *first = sample("250", NULL);
    char *again = sample("250", NULL);
    char *seeded = sample("250", "1");
    char *other = sample("250", "2");
    assert_int_equal(text_count(first, "\n"), 250);
    assert_string_equal(first, again);
    assert_string_equal(first, seeded);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(seeded);
    free(other);
}

static void fewer_samples_are_the_first_ones(void **state)
{
    (void)state;
    char *few = sample("10", NULL);
    char *many = sample("20", NULL);
    char *none = sample("0", NULL);
    assert_int_equal(strncmp(many, few, strlen(few)), 0);
    assert_string_equal(none, "");
    free(few);
    free(many);
    free(none);
}

static void samples_are_loaded_whole(void **state)
{
    (void)state;
    char *text = sample("3000", "7");
    redis_do(&redis, "FLUSHALL");
    struct ctl_run run = ctl_load(&redis, text, "--replace");
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "loaded 3000 channels (0 unchanged, 0 refused, 0 removed)");
    assert_string_equal(run.err, ""); /* nothing repeated, no link taken */
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 3000);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    free(text);
}

static void samples_are_loaded_without_a_file(void **state)
{
    static const char *const args[] = {"load", "--sample", "3000", "--seed=7", "--replace", NULL};
    (void)state;
    char *text = sample("3000", "7");
    redis_do(&redis, "FLUSHALL");
    struct ctl_run run = ctl_run(&redis, args);
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "loaded 3000 channels (0 unchanged, 0 refused, 0 removed)");
    assert_string_equal(run.err, "");
    ctl_run_free(&run);
    run = ctl_load(&redis, text, NULL);
    ctl_expect_text(run.out, "loaded 0 channels (3000 unchanged, 0 refused)");
    ctl_run_free(&run);
    free(text);
}

static void samples_are_varied(void **state)
{
    static const char *const parts[] = {"\\n",
                                        "\\\"",
                                        "\\t",
                                        "\\\\",
                                        "\xF0\x9F",
                                        "\xD0\xBD",
                                        "\xD8\xA7",
                                        "\xE0\xA4",
                                        "\xE3\x80",
                                        "null",
                                        "\"max_channel_id\":-68",
                                        "\"max_channel_id\":1",
                                        "\"is_a_plus_flag\":1"};
    (void)state;
    char *text = sample("1000", NULL);
    for (size_t i = 0; i < TEST_COUNT(parts); i++)
        ctl_expect_text(text, parts[i]);
    assert_in_range(strlen(text) / 1000, 700, 1400);
    free(text);
}

static void samples_have_the_shape_of_a_card(void **state)
{
    (void)state;
    char *line = sample("1", NULL);
    char *names = json_member_names(line, "");
    char *days = json_member_names(line, "followers_history");
    assert_string_equal(names,
                        "max_channel_id title description avatar link category category2 followers_cnt_today "
                        "followers_history is_a_plus_flag views_24h views_48h er_24h er_48h updated_at");
    assert_string_equal(days, "2026-11-11 2026-11-12 2026-11-13 2026-11-14 2026-11-15 2026-11-16 2026-11-17 "
                              "2026-11-18 2026-11-19 2026-11-20");
    free(days);
    free(names);
    free(line);
}

static void links_have_the_configured_host(void **state)
{
    const char *args[] = {"sample", "50", "--channel-host=c.example", NULL};
    (void)state;
    struct ctl_run run = ctl_run(&redis, args);
    ctl_expect_text(run.out, "\"link\":\"https://c.example/");
    assert_null(strstr(run.out, "max.ru"));
    ctl_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_the_same_for_the_same_seed),
        cmocka_unit_test(fewer_samples_are_the_first_ones),
        cmocka_unit_test(samples_are_loaded_whole),
        cmocka_unit_test(samples_are_loaded_without_a_file),
        cmocka_unit_test(samples_are_varied),
        cmocka_unit_test(samples_have_the_shape_of_a_card),
        cmocka_unit_test(links_have_the_configured_host),
    };
    return cmocka_run_group_tests(tests, start, end);
}
