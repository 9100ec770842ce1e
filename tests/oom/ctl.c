/*
 * channelctl when allocations fail: each command ends with a message and status 1 or 2, or does its work; and
 * it can be repeated afterwards.
 */

#include <stdlib.h>
#include <string.h>

#include "oom/memory.h"
#include "support/fixture.h"

enum { CHANNELS = 8, ENOUGH = 5000, ARGS_MAX = 6, SAMPLE_STEP = 7 };

static struct memory memory;
static struct redis redis;
static char *file; /* of channels */

static int start(void **state)
{
    (void)state;
    memory_init(&memory);
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, "some-key");
    file = text_printf("%s/channels.ndjson", memory.dir.path);
    catalogue_write_file(file, CHANNELS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(file);
    redis_stop(&redis);
    memory_fini(&memory);
    return 0;
}

static int run(struct process *process, const char *const *args)
{
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const env[] = {memory.preload, memory.file, url, NULL};
    return server_run_tool(process, &memory.dir, "CHANNELCTL_BIN", args, env);
}

static void expect_a_reason(const struct process *process, const char *command, int n)
{
    AUTOFREE char *errors = process_stderr(process);
    if (process->status > 2)
        fail_msg("%s: allocation %d failed, and it ended with %d: %s", command, n, process->status, errors);
    if (process->status != 0 && (strncmp(errors, "channelctl: ", 12) != 0 || strlen(errors) < 14))
        fail_msg("%s: allocation %d failed, and it ended without saying so: \"%s\"", command, n, errors);
}

/* A run may have removed a channel, or left the lock of a load that could not reconnect. */
static void prepare(void)
{
    redis_do(&redis, "DEL channels:loader");
    catalogue_put_samples(&redis, CHANNELS);
}

/* From the first on, one in `step` of them. */
static void fail_each(const char *const *args, enum memory_failure how, int first, int step)
{
    struct process process;
    int failures = 0;
    int n = first - step;
    int ended = 0;
    do {
        n += step;
        prepare();
        memory_fail(&memory, n, how);
        int status = run(&process, args);
        failures = memory_restore(&memory);
        expect_a_reason(&process, args[0], n);
        ended += status != 0;
        assert_true(failures > 0 || status == 0);
        assert_true(n < ENOUGH);
    } while (failures > 0);
    prepare();
    print_message("%s: one in %d of about %d allocations, %d ended it\n", args[0], step, n - 1, ended);
    assert_int_equal(run(&process, args), 0);
}

/* Each command begins with another of its allocations, so that a sample is not of the same ones. */
static void fail_commands(int step)
{
    AUTOFREE char *id = text_printf("%lld", (long long)catalogue_id(1));
    const char *const commands[][ARGS_MAX] = {{"load", file},
                                              {"show", id},
                                              {"remove", id},
                                              {"load", file, "--replace"},
                                              {"load", file, "--dry-run"},
                                              {"verify"},
                                              {"keys", "issue"},
                                              {"keys", "list"},
                                              {"sample", "5"},
                                              {"--version"},
                                              {"--help"},
                                              {"help", "load"},
                                              {"keys", "list", "--json"}};
    for (size_t i = 0; i < TEST_COUNT(commands); i++)
        for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
            fail_each(commands[i], how, 1 + (int)i % step, step);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), CHANNELS);
}

TEST_CASE_WITH(every_command_reports_a_failed_allocation_of_a_sample, start, end)
{
    fail_commands(SAMPLE_STEP);
}

SLOW_TEST_WITH(every_command_reports_a_failed_allocation, start, end)
{
    fail_commands(1);
}
