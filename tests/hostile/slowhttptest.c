/* The attacks of slowhttptest, a tool that others use: all its connections end in time, and others are
 * served. */

#include <stdlib.h>
#include <string.h>

#include "hostile/footprint.h"
#include "hostile/witness.h"
#include "support/fixture.h"

enum { DEADLINE_MS = 3000, LATE_MS = 1000, TOOL_MS = 2000, LONG_TEXT = 4000000 };

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

/* Runs it with 300 connections for at most 30 s; returns what it said, owned. */
static char *run_tool(struct fixture *fixture, const char *const *options, size_t count)
{
    const char *argv[32] = {"slowhttptest", "-c", "300", "-r", "300", "-l", "30", "-p", "3"};
    size_t used = 9;
    char *url =
        text_printf("http://127.0.0.1:%d/api/channel/by-id/900/?api_key=" FIXTURE_KEY, fixture->server.port);
    for (size_t i = 0; i < count; i++)
        argv[used++] = options[i];
    argv[used++] = "-u";
    argv[used] = url;
    struct process process = {0};
    struct process_spec spec = {.name = options[0] + 1, .dir = fixture->server.dir.path, .argv = argv};
    int status = process_run(&process, &spec);
    if (status == 127)
        fail_msg("no slowhttptest: scripts/setup --tools installs it");
    assert_int_equal(status, 0);
    free(url);
    return process_stdout(&process);
}

/* The tool looks once a second, and takes a moment to connect. */
static void withstand(struct fixture *fixture, const char *const *options, size_t count)
{
    pid_t pid = fixture->server.process.pid;
    struct witness *witness = witness_new(fixture->server.port);
    struct witness_view calm = witness_look_long(witness);
    struct footprint before = footprint_of(pid);
    int64_t began = wait_now_ms();
    char *said = run_tool(fixture, options, count);
    int took = (int)(wait_now_ms() - began);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    print_message("slowhttptest %s: ended within %d ms, the deadline being %d\n", options[0], took,
                  DEADLINE_MS);
    footprint_print("before", &before);
    footprint_print("after", &after);
    if (strstr(said, "No open connections left") == NULL)
        fail_msg("%s", said);
    assert_null(strstr(said, "NO\n"));
    assert_in_range(took, 0, DEADLINE_MS + LATE_MS + TOOL_MS + wait_slack_ms());
    witness_expect_unharmed(&calm, &attacked);
    witness_free(witness);
    footprint_await_descriptors(pid, before.descriptors);
    free(said);
}

static void slow_heads(void **state)
{
    static const char *const options[] = {"-H", "-i", "1"};
    withstand(*state, options, TEST_COUNT(options));
}

static void slow_bodies(void **state)
{
    static const char *const options[] = {"-B", "-i", "1", "-s", "60000"};
    withstand(*state, options, TEST_COUNT(options));
}

static void slow_reading(void **state)
{
    static const char *const options[] = {"-X", "-n", "1", "-z", "5", "-w", "512", "-y", "1024", "-k", "3"};
    withstand(*state, options, TEST_COUNT(options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_heads),
        cmocka_unit_test(slow_bodies),
        cmocka_unit_test(slow_reading),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
