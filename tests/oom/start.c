/* The start of channeld when allocations fail: it ends with a message and status 1 or 2, or serves. */

#include <stdlib.h>
#include <string.h>

#include "oom/memory.h"
#include "support/fixture.h"

enum { CHANNELS = 3, ENOUGH = 2000, SAMPLE_STEP = 31 };

static struct memory memory;
static struct redis redis;

static int start(void **state)
{
    (void)state;
    memory_init(&memory);
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put_samples(&redis, CHANNELS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_stop(&redis);
    memory_fini(&memory);
    return 0;
}

static bool has_failed_or_ended(void *arg)
{
    struct server *server = arg;
    return memory_failures(&memory) > 0 || !process_is_running(&server->process) ||
           server_admin_status(server, "/readyz") == 200;
}

static bool is_ready_or_has_ended(void *arg)
{
    struct server *server = arg;
    return !process_is_running(&server->process) || server_admin_status(server, "/readyz") == 200;
}

static void expect_a_reason(struct server *server, int n)
{
    AUTOFREE char *log = process_stdout(&server->process);
    AUTOFREE char *errors = process_stderr(&server->process);
    int status = server->process.status;
    if (status != 1 && status != 2)
        fail_msg("allocation %d failed, and the start ended with %d: %s%s", n, status, log, errors);
    if (strncmp(errors, "channeld: ", 10) != 0 || strlen(errors) < 12) /* with the newline */
        fail_msg("allocation %d failed, and the start ended without saying so: \"%s\" \"%s\"", n, log,
                 errors);
}

static void expect_service(struct server *server)
{
    http_get_status(server->port, "/api/channels/", FIXTURE_AUTH);
    assert_int_equal(http_get_status(server->port, "/api/channels/", FIXTURE_AUTH), 200);
    server_stop(server);
}

/* True when an allocation failed. */
static bool start_with_failure(const char *const *env, int n, enum memory_failure how, int *ended)
{
    struct server server;
    struct server_spec spec = {.redis_url = redis.url, .env = env, .wait = SERVER_WAIT_NOTHING};
    memory_fail(&memory, n, how);
    server_start(&server, &spec);
    bool settled = wait_until(has_failed_or_ended, &server, WAIT_DEADLINE_MS);
    if (how == MEMORY_LASTING && process_is_running(&server.process))
        (void)process_wait(&server.process, 50); /* it may end by itself, or go on */
    int failures = memory_restore(&memory);
    assert_true(settled && wait_until(is_ready_or_has_ended, &server, WAIT_DEADLINE_MS));
    if (process_is_running(&server.process)) {
        expect_service(&server);
    } else {
        expect_a_reason(&server, n);
        *ended += 1;
        server_kill(&server);
    }
    return failures > 0;
}

/* One in `step` of the allocations fails. */
static void start_with_failures(const char *host, enum memory_failure how, int step)
{
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=redis://%s:%d/0", host, redis.port);
    const char *const env[] = {memory.preload, memory.file, url, "CHANNELD_KEY_RATE=100/s", NULL};
    int ended = 0;
    int n = 1 - step;
    do
        n += step;
    while (n < ENOUGH && start_with_failure(env, n, how, &ended));
    print_message("one in %d of about %d allocations at start: %d ended it, with the others it served\n",
                  step, n - 1, ended);
    assert_true(n > 10 && n < ENOUGH);
}

TEST_CASE_WITH(allocations_of_a_sample, start, end)
{
    start_with_failures("127.0.0.1", MEMORY_ONCE, SAMPLE_STEP);
    start_with_failures("127.0.0.1", MEMORY_LASTING, SAMPLE_STEP);
}

SLOW_TEST_WITH(one_failed_allocation, start, end)
{
    start_with_failures("127.0.0.1", MEMORY_ONCE, 1);
}

SLOW_TEST_WITH(all_allocations_failing_from_one_on, start, end)
{
    start_with_failures("127.0.0.1", MEMORY_LASTING, 1);
}
