/*
 * No memory for what is asked: such requests get 500 or the end of the connection, all others are served, and
 * when there is memory again so are those. Not under sanitizers, which need far more of it than the program.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/fixture.h"
#include "support/footprint.h"

enum { LARGE = 40000000, ROUNDS = 2, HEADS = 400, HEAD_SIZE = 16 * 1024, HEAD_KIB_MAX = 26 };

static int start(void **state)
{
    *state = NULL;
    if (!footprint_is_meaningful())
        return 0;
    struct fixture *fixture = fixture_new(300, NULL);
    AUTOFREE char *text = text_repeat('x', LARGE);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    *state = fixture;
    return 0;
}

TEST_GROUP(start, fixture_teardown)

static bool all_is_read(void *arg)
{
    struct fixture *fixture = arg;
    return server_metric(&fixture->server, "channeld_connections_open") >= HEADS &&
           footprint_queues_of(fixture->server.port).received_kib == 0;
}

/*
 * First, while the process holds nothing that it frees sooner or later. Lists that go on between other fields
 * that are kept, and never an end: no byte is kept twice.
 */
TEST_CASE(unfinished_heads_cost_what_was_sent)
{
    static const char *const fields[] = {"Origin: o", "X-Api-Key: k", "Traceparent: t", "X-Request-Id: i"};
    static struct http_conn conn[HEADS];
    struct fixture *fixture = *state;
    if (fixture == NULL)
        test_skip("a sanitizer needs far more memory than the program");
    AUTOFREE char *tags = text_repeat(',', HEAD_SIZE - 400);
    AUTOFREE char *head = text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nIf-None-Match: %s", tags);
    for (size_t i = 0; i < TEST_COUNT(fields); i++) {
        head = text_append(head, text_temp("\r\n%s\r\nIf-None-Match: x", fields[i]));
    }
    long before = footprint_of(fixture->server.process.pid).resident_kib;
    for (int i = 0; i < HEADS; i++) {
        assert_int_equal(http_open(&conn[i], fixture->server.port), 0);
        assert_int_equal(http_send_text(&conn[i], head), 0);
    }
    assert_true(wait_until(all_is_read, fixture, WAIT_DEADLINE_MS));
    long each = (footprint_of(fixture->server.process.pid).resident_kib - before) / HEADS;
    print_message("an unfinished head of %d KiB: %ld KiB\n", HEAD_SIZE / 1024, each);
    assert_in_range(each, HEAD_SIZE / 2048, HEAD_KIB_MAX);
    for (int i = 0; i < HEADS; i++)
        http_close(&conn[i]);
}

static long virtual_bytes(pid_t pid)
{
    AUTOFREE char *text = text_read_file(text_temp("/proc/%d/statm", (int)pid));
    long pages = strtol(text, NULL, 10);
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

TEST_CASE(requests_fail_one_by_one_and_the_process_goes_on)
{
    struct fixture *fixture = *state;
    if (fixture == NULL)
        test_skip("a sanitizer needs far more memory than the program");
    pid_t pid = fixture->server.process.pid;
    int failed = 0;
    int served = 0;
    limit_memory(pid, (rlim_t)virtual_bytes(pid) + LARGE / 2);
    for (int i = 0; i < ROUNDS; i++) {
        int large = ask(fixture, "/api/channel/by-id/900/");
        assert_true(large == 0 || large == 500);
        failed += large == 500;
        served += ask(fixture, text_temp("/api/channels/?page=%d", 1 + i % 3)) == 200;
        assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    }
    print_message("without memory: %d of %d large requests got 500, %d small ones 200\n", failed, ROUNDS,
                  served);
    assert_true(wait_until(small_cards_are_served, fixture, WAIT_DEADLINE_MS));
    limit_memory(pid, RLIM_INFINITY);
    assert_true(wait_until(large_card_is_served, fixture, WAIT_DEADLINE_MS));
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}
