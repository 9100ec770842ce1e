/*
 * The schema of Redis across versions (docs/running.md): channelctl leaves what a later version may have
 * added. That channeld ignores it is in tests/integration/requests/stored-values.http.
 */

#include <stdlib.h>

#include "support/ctl.h"
#include "support/fixture.h"

#define CARDS                                                          \
    "{\"max_channel_id\":8,\"title\":\"Eight\",\"category\":\"cars\"," \
    "\"followers_history\":{\"2026-11-20\":76}}\n{\"max_channel_id\":7,\"title\":\"Seven\"}\n"

static void add_what_a_later_version_may_add(struct redis *r, const char *digest)
{
    redis_do(r, "HSET channels:card:8 language fi max_channel_id2 8 Title other");
    redis_do(r, "HSET channels:card:7 reactions %s", "[1,2,3]");
    redis_do(r, "HSET channels:api_key_info %s %s", digest,
             "{\"name\":\"dashboards\",\"scope\":[\"cards\",{\"expires\":1}],\"issued\":null}");
    redis_do(r, "HSET channels:stats:7 2026-11-20 1");
    redis_do(r, "SET channels:schema 2");
    redis_do(r, "ZADD channels:index_by_category 1 7");
    redis_do(r, "SADD channels:cards 7");
    redis_do(r, "LPUSH channels:api_keys_revoked x");
}

/* A load of the same cards keeps what it does not know; a key that is revoked takes its info along. */
TEST_CASE(channelctl_leaves_what_a_later_version_added)
{
    static const char *const later[] = {"stats:7", "schema", "index_by_category", "cards",
                                        "api_keys_revoked"};
    AUTO(fixture_drop) struct fixture *f = fixture_new(0, NULL);
    AUTOFREE char *path = text_printf("%s/cards", f->redis.dir.path);
    const char *const load[] = {"load", path, "--replace", NULL};
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    assert_true(text_write_file(path, CARDS));
    ctl_expect(ctl_run_at(&f->redis, load), 0, "2 channels: 2 changed, ", NULL);
    add_what_a_later_version_may_add(&f->redis, digest);
    ctl_expect(ctl_run_at(&f->redis, load), 0, "2 channels: 0 changed, ", NULL);
    ctl_expect(ctl_run_at(&f->redis, (const char *const[]){"verify", NULL}), 0,
               "2 channels, 1 API key, no problems found", NULL);
    for (size_t i = 0; i < TEST_COUNT(later); i++)
        assert_int_equal(redis_integer(&f->redis, "EXISTS channels:%s", later[i]), 1);
    assert_int_equal(redis_integer(&f->redis, "HEXISTS channels:card:7 reactions"), 1);
    ctl_expect(ctl_run_at(&f->redis, (const char *const[]){"keys", "list", NULL}), 0,
               text_temp("%s\tdashboards\t-\tnever\n", digest), NULL);
    ctl_expect(ctl_run_at(&f->redis, (const char *const[]){"keys", "revoke", digest, NULL}), 0, "revoked",
               NULL);
    assert_int_equal(redis_integer(&f->redis, "EXISTS channels:api_key_info"), 0);
    fixture_await(f, "channels/", 401);
}
