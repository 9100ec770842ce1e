/* Settings: where a value comes from, which source wins, and errors that name what was wrong. */
#include "unit/settings.h"

#include <errno.h>

TEST(defaults_hold_when_nothing_is_given)
{
    struct run r;
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.host, "max.ru");
    assert_string_equal(r.values.url, "redis://127.0.0.1:6379/0");
    assert_string_equal(r.values.secret, "");
    assert_int_equal(r.values.workers, 4);
    assert_int_equal(r.values.cache, 64 << 20);
    assert_int_equal(r.values.timeout, 2000);
    assert_int_equal(r.switched, 0);
    run_fini(&r);
    assert_null(r.values.host);
}

TEST(flags_take_their_value_in_both_forms)
{
    struct run r;
    RUN(&r, "--workers", "7", "--cache-size=1GiB", "--channel-host=", "--redis-url", "redis://h/?a=b=c");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 7);
    assert_int_equal(r.values.cache, 1 << 30);
    assert_string_equal(r.values.host, "");
    assert_string_equal(r.values.url, "redis://h/?a=b=c");
    run_fini(&r);
}

TEST(only_the_first_equals_sign_divides)
{
    struct run r;
    RUN(&r, "--password=a=b=");
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "a=b=");
    run_fini(&r);
}

TEST(the_last_of_a_repeated_flag_counts)
{
    struct run r;
    RUN(&r, "--workers=7", "--channel-host", "a", "--workers", "9", "--channel-host", "b");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 9);
    assert_string_equal(r.values.host, "b");
    run_fini(&r);
}

TEST(the_environment_replaces_defaults)
{
    struct run r;
    set("CHANNELD_CHANNEL_HOST", "example.org");
    set("CHANNELD_WORKERS", "3");
    set("CHANNELD_TIMEOUT", "500ms");
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.host, "example.org");
    assert_int_equal(r.values.workers, 3);
    assert_int_equal(r.values.timeout, 500);
    assert_string_equal(r.values.url, "redis://127.0.0.1:6379/0");
    run_fini(&r);
}

TEST(flags_win_over_the_environment)
{
    struct run r;
    set("CHANNELD_WORKERS", "3");
    RUN(&r, "--workers=5");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 5);
    run_fini(&r);
}

TEST(unknown_flags_are_named_without_their_value)
{
    static const char *const flags[] = {"--worker",  "--workerss", "--Workers",
                                        "--no-such", "---workers", "--help-me"};
    for (size_t i = 0; i < TEST_COUNT(flags); i++) {
        char word[64];
        struct run r;
        (void)snprintf(word, sizeof word, "%s=s3cret", flags[i]);
        RUN(&r, word);
        assert_run_failed(&r, flags[i]);
        assert_null(strstr(buf_c_str(&r.error), "s3cret"));
        run_fini(&r);
    }
}

TEST(a_flag_at_the_end_without_value_is_an_error)
{
    struct run r;
    RUN(&r, "--workers");
    assert_run_failed(&r, "--workers");
    run_fini(&r);
}

TEST(bad_numbers_name_the_setting_and_not_the_value)
{
    static const char *const words[][2] = {{"--workers", "abc"},
                                           {"--workers", ""},
                                           {"--workers", "1.5"},
                                           {"--workers", "+4"},
                                           {"--workers", "04"},
                                           {"--cache-size", "1M"},
                                           {"--cache-size", "-1"},
                                           {"--timeout", "5"},
                                           {"--timeout", "5 s"},
                                           {"--timeout", "-5s"},
                                           {"--timeout", "99999999999999999999s"},
                                           {"--workers", "99999999999999999999"}};
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        struct run r;
        RUN(&r, words[i][0], words[i][1]);
        assert_run_failed(&r, words[i][0]);
        assert_non_null(strstr(buf_c_str(&r.error), " is expected"));
        run_fini(&r);
    }
}

TEST(bad_numbers_in_the_environment_name_the_variable)
{
    struct run r;
    set("CHANNELD_WORKERS", "many");
    RUN_PLAIN(&r);
    assert_run_failed(&r, "CHANNELD_WORKERS");
    run_fini(&r);
}

static int result_of(const char *word, struct run *r)
{
    RUN(r, word);
    int result = r->result;
    run_fini(r);
    return result;
}

TEST(bounds_hold_from_both_sides)
{
    struct run r;
    assert_int_equal(result_of("--workers=0", &r), -EINVAL);
    assert_int_equal(result_of("--workers=1", &r), 0);
    assert_int_equal(result_of("--workers=64", &r), 0);
    assert_int_equal(result_of("--workers=65", &r), -EINVAL);
    assert_int_equal(result_of("--workers=-1", &r), -EINVAL);
    assert_int_equal(result_of("--timeout=9ms", &r), -EINVAL);
    assert_int_equal(result_of("--timeout=10ms", &r), 0);
    assert_int_equal(result_of("--timeout=60s", &r), 0);
    assert_int_equal(result_of("--timeout=60001ms", &r), -EINVAL);
}

