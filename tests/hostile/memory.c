/*
 * No memory for what is asked: such requests get 500 or the end of the connection, all others are served, and
 * when there is memory again so are those. Not under sanitizers, which need far more of it than the program.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "hostile/footprint.h"
#include "support/fixture.h"

enum { LARGE = 40000000, ROUNDS = 2 };

static int start(void **state)
{
    *state = NULL;
    if (!footprint_is_telling())
        return 0;
    struct fixture *fixture = fixture_new(300, NULL);
    char *text = text_repeat('x', LARGE);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    free(text);
    *state = fixture;
    return 0;
}

static long virtual_bytes(pid_t pid)
{
    char *path = text_printf("/proc/%d/statm", (int)pid);
    char *text = text_read_file(path);
    long pages = strtol(text, NULL, 10);
    free(text);
    free(path);
    assert_true(pages > 0);
    return pages * 4096;
}

static void limit_memory(pid_t pid, rlim_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    assert_int_equal(prlimit(pid, RLIMIT_AS, &limit, NULL), 0);
}

/* The status; 0 when the connection ended without an answer. */
static int ask(struct fixture *fixture, const char *target)
{
    struct http_response response;
    if (http_try(fixture->server.port, "GET", target, FIXTURE_AUTH, &response) != 0)
        return 0;
    int status = response.status;
    http_response_free(&response);
    return status;
}

static bool large_card_is_served(void *arg)
{
    return ask(arg, "/api/channel/by-id/900/") == 200;
}

static bool small_cards_are_served(void *arg)
{
    return ask(arg, "/api/channel/by-id/0/") == 200;
}

static void requests_fail_one_by_one_and_the_process_goes_on(void **state)
{
    struct fixture *fixture = *state;
    if (fixture == NULL) {
        skip();
        return;
    }
    pid_t pid = fixture->server.process.pid;
    int failed = 0;
    int served = 0;
    limit_memory(pid, (rlim_t)virtual_bytes(pid) + LARGE / 2);
    for (int i = 0; i < ROUNDS; i++) {
        int large = ask(fixture, "/api/channel/by-id/900/");
        assert_true(large == 0 || large == 500);
        failed += large == 500;
        char *page = text_printf("/api/channels/?page=%d", 1 + i % 3);
        served += ask(fixture, page) == 200;
        free(page);
        assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    }
    print_message("without memory: %d of %d large requests got 500, %d small ones 200\n", failed, ROUNDS,
                  served);
    assert_true(wait_until(small_cards_are_served, fixture, WAIT_DEADLINE_MS));
    limit_memory(pid, RLIM_INFINITY);
    assert_true(wait_until(large_card_is_served, fixture, WAIT_DEADLINE_MS));
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_fail_one_by_one_and_the_process_goes_on),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
