/*
 * Settings: where a value comes from, which source wins, what of a file is the value, errors that name what
 * was wrong; --help and --check show everything in the table, and no secret.
 */
#include "base/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

enum { FLAG_HELP, FLAG_CHECK, WORDS_MAX = 16 };

struct sample {
    char *host;
    char *url;
    char *secret;
    int64_t workers;
    int64_t cache;
    int64_t timeout;
    int64_t level;
    char *file;
};

static const struct setting SAMPLE_TABLE[] = {
    {"channel-host", SETTING_TEXT, offsetof(struct sample, host), "max.ru", 0, 0, false, "Host of the links",
     NULL},
    {"redis-url", SETTING_URL, offsetof(struct sample, url), "redis://127.0.0.1:6379/0", 0, 0, true,
     "Where Redis is", NULL},
    {"password", SETTING_SECRET, offsetof(struct sample, secret), "", 0, 0, true, "The password", NULL},
    {"workers", SETTING_COUNT, offsetof(struct sample, workers), "4", 1, 64, true, "Threads", NULL},
    {"cache-size", SETTING_SIZE, offsetof(struct sample, cache), "64MiB", 0, INT64_MAX, false, "Memory",
     NULL},
    {"timeout", SETTING_DURATION, offsetof(struct sample, timeout), "2s", 10, 60000, false, "Timeout", NULL},
    {"level", SETTING_CHOICE, offsetof(struct sample, level), "low", 0, 0, false, "How loud", "low|high|off"},
    {"ca-file", SETTING_PATH, offsetof(struct sample, file), "", 0, 0, false, "Authorities", NULL},
};

static const struct settings_flag SAMPLE_FLAGS[] = {
    [FLAG_HELP] = {"--help", NULL, ""}, [FLAG_CHECK] = {"--check", NULL, ""}};

static const struct usage SAMPLE = {.table = SAMPLE_TABLE,
                                    .count = sizeof SAMPLE_TABLE / sizeof SAMPLE_TABLE[0],
                                    .flags = SAMPLE_FLAGS,
                                    .flag_count = sizeof SAMPLE_FLAGS / sizeof SAMPLE_FLAGS[0],
                                    .others = "CHANNELD_OTHER CHANNELD_OTHERS"};

struct run {
    struct sample values;
    struct buf error;
    char *argv[WORDS_MAX];
    struct settings_args args;
    int result;
};

static struct run r; /* the last one */

static void run_fini(void)
{
    settings_fini(&SAMPLE, &r.values);
    buf_fini(&r.error);
    r = (struct run){.error = BUF_INIT};
}

/* Reads the words, which end with NULL, as a program's arguments. */
static void run_words(const char *const *words)
{
    int argc = 0;
    run_fini();
    for (; words[argc] != NULL; argc++) {
        assert_true(argc + 1 < WORDS_MAX);
        r.argv[argc] = (char *)(uintptr_t)words[argc]; /* not written to */
    }
    r.args = (struct settings_args){.usage = &SAMPLE, .target = &r.values, .argc = argc, .argv = r.argv};
    r.result = settings_read(&r.args, &r.error);
    int err = r.result >= 0 ? settings_read_files(&r.args, false, &r.error) : 0;
    r.result = err != 0 ? err : r.result;
}

#define RUN(...)    run_words((const char *const[]){"channeld", __VA_ARGS__, NULL})
#define RUN_PLAIN() run_words((const char *const[]){"channeld", NULL})

/* Runs, which succeeds. */
#define RUN_OK(...)                    \
    do {                               \
        RUN(__VA_ARGS__);              \
        assert_int_equal(r.result, 0); \
    } while (0)

/* The run failed, and the message begins with the name of what was wrong. */
static void assert_run_failed(const char *called)
{
    const char *message = buf_c_str(&r.error);
    assert_int_equal(r.result, -EINVAL);
    assert_non_null(message);
    if (strncmp(message, called, strlen(called)) != 0 || message[strlen(called)] != ':')
        fail_msg("\"%s\" does not name %s", message, called);
}

