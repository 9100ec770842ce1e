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
