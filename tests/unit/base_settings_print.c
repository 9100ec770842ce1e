/* `--help` and `--check`: everything in the table is there, and no secret is. */
#include "unit/settings.h"

TEST(help_tells_flag_variable_file_help_and_default)
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
                     "      Patience [2s]\n");
    buf_fini(&out);
}

TEST(values_are_shown_in_the_notation_they_are_given_in)
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

TEST(an_empty_secret_shows_as_empty)
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
static void assert_line(const char *word, const char *pending)
{
    struct run r;
    struct buf out = BUF_INIT;
    RUN(&r, word);
    assert_int_equal(r.result, 0);
    buf_append_char(&out, '\n');
    settings_write_values(&SAMPLE, &r.values, &out);
    if (strstr(buf_c_str(&out), pending) == NULL)
        fail_msg("%s: no line %s in %s", word, pending, out.data);
    buf_fini(&out);
    run_fini(&r);
}

TEST(sizes_and_durations_are_shown_in_the_largest_exact_unit)
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

TEST(urls_without_password_are_shown_as_they_are)
{
    assert_url("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0");
    assert_url("redis://[::1]:6379/0", "redis://[::1]:6379/0");
    assert_url("redis://alice@db/0", "redis://alice@db/0");
    assert_url("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1");
    assert_url("", "");
    assert_url("nonsense", "nonsense");
}

TEST(the_password_of_a_url_is_masked)
{
    assert_url("redis://alice:s3cret@db:6379/0", "redis://alice:********@db:6379/0");
    assert_url("rediss://:s3cret@db/0", "rediss://:********@db/0");
    assert_url("redis://alice:@db/0", "redis://alice:********@db/0");
    assert_url("unix://alice:s3cret@/run/redis.sock", "unix://alice:********@/run/redis.sock");
    assert_url("redis://:s3cret@[::1]:6379", "redis://:********@[::1]:6379");
}

TEST(a_password_is_masked_whole_whatever_is_in_it)
{
    assert_url("redis://alice:s3@cr@et@db:6379/0", "redis://alice:********@db:6379/0");
    assert_url("redis://alice:s3:cr:et@db/0", "redis://alice:********@db/0");
    assert_url("redis://alice:s3/cr/et@db/0", "redis://alice:********@db/0");
    assert_url("redis://alice:s3?cr#et@db/0", "redis://alice:********@db/0");
    assert_url("redis://:@@db", "redis://:********@db");
    assert_url("alice:s3cret@db", "alice:********@db");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(help_tells_flag_variable_file_help_and_default),
        CLEAN(values_are_shown_in_the_notation_they_are_given_in),
        CLEAN(an_empty_secret_shows_as_empty),
        CLEAN(sizes_and_durations_are_shown_in_the_largest_exact_unit),
        CLEAN(urls_without_password_are_shown_as_they_are),
        CLEAN(the_password_of_a_url_is_masked),
        CLEAN(a_password_is_masked_whole_whatever_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
