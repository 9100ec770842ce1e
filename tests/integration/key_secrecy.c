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
    char *path = text_printf("/proc/%d/environ", (int)fixture->server.process.pid);
    const char *argv[] = {"setpriv", "--bounding-set=-all", "--inh-caps=-all", "head", "-c1", path, NULL};
    struct process reader = {0};
    const struct process_spec spec = {.name = "reader", .dir = fixture->redis.dir.path, .argv = argv};
    int status = process_run(&reader, &spec);
    free(path);
    return status == 0;
}

static struct fixture *begin(const char *setting)
{
    const char *env[] = {setting, NULL};
    if (geteuid() == 0)
        assert_int_equal(setenv("TEST_WRAPPER", WITHOUT_CAPABILITIES, 1), 0);
    return fixture_new(3, env);
}

static void memory_is_closed_by_default(void **state)
{
    struct fixture *fixture = begin(NULL);
    (void)state;
    assert_false(memory_is_open(fixture));
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    assert_true(server_metric(&fixture->server, "process_open_fds") > 0); /* /proc is still open to itself */
    fixture_free(fixture);
}

static void memory_is_open_when_dumps_are_asked_for(void **state)
{
    struct fixture *fixture = begin("CHANNELD_CORE_DUMPS=on");
    (void)state;
    assert_true(memory_is_open(fixture));
    fixture_free(fixture);
}

int main(void)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("not under AddressSanitizer: its search for leaks traces the process\n");
    return 0;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_closed_by_default),
        cmocka_unit_test(memory_is_open_when_dumps_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
