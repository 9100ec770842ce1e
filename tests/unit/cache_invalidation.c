/* Which push means what, and when entries may be served or stored. */
#include "unit/fixtures/cache_invalidation.h"

/* Connected, and nothing told yet. */
static int set_up(void **state)
{
    assert_int_equal(invalidation_set_up(state), 0);
    assert_int_equal(validity_freshness(&validity, clock_ms), FRESHNESS_NONE);
    assert_false(validity_may_store(&validity));
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_string_equal(changes(), "drop 1"); /* what an older connection brought */
    look_away();
    return 0;
}

/* The cache was told this by the push of a key (NULL: of null), and a check of the catalogue began, or not.
 */
static void expect(const char *key, bool check, const char *expected)
{
    const struct redis_reply *reply = key == NULL ? reply_of("_\r\n") : reply_string(key);
    size_t sent = fake_redis.count;
    look_away();
    invalidation_push(&invalidation, SPAN("invalidate"), reply);
    assert_string_equal(changes(), expected);
    assert_int_equal(fake_redis.count, sent + check);
}

/* The check that is under way finds a catalogue. */
static void expect_applied(const char *expected)
{
    look_away();
    answer("SCARD", reply_integer(1));
    assert_int_equal(checked, CATALOGUE_PRESENT);
    assert_string_equal(changes(), expected);
    assert_int_equal(validity.pending, 0);
}

/* The connection is lost, and with it the check that is under way. */
static void expect_lost(const char *expected)
{
    look_away();
    invalidation_lost(&invalidation, UINT64_MAX);
    assert_string_equal(changes(), expected);
    answer_all(NULL);
}

static enum freshness freshness(uint64_t last_pong_ms)
{
    validity.pong_ms = last_pong_ms;
    return validity_freshness(&validity, clock_ms);
}

TEST_CASE_WITH(keys_are_told_by_their_names, set_up, invalidation_tear_down)
{
    expect("test:card:7", false, "card 7");
    expect("test:card:-9223372036854775808", false, "card -9223372036854775808");
    expect("test:index", true, "received 2");
    expect("test:api_keys", false, "received 4"); /* the check under way will do */
    expect(NULL, false, "received 1");
    assert_int_equal(metrics.cache_invalidations_total, 4);
}

TEST_CASE_WITH(names_of_other_keys_mean_nothing, set_up, invalidation_tear_down)
{
    static const char *const others[] = {"test:link:https://max.ru/x",
                                         "test:link:",
                                         "test:card:",
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
    assert_int_equal(validity.pending, 0);
    look_away();
    invalidation_push(&invalidation, SPAN("message"), reply_string("test:card:7"));
    invalidation_push(&invalidation, SPAN(""), reply_of("_\r\n"));
    assert_string_equal(changes(), "");
}

TEST_CASE_WITH(an_element_that_cannot_be_read_means_everything, set_up, invalidation_tear_down)
{
    invalidation_push(&invalidation, SPAN("invalidate"), &resp_oversize);
    assert_string_equal(changes(), "received 1");
    assert_int_equal(validity.pending, INVALIDATED_ALL);
}

TEST_CASE_WITH(pending_changes_are_dropped_after_the_check, set_up, invalidation_tear_down)
{
    expect("test:index", true, "received 2");
    assert_int_equal(validity.pending, INVALIDATED_INDEX);
    assert_true(validity_may_store(&validity));
    assert_true(lifetime_is_none(validity_lifetime_of_index(&validity, NULL, 1)));
    expect("test:api_keys", false, "received 4");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect_applied("drop 6");
    assert_true(lifetime_is_tracked(validity_lifetime_of_index(&validity, NULL, 1)));
    catalogue_check(&catalogue);
    expect_applied("");
}

TEST_CASE_WITH(changes_stay_pending_after_a_check_that_did_not_pass, set_up, invalidation_tear_down)
{
    static const char *const replies[] = {"-ERR no\r\n", NULL};
    static const enum catalogue_state states[] = {CATALOGUE_UNKNOWN, CATALOGUE_LOST};
    expect("test:index", true, "received 2");
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        look_away();
        answer_all(replies[i]);
        assert_int_equal(checked, states[i]);
        assert_string_equal(changes(), "");
        assert_int_equal(validity.pending, INVALIDATED_INDEX);
        catalogue_check(&catalogue);
    }
    expect_applied("drop 2");
    fake_redis.sends_left = 0;
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS;
    expect("test:index", false, "received 2");
    assert_int_equal(checked, CATALOGUE_UNKNOWN); /* as it could not be sent */
    assert_int_equal(validity.pending, INVALIDATED_INDEX);
}

