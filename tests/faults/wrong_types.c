/*
 * Keys of another type than the loader writes, under each name that is read: 500 for the requests that need
 * this key, not cached, and right again as soon as the key is. A page does not need any one of its cards: it
 * is served without it.
 */

#include <stdlib.h>

#include "faults/fanout.h"

enum { ROUNDS = 2 };

struct wrong_type {
    const char *kept;   /* the key, which is renamed */
    const char *broken; /* the command that replaces it */
    const char *asked;  /* a path that needs it */
    int page;           /* the expected page of the list, or 0: channel 1 */
};

static const struct wrong_type wrong_types[] = {
    {"channels:card:1", "SET channels:card:1 text", "channel/by-id/1/", 0},
    {"channels:card:1", "ZADD channels:card:1 1 one", "channel/by-link/?link=https://max.ru/c1", 0},
    {"channels:card:1", "SADD channels:card:1 one", "channel/by-id/1/", 0},
    {"channels:card:1", "LPUSH channels:card:1 one", "channel/by-link/?link=https://web.max.ru/c1", 0},
    {"channels:index", "SET channels:index text", "channels/", 1},
    {"channels:index", "HSET channels:index a b", "channels/?page=2", 2},
    {"channels:link:https://max.ru/c1", "HSET channels:link:https://max.ru/c1 a b",
     "channel/by-link/?link=https://max.ru/c1", 0},
    {"channels:link:https://max.ru/c1", "SADD channels:link:https://max.ru/c1 1",
     "channel/by-link/?link=https://web.max.ru/c1", 0},
    {"channels:api_keys", "SET channels:api_keys text", "channel/by-id/1/", 0},
    {"channels:api_keys", "HSET channels:api_keys a b", "channels/", 1},
    {"channels:api_keys", "ZADD channels:api_keys 1 a", "channel/by-link/?link=https://max.ru/c1", 0},
};

static char *right_body(const struct wrong_type *w)
{
    return w->page > 0 ? catalogue_version_page(w->page, 1) : catalogue_version_card(1, 1);
}

TEST_CASE_WITH(key_of_a_wrong_type_is_500_until_it_is_repaired, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct redis *redis = &bed->fixture.redis;
    struct fanout fanout;
    fanout_open(&fanout, bed);
    for (size_t i = 0; i < TEST_COUNT(wrong_types); i++)
        fanout_ask(&fanout, wrong_types[i].asked, 200, right_body(&wrong_types[i]));
    for (int round = 0; round < ROUNDS * (int)TEST_COUNT(wrong_types); round++) {
        const struct wrong_type *w = &wrong_types[(size_t)round % TEST_COUNT(wrong_types)];
        redis_do(redis, "MULTI");
        redis_do(redis, "HSET channels:card:1 max_channel_id 1"); /* a cached card would need no link key */
        redis_do(redis, "RENAME %s aside", w->kept);
        redis_do(redis, w->broken);
        redis_do(redis, "EXEC");
        fanout_await(&fanout, w->asked, 500, NULL);
        testbed_expect_unavailable(bed, w->asked);
        redis_do(redis, "RENAME aside %s", w->kept);
        fanout_await(&fanout, w->asked, 200, right_body(w));
        fanout_ask(&fanout, w->asked, 200, right_body(w));
    }
    fanout_close(&fanout);
}

/* Before channeld has ever read the API keys: every key gets 500, not 401. */
TEST_CASE_WITH(api_keys_of_a_wrong_type_from_the_start, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    server_stop(&bed->fixture.server);
    redis_do(&bed->fixture.redis, "RENAME channels:api_keys aside");
    redis_do(&bed->fixture.redis, "SET channels:api_keys text");
    server_start(&bed->fixture.server,
                 &(struct server_spec){bed->fixture.redis.url, NULL, SERVER_WAIT_READY});
    testbed_expect_unavailable(bed, "channel/by-id/1/");
    assert_int_equal(http_get_status(bed->fixture.server.port, "/api/channels/", FIXTURE_WRONG), 500);
    redis_do(&bed->fixture.redis, "RENAME aside channels:api_keys");
    testbed_expect(bed, "channel/by-id/1/", catalogue_version_card(1, 1));
    assert_int_equal(http_get_status(bed->fixture.server.port, "/api/channels/", FIXTURE_WRONG), 401);
}

/* The rest of the catalogue is served. */
TEST_CASE_WITH(key_of_a_wrong_type_fails_alone, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct redis *redis = &bed->fixture.redis;
    redis_do(redis, "SET channels:card:1 text");
    redis_do(redis, "SET channels:index text");
    redis_do(redis, "DEL channels:link:https://max.ru/c2");
    redis_do(redis, "HSET channels:link:https://max.ru/c2 a b");
    testbed_expect(bed, "channel/by-id/4/", catalogue_version_card(4, 1));
    testbed_expect(bed, "channel/by-link/?link=https://max.ru/c3", catalogue_version_card(3, 1));
    assert_int_equal(fixture_status(&bed->fixture, "channel/by-id/-5/"), 404);
    assert_int_equal(fixture_status(&bed->fixture, "channel/by-link/?link=https://max.ru/none"), 404);
    testbed_expect_unavailable(bed, "channel/by-id/1/");
    testbed_expect_unavailable(bed, "channels/");
    testbed_expect_unavailable(bed, "channel/by-link/?link=https://max.ru/c2");
    assert_true(server_metric(&bed->fixture.server, "channeld_redis_error_replies_total") >= 3);
}
