/* The attacks of slowhttptest, a tool that others use: all its connections end in time, and others are
 * served. */

#include <stdlib.h>
#include <string.h>

#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/footprint.h"

enum { CONNECTIONS = 300, DEADLINE_MS = 3000, LATE_MS = 1000, TOOL_MS = 2000, LONG_TEXT = 4000000 };

static int start(void **state)
{
    static const char *const env[] = {"CHANNELD_HEADER_TIMEOUT=3s", "CHANNELD_WRITE_TIMEOUT=3s", NULL};
    struct fixture *fixture = fixture_new(3, env);
    char *text = text_repeat('x', LONG_TEXT);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    free(text);
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
    char *url =
        text_printf("http://127.0.0.1:%d/api/channel/by-id/900/?api_key=" FIXTURE_KEY, fixture->server.port);
    for (size_t i = 0; i < count; i++)
        argv[used++] = options[i];
    argv[used++] = "-u";
    argv[used] = url;
    struct process_spec spec = {.name = options[0] + 1, .dir = fixture->server.dir.path, .argv = argv};
    process_start(tool, &spec);
    free(url);
}

/* It ends when all its connections are closed. */
static void await_its_end(struct fixture *fixture, struct process *tool)
{
    (void)fixture;
    int status = process_wait(tool, 4 * WAIT_DEADLINE_MS);
    if (status == 127)
        fail_msg("no slowhttptest: scripts/setup --tools installs it");
    char *said = process_stdout(tool);
    if (status != 0 || strstr(said, "No open connections left") == NULL)
        fail_msg("%d: %s", status, said);
    assert_null(strstr(said, "NO\n")); /* "service available" */
    free(said);
}

/* What it reads slowly it does not notice the end of: the server tells. */
static void await_timeouts(struct fixture *fixture, struct process *tool)
{
    server_await_metric(&fixture->server, "channeld_connections_timed_out_total", CONNECTIONS);
    process_kill(tool);
}

/* The tool looks once a second, and takes a moment to connect. */
static void withstand(struct fixture *fixture, void (*await)(struct fixture *fixture, struct process *tool),
                      const char *const *options, size_t count)
{
    pid_t pid = fixture->server.process.pid;
    struct process tool = {0};
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    struct footprint before = footprint_of(pid);
    int64_t began = wait_now_ms();
    start_tool(fixture, &tool, options, count);
    await(fixture, &tool);
    int took = (int)(wait_now_ms() - began);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    print_message("slowhttptest %s: ended within %d ms, the deadline being %d\n", options[0], took,
                  DEADLINE_MS);
    footprint_print("before", &before);
    footprint_print("after", &after);
    assert_in_range(took, 0, DEADLINE_MS + LATE_MS + TOOL_MS + 5 * wait_slack_ms());
    witness_expect_unharmed(&calm, &attacked);
    witness_free(witness);
    footprint_await_descriptors(pid, before.descriptors);
}

TEST_CASE(slow_heads_end_in_time)
{
    static const char *const options[] = {"-H", "-i", "1"};
    withstand(*state, await_its_end, options, TEST_COUNT(options));
}

TEST_CASE(slow_bodies_end_in_time)
{
    static const char *const options[] = {"-B", "-i", "1", "-s", "60000"};
    withstand(*state, await_its_end, options, TEST_COUNT(options));
}

TEST_CASE(slow_reading_ends_in_time)
{
    static const char *const options[] = {"-X", "-n", "1", "-z", "5", "-w", "512", "-y", "1024", "-k", "3"};
    withstand(*state, await_timeouts, options, TEST_COUNT(options));
}