/* Of all kinds of replies; what exists is tracked, and elsewhere absences are as well. */
TEST_CASE_WITH(in_a_cluster_absences_are_untracked, set_up, invalidation_tear_down)
{
    static const char *const absent[] = {"_\r\n", ":0\r\n", "*0\r\n", "~0\r\n", "*2\r\n_\r\n_\r\n"};
    static const char *const present[] = {"$0\r\n\r\n", ":1\r\n", "*1\r\n$1\r\n1\r\n",
                                          "*2\r\n_\r\n$1\r\n1\r\n"};
    for (int clustered = 0; clustered < 2; clustered++) {
        invalidation_lost(&invalidation, clock_ms);
        invalidation_connected(&invalidation, clock_ms, true, clustered != 0);
        for (size_t i = 0; i < TEST_COUNT(absent); i++)
            assert_int_equal(lifetime_is_none(validity_lifetime(&validity, reply_of(absent[i]), 1)),
                             clustered);
        for (size_t i = 0; i < TEST_COUNT(present); i++)
            assert_true(lifetime_is_tracked(validity_lifetime(&validity, reply_of(present[i]), 1)));
        validity_counted(&validity, 0, false); /* nor is the size of a set that does not exist */
        assert_int_equal(validity_key_count(&validity), clustered != 0 ? -1 : 0);
    }
    expect(NULL, true, "received 1");
    assert_true(lifetime_is_none(validity_lifetime(&validity, reply_integer(1), 1)));
}

/* Counted from when the command was sent, and only where Redis does not track. */
/* Not even within the stale limit of the machine's start. */
TEST_CASE_WITH(nothing_of_a_redis_that_was_replaced_is_served, set_up, invalidation_tear_down)
{
    validity.limits.stale_limit_ms = clock_ms + 1;
    validity.limits.ttl_ms = 1000;
    for (int tracking = 0; tracking < 2; tracking++) {
        for (int replaced = 0; replaced < 2; replaced++) {
            if (validity.connected)
                invalidation_lost(&invalidation, clock_ms);
            invalidation_connected(&invalidation, clock_ms, tracking != 0, false);
            invalidation_lost(&invalidation, replaced ? 0 : clock_ms);
            assert_int_equal(freshness(clock_ms), replaced ? FRESHNESS_NONE : FRESHNESS_STALE);
        }
    }
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
}

TEST_CASE_WITH(without_tracking_a_reply_lives_for_the_ttl, set_up, invalidation_tear_down)
{
    enum { SENT_MS = 1000, TTL_MS = 5 };
    for (int ttl_ms = 0; ttl_ms <= TTL_MS; ttl_ms += TTL_MS) {
        for (int tracking = 0; tracking < 2; tracking++) {
            validity.limits.ttl_ms = (uint64_t)ttl_ms;
            invalidation_lost(&invalidation, clock_ms);
            invalidation_connected(&invalidation, clock_ms, tracking != 0, false);
            struct lifetime l = validity_lifetime(&validity, reply_integer(1), SENT_MS);
            bool by_ttl = ttl_ms > 0 && tracking == 0;
            assert_int_equal(lifetime_is_tracked(l), tracking);
            assert_int_equal(lifetime_is_none(l), tracking == 0 && !by_ttl);
            assert_int_equal(metrics.cache_by_ttl, by_ttl);
            if (by_ttl)
                assert_int_equal(l.until_ms, SENT_MS + TTL_MS);
        }
    }
    invalidation_lost(&invalidation, clock_ms);
    invalidation_connected(&invalidation, clock_ms, false, false);
    assert_int_equal(freshness(clock_ms), FRESHNESS_TTL);
    invalidation_lost(&invalidation, clock_ms);
    assert_int_equal(freshness(clock_ms), FRESHNESS_STALE);
}