TEST(no_upper_bound_means_the_whole_range)
{
    struct run r;
    RUN(&r, "--cache-size=9223372036854775807");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.cache, INT64_MAX);
    run_fini(&r);
    assert_int_equal(result_of("--cache-size=0", &r), 0);
    assert_int_equal(result_of("--cache-size=9223372036854775808", &r), -EINVAL);
}

TEST(the_message_of_a_bound_tells_both_ends)
{
    struct run r;
    RUN(&r, "--workers=65");
    assert_buf(&r.error, "--workers: must be at least 1 and at most 64");
    run_fini(&r);
    RUN(&r, "--timeout=1ms");
    assert_buf(&r.error, "--timeout: must be at least 10 and at most 60000 milliseconds");
    run_fini(&r);
}

TEST(switches_set_the_bit_of_their_place)
{
    struct run r;
    RUN(&r, "--help");
    assert_int_equal(r.switched, SWITCH_HELP);
    run_fini(&r);
    RUN(&r, "--check", "--workers=2", "--check");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.switched, SWITCH_CHECK);
    assert_int_equal(r.values.workers, 2);
    run_fini(&r);
    RUN(&r, "--help", "--check");
    assert_int_equal(r.switched, SWITCH_HELP | SWITCH_CHECK);
    run_fini(&r);
    RUN(&r, "--help=yes");
    assert_run_failed(&r, "--help");
    run_fini(&r);
}

TEST(words_that_are_no_settings_are_left_over_in_order)
{
    struct run r;
    RUN(&r, "load", "--workers", "2", "-", "-x", "file");
    assert_int_equal(r.result, 4);
    assert_string_equal(r.rest[0], "load");
    assert_string_equal(r.rest[1], "-");
    assert_string_equal(r.rest[2], "-x");
    assert_string_equal(r.rest[3], "file");
    assert_int_equal(r.values.workers, 2);
    run_fini(&r);
}

TEST(two_hyphens_end_the_flags)
{
    struct run r;
    RUN(&r, "--workers=2", "--", "--workers=3", "--help", "--");
    assert_int_equal(r.result, 3);
    assert_string_equal(r.rest[0], "--workers=3");
    assert_string_equal(r.rest[1], "--help");
    assert_string_equal(r.rest[2], "--");
    assert_int_equal(r.values.workers, 2);
    assert_int_equal(r.switched, 0);
    run_fini(&r);
}

TEST(a_flag_takes_its_value_even_when_it_looks_like_a_flag)
{
    struct run r;
    RUN(&r, "--password", "--secret--", "--channel-host", "--");
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "--secret--");
    assert_string_equal(r.values.host, "--");
    run_fini(&r);
}

TEST(switches_may_be_missing)
{
    struct run r = {.error = BUF_INIT};
    char *argv[] = {(char[]){"channeld"}, (char[]){"--help"}, NULL};
    struct settings_args args = {.argc = 2, .argv = argv, .rest = r.rest, .sources = r.sources};
    r.result = settings_read(&SAMPLE, &r.values, &args, &r.error);
    assert_run_failed(&r, "--help");
    run_fini(&r);
}

/* What is overridden is not looked at, and cannot be wrong. */
TEST(a_flag_wins_over_a_variable_that_is_wrong)
{
    struct run r;
    set("CHANNELD_WORKERS", "many");
    set("CHANNELD_PASSWORD", "one");
    set("CHANNELD_PASSWORD_FILE", "/nonexistent");
    RUN(&r, "--workers=3", "--password", "mine");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 3);
    assert_string_equal(r.values.secret, "mine");
    run_fini(&r);
    RUN(&r, "--workers=3");
    assert_int_equal(r.result, -EINVAL);
    run_fini(&r);
}

static void assert_source(const struct run *r, const char *name, const char *pending)
{
    struct buf source = BUF_INIT;
    settings_write_source(&source, &SAMPLE, r->sources, name);
    assert_buf(&source, pending);
    buf_fini(&source);
}

TEST(a_setting_is_named_as_it_was_given)
{
    struct run r;
    set("CHANNELD_TIMEOUT", "3s");
    set("CHANNELD_PASSWORD_FILE", "/dev/null");
    set("CHANNELD_CACHE_SIZE", "1");
    RUN(&r, "--workers=3", "--redis-url-file", "/dev/null", "--cache-size=2");
    assert_int_equal(r.result, 0);
    assert_source(&r, "workers", "--workers");
    assert_source(&r, "redis-url", "--redis-url-file");
    assert_source(&r, "cache-size", "--cache-size");
    assert_source(&r, "timeout", "CHANNELD_TIMEOUT");
    assert_source(&r, "password", "CHANNELD_PASSWORD_FILE");
    assert_source(&r, "channel-host", "CHANNELD_CHANNEL_HOST");
    run_fini(&r);
}

