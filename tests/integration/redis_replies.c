/*
 * Unexpected replies of Redis. One of its commands is replaced by another, of another type: that is an error
 * and no data, so 500, never 401 or 404, and never cached. And replies of any size: a card that is too large
 * fails its own requests alone, a push that names more keys than any reply may hold is applied completely, in
 * bounded memory. These are slow, since on a busy machine such a reply takes longer than Redis may be silent.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/ctl.h"
#include "support/fixture.h"
#include "support/footprint.h"

static const char *const CACHED[] = {"CHANNELD_WORKERS=1", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=0", NULL};

/* The command `victim` does what `impostor` does. */
static struct fixture *begin(const char *victim, const char *impostor, const char *const *env)
{
    const char *const args[] = {"--rename-command", victim, "GENUINE", "--rename-command",
                                impostor,           victim, NULL};
    return fixture_new_with(&(struct fixture_spec){.channels = 3, .env = env, .redis_args = args});
}

TEST_CASE(wrong_type_of_reply_is_500)
{
    static const struct {
        const char *victim, *impostor, *path;
    } rows[] = {
        {"GET", "STRLEN", "channel/by-link/?link=https://max.ru/sample_1"}, /* a number for a text */
        {"HMGET", "EXISTS", "channel/by-id/0/"},                            /* a number for a list */
        {"HMGET", "EXISTS", "channels/"},
        {"ZCARD", "TYPE", "channels/"}, /* a text for a number */
        {"ZRANGE", "EXISTS", "channels/"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTO(fixture_drop) struct fixture *fixture = begin(rows[i].victim, rows[i].impostor, CACHED);
        for (int n = 0; n < 2; n++) {
            int status = fixture_status(fixture, rows[i].path);
            if (status != 500)
                fail_msg("%s by %s: %s is %d", rows[i].victim, rows[i].impostor, rows[i].path, status);
        }
    }
}

TEST_CASE(unexpected_result_for_a_key_is_500)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("SISMEMBER", "SMISMEMBER", UNCACHED);
    fixture_expect(fixture, "channels/", 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_WRONG), 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", NULL), 401);
}

/* Then each key is checked in Redis. */
TEST_CASE(wrong_type_of_key_set_is_ignored)
{
    static const char *const victims[] = {"SCARD", "SMEMBERS"};
    for (size_t i = 0; i < TEST_COUNT(victims); i++) {
        AUTO(fixture_drop) struct fixture *fixture = begin(victims[i], "TYPE", CACHED);
        for (int n = 0; n < 3; n++) {
            fixture_expect(fixture, "channels/", 200);
            assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_WRONG), 401);
        }
    }
}

