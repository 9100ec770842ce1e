/* Settings: help, check, what is refused, and which source wins. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static struct tempdir dir;

static int start(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tempdir_fini(&dir);
    return 0;
}

TEST_GROUP(start, end)

/* Runs channeld with up to three arguments and one variable; what it wrote is owned by the caller. */
static int run(const char *const *args, const char *variable, char **output, char **errors)
{
    struct process process;
    const char *const env[] = {variable, NULL};
    int status = server_run_tool(&process, &dir, "CHANNELD_BIN", args, env);
    *output = process_stdout(&process);
    *errors = process_stderr(&process);
    return status;
}

TEST_CASE(help_lists_every_setting)
{
    static const char *const settings[][2] = {
        {"CHANNELD_LISTEN", "--listen"},
        {"CHANNELD_ADMIN_LISTEN", "--admin-listen"},
        {"CHANNELD_BASE_PATH", "--base-path"},
        {"CHANNELD_REDIS_URL", "--redis-url"},
        {"CHANNELD_REDIS_PASSWORD", "--redis-password"},
        {"CHANNELD_REDIS_SENTINEL_PASSWORD", "--redis-sentinel-password"},
        {"CHANNELD_REDIS_PREFIX", "--redis-prefix"},
        {"CHANNELD_CHANNEL_HOST", "--channel-host"},
        {"CHANNELD_WEB_HOST", "--web-host"},
        {"CHANNELD_WORKERS", "--workers"},
        {"CHANNELD_STALE_LIMIT", "--stale-limit"},
        {"CHANNELD_REQUEST_TIMEOUT", "--request-timeout"},
        {"CHANNELD_WRITE_TIMEOUT", "--write-timeout"},
        {"CHANNELD_MAX_HEADER_SIZE", "--max-header-size"},
        {"CHANNELD_MAX_BODY_SIZE", "--max-body-size"},
        {"CHANNELD_HEADER_TIMEOUT", "--header-timeout"},
        {"CHANNELD_IDLE_TIMEOUT", "--idle-timeout"},
        {"CHANNELD_MAX_CONNECTIONS", "--max-connections"},
        {"CHANNELD_MAX_CONNECTION_AGE", "--max-connection-age"},
        {"CHANNELD_DRAIN_DELAY", "--drain-delay"},
        {"CHANNELD_DRAIN_TIMEOUT", "--drain-timeout"},
        {"CHANNELD_LOG_LEVEL", "--log-level"},
        {"CHANNELD_ACCESS_LOG", "--access-log"},
        {"CHANNELD_LOG_CLIENTS", "--log-clients"},
        {"CHANNELD_CORS_ORIGINS", "--cors-origins"},
        {"CHANNELD_TRUSTED_PROXIES", "--trusted-proxies"},
    };
    static const char *const args[] = {"--help", NULL};
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(run(args, NULL, &output, &errors), 0);
    assert_string_equal(errors, "");
    for (size_t i = 0; i < TEST_COUNT(settings); i++) {
        if (strstr(output, settings[i][0]) == NULL || strstr(output, settings[i][1]) == NULL)
            fail_msg("%s is not in the help", settings[i][0]);
    }
    free(output);
    free(errors);
}

TEST_CASE(version_is_printed)
{
    static const char *const args[] = {"--version", NULL};
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(run(args, NULL, &output, &errors), 0);
    assert_non_null(strstr(output, "channeld"));
    free(output);
    free(errors);
}

TEST_CASE(check_prints_what_is_in_force_with_secrets_masked)
{
    static const char *const args[] = {"--check", "--workers=3", NULL};
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(
        run(args, "CHANNELD_REDIS_URL=redis://someone:tOpSeCrEt@redis.example:7000/4", &output, &errors), 0);
    assert_null(strstr(output, "tOpSeCrEt"));
    assert_null(strstr(errors, "tOpSeCrEt"));
    assert_non_null(strstr(output, "redis.example:7000"));
    assert_non_null(strstr(output, "workers"));
    free(output);
    free(errors);
    assert_int_equal(run(args, "CHANNELD_REDIS_PASSWORD=tOpSeCrEt", &output, &errors), 0);
    assert_null(strstr(output, "tOpSeCrEt"));
    free(output);
    free(errors);
}