/* The setup and teardown of each test: no last run, and none of the table's variables in the environment. */
static int clean(void **state)
{
    (void)state;
    run_fini();
    EACH_TEXT (text, "CHANNELD_CHANNEL_HOST", "CHANNELD_CHANNEL_HOST_FILE", "CHANNELD_REDIS_URL",
               "CHANNELD_REDIS_URL_FILE", "CHANNELD_PASSWORD", "CHANNELD_PASSWORD_FILE", "CHANNELD_WORKERS",
               "CHANNELD_WORKERS_FILE", "CHANNELD_CACHE_SIZE", "CHANNELD_TIMEOUT", "CHANNELD_LEVEL")
        unsetenv(text);
    return 0;
}

#define SETTINGS_TEST(name) TEST_CASE_WITH(name, clean, clean)

static void set(const char *variable, const char *value)
{
    assert_int_equal(setenv(variable, value, 1), 0);
}

SETTINGS_TEST(choice_is_one_of_its_words)
{
    RUN_OK("--level=off");
    assert_int_equal(r.values.level, 2);
    EACH_TEXT (text, "", "lo", "lower", "low|high", "|", "LOW", " ") {
        RUN("--level", text);
        assert_run_failed("--level");
        assert_string_equal(buf_c_str(&r.error), "--level: low|high|off is expected");
    }
    set("CHANNELD_LEVEL", "x");
    RUN_PLAIN();
    assert_run_failed("CHANNELD_LEVEL");
}

SETTINGS_TEST(flags_take_their_value_in_both_forms)
{
    RUN_OK("--workers", "7", "--cache-size=1GiB", "--channel-host=", "--redis-url", "redis://h/?a=b=c",
           "--password=a=b=");
    assert_int_equal(r.values.workers, 7);
    assert_int_equal(r.values.cache, 1 << 30);
    assert_string_equal(r.values.host, "");
    assert_string_equal(r.values.url, "redis://h/?a=b=c");
    assert_string_equal(r.values.secret, "a=b="); /* only the first equals sign divides */
}

SETTINGS_TEST(flags_win_over_the_environment)
{
    set("CHANNELD_WORKERS", "3");
    RUN_OK("--workers=5");
    assert_int_equal(r.values.workers, 5);
}

SETTINGS_TEST(flags_without_value_and_unknown_flags_are_named_without_their_value)
{
    RUN("--workers");
    assert_run_failed("--workers");
    EACH_TEXT (text, "--worker", "--workerss", "--Workers", "--no-such", "---workers", "--help-me") {
        char word[64];
        (void)snprintf(word, sizeof word, "%s=s3cret", text);
        RUN(word);
        assert_run_failed(text);
        assert_null(strstr(buf_c_str(&r.error), "s3cret"));
    }
}

SETTINGS_TEST(bad_numbers_name_the_setting_and_not_the_value)
{
    EACH_PAIR (flag, value, {"--workers", "abc"}, {"--workers", ""}, {"--workers", "1.5"},
               {"--workers", "+4"}, {"--workers", "04"}, {"--cache-size", "1M"}, {"--cache-size", "-1"},
               {"--timeout", "5"}, {"--timeout", "5 s"}, {"--timeout", "-5s"},
               {"--timeout", "99999999999999999999s"}, {"--workers", "99999999999999999999"}) {
        RUN(flag, value);
        assert_run_failed(flag);
        assert_non_null(strstr(buf_c_str(&r.error), " is expected"));
    }
}

SETTINGS_TEST(bounds_hold_from_both_sides)
{
    EACH_TEXT (word, "--workers=1", "--workers=64", "--timeout=10ms", "--timeout=60s", "--cache-size=0")
        RUN_OK(word);
    EACH_TEXT (word, "--workers=0", "--workers=65", "--workers=-1", "--timeout=9ms", "--timeout=60001ms",
               "--cache-size=9223372036854775808") {
        RUN(word);
        assert_int_equal(r.result, -EINVAL);
    }
    RUN_OK("--cache-size=9223372036854775807");
    assert_int_equal(r.values.cache, INT64_MAX);
}

static void assert_given(bool help, bool check)
{
    assert_int_equal(r.args.flag[FLAG_HELP] != NULL, help);
    assert_int_equal(r.args.flag[FLAG_CHECK] != NULL, check);
}

