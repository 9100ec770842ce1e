/*
 * The schema of Redis across versions (docs/upgrading.md): what the first version's loaders wrote is served
 * byte for byte, and what a later version may add is ignored, by channeld and by channelctl.
 */

#include <stdlib.h>
#include <string.h>

#include "support/ctl.h"
#include "support/fixture.h"

/* As it has been since the first version. A channel with every field, and one with few. */
#define FULL_SUMMARY                                                                                    \
    "{\"max_channel_id\":-68832134583642,\"title\":\"Autokorneri\",\"description\":\"Puhutaan "         \
    "autoista\",\"avatar\":\"https://max.ru/a.jpg\",\"link\":\"https://max.ru/Autokorneri\",\"updated_" \
    "at\":\"2026-11-20T19:20:50\"}"
#define FULL_CARD                                                                                          \
    "{\"max_channel_id\":-68832134583642,\"title\":\"Autokorneri\",\"description\":\"Puhutaan "            \
    "autoista\",\"avatar\":\"https://max.ru/a.jpg\",\"link\":\"https://max.ru/Autokorneri\",\"category\":" \
    "\"technology\",\"category2\":\"cars\",\"followers_cnt_today\":76,\"followers_history\":{\"2026-11-"   \
    "19\":77,\"2026-11-20\":76},\"is_a_plus_flag\":0,\"views_24h\":23,\"views_48h\":32,\"er_24h\":30,"     \
    "\"er_48h\":42,\"updated_at\":\"2026-11-20T19:20:50\"}"
#define FEW_SUMMARY                                                                                 \
    "{\"max_channel_id\":7,\"title\":\"Seven\",\"description\":null,\"avatar\":null,\"link\":null," \
    "\"updated_at\":null}"
#define FEW_CARD                                                                                     \
    "{\"max_channel_id\":7,\"title\":\"Seven\",\"description\":null,\"avatar\":null,\"link\":null,"  \
    "\"category\":null,\"category2\":null,\"followers_cnt_today\":null,\"followers_history\":{},"    \
    "\"is_a_plus_flag\":null,\"views_24h\":null,\"views_48h\":null,\"er_24h\":null,\"er_48h\":null," \
    "\"updated_at\":null}"

#define CARD_BODY(card) "{\"success\":true,\"data\":" card "}"
#define LIST_BODY                                               \
    "{\"success\":true,\"data\":[" FULL_SUMMARY "," FEW_SUMMARY \
    "],\"pagination\":{\"page\":1,\"per_page\":100,\"count\":2,\"has_next\":false}}"

/* The key is FIXTURE_KEY; its digest is written out, as everything here. */
#define DIGEST "ca8ba14332666ea7506574af074e81ce6370d31fab31e0d04f77bc9d3459b38e"

static void fill_first_schema(struct redis *r)
{
    redis_do(
        r,
        "HSET channels:card:-68832134583642 max_channel_id -68832134583642 title Autokorneri description %s "
        "avatar https://max.ru/a.jpg link https://max.ru/Autokorneri category technology category2 cars",
        "Puhutaan autoista");
    redis_do(
        r,
        "HSET channels:card:-68832134583642 followers_cnt_today 76 followers_history %s is_a_plus_flag 0 "
        "views_24h 23 views_48h 32 er_24h 30 er_48h 42 updated_at 2026-11-20T19:20:50",
        "{\"2026-11-19\":77,\"2026-11-20\":76}");
    redis_do(r, "SET channels:link:https://max.ru/Autokorneri -68832134583642");
    redis_do(r, "ZADD channels:index 1 -68832134583642 2 7");
    redis_do(r, "HSET channels:card:7 max_channel_id 7 title Seven");
    redis_do(r, "SADD channels:api_keys " DIGEST);
}

static void add_what_a_later_version_may_add(struct redis *r)
{
    redis_do(r, "HSET channels:card:-68832134583642 language fi max_channel_id2 8 Title other");
    redis_do(r, "HSET channels:card:7 reactions %s", "[1,2,3]");
    redis_do(r, "HSET channels:api_key_info " DIGEST " %s",
             "{\"name\":\"dashboards\",\"scope\":[\"cards\",{\"expires\":1}],\"issued\":null}");
    redis_do(r, "HSET channels:stats:7 2026-11-20 1");
    redis_do(r, "SET channels:schema 2");
    redis_do(r, "ZADD channels:index_by_category 1 7");
    redis_do(r, "SADD channels:cards 7");
    redis_do(r, "LPUSH channels:api_keys_revoked x");
}

