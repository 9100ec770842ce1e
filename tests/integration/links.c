/*
 * A link is an index, and the card is the truth: a response by link is a card whose own link is that link,
 * also where cards are cached by TTL. Links cost Redis no memory. While links change hands tests/simulation
 * and tests/coherence compare it; link keys that lead astray are in tests/integration/requests/cards.http.
 */

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define BY_LINK "channel/by-link/?link="

static const char *const BY_KEY[] = {"CHANNELD_WORKERS=1", "CHANNELD_TRACKING=keys", NULL};

/* ---- links that change hands ---- */

enum { READERS = 4, EXCHANGES_PER_S = 300, BRIEF_MS = 700, LONG_MS = 30000 };

static const char *const LINKS[] = {"https://max.ru/left", "https://max.ru/right"};

struct readers {
    int port;
    atomic_bool stopping;
    atomic_int right;  /* responses with the link that was asked for */
    atomic_int wrong;  /* responses with another one */
    atomic_int others; /* other statuses */
    atomic_int status; /* the last of those */
};

static void judge(struct readers *r, const struct http_response *response, const char *link)
{
    AUTOFREE char *own = text_printf("\"link\":\"%s\"", link);
    if (response->status != 200) {
        atomic_fetch_add(&r->others, 1);
        atomic_store(&r->status, response->status);
    } else {
        atomic_fetch_add(strstr(response->body, own) != NULL ? &r->right : &r->wrong, 1);
    }
}

static void *run_reader(void *arg)
{
    struct readers *r = arg;
    struct http_conn conn;
    if (http_open(&conn, r->port) != 0)
        return NULL;
    for (size_t i = 0; !atomic_load(&r->stopping); i++) {
        struct http_response response;
        AUTOFREE char *target = text_printf("/api/" BY_LINK "%s", LINKS[i % 2]);
        if (http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response) != 0)
            break;
        judge(r, &response, LINKS[i % 2]);
        http_response_free(&response);
    }
    http_close(&conn);
    return NULL;
}

/* The channels exchange their links, in one transaction. */
static void exchange(struct redis *redis, int round)
{
    redis_do(redis, "MULTI");
    for (int id = 1; id <= 2; id++) {
        const char *link = LINKS[(id + round) % 2];
        redis_do(redis, "HSET channels:card:%d link %s", id, link);
        redis_do(redis, "SET channels:link:%s %d", link, id);
    }
    redis_do(redis, "EXEC");
}

static void put_channels(struct redis *redis)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    for (int id = 1; id <= 2; id++)
        catalogue_put(redis,
                      text_temp("{\"max_channel_id\":%d,\"title\":\"t\",\"link\":\"%s\"}", id, LINKS[id % 2]),
                      id);
}

/* A Redis that refuses to track. */
static void put_channels_untracked(struct redis *redis)
{
    put_channels(redis);
    redis_do(redis, "ACL SETUSER untracked on nopass ~* +@all -client|tracking");
}

static void exchange_while_read(struct redis *writer, int port, int ms)
{
    struct readers readers = {.port = port};
    pthread_t thread[READERS];
    int64_t began = wait_now_ms();
    int round = 0;
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_reader, &readers), 0);
    for (int64_t now = began; now - began < ms; now = wait_now_ms()) {
        for (; round < (now - began) * EXCHANGES_PER_S / 1000; round++)
            exchange(writer, round);
        (void)poll(NULL, 0, 1);
    }
    atomic_store(&readers.stopping, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    if (atomic_load(&readers.wrong) > 0 || atomic_load(&readers.others) > 0)
        fail_msg("of %d responses after %d exchanges %d have another link, %d are errors, the last a %d",
                 atomic_load(&readers.right), round, atomic_load(&readers.wrong),
                 atomic_load(&readers.others), atomic_load(&readers.status));
    assert_true(atomic_load(&readers.right) > 0);
}

/* Cards that are cached for a while have the links that they had when they were read. */
static void expect_own_links_by_ttl(int ms)
{
    AUTO(fixture_drop)
    struct fixture *f = fixture_new_with(&(struct fixture_spec){
        .fill = put_channels_untracked, .userinfo = "untracked:x@", .env = ENV("CHANNELD_CACHE_TTL=20ms")});
    exchange_while_read(&f->redis, f->server.port, ms);
    assert_true(server_metric(&f->server, "channeld_cache_by_ttl") > 0);
    assert_true(server_metric(&f->server, "channeld_cache_hits_total") > 0);
}

TEST_CASE(links_that_change_hands_lead_to_their_cards_by_ttl)
{
    expect_own_links_by_ttl(BRIEF_MS);
}

SLOW_TEST(links_that_change_hands_for_long_lead_to_their_cards_by_ttl)
{
    expect_own_links_by_ttl(LONG_MS);
}

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
    enum { LOOKUPS = 50, ASTRAY = 2 };
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

static void expect_links_untracked_by(const char *name)
{
    AUTOFREE char *path = redis_other_program(name);
    expect_links_untracked(path);
}

TEST_CASE(links_are_not_tracked_by_redis_8)
{
    expect_links_untracked_by("redis8-server");
}

TEST_CASE(links_are_not_tracked_by_valkey)
{
    expect_links_untracked_by("valkey-server");
}
