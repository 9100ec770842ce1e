/*
 * Settings: where a value comes from, which source wins, what of a file is the value, errors that name what
 * was wrong; --help and --check show everything in the table, and no secret.
 */
#include "base/settings.h"

#include <errno.h>
#include <stdlib.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

enum { SWITCH_HELP = 1, SWITCH_CHECK = 2, WORDS_MAX = 16 };

struct sample {
    char *host;
    char *url;
    char *secret;
    int64_t workers;
    int64_t cache;
    int64_t timeout;
};

static const struct setting SAMPLE_TABLE[] = {
    {"channel-host", SETTING_TEXT, offsetof(struct sample, host), "max.ru", 0, 0, false, "Host of the links"},
    {"redis-url", SETTING_URL, offsetof(struct sample, url), "redis://127.0.0.1:6379/0", 0, 0, true,
     "Where Redis is"},
    {"password", SETTING_SECRET, offsetof(struct sample, secret), "", 0, 0, true, "The password"},
    {"workers", SETTING_COUNT, offsetof(struct sample, workers), "4", 1, 64, true, "Threads"},
    {"cache-size", SETTING_SIZE, offsetof(struct sample, cache), "64MiB", 0, 0, false, "Memory"},
    {"timeout", SETTING_DURATION, offsetof(struct sample, timeout), "2s", 10, 60000, false, "Timeout"},
};

static const struct settings SAMPLE = {SAMPLE_TABLE, sizeof SAMPLE_TABLE / sizeof SAMPLE_TABLE[0],
                                       "CHANNELD_"};

struct run {
    struct sample values;
    struct buf error;
    char *rest[WORDS_MAX];
    unsigned char sources[sizeof SAMPLE_TABLE / sizeof SAMPLE_TABLE[0]];
    unsigned switched;
    int result;
};

/* Reads the words, which end with NULL, as a program's arguments. */
static void run_words(struct run *r, const char *const *words)
{
    static const char *const switches[] = {"--help", "--check", NULL};
    char *argv[WORDS_MAX] = {NULL};
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        assert_true(argc + 1 < WORDS_MAX);
        argv[argc] = (char *)(uintptr_t)words[argc]; /* not written to */
    }
    *r = (struct run){.error = BUF_INIT};
    struct settings_args args = {
        .argc = argc, .argv = argv, .switches = switches, .rest = r->rest, .sources = r->sources};
    r->result = settings_read(&SAMPLE, &r->values, &args, &r->error);
    r->switched = args.switched;
}

#define RUN(r, ...)  run_words((r), (const char *const[]){"channeld", __VA_ARGS__, NULL})
#define RUN_PLAIN(r) run_words((r), (const char *const[]){"channeld", NULL})

static void run_fini(struct run *r)
{
    settings_fini(&SAMPLE, &r->values);
    buf_fini(&r->error);
}

/* The run failed, and the message begins with the name of what was wrong. */
static void assert_run_failed(struct run *r, const char *called)
{
    const char *message = buf_c_str(&r->error);
    assert_int_equal(r->result, -EINVAL);
    assert_non_null(message);
    if (strncmp(message, called, strlen(called)) != 0 || message[strlen(called)] != ':')
        fail_msg("\"%s\" does not name %s", message, called);
}

/* Removes all of the table's variables from the environment: the setup and teardown of each test. */
static int clean_environment(void **state)
{
    static const char *const VARIABLES[] = {
        "CHANNELD_CHANNEL_HOST",   "CHANNELD_CHANNEL_HOST_FILE", "CHANNELD_REDIS_URL",
        "CHANNELD_REDIS_URL_FILE", "CHANNELD_PASSWORD",          "CHANNELD_PASSWORD_FILE",
        "CHANNELD_WORKERS",        "CHANNELD_WORKERS_FILE",      "CHANNELD_CACHE_SIZE",
        "CHANNELD_TIMEOUT",
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(VARIABLES); i++)
        unsetenv(VARIABLES[i]);
    return 0;
}

static void set(const char *variable, const char *value)
{
    assert_int_equal(setenv(variable, value, 1), 0);
}

TEST_CASE_WITH(defaults_hold_when_nothing_is_given, clean_environment, clean_environment)
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

TEST_CASE_WITH(flags_take_their_value_in_both_forms, clean_environment, clean_environment)
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

TEST_CASE_WITH(only_the_first_equals_sign_divides, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--password=a=b=");
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "a=b=");
    run_fini(&r);
}

TEST_CASE_WITH(last_of_a_repeated_flag_counts, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--workers=7", "--channel-host", "a", "--workers", "9", "--channel-host", "b");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 9);
    assert_string_equal(r.values.host, "b");
    run_fini(&r);
}