static void fill_later_schema(struct redis *r)
{
    fill_first_schema(r);
    add_what_a_later_version_may_add(r);
}

static void expect_body(struct fixture *f, const char *path, const char *expected)
{
    AUTOFREE char *body = fixture_body(f, path);
    assert_string_equal(body, expected);
}

static void expect_bodies(struct fixture *f)
{
    for (int i = 0; i < 2; i++) { /* from Redis, and from the cache */
        expect_body(f, "channels/", LIST_BODY);
        expect_body(f, "channel/by-id/-68832134583642/", CARD_BODY(FULL_CARD));
        expect_body(f, "channel/by-id/7/", CARD_BODY(FEW_CARD));
        expect_body(f, "channel/by-link/?link=https://web.max.ru/Autokorneri", CARD_BODY(FULL_CARD));
        fixture_expect(f, "channel/by-id/8/", 404);
    }
    assert_int_equal(http_get_status(f->server.port, "/api/channels/", FIXTURE_WRONG), 401);
    fixture_expect_metric(f, "channeld_invalid_values_total", 0);
    fixture_expect_metric(f, "channeld_dangling_index_entries_total", 0);
}

static void expect_served(void (*fill)(struct redis *), const char *const *env)
{
    struct fixture f;
    fixture_init(&f, &(struct fixture_spec){.env = env, .fill = fill});
    expect_bodies(&f);
    ctl_expect(ctl_run_at(&f.redis, (const char *const[]){"verify", NULL}), 0,
               "2 channels, 1 API key, no problems found", NULL);
    fixture_fini(&f);
}

TEST_CASE(a_catalogue_of_the_first_schema_is_served)
{
    expect_served(fill_first_schema, NULL);
    expect_served(fill_first_schema, ENV("CHANNELD_CACHE_SIZE=0"));
}

TEST_CASE(what_a_later_version_adds_is_ignored)
{
    expect_served(fill_later_schema, NULL);
    expect_served(fill_later_schema, ENV("CHANNELD_CACHE_SIZE=0"));
}

TEST_CASE(what_a_later_version_adds_while_channeld_runs_is_ignored)
{
    struct fixture f;
    fixture_init(&f, &(struct fixture_spec){.fill = fill_first_schema});
    expect_bodies(&f);
    add_what_a_later_version_may_add(&f.redis);
    expect_bodies(&f);
    fixture_fini(&f);
}

/* A load of the same cards keeps what it does not know; a key that is revoked takes its info along. */
TEST_CASE(channelctl_leaves_what_a_later_version_added)
{
    struct fixture f;
    fixture_init(&f, &(struct fixture_spec){.fill = fill_later_schema});
    AUTOFREE char *path = text_printf("%s/cards", f.redis.dir.path);
    assert_true(text_write_file(path, FULL_CARD "\n{\"max_channel_id\":7,\"title\":\"Seven\"}\n"));
    ctl_expect(ctl_run_at(&f.redis, (const char *const[]){"load", path, "--replace", NULL}), 0,
               "2 channels: 0 changed, ", NULL);
    expect_bodies(&f);
    const char *const later[] = {"stats:7", "schema", "index_by_category", "cards", "api_keys_revoked"};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        assert_int_equal(redis_integer(&f.redis, "EXISTS channels:%s", later[i]), 1);
    assert_int_equal(redis_integer(&f.redis, "HEXISTS channels:card:7 reactions"), 1);
    ctl_expect(ctl_run_at(&f.redis, (const char *const[]){"keys", "list", NULL}), 0,
               DIGEST "\tdashboards\t-\tnever\n", NULL);
    ctl_expect(ctl_run_at(&f.redis, (const char *const[]){"keys", "revoke", DIGEST, NULL}), 0, "revoked",
               NULL);
    assert_int_equal(redis_integer(&f.redis, "EXISTS channels:api_key_info"), 0);
    fixture_await(&f, "channels/", 401);
    fixture_fini(&f);
}