SETTINGS_TEST(flags_without_a_value_are_given_or_not)
{
    RUN("-h");
    assert_given(true, false);
    RUN("--help");
    assert_given(true, false);
    RUN_OK("--check", "--workers=2", "--check");
    assert_given(false, true);
    assert_int_equal(r.values.workers, 2);
    RUN("--help", "--check");
    assert_given(true, true);
    RUN("--help=yes");
    assert_run_failed("--help");
}

SETTINGS_TEST(other_words_are_returned_in_order)
{
    RUN("load", "--workers", "2", "-", "-x", "file");
    assert_int_equal(r.result, 4);
    assert_string_equal(r.argv[0], "load");
    assert_string_equal(r.argv[1], "-");
    assert_string_equal(r.argv[2], "-x");
    assert_string_equal(r.argv[3], "file");
    assert_int_equal(r.values.workers, 2);
}

SETTINGS_TEST(two_hyphens_end_the_flags)
{
    RUN("--workers=2", "--", "--workers=3", "--help", "--");
    assert_int_equal(r.result, 3);
    assert_string_equal(r.argv[0], "--workers=3");
    assert_string_equal(r.argv[1], "--help");
    assert_string_equal(r.argv[2], "--");
    assert_int_equal(r.values.workers, 2);
    assert_given(false, false);
}

SETTINGS_TEST(flag_takes_its_value_even_when_it_looks_like_a_flag)
{
    RUN_OK("--password", "--secret--", "--channel-host", "--");
    assert_string_equal(r.values.secret, "--secret--");
    assert_string_equal(r.values.host, "--");
}

/* What is overridden is not looked at, and cannot be wrong. */
SETTINGS_TEST(flag_wins_over_a_wrong_variable)
{
    set("CHANNELD_WORKERS", "many");
    set("CHANNELD_PASSWORD", "one");
    set("CHANNELD_PASSWORD_FILE", "/nonexistent");
    RUN_OK("--workers=3", "--password", "mine");
    assert_int_equal(r.values.workers, 3);
    assert_string_equal(r.values.secret, "mine");
    RUN("--workers=3");
    assert_int_equal(r.result, -EINVAL);
}

static void assert_source(const char *name, const char *expected)
{
    SCOPED_BUF(source);
    settings_write_source(&source, &r.args, name);
    assert_buf(&source, expected);
}

SETTINGS_TEST(source_is_named_as_it_was_given)
{
    set("CHANNELD_TIMEOUT", "3s");
    set("CHANNELD_PASSWORD_FILE", "/dev/null");
    set("CHANNELD_CACHE_SIZE", "1");
    RUN_OK("--workers=3", "--redis-url-file", "/dev/null", "--cache-size=2");
    EACH_PAIR (setting, source, {"workers", "--workers"}, {"redis-url", "--redis-url-file"},
               {"cache-size", "--cache-size"}, {"timeout", "CHANNELD_TIMEOUT"},
               {"password", "CHANNELD_PASSWORD_FILE"}, {"channel-host", "CHANNELD_CHANNEL_HOST"})
        assert_source(setting, source);
}

/* The variables that begin with the prefix and are no settings, each with a comma behind. Owned. */
static struct buf unknown(struct span prefix)
{
    struct buf names = BUF_INIT;
    SCOPED_BUF(warning);
    size_t at = 0;
    while (settings_next_unknown(&SAMPLE, prefix, &at, &warning))
        buf_printf(&names, "%.*s,", (int)strcspn(buf_c_str(&warning), ":"), buf_c_str(&warning));
    return names;
}

