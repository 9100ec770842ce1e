/* The memory of the programs, which holds keys, is closed to other processes of the same user. */

#include <stdlib.h>
#include <unistd.h>

#include "support/fixture.h"

/* Root reads anything while it has the capability to; so neither side has it. */
#define WITHOUT_CAPABILITIES "setpriv --bounding-set=-all --inh-caps=-all"

/* True when a process of the same user can read what only a tracer may: the environment, here for all of
 * memory. */
static bool memory_is_open(const struct fixture *fixture)
{
    AUTOFREE char *path = text_printf("/proc/%d/environ", (int)fixture->server.process.pid);
    const char *argv[] = {"setpriv", "--bounding-set=-all", "--inh-caps=-all", "head", "-c1", path, NULL};
    struct process reader = {0};
    const struct process_spec spec = {.name = "reader", .dir = fixture->redis.dir.path, .argv = argv};
    int status = process_run(&reader, &spec);
    return status == 0;
}

static struct fixture *begin(const char *setting)
{
    const char *env[] = {setting, NULL};
    if (geteuid() == 0)
        assert_int_equal(setenv("TEST_WRAPPER", WITHOUT_CAPABILITIES, 1), 0);
    return fixture_new(3, env);
}

static void skip_under_sanitizer(void)
{
#ifdef __SANITIZE_ADDRESS__
    test_skip("AddressSanitizer traces the process to search for leaks");
#endif
}

TEST_CASE(memory_is_closed_by_default)
{
    skip_under_sanitizer();
    AUTO(fixture_drop) struct fixture *fixture = begin(NULL);
    assert_false(memory_is_open(fixture));
    fixture_expect(fixture, "channel/by-id/0/", 200);
    assert_true(server_metric(&fixture->server, "process_open_fds") > 0); /* /proc is still open to itself */
}

TEST_CASE(memory_is_open_when_core_dumps_are_enabled)
{
    skip_under_sanitizer();
    AUTO(fixture_drop) struct fixture *fixture = begin("CHANNELD_CORE_DUMPS=on");
    assert_true(memory_is_open(fixture));
}