TEST_CASE(channelctl_reports_wrong_types_of_replies)
{
    static const struct {
        const char *victim, *impostor, *operation;
    } rows[] = {{"SCAN", "EXISTS", "verify"}, {"ZSCAN", "EXISTS", "verify"}, {"SSCAN", "EXISTS", "verify"},
                {"TYPE", "EXISTS", "verify"}, /* a number is no type */
                {"ZCARD", "ECHO", "verify"},  {"PTTL", "ECHO", "verify"},    {"HMGET", "EXISTS", "load"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *const args[] = {"--rename-command", rows[i].victim, "GENUINE", "--rename-command",
                                    rows[i].impostor,   rows[i].victim, NULL};
        AUTO(redis_stop) struct redis other;
        redis_start(&other, args);
        AUTOFREE char *file = text_printf("%s/file", other.dir.path);
        catalogue_write_file(file, 3);
        catalogue_issue_key(&other, "a key");
        catalogue_put_samples(&other, 3);
        const char *const words[] = {rows[i].operation, strcmp(rows[i].operation, "load") == 0 ? file : NULL,
                                     NULL};
        AUTO(ctl_run_free) struct ctl_run run = ctl_run_at(&other, words);
        if (run.status != 1 || strstr(run.err, "unexpected reply from Redis") == NULL)
            fail_msg("%s by %s: %d: %s%s", rows[i].victim, rows[i].impostor, run.status, run.out, run.err);
    }
}

/* ---- large replies ---- */

enum { CHANNELS = 150, TOO_LARGE = 70 << 20, KEYS = 10000, NAME_SIZE = 8000 };

static const char *const PATIENT[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=30s",
                                      "CHANNELD_TRACKING=broadcast", NULL};

static const char CARD[] = "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}";

static double metric(struct fixture *f, const char *name)
{
    return server_metric(&f->server, name);
}

/* The description of channel 5 is larger than any reply may be. */
static void store_too_large_a_card(struct fixture *f)
{
    AUTOFREE char *text = text_repeat('x', TOO_LARGE);
    redis_do(&f->redis, "HSET channels:card:5 description %b", text, (size_t)TOO_LARGE);
}

/* Several at a time, each with its own connection; the failing one in between. */
static void expect_only_the_large_card_to_fail(struct fixture *f)
{
    enum { TOGETHER = 9, LARGE = TOGETHER / 2 };
    struct http_conn conn[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        fixture_start_get(
            f, &conn[i],
            text_temp("channel/by-id/%lld/", i == LARGE ? 5 : (long long)catalogue_id((size_t)i)));
    }
    for (int i = 0; i < TOGETHER; i++) {
        http_expect(&conn[i], i == LARGE ? 500 : 200);
        http_close(&conn[i]);
    }
}

/* A card that is too large is left out of its page. */
static void expect_on_first_page(struct fixture *f, bool expected)
{
    AUTOFREE char *page = fixture_body(f, "channels/");
    assert_int_equal(strstr(page, "\"five\"") != NULL, expected);
}

static void check_a_large_card(const char *const *env)
{
    enum { ROUNDS = 3, KEPT_KIB = 24 * 1024 };
    AUTO(fixture_drop) struct fixture *f = fixture_new(CHANNELS, env);
    catalogue_put(&f->redis, CARD, 5);
    fixture_expect(f, "channel/by-id/5/", 200);
    expect_on_first_page(f, true);
    double flushes = metric(f, "channeld_cache_flushes_total");
    long before_kib = footprint_of(f->server.process.pid).peak_kib;
    store_too_large_a_card(f);
    for (int i = 0; i < ROUNDS; i++)
        expect_only_the_large_card_to_fail(f);
    fixture_expect(f, "channel/by-link/?link=https://max.ru/five", 500);
    assert_true(metric(f, "channeld_redis_oversize_replies_total") == ROUNDS + 1);
    expect_on_first_page(f, false);
    assert_false(server_has_lost_redis(&f->server));
    /* Each loss adds one. */
    assert_true(metric(f, "channeld_cache_flushes_total") <=
                flushes + metric(f, "channeld_redis_disconnects_total"));
    long grown_kib = footprint_of(f->server.process.pid).peak_kib - before_kib;
    if (footprint_is_meaningful())
        assert_in_range(grown_kib, 0, KEPT_KIB);
    server_await_log(&f->server, "\"key\":\"channels:card:5\"");
    server_expect_log(&f->server, "channels:card:5", 1);
    redis_do(&f->redis, "HSET channels:card:5 description small");
    fixture_expect(f, "channel/by-id/5/", 200);
    expect_on_first_page(f, true);
}

SLOW_TEST(too_large_card_fails_alone)
{
    check_a_large_card(PATIENT);
}

/* What the names of many cards begin with, which are so long that few keys are enough. Owned. */
static char *long_card(void)
{
    AUTOFREE char *filler = text_repeat('a', NAME_SIZE - 100);
    char *card = text_printf("channels:card:%s", filler);
    return card;
}

struct progress {
    struct fixture *fixture;
    double invalidations;
};

static bool is_disconnected(struct fixture *f)
{
    return metric(f, "channeld_redis_disconnects_total") > 0;
}

static bool is_applied_or_disconnected(void *arg)
{
    const struct progress *p = arg;
    return metric(p->fixture, "channeld_cache_invalidations_total") >= p->invalidations ||
           is_disconnected(p->fixture);
}

/* False when the connection is lost meanwhile, for which there may be one reason: Redis is busy with such a
 * command, or its machine with other programs, for longer than the reply timeout. */
static bool await_invalidations(struct fixture *f, double count)
{
    struct progress progress = {f, count};
    assert_true(wait_until_politely(is_applied_or_disconnected, &progress, 6 * WAIT_DEADLINE_MS));
    if (!is_disconnected(f))
        return true;
    server_await_log(&f->server, "no reply in time");
    return false;
}

static bool store_cards(struct fixture *f, const char *card)
{
    enum { AT_A_TIME = 1000 };
    bool connected = true;
    for (int first = 0; connected && first < KEYS; first += AT_A_TIME) {
        redis_do(&f->redis, "EVAL %s 0 %s %d %d",
                 "for i = ARGV[2], ARGV[3] do redis.call('SET', ARGV[1] .. ':' .. i, '1') end", card, first,
                 first + AT_A_TIME - 1);
        connected = await_invalidations(f, first + AT_A_TIME);
    }
    return connected;
}

/* UNLINK of so many keys that the largest reply could not hold their names, with a card before and one behind
 * them: all of it is one push. */
static void unlink_many(struct fixture *f, const char *card, const char *first, const char *last)
{
    size_t used = 0;
    const char **args = calloc(KEYS + 3, sizeof *args);
    char(*names)[NAME_SIZE] = calloc(KEYS, sizeof *names);
    assert_non_null(args);
    assert_non_null(names);
    args[used++] = "UNLINK";
    args[used++] = first;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s:%d", card, i);
        args[used++] = names[i];
    }
    args[used++] = last;
    redis_do_argv(&f->redis, used, args, NULL);
    free(names);
    free(args);
}

