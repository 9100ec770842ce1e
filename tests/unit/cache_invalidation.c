/* Which push means what, and when entries may be served or stored. */
#include "cache/invalidation.h"

#include "unit/fake_redis.h"
#include "unit/fixtures/cache_clock.h"

static struct keyspace keyspace;
static struct cache_metrics metrics;
static struct loop_lag loop_lag;
static struct invalidation invalidation;
static char told[512]; /* what the subscriber was told, since it was last looked at */

static void note(const char *what, long long number)
{
    size_t len = strlen(told);
    (void)snprintf(told + len, sizeof told - len, "%s%s %lld", len > 0 ? ", " : "", what, number);
}

static void on_card(void *arg, int64_t id)
{
    (void)arg;
    note("card", id);
}

static void on_link(void *arg, struct span link)
{
    (void)arg;
    assert_span(link, "https://max.ru/x");
    note("link", 0);
}

static void on_received(void *arg, unsigned what)
{
    (void)arg;
    note("received", what);
}

static void on_drop(void *arg, unsigned what)
{
    (void)arg;
    note("drop", what);
}

static void on_check(void *arg)
{
    (void)arg;
    note("check", 0);
}

/* Connected, and nothing told yet. */
static int set_up(void **state)
{
    const struct invalidation_subscriber subscriber = {on_card, on_link,  on_received,
                                                       on_drop, on_check, NULL};
    (void)state;
    clock_ms = 1000000;
    metrics = (struct cache_metrics){0};
    told[0] = '\0';
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    assert_int_equal(invalidation_init(&invalidation, &keyspace, &metrics, &loop_lag, true, &subscriber), 0);
    assert_int_equal(invalidation_freshness(&invalidation, clock_ms, clock_ms, 1000), FRESHNESS_NONE);
    assert_false(invalidation_may_store(&invalidation));
    invalidation_connected(&invalidation, true);
    assert_string_equal(told, "drop 1"); /* what an older connection brought */
    told[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    invalidation_fini(&invalidation);
    return 0;
}

/* The subscriber was told this by the push of a key (NULL: of null). */
static void expect(const char *key, bool checking, const char *expected)
{
    const redisReply *reply = key == NULL ? reply_of("_\r\n") : reply_string(key);
    told[0] = '\0';
    invalidation_push(&invalidation, SPAN("invalidate"), reply, checking);
    assert_string_equal(told, expected);
}

static void expect_applied(const char *expected)
{
    told[0] = '\0';
    invalidation_apply(&invalidation);
    assert_string_equal(told, expected);
}

static void expect_lost(bool missing, const char *expected)
{
    told[0] = '\0';
    invalidation_lost(&invalidation, clock_ms, UINT64_MAX, missing);
    assert_string_equal(told, expected);
}

static enum freshness freshness(uint64_t last_pong_ms)
{
    return invalidation_freshness(&invalidation, clock_ms, last_pong_ms, 30000);
}

TEST_CASE_WITH(keys_are_told_by_their_names, set_up, tear_down)
{
    expect("test:card:7", false, "card 7");
    expect("test:card:-9223372036854775808", false, "card -9223372036854775808");
    expect("test:link:https://max.ru/x", false, "link 0");
    expect("test:index", false, "received 2, check 0");
    expect("test:api_keys", false, "received 4, check 0");
    expect(NULL, false, "received 1, check 0");
    assert_int_equal(metrics.cache_invalidations_total, 5);
}

TEST_CASE_WITH(names_of_other_keys_mean_nothing, set_up, tear_down)
{
    static const char *const others[] = {"test:card:",
                                         "test:card:x",
                                         "test:card:7 ",
                                         "test:card:07",
                                         "test:index:next",
                                         "test:inde",
                                         "test:loader",
                                         "test:api_keys2",
                                         "other:card:7",
                                         "card:7",
                                         "",
                                         "test:",
                                         "test:card:9223372036854775808"};
    for (size_t i = 0; i < TEST_COUNT(others); i++)
        expect(others[i], false, "");
    assert_int_equal(invalidation_deferred(&invalidation), 0);
    told[0] = '\0';
    invalidation_push(&invalidation, SPAN("message"), reply_string("test:card:7"), false);
    invalidation_push(&invalidation, SPAN(""), reply_of("_\r\n"), false);
    assert_string_equal(told, "");
}

TEST_CASE_WITH(an_element_that_cannot_be_read_means_everything, set_up, tear_down)
{
    invalidation_push(&invalidation, SPAN("invalidate"), &resp_oversize, false);
    assert_string_equal(told, "received 1, check 0");
    assert_int_equal(invalidation_deferred(&invalidation), INVALIDATED_ALL);
}

TEST_CASE_WITH(deferred_changes_are_dropped_after_the_check, set_up, tear_down)
{
    expect("test:index", false, "received 2, check 0");
    assert_int_equal(invalidation_deferred(&invalidation), INVALIDATED_INDEX);
    assert_true(invalidation_may_store(&invalidation));
    assert_false(invalidation_may_store_index(&invalidation));
    expect("test:api_keys", false, "received 4, check 0");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect_applied("drop 6");
    assert_true(invalidation_may_store_index(&invalidation));
    expect_applied("");
}

TEST_CASE_WITH(nothing_is_served_or_stored_while_everything_is_deferred, set_up, tear_down)
{
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect(NULL, false, "received 1, check 0");
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    assert_false(invalidation_may_store(&invalidation));
    assert_false(invalidation_may_store_index(&invalidation));
    expect(NULL, false, "received 1, check 0"); /* however often */
    expect_applied("drop 1");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    assert_true(invalidation_may_store(&invalidation));
}

/* What changes all the time is not checked each time, unless a check is under way as it is. */
TEST_CASE_WITH(frequent_changes_are_dropped_without_a_check, set_up, tear_down)
{
    expect("test:index", false, "received 2, check 0");
    invalidation_apply(&invalidation);
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    expect("test:api_keys", false, "received 4, check 0"); /* these have their own interval */
    invalidation_apply(&invalidation);
    expect("test:api_keys", false, "received 4, drop 4");
    expect("test:index", true, "received 2, check 0");
    invalidation_apply(&invalidation);
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    clock_ms++;
    expect("test:index", false, "received 2, check 0");
}

TEST_CASE_WITH(changes_that_may_leave_no_keys_are_possible_losses, set_up, tear_down)
{
    uint64_t before = invalidation_possible_losses(&invalidation);
    expect("test:index", false, "received 2, check 0");
    expect("test:card:1", false, "card 1");
    assert_int_equal(invalidation_possible_losses(&invalidation), before);
    expect("test:api_keys", false, "received 4, check 0");
    assert_int_equal(invalidation_possible_losses(&invalidation), before + 1);
    invalidation_apply(&invalidation);
    expect("test:api_keys", false, "received 4, drop 4"); /* also without a check */
    expect(NULL, false, "received 1, check 0");
    assert_int_equal(invalidation_possible_losses(&invalidation), before + 3);
}

TEST_CASE_WITH(entries_are_fresh_within_the_lease, set_up, tear_down)
{
    uint64_t last_pong_ms = clock_ms;
    clock_ms += INVALIDATION_LEASE_MS;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_FRESH);
    clock_ms++;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_NONE);
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
}

