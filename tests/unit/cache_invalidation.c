/* Which push means what, and when entries may be served or stored. */
#include "cache/invalidation.h"

#include "base/clock.h"
#include "unit/fake_redis.h"

static uint64_t now_ms;

uint64_t clock_now_ns(void)
{
    return now_ms * 1000000;
}

uint64_t clock_boot_ms(void)
{
    return now_ms;
}

void clock_stamp_utc(char out[CLOCK_STAMP_LEN])
{
    memset(out, '0', CLOCK_STAMP_LEN);
}

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
    now_ms = 1000000;
    metrics = (struct cache_metrics){0};
    told[0] = '\0';
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    assert_int_equal(invalidation_init(&invalidation, &keyspace, &metrics, &loop_lag, true, &subscriber), 0);
    assert_int_equal(invalidation_freshness(&invalidation, now_ms, now_ms, 1000), FRESHNESS_NONE);
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

static enum freshness freshness(uint64_t last_pong_ms)
{
    return invalidation_freshness(&invalidation, now_ms, last_pong_ms, 30000);
}

TEST(keys_are_told_by_their_names)
{
    expect("test:card:7", false, "card 7");
    expect("test:card:-9223372036854775808", false, "card -9223372036854775808");
    expect("test:link:https://max.ru/x", false, "link 0");
    expect("test:index", false, "received 2, check 0");
    expect("test:api_keys", false, "received 4, check 0");
    expect(NULL, false, "received 1, check 0");
    assert_int_equal(metrics.cache_invalidations_total, 5);
}

TEST(names_of_other_keys_mean_nothing)
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

TEST(an_element_that_cannot_be_read_means_everything)
{
    invalidation_push(&invalidation, SPAN("invalidate"), &resp_oversize, false);
    assert_string_equal(told, "received 1, check 0");
    assert_int_equal(invalidation_deferred(&invalidation), INVALIDATED_ALL);
}

TEST(deferred_changes_are_dropped_after_the_check)
{
    expect("test:index", false, "received 2, check 0");
    assert_int_equal(invalidation_deferred(&invalidation), INVALIDATED_INDEX);
    assert_true(invalidation_may_store(&invalidation));
    assert_false(invalidation_may_store_index(&invalidation));
    expect("test:api_keys", false, "received 4, check 0");
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
    told[0] = '\0';
    invalidation_apply(&invalidation);
    assert_string_equal(told, "drop 6");
    assert_true(invalidation_may_store_index(&invalidation));
    told[0] = '\0';
    invalidation_apply(&invalidation);
    assert_string_equal(told, "");
}

TEST(nothing_is_served_or_stored_while_everything_is_deferred)
{
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
    expect(NULL, false, "received 1, check 0");
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE);
    assert_false(invalidation_may_store(&invalidation));
    assert_false(invalidation_may_store_index(&invalidation));
    expect(NULL, false, "received 1, check 0"); /* however often */
    told[0] = '\0';
    invalidation_apply(&invalidation);
    assert_string_equal(told, "drop 1");
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
    assert_true(invalidation_may_store(&invalidation));
}

/* What changes all the time is not checked each time, unless a check is under way as it is. */
TEST(frequent_changes_are_dropped_without_a_check)
{
    expect("test:index", false, "received 2, check 0");
    invalidation_apply(&invalidation);
    now_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    expect("test:api_keys", false, "received 4, check 0"); /* these have their own interval */
    invalidation_apply(&invalidation);
    expect("test:api_keys", false, "received 4, drop 4");
    expect("test:index", true, "received 2, check 0");
    invalidation_apply(&invalidation);
    now_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    now_ms++;
    expect("test:index", false, "received 2, check 0");
}

TEST(changes_that_may_leave_no_keys_are_possible_losses)
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

TEST(entries_are_fresh_within_the_lease)
{
    uint64_t last_pong_ms = now_ms;
    now_ms += INVALIDATION_LEASE_MS;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_FRESH);
    now_ms++;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_NONE);
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
}

TEST(after_a_loss_entries_are_stale_for_the_limit)
{
    uint64_t lost_ms = now_ms;
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, false);
    assert_string_equal(told, "");
    assert_int_equal(invalidation_lost_ms(&invalidation), lost_ms);
    assert_false(invalidation_may_store(&invalidation));
    now_ms += 29999;
    assert_int_equal(freshness(0), FRESHNESS_STALE);
    now_ms++;
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE);
    invalidation_connected(&invalidation, true);
    assert_string_equal(told, "drop 1");
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
}