/* The variables that begin with the prefix and are no settings, each with a comma behind. Owned. */
static struct buf unknown(struct span prefix)
{
    struct buf names = BUF_INIT;
    size_t at = 0;
    for (struct span name = settings_next_unknown(&SAMPLE, prefix, &at); name.data != NULL;
         name = settings_next_unknown(&SAMPLE, prefix, &at)) {
        buf_append_span(&names, name);
        buf_append_char(&names, ',');
    }
    return names;
}

TEST(variables_that_are_no_settings_are_found)
{
    static const char *const links[][2] = {{"SERVICE_HOST", "10.0.0.1"},
                                           {"SERVICE_PORT", "8080"},
                                           {"SERVICE_PORT_HTTP", "8080"},
                                           {"PORT", "tcp://10.0.0.1:8080"},
                                           {"PORT_8080_TCP", "tcp://10.0.0.1:8080"},
                                           {"PORT_8080_TCP_PROTO", "tcp"},
                                           {"PORT_8080_TCP_PORT", "8080"},
                                           {"PORT_8080_TCP_ADDR", "10.0.0.1"},
                                           {"ADMIN_SERVICE_HOST", "10.0.0.2"},
                                           {"ADMIN_PORT_8081_TCP", "tcp://10.0.0.2:8081"}};
    assert_int_equal(clearenv(), 0);
    for (size_t i = 0; i < TEST_COUNT(links); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "CHANNELD_%s", links[i][0]);
        set(name, links[i][1]);
    }
    set("CHANNELD_WORKERS", "3");
    set("CHANNELD_WORKERS_FILE", "/x");
    struct buf names = unknown(SPAN("CHANNELD_"));
    assert_buf(&names, "");
    buf_fini(&names);
    set("CHANNELD_CASH_SIZE", "1");
    set("CHANNELD_CACHE_SIZE_FILE", "1"); /* it has no such form */
    names = unknown(SPAN("CHANNELD_"));
    assert_buf(&names, "CHANNELD_CASH_SIZE,CHANNELD_CACHE_SIZE_FILE,");
    buf_fini(&names);
    set("CHANNELD_PORT", "8080"); /* somebody's idea of a setting */
    names = unknown(SPAN("CHANNELD_P"));
    assert_buf(&names, "CHANNELD_PORT,");
    buf_fini(&names);
    assert_int_equal(clearenv(), 0);
}

static void assert_unknown(const char *name, const char *pending)
{
    struct buf text = BUF_INIT;
    settings_write_unknown(&text, &SAMPLE, span_of(name));
    assert_buf(&text, pending);
    buf_fini(&text);
}

TEST(a_mistyped_variable_is_told_from_others)
{
    char longest[4000];
    assert_unknown("CHANNELD_CASH_SIZE", "CHANNELD_CASH_SIZE: no such setting (CHANNELD_CACHE_SIZE?)");
    assert_unknown("CHANNELD_REDIS_ULR", "CHANNELD_REDIS_ULR: no such setting (CHANNELD_REDIS_URL?)");
    assert_unknown("CHANNELD_WORKER", "CHANNELD_WORKER: no such setting (CHANNELD_WORKERS?)");
    assert_unknown("CHANNELD_X", "CHANNELD_X: no such setting");
    assert_unknown("CHANNELD_", "CHANNELD_: no such setting");
    memset(longest, 'A', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct buf text = BUF_INIT;
    settings_write_unknown(&text, &SAMPLE, span_of(longest));
    assert_null(strchr(buf_c_str(&text), '?'));
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(defaults_hold_when_nothing_is_given),
        CLEAN(flags_take_their_value_in_both_forms),
        CLEAN(only_the_first_equals_sign_divides),
        CLEAN(the_last_of_a_repeated_flag_counts),
        CLEAN(the_environment_replaces_defaults),
        CLEAN(flags_win_over_the_environment),
        CLEAN(unknown_flags_are_named_without_their_value),
        CLEAN(a_flag_at_the_end_without_value_is_an_error),
        CLEAN(bad_numbers_name_the_setting_and_not_the_value),
        CLEAN(bad_numbers_in_the_environment_name_the_variable),
        CLEAN(bounds_hold_from_both_sides),
        CLEAN(no_upper_bound_means_the_whole_range),
        CLEAN(the_message_of_a_bound_tells_both_ends),
        CLEAN(switches_set_the_bit_of_their_place),
        CLEAN(words_that_are_no_settings_are_left_over_in_order),
        CLEAN(two_hyphens_end_the_flags),
        CLEAN(a_flag_takes_its_value_even_when_it_looks_like_a_flag),
        CLEAN(switches_may_be_missing),
        CLEAN(a_flag_wins_over_a_variable_that_is_wrong),
        CLEAN(a_setting_is_named_as_it_was_given),
        CLEAN(variables_that_are_no_settings_are_found),
        CLEAN(a_mistyped_variable_is_told_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
