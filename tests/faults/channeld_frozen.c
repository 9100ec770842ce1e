/*
 * channeld itself stopped (SIGSTOP: a frozen container, a paused virtual machine) while the data changes, and
 * asked the moment it goes on: from memory it may answer what is up to one lease old, and nothing older.
 */

#include <stdlib.h>

#include "faults/chorus.h"

enum { ROUNDS = 12, HASTY_MS = 120 };

static const char card[] = "channel/by-id/1/";

static int begin(void **state)
{
    *state = stage_new(NULL);
    return 0;
}

/* Half of the questions lie in the sockets already, the others are asked at once. */
TEST_CASE_WITH(nothing_older_than_the_lease_is_answered_after_a_stop, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct chorus before;
    struct chorus after;
    chorus_open(&before, stage);
    chorus_open(&after, stage);
    chorus_ask(&before, card, 200, stage_card(1, 1));
    stage_freeze(stage);
    stage_write(&stage->fixture.redis, 2);
    chorus_send(&before, card);
    stage_let_pass(STAGE_LEASE_MS + 100);
    stage_thaw(stage);
    chorus_ask(&after, card, 200, stage_card(1, 2));
    chorus_expect(&before, 200, stage_card(1, 2));
    chorus_close(&before);
    chorus_close(&after);
}

TEST_CASE_WITH(revoked_key_is_refused_after_a_stop, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct chorus before;
    struct chorus after;
    chorus_open(&before, stage);
    chorus_open(&after, stage);
    chorus_ask(&before, card, 200, stage_card(1, 1));
    stage_freeze(stage);
    redis_do(&stage->fixture.redis, "DEL channels:api_keys");
    catalogue_issue_key(&stage->fixture.redis, "another");
    chorus_send(&before, card);
    stage_let_pass(STAGE_LEASE_MS + 100);
    stage_thaw(stage);
    chorus_ask(&after, card, 401, NULL);
    chorus_expect(&before, 401, NULL);
    chorus_close(&before);
    chorus_close(&after);
}

/* A stage with these settings, and a chorus that has been answered. */
static struct stage *begin_another(void **state, const char *const *env, struct chorus *chorus)
{
    struct stage *stage = stage_new(&(struct stage_plan){.env = env});
    *state = stage;
    chorus_open(chorus, stage);
    chorus_ask(chorus, card, 200, stage_card(1, 1));
    return stage;
}

/* The same; channeld was stopped then. */
static struct stage *freeze_another(void **state, const char *const *env, struct chorus *chorus)
{
    struct stage *stage = begin_another(state, env, chorus);
    stage_freeze(stage);
    return stage;
}

/* Of a connection that was cut meanwhile nothing can be heard of what was missed. */
TEST_CASE_WITH(nothing_older_than_the_stale_limit_is_answered_after_a_stop_without_redis, NULL,
               stage_teardown)
{
    static const char *const env[] = {"CHANNELD_STALE_LIMIT=100ms", NULL};
    struct chorus chorus;
    struct stage *stage = freeze_another(state, env, &chorus);
    redis_do(&stage->fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
    stage_write(&stage->fixture.redis, 2);
    chorus_send(&chorus, card);
    stage_let_pass(STAGE_LEASE_MS + 200);
    stage_thaw(stage);
    chorus_expect(&chorus, 200, stage_card(1, 2));
    chorus_close(&chorus);
}

/* Questions that lie in the sockets came before the deadlines that passed meanwhile. */
TEST_CASE_WITH(questions_are_answered_after_a_stop_beyond_the_idle_timeout, NULL, stage_teardown)
{
    static const char *const env[] = {"CHANNELD_IDLE_TIMEOUT=1s", NULL};
    struct chorus chorus;
    struct stage *stage = freeze_another(state, env, &chorus);
    chorus_send(&chorus, card);
    stage_let_pass(1500);
    stage_thaw(stage);
    chorus_expect(&chorus, 200, stage_card(1, 1));
    chorus_close(&chorus);
}

/* What Redis replied lies in the sockets, and came before those deadlines. */
TEST_CASE_WITH(questions_to_redis_are_answered_after_a_stop_beyond_the_request_timeout, NULL, stage_teardown)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", NULL};
    struct chorus chorus;
    long long id = 0;
    char *spare = stage_spare_path(&id);
    struct stage *stage = begin_another(state, env, &chorus);
    redis_pause(&stage->fixture.redis);
    chorus_send(&chorus, spare);
    server_await_metric(&stage->fixture.server, "channeld_requests_in_flight", CHORUS_SIZE);
    stage_freeze(stage);
    redis_resume(&stage->fixture.redis);
    stage_let_pass(1500);
    stage_thaw(stage);
    chorus_expect(&chorus, 200, stage_card(id, 1));
    chorus_close(&chorus);
    free(spare);
}

struct hasty {
    struct chorus chorus;
    int version;
};

/* True when all are answered with the version; the one before it is all that may come instead. */
static bool all_know(void *arg)
{
    struct hasty *hasty = arg;
    char *now = stage_card(1, hasty->version);
    char *before = stage_card(1, hasty->version - 1);
    chorus_send(&hasty->chorus, card);
    int known = chorus_count(&hasty->chorus, now, before);
    free(before);
    free(now);
    return known == CHORUS_SIZE;
}

/* Within the lease what was known before may be answered once more, until what Redis told meanwhile is read.
 */
TEST_CASE_WITH(short_stops_leave_nothing_old_behind, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct hasty hasty = {.version = 1};
    chorus_open(&hasty.chorus, stage);
    chorus_ask(&hasty.chorus, card, 200, stage_card(1, 1));
    for (int round = 0; round < ROUNDS; round++) {
        stage_freeze(stage);
        char *title = text_printf("v%d of 1", ++hasty.version);
        redis_do(&stage->fixture.redis, "HSET channels:card:1 title %s", title);
        free(title);
        stage_let_pass(HASTY_MS * (round % 3));
        stage_thaw(stage);
        assert_true(wait_until(all_know, &hasty, wait_slack_ms()));
    }
    chorus_close(&hasty.chorus);
}