TEST_CASE_WITH(environment_replaces_defaults, clean_environment, clean_environment)
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

TEST_CASE_WITH(flags_win_over_the_environment, clean_environment, clean_environment)
{
    struct run r;
    set("CHANNELD_WORKERS", "3");
    RUN(&r, "--workers=5");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 5);
    run_fini(&r);
}

TEST_CASE_WITH(unknown_flags_are_named_without_their_value, clean_environment, clean_environment)
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

TEST_CASE_WITH(flag_at_the_end_without_value_is_an_error, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--workers");
    assert_run_failed(&r, "--workers");
    run_fini(&r);
}

TEST_CASE_WITH(bad_numbers_name_the_setting_and_not_the_value, clean_environment, clean_environment)
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

TEST_CASE_WITH(bad_numbers_in_the_environment_name_the_variable, clean_environment, clean_environment)
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

TEST_CASE_WITH(bounds_hold_from_both_sides, clean_environment, clean_environment)
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

TEST_CASE_WITH(no_upper_bound_means_the_whole_range, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--cache-size=9223372036854775807");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.cache, INT64_MAX);
    run_fini(&r);
    assert_int_equal(result_of("--cache-size=0", &r), 0);
    assert_int_equal(result_of("--cache-size=9223372036854775808", &r), -EINVAL);
}

TEST_CASE_WITH(message_of_a_bound_has_both_ends, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--workers=65");
    assert_buf(&r.error, "--workers: must be at least 1 and at most 64");
    run_fini(&r);
    RUN(&r, "--timeout=1ms");
    assert_buf(&r.error, "--timeout: must be at least 10 and at most 60000 milliseconds");
    run_fini(&r);
}

TEST_CASE_WITH(switches_set_the_bit_of_their_position, clean_environment, clean_environment)
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

TEST_CASE_WITH(other_words_are_returned_in_order, clean_environment, clean_environment)
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

TEST_CASE_WITH(two_hyphens_end_the_flags, clean_environment, clean_environment)
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

TEST_CASE_WITH(flag_takes_its_value_even_when_it_looks_like_a_flag, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--password", "--secret--", "--channel-host", "--");
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "--secret--");
    assert_string_equal(r.values.host, "--");
    run_fini(&r);
}

TEST_CASE_WITH(switches_may_be_missing, clean_environment, clean_environment)
{
    struct run r = {.error = BUF_INIT};
    char *argv[] = {(char[]){"channeld"}, (char[]){"--help"}, NULL};
    struct settings_args args = {.argc = 2, .argv = argv, .rest = r.rest, .sources = r.sources};
    r.result = settings_read(&SAMPLE, &r.values, &args, &r.error);
    assert_run_failed(&r, "--help");
    run_fini(&r);
}

/* What is overridden is not looked at, and cannot be wrong. */
TEST_CASE_WITH(flag_wins_over_a_wrong_variable, clean_environment, clean_environment)
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

static void assert_source(const struct run *r, const char *name, const char *expected)
{
    struct buf source = BUF_INIT;
    settings_write_source(&source, &SAMPLE, r->sources, name);
    assert_buf(&source, expected);
    buf_fini(&source);
}

TEST_CASE_WITH(source_is_named_as_it_was_given, clean_environment, clean_environment)
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

TEST_CASE_WITH(unknown_variables_are_found, clean_environment, clean_environment)
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

static void assert_unknown(const char *name, const char *expected)
{
    struct buf text = BUF_INIT;
    settings_write_unknown(&text, &SAMPLE, span_of(name));
    assert_buf(&text, expected);
    buf_fini(&text);
}

TEST_CASE_WITH(mistyped_variable_gets_a_suggestion, clean_environment, clean_environment)
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

/* --- files --- */

static struct tempdir dir;

/* A file in the tests' folder; the path is borrowed until the next call. */
static char *file_with(const void *bytes, size_t n)
{
    static char path[TEMPDIR_PATH_SIZE + 8];
    (void)snprintf(path, sizeof path, "%s/value", dir.path);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static char *file_with_text(const char *text)
{
    return file_with(text, strlen(text));
}

TEST_CASE_WITH(file_gives_the_value_without_its_newline, clean_environment, clean_environment)
{
    static const struct {
        const char *content;
        const char *value;
    } cases[] = {
        {"secret", "secret"},
        {"secret\n", "secret"},
        {"secret\r\n", "secret"},
        {"secret\n\n", "secret\n"},
        {" secret ", " secret "},
        {"secret\r", "secret\r"},
        {"a\nb\n", "a\nb"},
        {"", ""},
        {"\n", ""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct run r;
        RUN(&r, "--password-file", file_with_text(cases[i].content));
        assert_int_equal(r.result, 0);
        assert_string_equal(r.values.secret, cases[i].value);
        run_fini(&r);
    }
}

TEST_CASE_WITH(file_can_be_named_by_the_environment, clean_environment, clean_environment)
{
    struct run r;
    set("CHANNELD_WORKERS_FILE", file_with_text("12\n"));
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 12);
    run_fini(&r);
}

TEST_CASE_WITH(file_named_by_a_flag_wins_over_the_environment, clean_environment, clean_environment)
{
    struct run r;
    set("CHANNELD_PASSWORD", "from-env");
    RUN(&r, "--password-file", file_with_text("from-file\n"));
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "from-file");
    run_fini(&r);
}