TEST_CASE(output_that_is_lost_is_a_failure)
{
    static const char *const words[] = {"--help", "--version", "--check"};
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        struct process process;
        char *command = text_printf("exec %s %s >/dev/full", process_require_env("CHANNELD_BIN"), words[i]);
        const char *const argv[] = {"sh", "-c", command, NULL};
        const struct process_spec spec = {.name = words[i] + 2, .dir = dir.path, .argv = argv};
        int status = process_run(&process, &spec);
        char *errors = process_stderr(&process);
        if (status != 1 || strstr(errors, "No space left on device") == NULL)
            fail_msg("%s: %d: %s", words[i], status, errors);
        free(errors);
        free(command);
    }
}

TEST_CASE(bad_values_are_refused_naming_the_setting)
{
    static const struct {
        const char *variable;
        const char *name; /* without prefix, as the flag has it */
    } bad[] = {
        {"CHANNELD_LISTEN=nonsense", "listen"},
        {"CHANNELD_LISTEN=127.0.0.1:99999", "listen"},
        {"CHANNELD_ADMIN_LISTEN=:x", "admin-listen"},
        {"CHANNELD_REDIS_URL=http://127.0.0.1", "redis-url"},
        {"CHANNELD_REDIS_URL=redis://127.0.0.1:6379/x", "redis-url"},
        {"CHANNELD_WORKERS=2000", "workers"},
        {"CHANNELD_WORKERS=many", "workers"},
        {"CHANNELD_WORKERS=-1", "workers"},
        {"CHANNELD_MAX_BODY_SIZE=64XB", "max-body-size"},
        {"CHANNELD_MAX_HEADER_SIZE=big", "max-header-size"},
        {"CHANNELD_STALE_LIMIT=30", "stale-limit"},
        {"CHANNELD_REQUEST_TIMEOUT=soon", "request-timeout"},
        {"CHANNELD_REQUEST_TIMEOUT=-1s", "request-timeout"},
        {"CHANNELD_DRAIN_DELAY=1y", "drain-delay"},
        {"CHANNELD_MAX_CONNECTIONS=0", "max-connections"},
        {"CHANNELD_REDIS_PREFIX=", "redis-prefix"},
        {"CHANNELD_CHANNEL_HOST=a/b", "channel-host"},
        {"CHANNELD_CORS_ORIGINS=nonsense", "cors-origins"},
        {"CHANNELD_CORS_ORIGINS=https://app.example/", "cors-origins"},
        {"CHANNELD_TRUSTED_PROXIES=proxy.example", "trusted-proxies"},
        {"CHANNELD_TRUSTED_PROXIES=10.0.0.1/8", "trusted-proxies"},
        {"CHANNELD_LOG_CLIENTS=yes", "log-clients"},
        {"CHANNELD_LOG_LEVEL=loud", "log-level"},
        {"CHANNELD_ACCESS_LOG=some", "access-log"},
        {"CHANNELD_REDIS_URL_FILE=/nonexistent/file", "redis-url"},
    };
    static const char *const args[] = {"--check", NULL};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char *output = NULL;
        char *errors = NULL;
        int status = run(args, bad[i].variable, &output, &errors);
        if (status != 2)
            fail_msg("%s: exit status %d", bad[i].variable, status);
        char *variable = text_printf("%.*s", (int)strcspn(bad[i].variable, "="), bad[i].variable);
        if (strstr(errors, bad[i].name) == NULL && strstr(errors, variable) == NULL)
            fail_msg("%s is not named: %s", variable, errors);
        free(variable);
        free(output);
        free(errors);
    }
}

TEST_CASE(bad_values_do_not_start_it)
{
    static const char *const args[] = {NULL};
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(run(args, "CHANNELD_WORKERS=many", &output, &errors), 2);
    free(output);
    free(errors);
}

TEST_CASE(unknown_flags_and_words_are_refused)
{
    static const char *const wrong[][3] = {{"--frobnicate", NULL}, {"--frobnicate=1", NULL},
                                           {"word", NULL},         {"--listen", NULL},
                                           {"-x", NULL},           {"--check", "word", NULL}};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        char *output = NULL;
        char *errors = NULL;
        int status = run(wrong[i], NULL, &output, &errors);
        if (status != 2)
            fail_msg("%s: exit status %d", wrong[i][0], status);
        assert_true(strlen(errors) > 0);
        free(output);
        free(errors);
    }
}

static void assert_check_shows(const char *const *args, const char *variable, const char *expected)
{
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(run(args, variable, &output, &errors), 0);
    if (strstr(output, expected) == NULL)
        fail_msg("no %s in %s", expected, output);
    free(output);
    free(errors);
}

