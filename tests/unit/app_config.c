/* The settings of channeld: defaults, where values come from, what is refused and how it is named. */
#include "app/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

enum { WORDS = 12 };

struct reading {
    struct config config;
    struct redis_config *redis; /* see endpoint() */
    struct config_values last;  /* of Redis */
    struct buf error;
    int result;
};

static struct reading r; /* the last one */

static int reading_fini(void **state)
{
    (void)state;
    redis_config_unref(r.redis);
    config_fini_values(&r.last);
    config_fini(&r.config);
    buf_fini(&r.error);
    r = (struct reading){.error = BUF_INIT};
    return 0;
}

static void read_words(const char *const *words)
{
    char *argv[WORDS] = {NULL};
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        assert_true(argc + 1 < WORDS);
        argv[argc] = (char *)(uintptr_t)words[argc]; /* not written to */
    }
    (void)reading_fini(NULL);
    r.result = config_read(&r.config, argc, argv, &r.error);
}

#define READ(...)    read_words((const char *const[]){"channeld", __VA_ARGS__, NULL})
#define READ_PLAIN() read_words((const char *const[]){"channeld", NULL})

/* The outcome of reading the words. */
#define OUTCOME(...) (READ(__VA_ARGS__), r.result)

#define CONFIG_TEST(name) TEST_CASE_WITH(name, NULL, reading_fini)

/* The setting is refused as flag and as variable, by a message that names it. */
static void expect_refused(const char *flag, const char *value)
{
    char variable[64] = "CHANNELD_";
    for (size_t i = 2; i <= strlen(flag); i++)
        variable[strlen("CHANNELD_") + i - 2] = (char)(flag[i] == '-' ? '_' : toupper(flag[i]));
    READ(flag, value);
    const char *message = buf_c_str(&r.error);
    if (r.result != -EINVAL || strstr(message, flag) != message || strstr(message, variable) != NULL)
        fail_msg("%s %s: %d, \"%s\"", flag, value, r.result, message);
    assert_int_equal(setenv(variable, value, 1), 0);
    READ_PLAIN();
    message = buf_c_str(&r.error);
    assert_int_equal(unsetenv(variable), 0);
    if (r.result != -EINVAL || strstr(message, variable) != message)
        fail_msg("%s=%s: %d, \"%s\"", variable, value, r.result, message);
}

/* Where to connect, by the settings that were read. */
static const struct redis_endpoint *endpoint(void)
{
    redis_config_unref(r.redis);
    r.redis = NULL;
    assert_int_equal(config_read_redis(&r.config, &r.last, 1, &r.redis, &r.error), 0);
    return redis_config_endpoint(r.redis);
}

static void expect_taken(const char *flag, const char *value)
{
    READ(flag, value);
    if (r.result != CONFIG_RUN)
        fail_msg("%s %s: %s", flag, value, buf_c_str(&r.error));
}

CONFIG_TEST(defaults_are_as_documented)
{
    READ_PLAIN();
    assert_int_equal(r.result, CONFIG_RUN);
    const struct config *c = &r.config;
    const struct config_values *v = &c->values;
    assert_string_equal(v->listen, ":8080");
    assert_int_equal(addr_port(&c->listen), 8080);
    assert_int_equal(addr_port(&c->admin_listen), 8081);
    assert_string_equal(c->base_path, "/api/");
    assert_string_equal(endpoint()->host, "127.0.0.1");
    assert_int_equal(endpoint()->port, 6379);
    assert_int_equal(endpoint()->db, 0);
    assert_null(endpoint()->password);
    assert_span(keyspace_prefix(&c->keyspace), "channels:");
    assert_span(c->hosts.channel_host, "max.ru");
    assert_span(c->hosts.web_host, "web.max.ru");
    assert_true(c->workers >= 1);
    assert_int_equal(v->request_timeout, 2000);
    assert_int_equal(v->stale_limit, 30000);
    assert_int_equal(v->tracking, CONFIG_TRACKING_KEYS);
    assert_int_equal(v->header_timeout, 10000);
    assert_int_equal(v->idle_timeout, 75000);
    assert_int_equal(v->max_header_size, 16 * 1024);
    assert_int_equal(v->max_body_size, 64 * 1024);
    assert_int_equal(v->max_connections, 10000);
    assert_int_equal(v->drain_delay, 5000);
    assert_int_equal(v->drain_timeout, 20000);
    assert_int_equal(config_log_level(v), LOG_INFO);
    assert_string_equal(v->log.access, "errors");
    assert_string_equal(v->cors_origins, "");
    assert_int_equal(c->key_rate.requests, 0);
}