TEST_CASE_WITH(file_forms_work_only_where_allowed, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--channel-host-file", file_with_text("x"));
    assert_run_failed(&r, "--channel-host-file");
    run_fini(&r);
    set("CHANNELD_CHANNEL_HOST_FILE", file_with_text("x"));
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.host, "max.ru");
    run_fini(&r);
}

TEST_CASE_WITH(missing_file_is_an_error_with_its_name, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--password-file=/nonexistent/password");
    assert_run_failed(&r, "--password-file");
    assert_non_null(strstr(buf_c_str(&r.error), "/nonexistent/password: No such file"));
    run_fini(&r);
    RUN(&r, "--password-file", dir.path);
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    set("CHANNELD_PASSWORD_FILE", "/nonexistent/password");
    RUN_PLAIN(&r);
    assert_run_failed(&r, "CHANNELD_PASSWORD_FILE");
    run_fini(&r);
}

TEST_CASE_WITH(file_may_hold_64_kib_and_no_more, clean_environment, clean_environment)
{
    enum { LIMIT = 64 * 1024 };
    char *text = text_repeat('x', LIMIT + 1);
    struct run r;
    RUN(&r, "--password-file", file_with(text, LIMIT));
    assert_int_equal(r.result, 0);
    assert_int_equal(strlen(r.values.secret), LIMIT);
    run_fini(&r);
    RUN(&r, "--password-file", file_with(text, LIMIT + 1));
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    free(text);
}

TEST_CASE_WITH(nul_byte_in_a_file_is_an_error, clean_environment, clean_environment)
{
    struct run r;
    RUN(&r, "--password-file", file_with("sec\0ret", 7));
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
}

TEST_CASE_WITH(value_and_file_at_one_level_exclude_each_other, clean_environment, clean_environment)
{
    struct run r;
    char *path = file_with_text("from-file");
    RUN(&r, "--password", "x", "--password-file", path);
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    RUN(&r, "--password-file", path, "--password", "x");
    assert_run_failed(&r, "--password");
    run_fini(&r);
    set("CHANNELD_PASSWORD", "x");
    set("CHANNELD_PASSWORD_FILE", path);
    RUN_PLAIN(&r);
    assert_int_equal(r.result, -EINVAL);
    assert_non_null(strstr(buf_c_str(&r.error), "CHANNELD_PASSWORD and CHANNELD_PASSWORD_FILE"));
    run_fini(&r);
}

TEST_CASE_WITH(bad_number_in_a_file_names_the_setting_of_the_file, clean_environment, clean_environment)
{
    struct run r;
    set("CHANNELD_WORKERS_FILE", file_with_text("many"));
    RUN_PLAIN(&r);
    assert_run_failed(&r, "CHANNELD_WORKERS_FILE");
    run_fini(&r);
}

