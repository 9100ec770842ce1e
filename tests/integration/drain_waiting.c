/* SIGTERM while requests wait for a Redis that says nothing: they are forgotten when the drain's time is up.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "support/fixture.h"

enum { CLIENTS = 6, TIMEOUT_MS = 500 };

static const char *const ASKED[] = {"by-id/0/", "by-link/?link=https://max.ru/nobody", "by-id/0/"};

/* Some ask for the same and share a question to Redis, some have it for themselves. */
static void ask(struct fixture *fixture, struct http_conn *conn, int n)
{
    char *target = text_printf("/api/channel/%s", ASKED[n % (int)TEST_COUNT(ASKED)]);
    char *request = http_format("GET", target, FIXTURE_AUTH);
    assert_int_equal(http_open(conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(conn, request), 0);
    free(request);
    free(target);
}

static void requests_that_wait_for_redis_are_forgotten(const char *cache_size)
{
    char *cache = text_printf("CHANNELD_CACHE_SIZE=%s", cache_size);
    const char *env[] = {"CHANNELD_DRAIN_TIMEOUT=500ms", "CHANNELD_REQUEST_TIMEOUT=60s", cache, NULL};
    struct fixture *fixture = fixture_new(3, env);
    struct http_conn conns[CLIENTS];
    redis_pause(&fixture->redis);
    for (int n = 0; n < CLIENTS; n++)
        ask(fixture, &conns[n], n);
    server_await_metric(&fixture->server, "channeld_requests_in_flight", CLIENTS);
    int64_t began = wait_now_ms();
    process_signal(&fixture->server.process, SIGTERM);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, TIMEOUT_MS, TIMEOUT_MS + wait_slack_ms());
    for (int n = 0; n < CLIENTS; n++) {
        assert_int_not_equal(http_read_eof(&conns[n]), -EBADMSG); /* no half of an answer */
        http_close(&conns[n]);
    }
    redis_resume(&fixture->redis);
    fixture_free(fixture);
    free(cache);
}

TEST_CASE(with_a_cache)
{
    requests_that_wait_for_redis_are_forgotten("8MiB");
}

TEST_CASE(without_a_cache)
{
    requests_that_wait_for_redis_are_forgotten("0");
}
