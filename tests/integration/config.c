/* Settings: help, --check, what is refused, and which source has precedence. */

#include <stdlib.h>
#include <string.h>

#include "support/certs.h"
#include "support/fixture.h"

static struct tempdir dir;

static int start(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

TEST_GROUP(start, NULL)

/* One run of channeld, and what is expected of it. */
struct run {
    const char *args[8];  /* up to seven */
    const char *variable; /* of the environment, or NULL */
    int status;
    const char *output; /* is part of stdout, or NULL */
    const char *errors; /* stderr begins with it; "": is empty; NULL: anything */
    const char *secret; /* is in neither, or NULL */
};

static void expect(const struct run *run)
{
    struct process process;
    const char *const env[] = {run->variable, NULL};
    int status = server_run_tool(&process, &dir, "CHANNELD_BIN", run->args, env);
    AUTOFREE char *output = process_stdout(&process);
    AUTOFREE char *errors = process_stderr(&process);
    bool errors_fit = run->errors == NULL ||
                      (run->errors[0] == '\0' ? errors[0] == '\0' : strstr(errors, run->errors) == errors);
    bool shows_secret =
        run->secret != NULL && (strstr(output, run->secret) != NULL || strstr(errors, run->secret) != NULL);
    if (status != run->status || (run->output != NULL && strstr(output, run->output) == NULL) ||
        !errors_fit || shows_secret)
        fail_msg("%s %s: %d\n%s\n%s", run->args[0], run->variable, status, output, errors);
}

static void expect_all(const struct run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(&runs[i]);
}

TEST_CASE(help_and_version)
{
    static const char *const args[] = {"--help", NULL};
    struct process process;
    expect(&(struct run){{"--version"}, NULL, 0, "channeld", "", NULL});
    expect(&(struct run){{"--help"}, NULL, 0, "\nExit codes: 0 ", "", NULL});
    expect(&(struct run){{"--help"}, NULL, 0, "--trusted-proxies", "", NULL});
    assert_int_equal(server_run_tool(&process, &dir, "CHANNELCTL_BIN", args, NULL), 0);
    AUTOFREE char *output = process_stdout(&process);
    assert_non_null(strstr(output, "\nExit codes: 0 "));
}

TEST_CASE(check_prints_effective_settings_without_secrets)
{
    static const struct run runs[] = {
        {{"--check", "--workers=3"},
         "CHANNELD_REDIS_URL=redis://someone:tOpSeCrEt@redis.example:7000/4",
         0,
         "redis.example:7000",
         NULL,
         "tOpSeCrEt"},
        {{"--check"}, "CHANNELD_REDIS_PASSWORD=tOpSeCrEt", 0, "workers", NULL, "tOpSeCrEt"},
        {{"--check", "--base-path", "v1/api"}, NULL, 0, "base-path = /v1/api/\n", NULL, NULL},
    };
    expect_all(runs, TEST_COUNT(runs));
}

TEST_CASE(secrets_in_place_of_their_file_are_not_printed)
{
    static const struct run runs[] = {
        {{"--check"},
         "CHANNELD_REDIS_URL_FILE=redis://someone:tOpSeCrEt@redis.example:7000/4",
         2,
         NULL,
         "channeld: CHANNELD_REDIS_URL_FILE: cannot read the file: No such file or directory\n",
         "tOpSeCrEt"},
        {{"--check", "--redis-password-file=tOpSeCrEt"},
         NULL,
         2,
         NULL,
         "channeld: --redis-password-file: cannot read the file: No such file or directory\n",
         "tOpSeCrEt"},
        {{"--check", "--log-level-file=/nonexistent"},
         NULL,
         2,
         NULL,
         "channeld: --log-level-file: cannot read /nonexistent: No such file or directory\n",
         NULL},
    };
    expect_all(runs, TEST_COUNT(runs));
}

TEST_CASE(flags_have_precedence_over_the_environment)
{
    static const struct run runs[] = {
        {{"--check"}, "CHANNELD_CHANNEL_HOST=variable.example", 0, "variable.example", NULL, NULL},
        {{"--check", "--channel-host", "flag.example"},
         "CHANNELD_CHANNEL_HOST=variable.example",
         0,
         "flag.example",
         NULL,
         NULL},
        {{"--check", "--workers=3"}, "CHANNELD_WORKERS=many", 0, "workers = 3", NULL, NULL},
    };
    expect_all(runs, TEST_COUNT(runs));
}

TEST_CASE(url_can_come_from_a_file)
{
    AUTOFREE char *path = text_printf("%s/url", dir.path);
    AUTOFREE char *variable = text_printf("CHANNELD_REDIS_URL_FILE=%s", path);
    assert_true(text_write_file(path, "redis://from-a-file.example:6380/2\n"));
    expect(&(struct run){{"--check"}, variable, 0, "from-a-file.example:6380", NULL, NULL});
}

TEST_CASE(bad_values_are_refused_naming_the_variable)
{
    static const char *const bad[] = {"CHANNELD_LISTEN=nonsense",
                                      "CHANNELD_LISTEN=127.0.0.1:99999",
                                      "CHANNELD_ADMIN_LISTEN=:x",
                                      "CHANNELD_REDIS_URL=http://127.0.0.1",
                                      "CHANNELD_REDIS_URL=redis://127.0.0.1:6379/x",
                                      "CHANNELD_WORKERS=2000",
                                      "CHANNELD_WORKERS=-1",
                                      "CHANNELD_MAX_BODY_SIZE=64XB",
                                      "CHANNELD_MAX_HEADER_SIZE=big",
                                      "CHANNELD_STALE_LIMIT=30",
                                      "CHANNELD_REQUEST_TIMEOUT=soon",
                                      "CHANNELD_REQUEST_TIMEOUT=-1s",
                                      "CHANNELD_DRAIN_DELAY=1y",
                                      "CHANNELD_MAX_CONNECTIONS=0",
                                      "CHANNELD_REDIS_PREFIX=",
                                      "CHANNELD_CHANNEL_HOST=a/b",
                                      "CHANNELD_CORS_ORIGINS=nonsense",
                                      "CHANNELD_CORS_ORIGINS=https://app.example/",
                                      "CHANNELD_TRUSTED_PROXIES=proxy.example",
                                      "CHANNELD_TRUSTED_PROXIES=10.0.0.1/8",
                                      "CHANNELD_LOG_CLIENTS=yes",
                                      "CHANNELD_LOG_LEVEL=loud",
                                      "CHANNELD_ACCESS_LOG=some",
                                      "CHANNELD_REDIS_URL_FILE=/nonexistent/file"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        const char *named = text_temp("channeld: %.*s: ", (int)strcspn(bad[i], "="), bad[i]);
        expect(&(struct run){{"--check"}, bad[i], 2, NULL, named, NULL});
        expect(&(struct run){{NULL}, bad[i], 2, NULL, named, NULL});
    }
}

TEST_CASE(values_have_bounds_and_one_spelling)
{
    static const char *const taken[][3] = {
        {"--base-path", "/", "base-path = /\n"},
        {"--base-path", "", "base-path = /\n"},
        {"--base-path", "api", "base-path = /api/\n"},
        {"--base-path", "/a/b-c/v1.0_~", "base-path = /a/b-c/v1.0_~/\n"},
        {"--listen", "[::]:65535", "listen = [::]:65535\n"},
        {"--workers", "64", "workers = 64\n"},
        {"--request-timeout", "10ms", "request-timeout = 10ms\n"},
        {"--request-timeout", "10m", "request-timeout = 10m\n"},
        {"--stale-limit", "24h", "stale-limit = 24h\n"},
        {"--max-header-size", "1MiB", "max-header-size = 1MiB\n"},
        {"--max-body-size", "0", "max-body-size = 0\n"},
        {"--max-connections", "1000000", "max-connections = 1000000\n"},
        {"--access-log", "0.01%", "access-log = 0.01%\n"},
        {"--key-rate", "1000000/s,burst=1", "key-rate = 1000000/s,burst=1\n"},
        {"--cors-origins", "https://a.example,http://b.example:81", "cors-origins = https://a.example,http"},
        {"--redis-url", "unix:///run/redis.sock?db=3", "redis-url = unix:///run/redis.sock?db=3\n"},
    };
    static const char *const refused[][2] = {
        {"--base-path", "//"},
        {"--base-path", "/a b"},
        {"--base-path", "/a%20b"},
        {"--base-path", "/a\"b"},
        {"--workers", "1025"},
        {"--request-timeout", "9ms"},
        {"--stale-limit", "25h"},
        {"--max-header-size", "1023"},
        {"--max-connections", "1000001"},
        {"--access-log", "101%"},
        {"--key-rate", "1000001/s"},
        {"--key-rate", "1/s,burst=0"},
        {"--redis-url", "redis://h "},
        {"--redis-url", "redis://a,b:6379"},
        {"--redis-password", "hush\n"},
    };
    for (size_t i = 0; i < TEST_COUNT(taken); i++)
        expect(&(struct run){{"--check", taken[i][0], taken[i][1]}, NULL, 0, taken[i][2], "", NULL});
    for (size_t i = 0; i < TEST_COUNT(refused); i++)
        expect(&(struct run){{"--check", refused[i][0], refused[i][1]},
                             NULL,
                             2,
                             NULL,
                             text_temp("channeld: %s: ", refused[i][0]),
                             "hush"});
}

/* A start, with --check and without. */
static char *errors_of_start(const char *const *settings, bool check)
{
    struct process process;
    const char *args[8] = {check ? "--check" : "--log-level=error"};
    for (size_t i = 0; settings[i] != NULL; i++)
        args[1 + i] = settings[i];
    int status = server_run_tool(&process, &dir, "CHANNELD_BIN", args, NULL);
    char *errors = process_stderr(&process);
    if (status != 2)
        fail_msg("%s %s: %d: %s", args[0], args[1], status, errors);
    return errors;
}

/* What a start does not accept --check does not accept either, for the same reason. */
TEST_CASE(check_finds_what_a_start_would_find)
{
    struct certs_pair ca;
    struct certs_pair mine;
    certs_make_authority(&dir, "ca", &ca);
    certs_make(&dir, "mine", &ca, "DNS:mine", 1, &mine);
    const char *garbage = text_temp("%s/garbage", dir.path);
    assert_true(text_write_file(garbage, "no certificate\n"));
    static const char tls[] = "--redis-url=rediss://127.0.0.1:1";
    const char *cert = text_temp("--redis-cert-file=%s", mine.cert);
    const struct {
        const char *settings[6];
        const char *errors; /* how the message begins */
    } rows[] = {
        {{tls, "--redis-ca-file=/nonexistent"}, "--redis-ca-file: cannot use /nonexistent: "},
        {{tls, text_temp("--redis-ca-file=%s", garbage)}, "--redis-ca-file: cannot use "},
        {{tls, text_temp("--redis-ca-file=%s", dir.path)}, "--redis-ca-file: cannot use "},
        {{tls, "--redis-cert-file=/nonexistent", text_temp("--redis-key-file=%s", mine.key)},
         "--redis-cert-file: cannot use /nonexistent: "},
        {{tls, cert, "--redis-key-file=/nonexistent"}, "--redis-key-file: cannot use /nonexistent: "},
        {{tls, cert, text_temp("--redis-key-file=%s", ca.key)}, "--redis-key-file: cannot use "},
        {{tls, cert}, "--redis-cert-file: a client certificate needs its key"},
        {{"--redis-password-file=/nonexistent"}, "--redis-password-file: cannot read the file: "},
        {{"--redis-sentinel-password-file=/nonexistent"}, "--redis-sentinel-password-file: cannot read "},
        {{"--redis-url-file", garbage}, "--redis-url-file: "},
        {{"--redis-url=redis://user@127.0.0.1"}, "--redis-url: a user needs a password"},
        {{"--redis-url=redis+cluster://127.0.0.1"},
         "CHANNELD_REDIS_PREFIX: a Redis Cluster needs a hash tag"},
        {{"--listen=127.0.0.1:18080", "--admin-listen=127.0.0.1:18080"},
         "--admin-listen: the API listens there"},
        {{"--listen=:18080", "--admin-listen=127.0.0.1:18080"}, "--admin-listen: the API listens there"},
        {{"--listen=127.0.0.1:8081"}, "CHANNELD_ADMIN_LISTEN: the API listens there"},
        {{"--key-rate=100"}, "--key-rate: "},
        {{"--cors-origins=https://app.example,"}, "--cors-origins: "},
        {{"--trusted-proxies=10.0.0.0/8,"}, "--trusted-proxies: "},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTOFREE char *checked = errors_of_start(rows[i].settings, true);
        AUTOFREE char *started = errors_of_start(rows[i].settings, false);
        assert_string_equal(checked, started);
        if (strstr(checked, rows[i].errors) != checked + strlen("channeld: "))
            fail_msg("%s instead of %s", checked, rows[i].errors);
    }
}

TEST_CASE(check_neither_listens_nor_connects)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, NULL);
    AUTOFREE char *listen = text_printf("--listen=127.0.0.1:%d", fixture->server.port);
    expect(&(struct run){
        {"--check", listen, "--redis-url=redis://127.0.0.1:1"}, NULL, 0, "listen = ", "", NULL});
}

