/*
 * A link is an index, and the card is the truth: a response by link is a card whose own link is that link,
 * also where cards are cached by TTL. Links cost Redis no memory. While links change hands tests/simulation
 * and tests/coherence compare it; link keys that lead astray are in tests/integration/requests/cards.http.
 */

#include <stdlib.h>

#include "support/fixture.h"

#define BY_LINK "channel/by-link/?link="

static const char *const BY_KEY[] = {"CHANNELD_WORKERS=1", "CHANNELD_TRACKING=keys", NULL};

/* ---- what links cost Redis ---- */

static void expect_tracked(struct fixture *f, long long keys)
{
    assert_int_equal(redis_info_number(&f->redis, "tracking_total_keys"), keys);
    assert_int_equal(redis_info_number(&f->redis, "tracking_total_items"), keys);
}

static double invalidations(struct fixture *f)
{
    return server_metric(&f->server, "channeld_cache_invalidations_total");
}

/* Redis has the cards registered, that of id 0 by the check of the rights, too, and no link. */
static void expect_links_untracked(const char *program)
{
    enum { LOOKUPS = 50 };
    AUTO(fixture_drop)
    struct fixture *f =
        fixture_new_with(&(struct fixture_spec){.channels = LOOKUPS, .env = BY_KEY, .program = program});
    fixture_expect(f, "channel/by-id/0/", 200); /* the keys are held */
    long long before = redis_info_number(&f->redis, "tracking_total_keys") - 1;
    redis_do(&f->redis, "SET channels:link:https://max.ru/astray %lld", (long long)catalogue_id(0));
    for (int i = 0; i < LOOKUPS; i++) {
        AUTOFREE char *link = catalogue_link((size_t)i);
        AUTOFREE char *encoded = text_percent_encode(link);
        fixture_expect(f, text_temp(BY_LINK "%s", encoded), 200);
        fixture_expect(f, text_temp(BY_LINK "https://max.ru/absent%d", i), 404);
        fixture_expect(f, BY_LINK "https://max.ru/astray", 404);
    }
    expect_tracked(f, before + LOOKUPS);
    double pushes = invalidations(f);
    for (int i = 0; i < LOOKUPS; i++) {
        AUTOFREE char *link = catalogue_link((size_t)i);
        redis_do(&f->redis, "SET channels:link:%s 424242", link);
        redis_do(&f->redis, "SET channels:link:https://max.ru/absent%d 424242", i);
        redis_do(&f->redis, "DEL channels:link:https://max.ru/astray");
    }
    redis_do(&f->redis, "HSET channels:card:%lld title last", (long long)catalogue_id(LOOKUPS - 1));
    server_await_metric(&f->server, "channeld_cache_invalidations_total", pushes + 1);
    assert_true(invalidations(f) == pushes + 1);
    expect_tracked(f, before + LOOKUPS - 1);
    fixture_expect_metric(f, "channeld_redis_error_replies_total", 0);
}

TEST_CASE(links_are_not_tracked)
{
    expect_links_untracked(NULL);
}

TEST_CASE(links_are_not_tracked_by_redis_8)
{
    AUTOFREE char *path = redis_other_program("redis8-server");
    expect_links_untracked(path);
}

TEST_CASE(links_are_not_tracked_by_valkey)
{
    AUTOFREE char *path = redis_other_program("valkey-server");
    expect_links_untracked(path);
}