/* False when the connection was lost because Redis was silent for the reply timeout. */
static bool push_is_applied(void)
{
    enum { KEPT_KIB = 16 * 1024 };
    AUTO(fixture_drop) struct fixture *f = fixture_new(3, PATIENT);
    AUTOFREE char *card = long_card();
    if (!store_cards(f, card))
        return false;
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"first\"}", 5);
    catalogue_put(&f->redis, "{\"max_channel_id\":6,\"title\":\"last\"}", 6);
    catalogue_put(&f->redis, "{\"max_channel_id\":7,\"title\":\"untouched\"}", 7);
    for (int i = 0; i < 2; i++) {
        fixture_expect(f, "channel/by-id/5/", 200);
        fixture_expect(f, "channel/by-id/6/", 200);
        fixture_expect(f, "channel/by-id/7/", 200);
    }
    double invalidated = metric(f, "channeld_cache_invalidations_total");
    double flushes = metric(f, "channeld_cache_flushes_total");
    long before_kib = footprint_of(f->server.process.pid).peak_kib;
    /* Redis is busy with the command for long: this is not silence to a process that is stopped. */
    process_signal(&f->server.process, SIGSTOP);
    unlink_many(f, card, "channels:card:5", "channels:card:6");
    process_signal(&f->server.process, SIGCONT);
    if (!await_invalidations(f, invalidated + KEYS + 2))
        return false;
    fixture_expect(f, "channel/by-id/5/", 404);
    fixture_expect(f, "channel/by-id/6/", 404);
    double misses = metric(f, "channeld_cache_misses_total");
    fixture_expect(f, "channel/by-id/7/", 200); /* from memory, as before */
    if (!await_invalidations(f, 0))
        return false;
    assert_true(metric(f, "channeld_cache_misses_total") == misses);
    assert_true(metric(f, "channeld_cache_flushes_total") == flushes);
    long grown_kib = footprint_of(f->server.process.pid).peak_kib - before_kib;
    if (footprint_is_meaningful())
        assert_in_range(grown_kib, 0, KEPT_KIB);
    return true;
}

SLOW_TEST(push_of_any_size_is_applied)
{
    enum { ATTEMPTS = 5 };
    for (int i = 1; i <= ATTEMPTS; i++)
        if (push_is_applied())
            return;
    fail_msg("redis did not reply in time in any of %d attempts", ATTEMPTS);
}
