/* The program under test as a child process. */

#include "support/server.h"

#include <errno.h>
#include <float.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/http.h"
#include "support/net.h"
#include "support/recording.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { SERVER_ARGS_MAX = 32 };

static void server_report(struct server *server)
{
    AUTOFREE char *log = process_stdout(&server->process);
    AUTOFREE char *errors = process_stderr(&server->process);
    print_error("channeld's stdout:\n%schanneld's stderr:\n%s", log, errors);
}

static bool server_is_listening(void *arg)
{
    struct server *server = arg;
    return !process_is_running(&server->process) ||
           (net_is_listening(server->port) && server_admin_status(server, "/livez") == 200);
}

static bool server_is_ready(void *arg)
{
    struct server *server = arg;
    return !process_is_running(&server->process) || server_admin_status(server, "/readyz") == 200;
}

/* The command line: the words of TEST_WRAPPER (cut in place), then the program. */
static void server_build_argv(char *wrapper, const char *program, const char *const *args, const char **argv)
{
    size_t used = 0;
    char *rest = NULL;
    for (char *word = strtok_r(wrapper, " ", &rest); word != NULL && used < SERVER_ARGS_MAX / 2;
         word = strtok_r(NULL, " ", &rest))
        argv[used++] = word;
    argv[used++] = program;
    for (size_t i = 0; args != NULL && args[i] != NULL && used < SERVER_ARGS_MAX - 1; i++)
        argv[used++] = args[i];
    argv[used] = NULL;
}

static void server_launch(struct server *server, const char *const *env)
{
    const char *argv[SERVER_ARGS_MAX] = {NULL};
    const char *wrapper = getenv("TEST_WRAPPER");
    AUTOFREE char *words = text_printf("%s", wrapper != NULL ? wrapper : "");
    server_build_argv(words, process_require_env("CHANNELD_BIN"), NULL, argv);
    struct process_spec spec = {.name = "channeld", .dir = server->dir.path, .argv = argv, .env = env};
    process_start(&server->process, &spec);
}

/* The given settings first, so that they win over the harness' own. Owned, and so are its last entries. */
static const char **server_environment(struct server *server, const struct server_spec *spec, char *own[4])
{
    size_t given = 0;
    while (spec->env != NULL && spec->env[given] != NULL)
        given++;
    const char **env = calloc(given + 7, sizeof *env);
    if (env == NULL)
        abort();
    for (size_t i = 0; i < given; i++)
        env[i] = spec->env[i];
    own[0] = text_printf("CHANNELD_LISTEN=127.0.0.1:%d", server->port);
    own[1] = text_printf("CHANNELD_ADMIN_LISTEN=127.0.0.1:%d", server->admin_port);
    own[2] = text_printf("CHANNELD_WORKERS=2");
    own[3] = spec->redis_url != NULL ? text_printf("CHANNELD_REDIS_URL=%s", spec->redis_url) : NULL;
    for (size_t i = 0; i < 4 && own[i] != NULL; i++)
        env[given++] = own[i];
    env[given++] = "CHANNELD_DRAIN_DELAY=0s";
    if (getenv("TEST_BROADCAST") != NULL)
        env[given] = "CHANNELD_TRACKING=broadcast";
    return env;
}

/* The value of a setting among the given ones, or NULL. */
static const char *server_setting(const struct server_spec *spec, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; spec->env != NULL && spec->env[i] != NULL; i++) {
        if (strncmp(spec->env[i], name, length) == 0 && spec->env[i][length] == '=')
            return spec->env[i] + length + 1;
    }
    return NULL;
}

static void server_record(const struct server *server, const struct server_spec *spec)
{
    const char *listen = server_setting(spec, "CHANNELD_LISTEN");
    const char *admin = server_setting(spec, "CHANNELD_ADMIN_LISTEN");
    const char *port = listen != NULL ? strrchr(listen, ':') : NULL;
    if (listen != NULL && admin != NULL && strcmp(listen, admin) == 0)
        return; /* a passed socket is the listener */
    recording_add_listener(port != NULL ? (int)strtol(port + 1, NULL, 10) : server->port,
                           server_setting(spec, "CHANNELD_BASE_PATH"));
}

void server_start(struct server *server, const struct server_spec *spec)
{
    char *own[4];
    memset(server, 0, sizeof *server);
    tempdir_init(&server->dir);
    server->port = net_reserve_port();
    server->admin_port = net_reserve_port();
    server_record(server, spec);
    const char **env = server_environment(server, spec, own);
    server_launch(server, env);
    for (size_t i = 0; i < TEST_COUNT(own); i++)
        free(own[i]);
    free(env);
    if (spec->wait == SERVER_WAIT_NOTHING)
        return;
    bool (*started)(void *) = spec->wait == SERVER_WAIT_READY ? server_is_ready : server_is_listening;
    if (wait_until(started, server, WAIT_DEADLINE_MS) && process_is_running(&server->process))
        return;
    server_report(server);
    server_kill(server);
    fail_msg("channeld does not start");
}

void server_expect_exit(struct server *server, int status)
{
    int ended = process_wait(&server->process, WAIT_DEADLINE_MS);
    if (ended == status)
        return;
    server_report(server);
    server_kill(server);
    fail_msg("channeld ended with %d, expected %d", ended, status);
}