CONFIG_TEST(flags_win_over_the_environment_and_that_over_the_defaults)
{
    assert_int_equal(setenv("CHANNELD_LISTEN", "127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("CHANNELD_WORKERS", "7", 1), 0);
    assert_int_equal(OUTCOME("--workers", "3"), CONFIG_RUN);
    assert_int_equal(r.config.workers, 3);
    assert_int_equal(addr_port(&r.config.listen), 1);
    assert_int_equal(addr_port(&r.config.admin_listen), 8081);
    assert_int_equal(unsetenv("CHANNELD_LISTEN"), 0);
    assert_int_equal(unsetenv("CHANNELD_WORKERS"), 0);
}

CONFIG_TEST(base_path_begins_and_ends_with_a_slash)
{
    EACH_PAIR (text, expected, {"/", "/"}, {"", "/"}, {"api", "/api/"}, {"/api", "/api/"}, {"api/", "/api/"},
               {"/api/", "/api/"}, {"/a/b-c/v1.0_~", "/a/b-c/v1.0_~/"}) {
        assert_int_equal(OUTCOME("--base-path", text), CONFIG_RUN);
        assert_string_equal(r.config.base_path, expected);
        assert_string_equal(r.config.values.base_path, expected); /* which --check shows */
    }
    EACH_TEXT (text, "//", "/a//b", "/a b", "/a?b", "/a#b", "/a%20b", "/\xC3\xA9", "/a\"b", "/a\\b", "/a\nb")
        expect_refused("--base-path", text);
}

CONFIG_TEST(base_path_with_its_slashes_has_a_longest_length)
{
    for (size_t len = CONFIG_BASE_PATH_MAX - 3; len <= CONFIG_BASE_PATH_MAX - 1; len++) {
        char *path = text_repeat('a', len);
        if (len + 2 <= CONFIG_BASE_PATH_MAX)
            expect_taken("--base-path", path);
        else
            expect_refused("--base-path", path);
        free(path);
    }
}

CONFIG_TEST(bad_values_are_named)
{
    EACH_PAIR (flag, value, {"--listen", "8080"}, {"--listen", "localhost:8080"}, {"--listen", "127.0.0.1:0"},
               {"--listen", "127.0.0.1:65536"}, {"--admin-listen", ""}, {"--redis-url", "http://127.0.0.1"},
               {"--redis-url", "redis://"}, {"--redis-url", "redis://h:0"}, {"--redis-url", "redis://h/x"},
               {"--redis-cert-file", "/cert-without-key.pem"}, {"--redis-prefix", ""},
               {"--redis-prefix", "a b"}, {"--channel-host", ""}, {"--channel-host", "https://max.ru"},
               {"--web-host", "web.max.ru:443"}, {"--workers", "-1"}, {"--workers", "1025"},
               {"--workers", "two"}, {"--request-timeout", "9ms"}, {"--request-timeout", "601s"},
               {"--request-timeout", "2"}, {"--stale-limit", "25h"}, {"--stale-keys-limit", "soon"},
               {"--header-timeout", "99ms"}, {"--idle-timeout", "0"}, {"--write-timeout", "-1s"},
               {"--max-header-size", "1023"}, {"--max-header-size", "2MiB"}, {"--max-body-size", "1GB"},
               {"--max-connections", "0"}, {"--max-connection-age", "25h"}, {"--max-connection-age", "never"},
               {"--drain-delay", "soon"}, {"--drain-timeout", ""}, {"--log-level", "INFO"},
               {"--access-log", "some"}, {"--access-log", "0%"}, {"--access-log", "100.01%"},
               {"--tracking", "on"}, {"--core-dumps", "yes"}, {"--cors-origins", "example.org"})
        expect_refused(flag, value);
}

CONFIG_TEST(values_at_the_limits_are_accepted)
{
    EACH_PAIR (flag, value, {"--listen", "[::]:65535"}, {"--listen", ":1"}, {"--workers", "1024"},
               {"--workers", "0"}, {"--request-timeout", "10ms"}, {"--request-timeout", "10m"},
               {"--stale-limit", "0"}, {"--stale-limit", "24h"}, {"--max-header-size", "1024"},
               {"--max-header-size", "1MiB"}, {"--max-body-size", "0"}, {"--max-body-size", "1GiB"},
               {"--max-connections", "1"}, {"--max-connection-age", "0"}, {"--max-connection-age", "24h"},
               {"--max-connections", "1000000"}, {"--drain-delay", "0"}, {"--drain-timeout", "0"},
               {"--log-level", "error"}, {"--log-level", "warn"}, {"--log-level", "debug"},
               {"--core-dumps", "on"}, {"--access-log", "off"}, {"--tracking", "keys"},
               {"--tracking", "broadcast"}, {"--access-log", "all"}, {"--access-log", "0.01%"},
               {"--access-log", "100%"}, {"--cors-origins", "*"},
               {"--cors-origins", "https://a.example,http://b.example:81"},
               {"--redis-url", "unix:///run/redis.sock?db=3"}, {"--redis-url", "rediss://user:pw@h:1/2"})
        expect_taken(flag, value);
}

CONFIG_TEST(key_rate_is_a_policy)
{
    READ("--key-rate", "6000/m,burst=200");
    assert_int_equal(r.result, CONFIG_RUN);
    assert_int_equal(r.config.key_rate.requests, 6000);
    assert_int_equal(r.config.key_rate.window_s, 60);
    assert_int_equal(r.config.key_rate.burst, 200);
    EACH_TEXT (text, "1/h", "1000000/s", "1/s,burst=1", "1/s,burst=1000000", "")
        expect_taken("--key-rate", text);
    EACH_TEXT (text, "0/s", "1000001/s", "1/s,burst=0", "1/s,burst=1000001", "100", "100/d", "off")
        expect_refused("--key-rate", text);
}

CONFIG_TEST(hosts_are_kept_in_lower_case)
{
    assert_int_equal(OUTCOME("--channel-host", "MAX.Example", "--web-host=Web.MAX.Example"), CONFIG_RUN);
    assert_span(r.config.hosts.channel_host, "max.example");
    assert_span(r.config.hosts.web_host, "web.max.example");
}

CONFIG_TEST(secrets_come_from_files_and_are_never_shown)
{
    struct tempdir dir;
    SCOPED_BUF(out);
    tempdir_init(&dir);
    char *path = text_printf("%s/url", dir.path);
    assert_true(text_write_file(path, "redis://user:hush1@127.0.0.1:6380/2\n"));
    assert_int_equal(OUTCOME("--redis-url-file", path, "--redis-password", "hush2", "--check"), CONFIG_CHECK);
    assert_int_equal(endpoint()->port, 6380);
    assert_string_equal(endpoint()->password, "hush1");
    config_write_values(&r.config, &out);
    assert_non_null(strstr(buf_c_str(&out), "redis-url = redis://user:********@127.0.0.1:6380/2\n"));
    assert_non_null(strstr(buf_c_str(&out), "redis-password = ********\n"));
    assert_null(strstr(buf_c_str(&out), "hush"));
    free(path);
    tempdir_fini(&dir);
}

/* Of the log no file belongs to Redis, and the other way round. */
CONFIG_TEST(settings_of_the_log_come_from_files)
{
    struct config_values now = {0};
    struct tempdir dir;
    int share = 0;
    tempdir_init(&dir);
    AUTOFREE char *level = text_printf("%s/level", dir.path);
    AUTOFREE char *access = text_printf("%s/access", dir.path);
    AUTOFREE char *password = text_printf("%s/password", dir.path);
    assert_true(text_write_file(level, "debug\n") && text_write_file(access, "2.5%\n") &&
                text_write_file(password, "hush"));
    assert_int_equal(
        OUTCOME("--log-level-file", level, "--access-log-file", access, "--redis-password-file", password),
        CONFIG_RUN);
    assert_int_equal(r.config.redis_file_count, 1);
    assert_int_equal(unlink(password), 0);
    assert_true(text_write_file(access, "off"));
    assert_int_equal(config_read_log(&r.config, &r.config.values, &now, &share, &r.error), 0);
    assert_int_equal(config_log_level(&now), LOG_DEBUG);
    assert_int_equal(share, ACCESS_LOG_OFF);
    config_fini_values(&now);
    assert_true(text_write_file(password, "hush") && text_write_file(access, "some"));
    assert_string_equal(endpoint()->password, "hush");
    now = (struct config_values){0};
    assert_int_equal(config_read_log(&r.config, &r.config.values, &now, &share, &r.error), -EINVAL);
    assert_string_equal(buf_c_str(&r.error), "--access-log-file: off, errors, all or a share from 0.01% to "
                                             "100% is expected");
    config_fini_values(&now);
    tempdir_fini(&dir);
}

CONFIG_TEST(error_about_a_url_does_not_show_its_password)
{
    assert_int_equal(OUTCOME("--redis-url", "redis://user:hush@host:port/0"), -EINVAL);
    assert_null(strstr(buf_c_str(&r.error), "hush"));
}

/* No name would be found, and no server would accept the password. */
CONFIG_TEST(check_refuses_blanks_around_settings_of_redis)
{
    static const char *const rows[][3] = {
        {"--redis-url", "redis://host ", "--redis-url: ends with a blank or a line end"},
        {"--redis-url", "redis://host\n", "--redis-url: contains a line end"},
        {"--redis-url", "redis://a,b:6379",
         "--redis-url: several hosts need redis+sentinel:// or redis+cluster://"},
        {"--redis-password", "hush\n", "--redis-password: contains a line end"},
        {"--redis-sentinel-password", "hush\r", "--redis-sentinel-password: contains a line end"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(OUTCOME("--check", rows[i][0], rows[i][1]), -EINVAL);
        assert_string_equal(buf_c_str(&r.error), rows[i][2]);
    }
}

CONFIG_TEST(password_setting_applies_without_one_in_the_url)
{
    assert_int_equal(OUTCOME("--redis-url", "redis://host", "--redis-password", "secret"), CONFIG_RUN);
    assert_string_equal(endpoint()->password, "secret");
    assert_string_equal(endpoint()->user, "default");
}

CONFIG_TEST(command_line_selects_the_outcome)
{
    assert_int_equal(OUTCOME("--check"), CONFIG_CHECK);
    assert_int_equal(OUTCOME("--probe", "--admin-listen", "[::1]:9000"), CONFIG_PROBE);
    assert_int_equal(addr_port(&r.config.admin_listen), 9000);
    assert_int_equal(OUTCOME("--version", "--check"), CONFIG_VERSION);
    assert_int_equal(OUTCOME("--listen", "nonsense", "--help"), CONFIG_HELP);
    assert_int_equal(OUTCOME("--listen", "nonsense", "-h"), CONFIG_HELP);
    assert_int_equal(OUTCOME("--check", "--listen", "nonsense"), -EINVAL);
}

/* A stray word may be a URL with a password. */
CONFIG_TEST(unknown_flags_are_named_and_stray_words_are_not)
{
    assert_int_equal(OUTCOME("--bogus", "1"), -EINVAL);
    assert_non_null(strstr(buf_c_str(&r.error), "--bogus"));
    assert_int_equal(OUTCOME("stray"), -EINVAL);
    assert_string_equal(buf_c_str(&r.error), "unexpected argument (see --help)");
    assert_int_equal(OUTCOME("--workers"), -EINVAL);
    assert_non_null(strstr(buf_c_str(&r.error), "--workers"));
}

CONFIG_TEST(help_lists_every_setting_that_check_prints)
{
    SCOPED_BUF(help);
    SCOPED_BUF(values);
    assert_int_equal(OUTCOME("--check"), CONFIG_CHECK);
    usage_write_help(&config_usage, USAGE_ALL, &help);
    config_write_values(&r.config, &values);
    char *rest = NULL;
    char *copy = strdup(buf_c_str(&values));
    int count = 0;
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char flag[64];
        (void)snprintf(flag, sizeof flag, "--%.*s ", (int)strcspn(line, " "), line);
        if (strstr(buf_c_str(&help), flag) == NULL)
            fail_msg("--help does not tell of %s", flag);
        count++;
    }
    assert_true(count > 20);
    free(copy);
}

/* None of the test runner's own settings may be seen. */
static int clear_environment(void **state)
{
    (void)state;
    return clearenv();
}

TEST_GROUP(clear_environment, NULL)