TEST_CASE(errors_name_the_flag_or_the_variable)
{
    static const struct run runs[] = {
        {{"--listen=80a"}, NULL, 2, NULL, "channeld: --listen: ", NULL},
        {{"--redis-url=redis://h/0?rol=replica"},
         NULL,
         2,
         NULL,
         "channeld: --redis-url: unknown option rol",
         NULL},
        {{"--check"}, "CHANNELD_LISTEN=80a", 2, NULL, "channeld: CHANNELD_LISTEN: ", NULL},
        {{"--check"},
         "CHANNELD_REDIS_URL=redis+sentinel://h/m?rol=replica",
         2,
         NULL,
         "channeld: CHANNELD_REDIS_URL: unknown option rol",
         NULL},
        {{NULL}, "CHANNELD_WORKERS=many", 2, NULL, "channeld: CHANNELD_WORKERS: ", NULL},
        {{"--frobnicate"}, NULL, 2, NULL, "channeld: ", NULL},
        {{"--frobnicate=1"}, NULL, 2, NULL, "channeld: ", NULL},
        {{"word"}, NULL, 2, NULL, "channeld: ", NULL},
        {{"--listen"}, NULL, 2, NULL, "channeld: ", NULL},
        {{"-x"}, NULL, 2, NULL, "channeld: ", NULL},
        {{"--check", "word"}, NULL, 2, NULL, "channeld: ", NULL},
    };
    expect_all(runs, TEST_COUNT(runs));
}