TEST_CASE_WITH(nothing_is_served_or_stored_while_everything_is_pending, set_up, invalidation_tear_down)
{
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect(NULL, true, "received 1");
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    assert_false(validity_may_store(&validity));
    assert_true(lifetime_is_none(validity_lifetime_of_index(&validity, NULL, 1)));
    expect(NULL, false, "received 1");
    expect_applied("drop 1");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    assert_true(validity_may_store(&validity));
    expect(NULL, true, "received 1"); /* however often */
}

/* What changes all the time is not checked each time, unless a check is under way as it is. */
TEST_CASE_WITH(frequent_changes_are_dropped_without_a_check, set_up, invalidation_tear_down)
{
    expect("test:index", true, "received 2");
    expect_applied("drop 2");
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    expect("test:api_keys", true, "received 4"); /* these have their own interval */
    expect_applied("drop 4");
    expect("test:api_keys", false, "received 4, drop 4");
    catalogue_check(&catalogue);
    expect("test:index", false, "received 2");
    expect_applied("drop 2");
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS - 1;
    expect("test:index", false, "received 2, drop 2");
    clock_ms++;
    expect("test:index", true, "received 2");
}

static void check_catalogue(int keys)
{
    catalogue_check(&catalogue);
    fake_redis_answer(reply_integer(keys));
    if (keys == 0)
        fake_redis_answer(reply_integer(1));
}

TEST_CASE_WITH(reads_are_certain_between_two_sights_of_the_keys, set_up, invalidation_tear_down)
{
    assert_int_equal(validity_mark(&validity), 0);
    check_catalogue(1);
    uint64_t mark = validity_mark(&validity);
    assert_true(validity_lost_nothing(&validity, mark));
    expect("test:index", true, "received 2");
    expect("test:card:1", false, "card 1");
    check_catalogue(1);
    assert_true(validity_lost_nothing(&validity, mark));
    clock_ms += INVALIDATION_CHECK_INTERVAL_MS;
    expect("test:api_keys", true, "received 4");
    uint64_t second = validity_mark(&validity); /* behind SCARD */
    assert_int_not_equal(second, 0);
    assert_false(validity_lost_nothing(&validity, mark));
    assert_false(validity_lost_nothing(&validity, second));
    check_catalogue(1);
    assert_false(validity_lost_nothing(&validity, mark));
    assert_true(validity_lost_nothing(&validity, second));
    check_catalogue(0);
    assert_false(validity_lost_nothing(&validity, second));
    assert_false(validity_has_api_keys(&validity));
    assert_int_equal(validity_mark(&validity), 0);
}

TEST_CASE_WITH(entries_are_fresh_within_the_lease, set_up, invalidation_tear_down)
{
    uint64_t last_pong_ms = clock_ms;
    clock_ms += VALIDITY_LEASE_MS;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_FRESH);
    clock_ms++;
    assert_int_equal(freshness(last_pong_ms), FRESHNESS_NONE);
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
}

TEST_CASE_WITH(after_a_loss_entries_are_stale_for_the_limit, set_up, invalidation_tear_down)
{
    uint64_t lost_ms = clock_ms;
    expect_lost("");
    assert_int_equal(validity.lost_ms, lost_ms);
    assert_false(validity_may_store(&validity));
    clock_ms += 29999;
    assert_int_equal(freshness(0), FRESHNESS_STALE);
    clock_ms++;
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_string_equal(changes(), "drop 1");
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
}