TEST_CASE(flags_win_over_the_environment)
{
    static const char *const none[] = {"--check", NULL};
    static const char *const with_equals[] = {"--check", "--channel-host=flag.example", NULL};
    static const char *const with_value[] = {"--check", "--channel-host", "flag.example", NULL};
    assert_check_shows(none, "CHANNELD_CHANNEL_HOST=environment.example", "environment.example");
    assert_check_shows(with_equals, "CHANNELD_CHANNEL_HOST=environment.example", "flag.example");
    assert_check_shows(with_value, "CHANNELD_CHANNEL_HOST=environment.example", "flag.example");
}

TEST_CASE(a_flag_wins_over_a_bad_value_in_the_environment)
{
    static const char *const args[] = {"--check", "--workers=3", NULL};
    assert_check_shows(args, "CHANNELD_WORKERS=many", "workers = 3");
}

TEST_CASE(check_shows_the_effective_base_path)
{
    static const char *const args[] = {"--check", "--base-path", "v1/api", NULL};
    assert_check_shows(args, NULL, "base-path = /v1/api/\n");
}

TEST_CASE(an_error_names_the_flag_or_the_variable)
{
    static const char *const rows[][3] = {
        {"--listen=80a", NULL, "channeld: --listen: "},
        {"--redis-url=redis://h/0?rol=replica", NULL, "channeld: --redis-url: unknown option rol"},
        {"--check", "CHANNELD_LISTEN=80a", "channeld: CHANNELD_LISTEN: "},
        {"--check", "CHANNELD_REDIS_URL=redis+sentinel://h/m?rol=replica",
         "channeld: CHANNELD_REDIS_URL: unknown option rol"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *const args[] = {rows[i][0], NULL};
        char *output = NULL;
        char *errors = NULL;
        assert_int_equal(run(args, rows[i][1], &output, &errors), 2);
        if (strncmp(errors, rows[i][2], strlen(rows[i][2])) != 0)
            fail_msg("%s %s: %s", rows[i][0], rows[i][1] != NULL ? rows[i][1] : "", errors);
        free(output);
        free(errors);
    }
}

TEST_CASE(unknown_variables_are_named)
{
    static const char *const args[] = {"--check", NULL};
    static const char *const env[] = {"CHANNELD_CASH_SIZE=1GiB", "CHANNELD_SERVICE_HOST=10.0.0.1", NULL};
    char *output = NULL;
    char *errors = NULL;
    assert_int_equal(run(args, "CHANNELD_CASH_SIZE=1GiB", &output, &errors), 0);
    assert_string_equal(errors,
                        "channeld: warning: CHANNELD_CASH_SIZE: no such setting (CHANNELD_CACHE_SIZE?)\n");
    free(output);
    free(errors);
    assert_int_equal(run(args, "CHANNELD_PORT=tcp://10.0.0.1:8080", &output, &errors), 0);
    assert_string_equal(errors, "");
    free(output);
    free(errors);
    struct fixture *fixture = fixture_new(1, env);
    server_await_log(&fixture->server, "CHANNELD_CASH_SIZE: no such setting (CHANNELD_CACHE_SIZE?)");
    char *log = server_log(&fixture->server);
    assert_int_equal(text_count(log, "no such setting"), 1);
    free(log);
    fixture_free(fixture);
}

TEST_CASE(help_lists_the_exit_codes)
{
    static const char *const args[] = {"--help", NULL};
    static const char *const programs[] = {"CHANNELD_BIN", "CHANNELCTL_BIN"};
    for (size_t i = 0; i < TEST_COUNT(programs); i++) {
        struct process process;
        assert_int_equal(server_run_tool(&process, &dir, programs[i], args, NULL), 0);
        char *output = process_stdout(&process);
        assert_non_null(strstr(output, "\nExit codes: 0 "));
        free(output);
    }
}

TEST_CASE(url_can_come_from_a_file)
{
    static const char *const args[] = {"--check", NULL};
    char *path = text_printf("%s/url", dir.path);
    char *variable = text_printf("CHANNELD_REDIS_URL_FILE=%s", path);
    assert_true(text_write_file(path, "redis://from-a-file.example:6380/2\n"));
    assert_check_shows(args, variable, "from-a-file.example:6380");
    free(variable);
    free(path);
}