TEST_CASE_WITH(after_a_loss_entries_are_stale_for_the_limit, set_up, tear_down)
{
    uint64_t lost_ms = clock_ms;
    expect_lost(false, "");
    assert_int_equal(invalidation_lost_ms(&invalidation), lost_ms);
    assert_false(invalidation_may_store(&invalidation));
    clock_ms += 29999;
    assert_int_equal(freshness(0), FRESHNESS_STALE);
    clock_ms++;
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    invalidation_connected(&invalidation, true);
    assert_string_equal(told, "drop 1");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
}

TEST_CASE_WITH(what_was_lost_before_it_was_noticed_is_as_old_as_that, set_up, tear_down)
{
    uint64_t last_pong_ms = clock_ms;
    clock_ms += 10000; /* the process was stopped */
    invalidation_lost(&invalidation, last_pong_ms, UINT64_MAX, false);
    assert_int_equal(invalidation_lost_ms(&invalidation), last_pong_ms + INVALIDATION_LEASE_MS);
    invalidation_connected(&invalidation, true);
    invalidation_lost(&invalidation, clock_ms, clock_ms - 5000, false); /* a replica without master */
    assert_int_equal(invalidation_lost_ms(&invalidation), clock_ms - 5000);
    invalidation_connected(&invalidation, true);
    expect(NULL, false, "received 1, check 0");
    clock_ms += 700;
    expect("test:index", true, "received 2, check 0");
    invalidation_lost(&invalidation, clock_ms, UINT64_MAX, true);
    assert_int_equal(invalidation_lost_ms(&invalidation), clock_ms - 700); /* when the first was told */
}

TEST_CASE_WITH(a_loss_applies_what_is_deferred_unless_the_catalogue_is_missing, set_up, tear_down)
{
    expect("test:api_keys", false, "received 4, check 0");
    expect_lost(false, "drop 4");
    clock_ms += 1000;
    invalidation_connected(&invalidation, true);
    expect(NULL, false, "received 1, check 0");
    expect_lost(true, "");
    assert_int_equal(invalidation_deferred(&invalidation), 0);
    assert_int_equal(freshness(0), FRESHNESS_STALE);
}

TEST_CASE_WITH(suspension_ends_with_the_connection, set_up, tear_down)
{
    expect("test:index", false, "received 2, check 0");
    told[0] = '\0';
    invalidation_suspend(&invalidation);
    assert_string_equal(told, "drop 1");
    assert_int_equal(metrics.cache_suspended, 1);
    assert_int_equal(invalidation_deferred(&invalidation), 0);
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    assert_false(invalidation_may_store(&invalidation));
    expect("test:card:7", false, "");
    expect(NULL, false, "");
    invalidation_lost(&invalidation, clock_ms, UINT64_MAX, false);
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE); /* not even stale */
    invalidation_connected(&invalidation, true);
    assert_int_equal(metrics.cache_suspended, 0);
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect("test:card:7", false, "card 7");
}

TEST_CASE_WITH(without_tracking_or_a_cache_nothing_is_stored_or_served, set_up, tear_down)
{
    const struct invalidation_subscriber subscriber = {on_card, on_link,  on_received,
                                                       on_drop, on_check, NULL};
    struct invalidation off;
    invalidation_lost(&invalidation, clock_ms, UINT64_MAX, false);
    invalidation_connected(&invalidation, false);
    assert_false(invalidation_may_store(&invalidation));
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    invalidation_lost(&invalidation, clock_ms, UINT64_MAX, false);
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    assert_int_equal(invalidation_init(&off, &keyspace, &metrics, &loop_lag, false, &subscriber), 0);
    invalidation_connected(&off, true);
    assert_false(invalidation_may_store(&off));
    assert_int_equal(invalidation_freshness(&off, clock_ms, clock_ms, 1000), FRESHNESS_NONE);
    invalidation_fini(&off);
}