TEST_CASE_WITH(what_was_lost_before_it_was_noticed_is_as_old_as_that, set_up, invalidation_tear_down)
{
    uint64_t last_pong_ms = clock_ms;
    clock_ms += 10000; /* the process was stopped */
    invalidation_lost(&invalidation, UINT64_MAX);
    assert_int_equal(validity.lost_ms, last_pong_ms + VALIDITY_LEASE_MS);
    invalidation_connected(&invalidation, clock_ms, true, false);
    invalidation_lost(&invalidation, clock_ms - 5000); /* a replica without master */
    assert_int_equal(validity.lost_ms, clock_ms - 5000);
    invalidation_connected(&invalidation, clock_ms, true, false);
    expect(NULL, true, "received 1");
    clock_ms += 700;
    expect("test:index", false, "received 2");
    invalidation_lost(&invalidation, UINT64_MAX);
    assert_int_equal(validity.lost_ms, clock_ms - 700);
}

/* A process that was stopped reads FLUSHALL as late as it reads the loss, and nothing was tracked in between.
 */
TEST_CASE_WITH(behind_a_loss_of_data_entries_are_as_old_as_the_last_check, set_up, invalidation_tear_down)
{
    catalogue_check(&catalogue);
    uint64_t checked_ms = clock_ms;
    clock_ms += 10;
    expect_applied("");
    clock_ms += 5000;
    expect(NULL, true, "received 1");
    answer_all(":0\r\n");
    expect_lost("");
    assert_int_equal(validity.lost_ms, checked_ms);
}

TEST_CASE_WITH(a_loss_applies_what_is_pending_unless_the_catalogue_is_missing, set_up, invalidation_tear_down)
{
    expect("test:api_keys", true, "received 4");
    expect_lost("drop 4");
    clock_ms += 1000;
    invalidation_connected(&invalidation, clock_ms, true, false);
    expect(NULL, true, "received 1");
    answer_all(":0\r\n");
    assert_int_equal(checked, CATALOGUE_MISSING);
    assert_int_equal(metrics.catalogue_missing, 1);
    assert_int_equal(metrics.api_keys_missing, 1);
    expect_lost("");
    assert_int_equal(validity.pending, 0);
    assert_int_equal(freshness(0), FRESHNESS_STALE);
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_int_equal(metrics.catalogue_missing, 0);
    assert_int_equal(metrics.api_keys_missing, 0);
    expect(NULL, true, "received 1");
    expect_lost("drop 1"); /* it was missing on the connection before */
}

/* Redis contradicts a key without an invalidation. */
static void lose_an_invalidation(void)
{
    const struct digest d = digest_of(1);
    api_keys_note_absent(&api_keys, &d);
    assert_int_equal(api_keys_confirm(&api_keys, &d, LIFETIME_TRACKED, &API_KEY_INFO_NONE), 0);
    invalidation_heartbeat(&invalidation, clock_ms); /* whose check of the catalogue stays in flight */
    assert_int_equal(metrics.cache_suspended, 0);
}

TEST_CASE_WITH(suspension_ends_with_the_connection, set_up, invalidation_tear_down)
{
    lose_an_invalidation();
    expect("test:index", false, "received 2");
    look_away();
    invalidation_heartbeat(&invalidation, clock_ms);
    assert_string_equal(changes(), "drop 1");
    assert_int_equal(metrics.cache_suspended, 1);
    assert_int_equal(validity.pending, 0);
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    assert_false(validity_may_store(&validity));
    expect("test:card:7", false, "");
    expect(NULL, false, "");
    expect_lost("");
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE); /* not even stale */
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_int_equal(metrics.cache_suspended, 0);
    assert_int_equal(metrics.cache_untracked, 0);
    assert_int_equal(freshness(clock_ms), FRESHNESS_FRESH);
    expect("test:card:7", false, "card 7");
}

TEST_CASE_WITH(without_tracking_or_a_cache_nothing_is_stored_or_served, set_up, invalidation_tear_down)
{
    expect_lost("");
    invalidation_connected(&invalidation, clock_ms, false, false);
    assert_false(validity_may_store(&validity));
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    expect_lost("");
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
    validity.limits.enabled = false;
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_false(validity_may_store(&validity));
    assert_int_equal(freshness(clock_ms), FRESHNESS_NONE);
}
