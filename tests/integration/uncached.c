/* Without a cache every question goes to Redis, and the answers are the same. */

#include <signal.h>
#include <stdlib.h>

#include "support/fixture.h"

FIXTURE(3, "CHANNELD_CACHE_SIZE=0", NULL)

static int status(struct fixture *fixture, const char *path, const char *headers)
{
    char *target = text_printf("/api/%s", path);
    int status = http_get_status(fixture->server.port, target, headers);
    free(target);
    return status;
}

/* The key is asked about even where nothing else is: without a valid one no parameter is judged. */
TEST_CASE(bad_parameters_are_told_to_valid_keys_alone)
{
    static const char *const bad[] = {"channels/?page=0", "channel/by-id/abc/", "channel/by-link/"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(status(fixture, bad[i], FIXTURE_AUTH), 400);
        assert_int_equal(status(fixture, bad[i], "X-Api-Key: wrong\r\n"), 401);
        assert_int_equal(status(fixture, bad[i], NULL), 401);
    }
}

TEST_CASE(what_is_there_is_found_and_nothing_else)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 3; round++) {
        char *card = catalogue_card(1);
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(1));
        fixture_expect_card(fixture, path, card);
        assert_int_equal(status(fixture, path, "X-Api-Key: wrong\r\n"), 401);
        assert_int_equal(fixture_status(fixture, "channel/by-id/4242/"), 404);
        assert_int_equal(fixture_status(fixture, "channels/?page=7"), 200);
        free(path);
        free(card);
    }
}

/* A link that leads to no number is the loader's mistake: counted, and not found. */
TEST_CASE(a_link_to_nonsense_is_counted_and_not_found)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_invalid_values_total");
    redis_do(&fixture->redis, "SET channels:link:https://max.ru/nonsense many");
    assert_int_equal(fixture_status(fixture, "channel/by-link/?link=https://max.ru/nonsense"), 404);
    server_await_metric(&fixture->server, "channeld_invalid_values_total", before + 1);
}

/* Each time it is read it is counted; the log has it once for each worker that read it. */
TEST_CASE(an_unreadable_value_is_logged_once)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_invalid_values_total");
    redis_do(&fixture->redis, "HSET channels:card:77 max_channel_id 77 views_24h many");
    for (int i = 0; i < 20; i++)
        assert_int_equal(fixture_status(fixture, "channel/by-id/77/"), 200);
    server_await_metric(&fixture->server, "channeld_invalid_values_total", before + 20);
    process_signal(&fixture->server.process, SIGTERM);
    server_expect_exit(&fixture->server, 0);
    char *log = server_log(&fixture->server);
    assert_in_range(text_count(log, "unreadable value in redis"), 1, 2);
    free(log);
}
