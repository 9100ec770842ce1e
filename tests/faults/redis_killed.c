/* redis-server killed, and started again: with its data, empty, and with other data. */

#include <stdio.h>
#include <stdlib.h>

#include "faults/chorus.h"

enum { STALE_LIMIT_MS = 2000, ROUNDS = 2, WATCH_MS = 300 };

static const char *const env[] = {"CHANNELD_STALE_LIMIT=2s", NULL};

static int begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.env = env});
    /* There is no automatic persistence: this is what comes back. */
    redis_do(&stage->fixture.redis, "SAVE");
    *state = stage;
    return 0;
}

TEST_CASE_WITH(cached_answers_go_on_for_the_stale_limit_then_500, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct server *server = &stage->fixture.server;
    struct load *load = load_start(stage);
    load_mark(load);
    int64_t killed = wait_now_ms();
    redis_kill(&stage->fixture.redis);
    int noticed = stage_await_lost(stage, killed);
    assert_in_range(noticed, 0, wait_slack_ms());
    assert_int_equal(server_admin_status(server, "/readyz"), 200);
    load_watch(load, STALE_LIMIT_MS - 500);
    load_expect_cached_right(load);
    load_mark_end(load);
    server_await_admin(server, "/readyz", 503);
    assert_in_range(wait_now_ms() - killed, STALE_LIMIT_MS, STALE_LIMIT_MS + wait_slack_ms());
    load_watch(load, wait_slack_ms()); /* a worker that noticed later may go on for a moment */
    load_mark(load);
    stage_expect_unavailable(stage, "channel/by-id/1/");
    assert_int_equal(load_tally(load, LOAD_CACHED).right, 0);
    assert_int_equal(server_admin_status(server, "/livez"), 200);
    load_mark(load);
    redis_restart(&stage->fixture.redis);
    int recovered = load_await_recovery(load, STAGE_RECOVERY_MS);
    stage_report(stage, "redis killed", noticed, recovered);
    server_await_admin(server, "/readyz", 200);
    load_expect_all_right(load);
}

TEST_CASE_WITH(short_outage_costs_no_request, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct load *load = load_start(stage);
    for (int i = 0; i < ROUNDS; i++) {
        load_mark(load);
        redis_restart(&stage->fixture.redis);
        int recovered = load_await_recovery(load, STAGE_RECOVERY_MS);
        (void)stage_await_connected(stage, 0);
        load_watch(load, WATCH_MS);
        load_expect_cached_right(load);
        assert_int_equal(load_tally(load, LOAD_UNCACHED).failed, 0);
        load_mark_end(load);
        stage_report(stage, "redis restarted at once", -1, recovered);
    }
    load_expect_all_right(load);
}

/* What is empty now is as good as away: memory for the stale limit, then 500. With a key it is a catalogue,
 * if an empty one, and nothing of the old is answered. */
TEST_CASE_WITH(an_empty_redis_is_as_good_as_away, begin, stage_teardown)
{
    static const char *const paths[] = {"channel/by-id/1/", "channel/by-link/?link=https://max.ru/c2",
                                        "channels/", "channel/by-id/0/"};
    struct stage *stage = *state;
    for (int round = 0; round < 4; round++) { /* both workers remember */
        for (size_t i = 0; i < TEST_COUNT(paths); i++)
            (void)fixture_status(&stage->fixture, paths[i]);
    }
    redis_kill(&stage->fixture.redis);
    char *dump = text_printf("%s/dump.rdb", stage->fixture.redis.dir.path);
    assert_int_equal(remove(dump), 0);
    free(dump);
    redis_restart(&stage->fixture.redis);
    server_await_metric(&stage->fixture.server, "channeld_catalogue_missing", 2);
    server_await_admin(&stage->fixture.server, "/readyz", 503);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        stage_expect_unavailable(stage, paths[i]);
    struct chorus chorus;
    chorus_open(&chorus, stage);
    catalogue_issue_key(&stage->fixture.redis, FIXTURE_KEY);
    chorus_await(&chorus, paths[0], 404, NULL);
    chorus_ask(&chorus, paths[1], 404, NULL);
    char *list = fixture_body(&stage->fixture, paths[2]);
    json_assert_at(list, "pagination.count", "0");
    free(list);
    stage_write(&stage->fixture.redis, 2);
    chorus_await(&chorus, paths[0], 200, stage_card(1, 2));
    chorus_ask(&chorus, paths[1], 200, stage_card(2, 2));
    chorus_ask(&chorus, paths[2], 200, stage_page(1, 2));
    chorus_close(&chorus);
}

/* Lets the server come back with the catalogue in another version. */
static void restart_with(struct stage *stage, int version)
{
    struct redis other;
    redis_start(&other, NULL);
    stage_write(&other, version);
    redis_do(&other, "SAVE");
    redis_kill(&other);
    char *from = text_printf("%s/dump.rdb", other.dir.path);
    char *to = text_printf("%s/dump.rdb", stage->fixture.redis.dir.path);
    redis_kill(&stage->fixture.redis);
    assert_int_equal(rename(from, to), 0);
    redis_restart(&stage->fixture.redis);
    free(from);
    free(to);
    redis_stop(&other);
}

TEST_CASE_WITH(old_data_is_never_answered_once_connected_to_other_data, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct load *load = load_start(stage);
    for (int version = 2; version < 2 + ROUNDS; version++) {
        load_permit_version(load, version);
        restart_with(stage, version);
        (void)stage_await_connected(stage, 0);
        load_require_version(load, version);
        load_expect_all_right(load);
        load_expect_cached_right(load);
    }
}
