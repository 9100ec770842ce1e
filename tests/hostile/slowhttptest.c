/* The abuses of the tool slowhttptest: all its connections end in time, and the other clients are served. */

#include <stdlib.h>
#include <string.h>

#include "hostile/monitor.h"

enum { CONNECTIONS = 300, DEADLINE_MS = 3000, LATE_MS = 1000, TOOL_MS = 2000, LONG_TEXT = 4000000 };

static int start(void **state)
{
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_HEADER_TIMEOUT=3s", "CHANNELD_WRITE_TIMEOUT=3s"));
    AUTOFREE char *text = text_repeat('x', LONG_TEXT);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    *state = fixture;
    return 0;
}

TEST_GROUP(start, fixture_teardown)

/* Starts it with 300 connections for at most 30 s. */
static void start_tool(struct fixture *fixture, struct process *tool, const char *const *options,
                       size_t count)
{
    const char *argv[32] = {"slowhttptest", "-c", "300", "-r", "300", "-l", "30", "-p", "3"};
    size_t used = 9;
    AUTOFREE char *url =
        text_printf("http://127.0.0.1:%d/api/channel/by-id/900/?api_key=" FIXTURE_KEY, fixture->server.port);
    for (size_t i = 0; i < count; i++)
        argv[used++] = options[i];
    argv[used++] = "-u";
    argv[used] = url;
    struct process_spec spec = {.name = options[0] + 1, .dir = fixture->server.dir.path, .argv = argv};
    process_start(tool, &spec);
}

/* It ends when all its connections are closed. */
static void await_its_end(struct fixture *fixture, struct process *tool)
{
    (void)fixture;
    int status = process_wait(tool, 4 * WAIT_DEADLINE_MS);
    AUTOFREE char *said = process_stdout(tool);
    if (status != 0 || strstr(said, "No open connections left") == NULL)
        fail_msg("%d: %s", status, said);
    assert_null(strstr(said, "NO\n")); /* "service available" */
}

/* The tool does not notice the end of what it reads slowly: the server counts it. */
static void await_timeouts(struct fixture *fixture, struct process *tool)
{
    server_await_metric(&fixture->server, "channeld_connections_timed_out_total", CONNECTIONS);
    process_kill(tool);
}

static void require_tool(const struct fixture *fixture)
{
    const char *argv[] = {"slowhttptest", "-h", NULL};
    struct process process = {0};
    const struct process_spec spec = {.name = "help", .dir = fixture->server.dir.path, .argv = argv};
    if (process_run(&process, &spec) == 127)
        test_skip("no slowhttptest: scripts/setup --tools");
}

/* The tool checks every second, and takes a moment to connect. */
static void run_abuse(struct fixture *fixture, void (*await)(struct fixture *fixture, struct process *tool),
                      const char *const *options, size_t count)
{
    struct process tool = {0};
    require_tool(fixture);
    struct monitored monitored = monitor_begin(fixture);
    int64_t began = wait_now_ms();
    start_tool(fixture, &tool, options, count);
    await(fixture, &tool);
    int took = (int)(wait_now_ms() - began);
    (void)monitor_end(&monitored);
    print_message("slowhttptest %s: ended within %d ms, the deadline being %d\n", options[0], took,
                  DEADLINE_MS);
    assert_in_range(took, 0, wait_bound_ms(DEADLINE_MS + LATE_MS + TOOL_MS));
    footprint_await_descriptors(monitored.pid, monitored.before.descriptors);
}

/* First: it counts timeouts. */
SLOW_TEST(slow_reading_ends_in_time)
{
    static const char *const options[] = {"-X", "-n", "1", "-z", "5", "-w", "512", "-y", "1024", "-k", "3"};
    run_abuse(*state, await_timeouts, options, TEST_COUNT(options));
}

SLOW_TEST(slow_heads_end_in_time)
{
    static const char *const options[] = {"-H", "-i", "1"};
    run_abuse(*state, await_its_end, options, TEST_COUNT(options));
}

SLOW_TEST(slow_bodies_end_in_time)
{
    static const char *const options[] = {"-B", "-i", "1", "-s", "60000"};
    run_abuse(*state, await_its_end, options, TEST_COUNT(options));
}