static int open_dir(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

static int close_dir(void **state)
{
    (void)state;
    tempdir_fini(&dir);
    return 0;
}

/* --- printing --- */

TEST_CASE_WITH(help_has_flag_variable_file_help_and_default, clean_environment, clean_environment)
{
    struct buf out = BUF_INIT;
    settings_write_help(&SAMPLE, &out);
    assert_buf(&out, "  --channel-host TEXT\n"
                     "      CHANNELD_CHANNEL_HOST\n"
                     "      Host of the links [max.ru]\n"
                     "  --redis-url URL\n"
                     "      CHANNELD_REDIS_URL, or from a file by CHANNELD_REDIS_URL_FILE\n"
                     "      Where Redis is [redis://127.0.0.1:6379/0]\n"
                     "  --password TEXT\n"
                     "      CHANNELD_PASSWORD, or from a file by CHANNELD_PASSWORD_FILE\n"
                     "      The password [none]\n"
                     "  --workers NUMBER\n"
                     "      CHANNELD_WORKERS, or from a file by CHANNELD_WORKERS_FILE\n"
                     "      Threads [4]\n"
                     "  --cache-size SIZE\n"
                     "      CHANNELD_CACHE_SIZE\n"
                     "      Memory [64MiB]\n"
                     "  --timeout DURATION\n"
                     "      CHANNELD_TIMEOUT\n"
                     "      Timeout [2s]\n");
    buf_fini(&out);
}

TEST_CASE_WITH(values_are_shown_in_their_own_notation, clean_environment, clean_environment)
{
    struct run r;
    struct buf out = BUF_INIT;
    RUN(&r, "--password=s3cret", "--redis-url=redis://:s3cret@db:6380/1", "--timeout=1500ms");
    settings_write_values(&SAMPLE, &r.values, &out);
    assert_buf(&out, "channel-host = max.ru\n"
                     "redis-url = redis://:********@db:6380/1\n"
                     "password = ********\n"
                     "workers = 4\n"
                     "cache-size = 64MiB\n"
                     "timeout = 1500ms\n");
    buf_fini(&out);
    run_fini(&r);
}

TEST_CASE_WITH(empty_secret_shows_as_empty, clean_environment, clean_environment)
{
    struct run r;
    struct buf out = BUF_INIT;
    RUN_PLAIN(&r);
    settings_write_values(&SAMPLE, &r.values, &out);
    assert_non_null(strstr(buf_c_str(&out), "\npassword = \n"));
    buf_fini(&out);
    run_fini(&r);
}

/* The line of `setting` when it is given as `word`. */
static void assert_line(const char *word, const char *expected)
{
    struct run r;
    struct buf out = BUF_INIT;
    RUN(&r, word);
    assert_int_equal(r.result, 0);
    buf_append_char(&out, '\n');
    settings_write_values(&SAMPLE, &r.values, &out);
    if (strstr(buf_c_str(&out), expected) == NULL)
        fail_msg("%s: no line %s in %s", word, expected, out.data);
    buf_fini(&out);
    run_fini(&r);
}

TEST_CASE_WITH(sizes_and_durations_are_shown_in_the_largest_exact_unit, clean_environment, clean_environment)
{
    assert_line("--cache-size=0", "\ncache-size = 0\n");
    assert_line("--cache-size=1023", "\ncache-size = 1023\n");
    assert_line("--cache-size=1024", "\ncache-size = 1KiB\n");
    assert_line("--cache-size=1025", "\ncache-size = 1025\n");
    assert_line("--cache-size=1GiB", "\ncache-size = 1GiB\n");
    assert_line("--cache-size=2048GiB", "\ncache-size = 2048GiB\n");
    assert_line("--timeout=10ms", "\ntimeout = 10ms\n");
    assert_line("--timeout=1000ms", "\ntimeout = 1s\n");
    assert_line("--timeout=1m", "\ntimeout = 60s\n");
}

static void assert_url(const char *url, const char *shown)
{
    char word[128];
    char line[128];
    (void)snprintf(word, sizeof word, "--redis-url=%s", url);
    (void)snprintf(line, sizeof line, "\nredis-url = %s\n", shown);
    assert_line(word, line);
}

TEST_CASE_WITH(urls_without_password_are_shown_as_they_are, clean_environment, clean_environment)
{
    assert_url("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0");
    assert_url("redis://[::1]:6379/0", "redis://[::1]:6379/0");
    assert_url("redis://alice@db/0", "redis://alice@db/0");
    assert_url("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1");
    assert_url("", "");
    assert_url("nonsense", "nonsense");
}

TEST_CASE_WITH(password_of_a_url_is_masked, clean_environment, clean_environment)
{
    assert_url("redis://alice:s3cret@db:6379/0", "redis://alice:********@db:6379/0");
    assert_url("rediss://:s3cret@db/0", "rediss://:********@db/0");
    assert_url("redis://alice:@db/0", "redis://alice:********@db/0");
    assert_url("unix://alice:s3cret@/run/redis.sock", "unix://alice:********@/run/redis.sock");
    assert_url("redis://:s3cret@[::1]:6379", "redis://:********@[::1]:6379");
}

TEST_CASE_WITH(password_with_any_characters_is_masked, clean_environment, clean_environment)
{
    assert_url("redis://alice:s3@cr@et@db:6379/0", "redis://alice:********@db:6379/0");
    assert_url("redis://alice:s3:cr:et@db/0", "redis://alice:********@db/0");
    assert_url("redis://alice:s3/cr/et@db/0", "redis://alice:********@db/0");
    assert_url("redis://alice:s3?cr#et@db/0", "redis://alice:********@db/0");
    assert_url("redis://:@@db", "redis://:********@db");
    assert_url("alice:s3cret@db", "alice:********@db");
}

TEST_GROUP(open_dir, close_dir)