TEST(what_was_lost_before_it_was_noticed_is_as_old_as_that)
{
    uint64_t last_pong_ms = now_ms;
    now_ms += 10000; /* the process was stopped */
    invalidation_lost(&invalidation, last_pong_ms, UINT64_MAX, false);
    assert_int_equal(invalidation_lost_ms(&invalidation), last_pong_ms + INVALIDATION_LEASE_MS);
    invalidation_connected(&invalidation, true);
    invalidation_lost(&invalidation, now_ms, now_ms - 5000, false); /* a replica without master */
    assert_int_equal(invalidation_lost_ms(&invalidation), now_ms - 5000);
    invalidation_connected(&invalidation, true);
    expect(NULL, false, "received 1, check 0");
    now_ms += 700;
    expect("test:index", true, "received 2, check 0");
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, true);
    assert_int_equal(invalidation_lost_ms(&invalidation), now_ms - 700); /* when the first was told */
}

TEST(a_loss_applies_what_is_deferred_unless_the_catalogue_is_missing)
{
    expect("test:api_keys", false, "received 4, check 0");
    told[0] = '\0';
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, false);
    assert_string_equal(told, "drop 4");
    now_ms += 1000;
    invalidation_connected(&invalidation, true);
    expect(NULL, false, "received 1, check 0");
    told[0] = '\0';
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, true);
    assert_string_equal(told, "");
    assert_int_equal(invalidation_deferred(&invalidation), 0);
    assert_int_equal(freshness(0), FRESHNESS_STALE);
}

TEST(suspension_ends_with_the_connection)
{
    expect("test:index", false, "received 2, check 0");
    told[0] = '\0';
    invalidation_suspend(&invalidation);
    assert_string_equal(told, "drop 1");
    assert_int_equal(metrics.cache_suspended, 1);
    assert_int_equal(invalidation_deferred(&invalidation), 0);
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE);
    assert_false(invalidation_may_store(&invalidation));
    expect("test:card:7", false, "");
    expect(NULL, false, "");
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, false);
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE); /* not even stale */
    invalidation_connected(&invalidation, true);
    assert_int_equal(metrics.cache_suspended, 0);
    assert_int_equal(freshness(now_ms), FRESHNESS_FRESH);
    expect("test:card:7", false, "card 7");
}

TEST(without_tracking_or_a_cache_nothing_is_stored_or_served)
{
    const struct invalidation_subscriber subscriber = {on_card, on_link,  on_received,
                                                       on_drop, on_check, NULL};
    struct invalidation off;
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, false);
    invalidation_connected(&invalidation, false);
    assert_false(invalidation_may_store(&invalidation));
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE);
    invalidation_lost(&invalidation, now_ms, UINT64_MAX, false);
    assert_int_equal(freshness(now_ms), FRESHNESS_NONE);
    assert_int_equal(invalidation_init(&off, &keyspace, &metrics, &loop_lag, false, &subscriber), 0);
    invalidation_connected(&off, true);
    assert_false(invalidation_may_store(&off));
    assert_int_equal(invalidation_freshness(&off, now_ms, now_ms, 1000), FRESHNESS_NONE);
    invalidation_fini(&off);
}

#define OF_PUSHES(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_PUSHES(keys_are_told_by_their_names),
        OF_PUSHES(names_of_other_keys_mean_nothing),
        OF_PUSHES(an_element_that_cannot_be_read_means_everything),
        OF_PUSHES(deferred_changes_are_dropped_after_the_check),
        OF_PUSHES(nothing_is_served_or_stored_while_everything_is_deferred),
        OF_PUSHES(frequent_changes_are_dropped_without_a_check),
        OF_PUSHES(changes_that_may_leave_no_keys_are_possible_losses),
        OF_PUSHES(entries_are_fresh_within_the_lease),
        OF_PUSHES(after_a_loss_entries_are_stale_for_the_limit),
        OF_PUSHES(what_was_lost_before_it_was_noticed_is_as_old_as_that),
        OF_PUSHES(a_loss_applies_what_is_deferred_unless_the_catalogue_is_missing),
        OF_PUSHES(suspension_ends_with_the_connection),
        OF_PUSHES(without_tracking_or_a_cache_nothing_is_stored_or_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
