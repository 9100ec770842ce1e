/* channeld --probe: the health check of containers. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/net.h"

FIXTURE(1, "CHANNELD_STALE_LIMIT=0s", "CHANNELD_DRAIN_DELAY=500ms", NULL)

/* Probes with --admin-listen HOST:PORT; what it said on stderr is owned by the caller. */
static int probe(struct fixture *fixture, const char *host, int port, char **errors)
{
    struct process process;
    char *listen = text_printf("--admin-listen=%s:%d", host, port);
    const char *const args[] = {"--probe", listen, "--redis-url=redis://192.0.2.1:1", NULL};
    int status = server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, NULL);
    char *output = process_stdout(&process);
    assert_string_equal(output, "");
    *errors = process_stderr(&process);
    free(output);
    free(listen);
    return status;
}

static void expect_ready(struct fixture *fixture, const char *host)
{
    char *errors = NULL;
    int status = probe(fixture, host, fixture->server.admin_port, &errors);
    if (status != 0 || errors[0] != '\0')
        fail_msg("%s: %d: %s", host, status, errors);
    free(errors);
}

static void expect_failure(struct fixture *fixture, int port, const char *message)
{
    char *errors = NULL;
    int status = probe(fixture, "127.0.0.1", port, &errors);
    if (status != 1 || strstr(errors, message) == NULL)
        fail_msg("no '%s': %d: %s", message, status, errors);
    free(errors);
}

TEST_CASE(ready_is_exit_code_0)
{
    expect_ready(*state, "127.0.0.1");
}

/* The server of the test listens on 127.0.0.1 only, which is as well where these look. */
TEST_CASE(every_address_is_asked_on_the_loopback)
{
    expect_ready(*state, "0.0.0.0");
    expect_ready(*state, "[::]");
    expect_ready(*state, "");
}

TEST_CASE(the_environment_is_read_as_by_the_server)
{
    struct fixture *fixture = *state;
    struct process process;
    static const char *const args[] = {"--probe", NULL};
    char *listen = text_printf("CHANNELD_ADMIN_LISTEN=127.0.0.1:%d", fixture->server.admin_port);
    const char *const env[] = {listen, NULL};
    static const char *const bad[] = {"CHANNELD_ADMIN_LISTEN=nonsense", NULL};
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, env), 0);
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, bad), 2);
    free(listen);
}

TEST_CASE(nobody_listening_is_exit_code_1)
{
    expect_failure(*state, net_reserve_port(), "cannot connect to the admin address: Connection refused");
}

struct impostor {
    int listener;
    const char *answer; /* NULL: a reset */
};

static void *answer_once(void *arg)
{
    const struct impostor *impostor = arg;
    char request[256];
    int fd = accept(impostor->listener, NULL, NULL);
    ssize_t asked = fd >= 0 ? recv(fd, request, sizeof request, 0) : -1;
    if (asked > 0 && impostor->answer != NULL)
        (void)send(fd, impostor->answer, strlen(impostor->answer), MSG_NOSIGNAL);
    else if (asked > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    (void)close(fd);
    return NULL;
}

static void expect_failure_of_impostor(struct fixture *fixture, const char *answer, const char *message)
{
    pthread_t thread;
    int port = net_reserve_port();
    struct impostor impostor = {net_listen(port), answer};
    assert_true(impostor.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_once, &impostor), 0);
    expect_failure(fixture, port, message);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(impostor.listener);
}

TEST_CASE(other_answers_are_exit_code_1)
{
    expect_failure_of_impostor(*state, "HTTP/1.1 500 No\r\n\r\n", "/readyz answers 500");
    expect_failure_of_impostor(*state, "HTTP/1.1 2", "does not speak HTTP");
    expect_failure_of_impostor(*state, "SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP");
    expect_failure_of_impostor(*state, "", "does not speak HTTP");
}

TEST_CASE(a_lost_connection_is_exit_code_1)
{
    expect_failure_of_impostor(*state, NULL, "no answer from the admin address: Connection reset by peer");
}

/* The kernel takes the connection, and then nobody answers. */
TEST_CASE(silence_is_exit_code_1_after_two_seconds)
{
    int port = net_reserve_port();
    int listener = net_listen(port);
    assert_true(listener >= 0);
    int64_t began = wait_now_ms();
    expect_failure(*state, port, "no answer from the admin address: Connection timed out");
    assert_in_range(wait_now_ms() - began, 1900, 2000 + wait_slack_ms());
    (void)close(listener);
}

TEST_CASE(a_lost_redis_is_exit_code_1)
{
    struct fixture *fixture = *state;
    redis_stop(&fixture->redis);
    server_await_admin(&fixture->server, "/readyz", 503);
    expect_failure(fixture, fixture->server.admin_port, "not ready: /readyz answers 503");
}

TEST_CASE(draining_is_exit_code_1)
{
    struct fixture *fixture = fixture_new(1, (const char *const[]){"CHANNELD_DRAIN_DELAY=2s", NULL});
    expect_ready(fixture, "127.0.0.1");
    process_signal(&fixture->server.process, SIGTERM);
    server_await_admin(&fixture->server, "/readyz", 503);
    expect_failure(fixture, fixture->server.admin_port, "not ready: /readyz answers 503");
    server_expect_exit(&fixture->server, 0);
    fixture_free(fixture);
}