SETTINGS_TEST(unknown_variables_are_found)
{
    assert_int_equal(clearenv(), 0);
    EACH_PAIR (link, value, {"SERVICE_HOST", "10.0.0.1"}, {"SERVICE_PORT", "8080"},
               {"SERVICE_PORT_HTTP", "8080"}, {"PORT", "tcp://10.0.0.1:8080"},
               {"PORT_8080_TCP", "tcp://10.0.0.1:8080"}, {"PORT_8080_TCP_PROTO", "tcp"},
               {"PORT_8080_TCP_PORT", "8080"}, {"PORT_8080_TCP_ADDR", "10.0.0.1"},
               {"ADMIN_SERVICE_HOST", "10.0.0.2"}, {"ADMIN_PORT_8081_TCP", "tcp://10.0.0.2:8081"}) {
        char name[64];
        (void)snprintf(name, sizeof name, "CHANNELD_%s", link);
        set(name, value);
    }
    set("CHANNELD_WORKERS", "3");
    set("CHANNELD_WORKERS_FILE", "/x");
    set("CHANNELD_OTHER", "1");
    set("CHANNELD_OTHERS", "1");
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

SETTINGS_TEST(file_gives_the_value_without_its_newline)
{
    EACH_PAIR (content, value, {"secret", "secret"}, {"secret\n", "secret"}, {"secret\r\n", "secret"},
               {" secret ", " secret "}, {"", ""}, {"\n", ""}) {
        RUN_OK("--password-file", file_with_text(content));
        assert_string_equal(r.values.secret, value);
    }
}

/* The password would be wrong. Other texts may have several lines. */
SETTINGS_TEST(secret_of_several_lines_is_an_error)
{
    EACH_TEXT (text, "hush\n", "hush\r", "hush\r\n", "\nhush", "hush\nhush") {
        RUN("--password", text);
        assert_run_failed("--password");
        assert_null(strstr(buf_c_str(&r.error), "hush"));
        RUN("--redis-url", text);
        assert_run_failed("--redis-url");
        set("CHANNELD_PASSWORD_FILE", file_with_text(text_temp("%s-\n", text)));
        RUN_PLAIN();
        assert_run_failed("CHANNELD_PASSWORD_FILE");
        unsetenv("CHANNELD_PASSWORD_FILE");
    }
    RUN_OK("--channel-host", "a\nb");
}

SETTINGS_TEST(file_forms_work_only_where_allowed)
{
    RUN("--channel-host-file", file_with_text("x"));
    assert_run_failed("--channel-host-file");
    set("CHANNELD_CHANNEL_HOST_FILE", file_with_text("x"));
    RUN_PLAIN();
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.host, "max.ru");
}

SETTINGS_TEST(file_may_hold_64_kib_and_no_more)
{
    enum { LIMIT = 64 * 1024 };
    char *text = text_repeat('x', LIMIT + 1);
    RUN_OK("--password-file", file_with(text, LIMIT));
    assert_int_equal(strlen(r.values.secret), LIMIT);
    RUN("--password-file", file_with(text, LIMIT + 1));
    assert_run_failed("--password-file");
    free(text);
}

SETTINGS_TEST(nul_byte_in_a_file_is_an_error)
{
    RUN("--password-file", file_with("sec\0ret", 7));
    assert_run_failed("--password-file");
}

SETTINGS_TEST(value_and_file_at_one_level_exclude_each_other)
{
    char *path = file_with_text("from-file");
    RUN("--password", "x", "--password-file", path);
    assert_run_failed("--password-file");
    RUN("--password-file", path, "--password", "x");
    assert_run_failed("--password-file");
    set("CHANNELD_PASSWORD", "x");
    set("CHANNELD_PASSWORD_FILE", path);
    RUN_PLAIN();
    assert_run_failed("CHANNELD_PASSWORD_FILE");
}

/* --- reading again --- */

static void read_again(void)
{
    buf_clear(&r.error);
    r.result = settings_read_files(&r.args, true, &r.error);
}

static void expect_again(const char *secret, int workers)
{
    read_again();
    if (r.result != 0)
        fail_msg("%s", buf_c_str(&r.error));
    assert_string_equal(r.values.secret, secret);
    assert_int_equal(r.values.workers, workers);
    assert_string_equal(r.values.host, "other.example");
    assert_int_equal(r.values.cache, 64 << 20);
}

