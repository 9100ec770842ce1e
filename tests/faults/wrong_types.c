/*
 * Keys of another type than the loader writes, under each name that is read: 500 and nothing else, for what
 * needs that key alone, not remembered, and right again as soon as the key is. A page does not need any one
 * of its cards: it is answered without it.
 */

#include <stdlib.h>

#include "faults/chorus.h"

enum { ROUNDS = 4 };

struct wrong_type {
    const char *kept;   /* the key, which is put aside */
    const char *broken; /* what stands in its place */
    const char *asked;  /* and what needs it */
    int page;           /* of the list that is answered when it is right, or 0: channel 1 */
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

static int begin(void **state)
{
    *state = stage_new(NULL);
    return 0;
}

static char *right_body(const struct wrong_type *w)
{
    return w->page > 0 ? stage_page(w->page, 1) : stage_card(1, 1);
}

TEST_CASE_WITH(wrong_type_is_500_until_it_is_mended, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct redis *redis = &stage->fixture.redis;
    struct chorus chorus;
    chorus_open(&chorus, stage);
    for (size_t i = 0; i < TEST_COUNT(wrong_types); i++)
        chorus_ask(&chorus, wrong_types[i].asked, 200, right_body(&wrong_types[i]));
    for (int round = 0; round < ROUNDS * (int)TEST_COUNT(wrong_types); round++) {
        const struct wrong_type *w = &wrong_types[(size_t)round % TEST_COUNT(wrong_types)];
        redis_do(redis, "MULTI");
        redis_do(redis, "RENAME %s aside", w->kept);
        redis_do(redis, w->broken);
        redis_do(redis, "EXEC");
        chorus_await(&chorus, w->asked, 500, NULL);
        stage_expect_unavailable(stage, w->asked);
        redis_do(redis, "RENAME aside %s", w->kept);
        chorus_await(&chorus, w->asked, 200, right_body(w));
        chorus_ask(&chorus, w->asked, 200, right_body(w));
    }
    chorus_close(&chorus);
}

/* Before channeld has ever read the keys: it says 500 to every key, not 401. */
TEST_CASE_WITH(keys_of_a_wrong_type_from_the_start, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct server_spec spec = {.redis_url = stage->fixture.redis.url, .wait = SERVER_WAIT_READY};
    server_stop(&stage->fixture.server);
    redis_do(&stage->fixture.redis, "RENAME channels:api_keys aside");
    redis_do(&stage->fixture.redis, "SET channels:api_keys text");
    server_start(&stage->fixture.server, &spec);
    stage_expect_unavailable(stage, "channel/by-id/1/");
    assert_int_equal(http_get_status(stage->fixture.server.port, "/api/channels/", "X-Api-Key: wrong\r\n"),
                     500);
    redis_do(&stage->fixture.redis, "RENAME aside channels:api_keys");
    stage_expect(stage, "channel/by-id/1/", stage_card(1, 1));
    assert_int_equal(http_get_status(stage->fixture.server.port, "/api/channels/", "X-Api-Key: wrong\r\n"),
                     401);
}

/* The rest of the catalogue does not suffer. */
TEST_CASE_WITH(only_what_needs_the_key_fails, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct redis *redis = &stage->fixture.redis;
    redis_do(redis, "SET channels:card:1 text");
    redis_do(redis, "SET channels:index text");
    redis_do(redis, "DEL channels:link:https://max.ru/c2");
    redis_do(redis, "HSET channels:link:https://max.ru/c2 a b");
    stage_expect(stage, "channel/by-id/2/", stage_card(2, 1));
    stage_expect(stage, "channel/by-link/?link=https://max.ru/c3", stage_card(3, 1));
    assert_int_equal(fixture_status(&stage->fixture, "channel/by-id/-5/"), 404);
    assert_int_equal(fixture_status(&stage->fixture, "channel/by-link/?link=https://max.ru/none"), 404);
    stage_expect_unavailable(stage, "channel/by-id/1/");
    stage_expect_unavailable(stage, "channels/");
    stage_expect_unavailable(stage, "channel/by-link/?link=https://max.ru/c2");
    assert_true(server_metric(&stage->fixture.server, "channeld_redis_error_replies_total") >= 3);
}
