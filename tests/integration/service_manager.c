/* What a service manager is told (sd_notify(3)): when channeld has started, what it waits for, that it
 * reloads, that it stops, and that it is alive as long as /livez says so. */

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/net.h"

enum { MESSAGE_MAX = 512, WATCHDOG_MS = 400 };

#define STARTED "READY=1\nSTATUS="

static struct tempdir dir;
static int manager;

/* The setting of channeld's environment. Borrowed until the next test. */
static const char *notify_socket(void)
{
    static char setting[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", dir.path);
    (void)unlink(address.sun_path);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (const struct sockaddr *)&address, sizeof address), 0);
    (void)snprintf(setting, sizeof setting, "NOTIFY_SOCKET=%s", address.sun_path);
    return setting;
}

/* False when nothing has arrived. */
static bool receive(char text[MESSAGE_MAX])
{
    ssize_t n = recv(manager, text, MESSAGE_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool has_arrived(void *arg)
{
    return receive(arg);
}

/* The next message but for those of the watchdog. */
static void next_message(char text[MESSAGE_MAX])
{
    do
        assert_true(wait_until(has_arrived, text, WAIT_DEADLINE_MS));
    while (strcmp(text, "WATCHDOG=1") == 0);
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void expect_message(const char *expected)
{
    char text[MESSAGE_MAX];
    next_message(text);
    if (!begins(text, expected))
        fail_msg("told \"%s\", expected \"%s\"", text, expected);
}

/* Workers connect one after the other, each with a state of its own on the way. */
static void await_message(const char *expected)
{
    char text[MESSAGE_MAX];
    next_message(text);
    while (!begins(text, expected)) {
        if (!begins(text, "STATUS=") && !begins(text, STARTED "Not ready"))
            fail_msg("told \"%s\", expected \"%s\"", text, expected);
        next_message(text);
    }
}

static struct fixture *begin(void)
{
    return fixture_new(3, ENV(notify_socket(), "CHANNELD_STALE_LIMIT=1s"));
}

static void end(struct fixture *f)
{
    fixture_free(f);
    (void)close(manager);
}

TEST_CASE(started_means_listening_with_redis_connected)
{
    AUTO(fixture_drop)
    struct fixture *f =
        fixture_new_with(&(struct fixture_spec){.channels = 3,
                                                .env = ENV(notify_socket(), "CHANNELD_REQUEST_TIMEOUT=60s"),
                                                .wait = SERVER_WAIT_NOTHING});
    char text[MESSAGE_MAX];
    do
        next_message(text);
    while (begins(text, "STATUS="));
    assert_string_equal(text, "READY=1\nSTATUS=Ready");
    assert_int_equal(fixture_status(f, "channels/"), 200);
    assert_int_equal(server_admin_status(&f->server, "/readyz"), 200);
    (void)close(manager);
}

/* It is started all the same, and says what it waits for. */
TEST_CASE(redis_that_is_down_delays_the_start_by_the_time_of_one_request)
{
    struct redis redis;
    struct server server;
    redis_prepare(&redis, NULL);
    int64_t began = wait_now_ms();
    server_start(&server,
                 &(struct server_spec){redis.url, ENV(notify_socket(), "CHANNELD_REQUEST_TIMEOUT=700ms"),
                                       SERVER_WAIT_NOTHING});
    expect_message("STATUS=Not ready: Redis is not connected yet");
    expect_message(STARTED "Not ready: Redis is not connected yet");
    assert_true(wait_now_ms() - began >= 700);
    assert_true(net_is_listening(server.port));
    redis_restart(&redis);
    await_message(STARTED "Not ready: Redis holds no catalogue");
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put_samples(&redis, 1);
    await_message(STARTED "Ready");
    server_stop(&server);
    redis_stop(&redis);
    (void)close(manager);
}

static void await_ready(void)
{
    await_message(STARTED "Ready");
}

TEST_CASE(status_follows_readiness)
{
    struct fixture *f = begin();
    await_ready();
    redis_kill(&f->redis);
    expect_message(STARTED "Ready: Redis is lost, serving from the cache");
    expect_message(STARTED "Not ready: Redis has been lost for longer than the stale limit");
    assert_int_equal(server_admin_status(&f->server, "/readyz"), 503);
    redis_restart(&f->redis);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    catalogue_put_samples(&f->redis, 1);
    await_message(STARTED "Ready");
    end(f);
}

TEST_CASE(a_reload_begins_and_ends)
{
    struct fixture *f = begin();
    await_ready();
    process_signal(&f->server.process, SIGHUP);
    expect_message("RELOADING=1\nMONOTONIC_USEC=");
    expect_message(STARTED "Ready");
    end(f);
}

/* Its reason is in the log. */
TEST_CASE(a_reload_that_fails_is_in_the_status)
{
    AUTO(redis_stop) struct redis redis;
    AUTO(server_stop) struct server server;
    AUTOFREE char *path = text_printf("%s/url", dir.path);
    AUTOFREE char *setting = text_printf("CHANNELD_REDIS_URL_FILE=%s", path);
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put_samples(&redis, 1);
    assert_true(text_write_file(path, redis.url));
    server_start(&server,
                 &(struct server_spec){.env = ENV(notify_socket(), setting), .wait = SERVER_WAIT_READY});
    await_ready();
    assert_true(text_write_file(path, "http://127.0.0.1/"));
    process_signal(&server.process, SIGHUP);
    expect_message("RELOADING=1\nMONOTONIC_USEC=");
    expect_message(STARTED "Ready: the settings were not reloaded, the old ones are in use");
    assert_true(text_write_file(path, redis.url));
    expect_message(STARTED "Ready");
    (void)close(manager);
}

/* With the time that the drain may take, which may be longer than the manager would wait. */
TEST_CASE(the_end_is_announced)
{
    struct fixture *f =
        fixture_new(3, ENV(notify_socket(), "CHANNELD_DRAIN_DELAY=300ms", "CHANNELD_DRAIN_TIMEOUT=120s"));
    await_ready();
    process_signal(&f->server.process, SIGTERM);
    expect_message("STOPPING=1\nEXTEND_TIMEOUT_USEC=130300000");
    expect_message("STATUS=Draining: still serving");
    expect_message("STATUS=Draining: finishing requests");
    server_expect_exit(&f->server, 0);
    end(f);
}

/* A reload during the drain does not take the end back. */
TEST_CASE(a_reload_while_draining_is_not_announced)
{
    struct fixture *f = fixture_new(3, ENV(notify_socket(), "CHANNELD_DRAIN_DELAY=3s"));
    await_ready();
    process_signal(&f->server.process, SIGTERM);
    expect_message("STOPPING=1\n");
    expect_message("STATUS=Draining: still serving");
    process_signal(&f->server.process, SIGHUP);
    server_await_log(&f->server, "SIGHUP received");
    expect_message("STATUS=Draining: finishing requests");
    server_expect_exit(&f->server, 0);
    end(f);
}

/* A manager that is gone, or never was, changes nothing. */
TEST_CASE(failures_to_notify_are_harmless)
{
    struct fixture *f =
        fixture_new(3, ENV(text_temp("NOTIFY_SOCKET=%s/nobody", dir.path), "WATCHDOG_USEC=100000"));
    server_expect_log(&f->server, "service manager not notified", 1);
    process_signal(&f->server.process, SIGHUP);
    server_await_log(&f->server, "SIGHUP received");
    assert_int_equal(fixture_status(f, "channels/"), 200);
    fixture_free(f);
}

static bool is_alive(void *arg)
{
    char text[MESSAGE_MAX];
    (void)arg;
    return receive(text) && strcmp(text, "WATCHDOG=1") == 0;
}

static void await_alive(int times)
{
    for (int i = 0; i < times; i++)
        assert_true(wait_until(is_alive, NULL, WAIT_DEADLINE_MS));
}

static bool is_not_alive(void *arg)
{
    return !is_alive(arg);
}

static struct fixture *begin_watched(void)
{
    return fixture_new(3, ENV(notify_socket(), text_temp("WATCHDOG_USEC=%d", WATCHDOG_MS * 1000)));
}

TEST_CASE(the_watchdog_is_told_twice_in_its_time)
{
    enum { TIMES = 5 };
    struct fixture *f = begin_watched();
    await_ready();
    int64_t began = wait_now_ms();
    await_alive(2 * TIMES);
    int64_t took = wait_now_ms() - began;
    assert_in_range(took, 0, wait_bound_ms(TIMES * WATCHDOG_MS));
    if (wait_judges_latency()) /* otherwise some may have waited for this program */
        assert_true(took >= (int64_t)(TIMES - 1) * WATCHDOG_MS);
    end(f);
}

/* The thread of the last worker: they are listed in the order of their creation. */
static pid_t worker_thread(pid_t process)
{
    AUTOFREE char *path = text_printf("/proc/%d/task", (int)process);
    DIR *tasks = opendir(path);
    pid_t last = 0;
    assert_non_null(tasks);
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
        last = (pid_t)strtol(entry->d_name, NULL, 10);
    (void)closedir(tasks);
    return last;
}

static bool is_silent(void *arg)
{
    (void)arg;
    return wait_holds(is_not_alive, NULL, 2 * WATCHDOG_MS);
}

/* A debugger stops one worker; the main thread and the other worker go on. */
SLOW_TEST(the_watchdog_is_not_told_while_a_worker_is_stuck)
{
    struct fixture *f = fixture_new(
        3, ENV(notify_socket(), text_temp("WATCHDOG_USEC=%d", WATCHDOG_MS * 1000), "CHANNELD_CORE_DUMPS=on"));
    pid_t worker = worker_thread(f->server.process.pid);
    await_ready();
    assert_int_equal(ptrace(PTRACE_SEIZE, worker, 0, 0), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, worker, 0, 0), 0);
    assert_true(wait_until(is_silent, NULL, 3 * WAIT_DEADLINE_MS));
    assert_int_equal(server_admin_status(&f->server, "/livez"), 503);
    int status = 0;
    assert_int_equal(waitpid(worker, &status, __WALL), worker);
    assert_int_equal(ptrace(PTRACE_DETACH, worker, 0, 0), 0);
    server_await_admin(&f->server, "/livez", 200);
    await_alive(1);
    end(f);
}

static int set_up(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

TEST_GROUP(set_up, NULL)