SETTINGS_TEST(values_from_files_are_read_again_and_others_stay)
{
    const char *password = text_temp("%s/password", dir.path);
    const char *workers = text_temp("%s/workers", dir.path);
    assert_true(text_write_file(password, "one\n") && text_write_file(workers, "3"));
    set("CHANNELD_WORKERS_FILE", workers);
    RUN_OK("--password-file", password, "--channel-host", "other.example");
    expect_again("one", 3);
    assert_true(text_write_file(password, "two\n") && text_write_file(workers, "4"));
    set("CHANNELD_CHANNEL_HOST", "changed.example");
    expect_again("two", 4);
    assert_int_equal(unlink(workers), 0);
    read_again();
    assert_run_failed("CHANNELD_WORKERS_FILE");
    assert_non_null(strstr(buf_c_str(&r.error), "No such file"));
    assert_true(text_write_file(workers, "5") && text_write_file(password, "\n"));
    read_again();
    assert_run_failed("--password-file");
    assert_string_equal(r.values.secret, "two");
    assert_true(text_write_file(workers, "six") && text_write_file(password, "three"));
    read_again();
    assert_run_failed("CHANNELD_WORKERS_FILE");
    assert_int_equal(r.values.workers, 4);
}

/* It has given what it held. */
SETTINGS_TEST(pipe_is_not_read_again)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    assert_int_equal(close(ends[1]), 0);
    RUN_OK("--password-file", text_temp("/dev/fd/%d", ends[0]));
    read_again();
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "piped");
    assert_int_equal(close(ends[0]), 0);
}

static int open_dir(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

/* --- printing --- */

SETTINGS_TEST(values_are_shown_in_their_own_notation)
{
    SCOPED_BUF(out);
    RUN("--password=s3cret", "--redis-url=redis://:s3cret@db:6380/1", "--timeout=1500ms");
    settings_write_values(&SAMPLE, &r.values, &out);
    assert_buf(&out, "channel-host = max.ru\n"
                     "redis-url = redis://:********@db:6380/1\n"
                     "password = ********\n"
                     "workers = 4\n"
                     "cache-size = 64MiB\n"
                     "timeout = 1500ms\n"
                     "level = low\n"
                     "ca-file = \n");
}

/* The line of `setting` when it is given as `word`. */
static void assert_line(const char *word, const char *expected)
{
    SCOPED_BUF(out);
    RUN_OK(word);
    buf_append_char(&out, '\n');
    settings_write_values(&SAMPLE, &r.values, &out);
    if (strstr(buf_c_str(&out), expected) == NULL)
        fail_msg("%s: no line %s in %s", word, expected, out.data);
}

SETTINGS_TEST(sizes_and_durations_are_shown_in_the_largest_exact_unit)
{
    EACH_PAIR (text, expected, {"--cache-size=0", "\ncache-size = 0\n"},
               {"--cache-size=1023", "\ncache-size = 1023\n"}, {"--cache-size=1024", "\ncache-size = 1KiB\n"},
               {"--cache-size=1025", "\ncache-size = 1025\n"}, {"--cache-size=1GiB", "\ncache-size = 1GiB\n"},
               {"--cache-size=2048GiB", "\ncache-size = 2048GiB\n"}, {"--timeout=10ms", "\ntimeout = 10ms\n"},
               {"--timeout=1000ms", "\ntimeout = 1s\n"}, {"--timeout=1m", "\ntimeout = 1m\n"},
               {"--timeout=59s", "\ntimeout = 59s\n"})
        assert_line(text, expected);
}

static void assert_url(const char *url, const char *shown)
{
    char word[128];
    char line[128];
    (void)snprintf(word, sizeof word, "--redis-url=%s", url);
    (void)snprintf(line, sizeof line, "\nredis-url = %s\n", shown);
    assert_line(word, line);
}

SETTINGS_TEST(password_with_any_characters_is_masked)
{
    EACH_PAIR (text, expected, {"redis://alice:s3@cr@et@db:6379/0", "redis://alice:********@db:6379/0"},
               {"redis://alice:s3:cr:et@db/0", "redis://alice:********@db/0"},
               {"redis://alice:s3/cr/et@db/0", "redis://alice:********@db/0"},
               {"redis://alice:s3?cr#et@db/0", "redis://alice:********@db/0"},
               {"redis://:@@db", "redis://:********@db"}, {"alice:s3cret@db", "alice:********@db"})
        assert_url(text, expected);
}

TEST_GROUP(open_dir, NULL)