void server_stop(struct server *server)
{
    process_signal(&server->process, SIGTERM);
    server_expect_exit(server, 0);
    tempdir_fini(&server->dir);
}

void server_kill(struct server *server)
{
    process_kill(&server->process);
    tempdir_fini(&server->dir);
}

int server_admin_status(struct server *server, const char *path)
{
    struct http_response response;
    int error = http_try(server->admin_port, "GET", path, "Connection: close\r\n", &response);
    if (error != 0)
        return error;
    int status = response.status;
    http_response_free(&response);
    return status;
}

struct admin_expectation {
    struct server *server;
    const char *path;
    int status;
};

static bool server_has_admin_status(void *arg)
{
    struct admin_expectation *expected = arg;
    return server_admin_status(expected->server, expected->path) == expected->status;
}

void server_await_admin(struct server *server, const char *path, int status)
{
    struct admin_expectation expected = {.server = server, .path = path, .status = status};
    if (wait_until(server_has_admin_status, &expected, WAIT_DEADLINE_MS))
        return;
    server_report(server);
    fail_msg("%s does not become %d, it is %d", path, status, server_admin_status(server, path));
}

/* One line of the exposition format: "name value" or "name{labels} value". */
static double server_sample(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || (line[length] != ' ' && line[length] != '{'))
        return 0;
    const char *value = line[length] == '{' ? strstr(line, "} ") : line + length;
    return value != NULL ? strtod(value + 1, NULL) : 0;
}

char *server_metrics(struct server *server)
{
    struct http_response response;
    http_get(server->admin_port, "/metrics", NULL, &response);
    assert_int_equal(response.status, 200);
    char *text = text_printf("%s", response.body);
    http_response_free(&response);
    return text;
}

double server_metric_in(const char *metrics, const char *name)
{
    double sum = 0;
    for (const char *line = metrics; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        sum += server_sample(line, name);
    }
    return sum;
}

double server_metric(struct server *server, const char *name)
{
    AUTOFREE char *metrics = server_metrics(server);
    return server_metric_in(metrics, name);
}

struct metric_expectation {
    struct server *server;
    const char *name;
    double at_least;
    double at_most;
};

static bool server_has_metric(void *arg)
{
    struct metric_expectation *expected = arg;
    double value = server_metric(expected->server, expected->name);
    return value >= expected->at_least && value <= expected->at_most;
}

void server_await_metric(struct server *server, const char *name, double at_least)
{
    struct metric_expectation expected = {server, name, at_least, DBL_MAX};
    if (!wait_until_politely(server_has_metric, &expected, WAIT_DEADLINE_MS))
        fail_msg("%s is %g, expected %g", name, server_metric(server, name), at_least);
}

void server_await_metric_below(struct server *server, const char *name, double at_most)
{
    struct metric_expectation expected = {server, name, -DBL_MAX, at_most};
    if (!wait_until_politely(server_has_metric, &expected, WAIT_DEADLINE_MS))
        fail_msg("%s is %g, expected at most %g", name, server_metric(server, name), at_most);
}

char *server_log(struct server *server)
{
    return process_stdout(&server->process);
}

struct log_expectation {
    struct server *server;
    const char *text;
    size_t count; /* at least */
};

static bool server_has_logged(void *arg)
{
    const struct log_expectation *expected = arg;
    AUTOFREE char *log = server_log(expected->server);
    return text_count(log, expected->text) >= expected->count;
}

static void server_await_logs(struct server *server, const char *text, size_t count)
{
    struct log_expectation expected = {server, text, count};
    if (!wait_until(server_has_logged, &expected, WAIT_DEADLINE_MS))
        fail_msg("channeld does not log \"%s\", but: %s", text, server_log(server));
}

void server_await_log(struct server *server, const char *text)
{
    server_await_logs(server, text, 1);
}

void server_expect_log(struct server *server, const char *line, size_t count)
{
    server_await_logs(server, line, count);
    AUTOFREE char *log = server_log(server);
    if (text_count(log, line) != count)
        fail_msg("channeld logs \"%s\" not %zu times: %s", line, count, log);
}

bool server_has_lost_redis(struct server *server)
{
    AUTOFREE char *log = server_log(server);
    char *rest = NULL;
    for (char *line = strtok_r(log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "redis connection lost") != NULL && strstr(line, "no reply in time") == NULL)
            return true;
    return false;
}

int server_run_tool(struct process *process, const struct tempdir *dir, const char *variable,
                    const char *const *args, const char *const *env)
{
    const char *argv[SERVER_ARGS_MAX] = {NULL};
    char no_wrapper[] = "";
    server_build_argv(no_wrapper, process_require_env(variable), args, argv);
    memset(process, 0, sizeof *process);
    struct process_spec spec = {.name = "tool", .dir = dir->path, .argv = argv, .env = env};
    (void)snprintf(process->out_path, sizeof process->out_path, "%s/tool.out", dir->path);
    (void)snprintf(process->err_path, sizeof process->err_path, "%s/tool.err", dir->path);
    (void)remove(process->out_path);
    (void)remove(process->err_path);
    return process_run(process, &spec);
}
