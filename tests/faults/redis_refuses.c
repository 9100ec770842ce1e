/* A Redis that is there and refuses: it wants a password, takes rights away, has connections enough. What it
 * refuses for longer is in redis_refuses_long.c. */

#include <stdlib.h>
#include <string.h>

#include "faults/chorus.h"
#include "faults/outage.h"

enum { LASTS_MS = 1500, ASKED = 20, HELD_AGAIN_MS = 1000 };

static int begin(void **state)
{
    struct stage *stage = stage_new(NULL);
    *state = stage;
    (void)load_start(stage);
    return 0;
}

static int begin_without_load(void **state)
{
    *state = stage_new(NULL);
    return 0;
}

static void kill_connections(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
}

/* ---- NOAUTH ---- */

static void want_password(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CONFIG SET requirepass secret");
    kill_connections(stage);
}

static void want_no_password(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CONFIG SET requirepass %s", "");
}

TEST_CASE_WITH(password_that_is_wanted_suddenly, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "redis wants a password (NOAUTH)",
                                        .begin = want_password,
                                        .end = want_no_password,
                                        .lasts_ms = LASTS_MS});
}

/* ---- NOPERM ---- */

static void deny_keys(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "ACL SETUSER default resetkeys ~elsewhere:*");
}

static void allow_keys(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "ACL SETUSER default allkeys");
}

TEST_CASE_WITH(rights_to_the_keys_taken_away, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "redis denies the keys (NOPERM)",
                                        .begin = deny_keys,
                                        .end = allow_keys,
                                        .lasts_ms = LASTS_MS,
                                        .unnoticed = true});
}

/* The set of keys changed while it could not be read: each key is asked about, until it can be read again. */
TEST_CASE_WITH(keys_that_could_not_be_read_are_held_again, begin_without_load, stage_teardown)
{
    struct stage *stage = *state;
    struct redis *redis = &stage->fixture.redis;
    chorus_await_memory(stage);
    redis_do(redis, "ACL SETUSER default -scard -smembers");
    catalogue_issue_key(redis, "another");
    for (int i = 0; i < ASKED; i++)
        stage_expect(stage, "channel/by-id/1/", stage_card(1, 1));
    assert_false(chorus_is_from_memory(stage));
    int64_t mended = wait_now_ms();
    redis_do(redis, "ACL SETUSER default +scard +smembers");
    chorus_await_memory(stage);
    int took = (int)(wait_now_ms() - mended);
    assert_in_range(took, 0, HELD_AGAIN_MS + wait_slack_ms());
    print_message("keys are held again %d ms after they can be read\n", took);
}

/* ---- maxclients ---- */

TEST_CASE_WITH(full_before_channeld_comes, begin_without_load, stage_teardown)
{
    struct stage *stage = *state;
    struct server *server = &stage->fixture.server;
    struct server_spec spec = {.redis_url = stage->fixture.redis.url, .wait = SERVER_WAIT_LISTENING};
    server_stop(server);
    redis_do(&stage->fixture.redis, "CONFIG SET maxclients 1");
    server_start(server, &spec);
    stage_expect_unavailable(stage, "channel/by-id/1/");
    assert_int_equal(server_admin_status(server, "/readyz"), 503);
    assert_int_equal(server_admin_status(server, "/livez"), 200);
    server_await_log(&stage->fixture.server, "max number of clients reached");
    int64_t roomy = wait_now_ms();
    redis_do(&stage->fixture.redis, "CONFIG SET maxclients 1000");
    int took = stage_await_connected(stage, roomy);
    assert_in_range(took, 0, STAGE_RECOVERY_MS + wait_slack_ms());
    stage_expect(stage, "channel/by-id/1/", stage_card(1, 1));
    print_message("redis full before channeld comes: recovered after %d ms\n", took);
}
