/* Pages that are read while a loader is at work: no half channels, no holes that look like channels. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define DANGLING "channeld_dangling_index_entries_total"

TEST_CASE(index_entry_without_a_card_is_left_out_and_counted)
{
    struct fixture *fixture = fixture_new(5, NULL);
    redis_do(&fixture->redis, "ZADD channels:index 2.5 123456");
    char *body = fixture_body(fixture, "channels/");
    json_assert_at(body, "pagination", "{\"page\":1,\"per_page\":100,\"count\":5,\"has_next\":false}");
    for (size_t n = 0; n < 5; n++) {
        char *where = text_printf("data.%zu.max_channel_id", n);
        assert_int_equal(json_integer_at(body, where), catalogue_id(n));
        free(where);
    }
    assert_null(json_at(body, "data.5"));
    free(body);
    double counted = server_metric(&fixture->server, DANGLING);
    assert_true(counted > 0.5 && counted < 1.5);
    fixture_free(fixture);
}

TEST_CASE(complete_pages_count_nothing)
{
    struct fixture *fixture = fixture_new(5, NULL);
    free(fixture_body(fixture, "channels/"));
    assert_true(server_metric(&fixture->server, DANGLING) < 0.5);
    fixture_free(fixture);
}

/* A page is full by its ranks: has_next does not depend on what was left out. */
TEST_CASE(hole_in_a_full_page_keeps_the_next_one)
{
    struct fixture *fixture = fixture_new(101, NULL);
    redis_do(&fixture->redis, "DEL channels:card:%lld", (long long)catalogue_id(7));
    char *body = fixture_body(fixture, "channels/");
    json_assert_at(body, "pagination", "{\"page\":1,\"per_page\":100,\"count\":99,\"has_next\":true}");
    free(body);
    fixture_free(fixture);
}

TEST_CASE(index_entry_that_is_no_id_is_left_out)
{
    struct fixture *fixture = fixture_new(3, NULL);
    redis_do(&fixture->redis, "ZADD channels:index 99 not-an-id");
    char *body = fixture_body(fixture, "channels/");
    assert_int_equal(json_integer_at(body, "pagination.count"), 3);
    free(body);
    fixture_free(fixture);
}

struct loader {
    struct redis redis;
    atomic_bool stopping;
};

/*
 * Removes and brings back channels as a loader does: index and card in one transaction. Should Redis fail it,
 * the whole program fails: no test goes on without it.
 */
static void *run_loader(void *arg)
{
    struct loader *loader = arg;
    for (unsigned round = 0; !atomic_load(&loader->stopping); round++) {
        long long id = catalogue_id(10 + round % 20);
        redis_do(&loader->redis, "MULTI");
        redis_do(&loader->redis, "ZREM channels:index %lld", id);
        redis_do(&loader->redis, "DEL channels:card:%lld", id);
        redis_do(&loader->redis, "EXEC");
        redis_do(&loader->redis, "MULTI");
        redis_do(&loader->redis, "HSET channels:card:%lld max_channel_id %lld title whole description whole",
                 id, id);
        redis_do(&loader->redis, "ZADD channels:index %u %lld", 10 + round % 20, id);
        redis_do(&loader->redis, "EXEC");
    }
    return NULL;
}

TEST_CASE(pages_stay_whole_while_channels_come_and_go)
{
    struct fixture *fixture = fixture_new(60, NULL);
    struct loader loader = {.redis = fixture->redis};
    pthread_t thread;
    loader.redis.connection = NULL;
    redis_do(&loader.redis, "PING");
    assert_int_equal(pthread_create(&thread, NULL, run_loader, &loader), 0);
    for (int i = 0; i < 200; i++) {
        char *body = fixture_body(fixture, "channels/");
        int64_t count = json_integer_at(body, "pagination.count");
        assert_int_equal(text_count(body, "\"max_channel_id\":"), count);
        assert_int_equal(text_count(body, "\"max_channel_id\":null"), 0);
        assert_int_equal(text_count(body, "\"title\":null"), 0);
        /* One channel is away at a time, and one more may go between index and cards, twice. */
        assert_in_range(count, 55, 60);
        free(body);
    }
    atomic_store(&loader.stopping, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    redis_disconnect(&loader.redis);
    fixture_free(fixture);
}