TEST_CASE(unknown_variables_are_named)
{
    static const char *const env[] = {"CHANNELD_CASH_SIZE=1GiB", "CHANNELD_SERVICE_HOST=10.0.0.1", NULL};
    static const struct run runs[] = {
        {{"--check"},
         "CHANNELD_CASH_SIZE=1GiB",
         0,
         NULL,
         "channeld: warning: CHANNELD_CASH_SIZE: no such setting\n",
         NULL},
        {{"--check"}, "CHANNELD_PORT=tcp://10.0.0.1:8080", 0, NULL, "", NULL},
    };
    expect_all(runs, TEST_COUNT(runs));
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, env);
    server_await_log(&fixture->server, "CHANNELD_CASH_SIZE: no such setting");
    server_expect_log(&fixture->server, "no such setting", 1);
}

TEST_CASE(output_that_is_lost_is_a_failure)
{
    static const char *const words[] = {"--help", "--version", "--check"};
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        struct process process;
        const char *const argv[] = {
            "sh", "-c", text_temp("exec %s %s >/dev/full", process_require_env("CHANNELD_BIN"), words[i]),
            NULL};
        const struct process_spec spec = {.name = words[i] + 2, .dir = dir.path, .argv = argv};
        int status = process_run(&process, &spec);
        AUTOFREE char *errors = process_stderr(&process);
        if (status != 1 || strstr(errors, "No space left on device") == NULL)
            fail_msg("%s: %d: %s", words[i], status, errors);
    }
}
