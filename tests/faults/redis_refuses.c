/* A Redis that is there and refuses: it wants a password, takes rights away, has connections enough. What it
 * refuses for longer is in redis_refuses_long.c. */

#include <stdlib.h>
#include <string.h>

#include "faults/chorus.h"
#include "faults/outage.h"

enum { LASTS_MS = 1500, HELD_AGAIN_MS = 2000 };

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

static void password_that_is_wanted_suddenly(void **state)
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

static void rights_to_the_keys_taken_away(void **state)
{
    outage_run(*state, &(struct outage){.name = "redis denies the keys (NOPERM)",
                                        .begin = deny_keys,
                                        .end = allow_keys,
                                        .lasts_ms = LASTS_MS,
                                        .unnoticed = true});
}

struct probe {
    struct stage *stage;
    struct chorus chorus;
};

/* True when a round of questions reached memory alone. */
static bool memory_answers(void *arg)
{
    struct probe *probe = arg;
    struct server *server = &probe->stage->fixture.server;
    double before = server_metric(server, "channeld_redis_commands_total");
    chorus_ask(&probe->chorus, "channel/by-id/1/", 200, stage_card(1, 1));
    return server_metric(server, "channeld_redis_commands_total") <= before;
}

/* The set of keys changed while it could not be read: each key is asked about, until it can be read again. */
static void keys_that_could_not_be_read_are_held_again(void **state)
{
    struct probe probe = {.stage = *state};
    struct redis *redis = &probe.stage->fixture.redis;
    chorus_open(&probe.chorus, probe.stage);
    assert_true(wait_until(memory_answers, &probe, WAIT_DEADLINE_MS));
    redis_do(redis, "ACL SETUSER default -scard -smembers");
    catalogue_issue_key(redis, "another");
    chorus_ask(&probe.chorus, "channel/by-id/1/", 200, stage_card(1, 1));
    assert_false(memory_answers(&probe));
    int64_t mended = wait_now_ms();
    redis_do(redis, "ACL SETUSER default +scard +smembers");
    assert_true(wait_until(memory_answers, &probe, WAIT_DEADLINE_MS));
    int took = (int)(wait_now_ms() - mended);
    assert_in_range(took, 0, HELD_AGAIN_MS + wait_slack_ms());
    print_message("keys are held again %d ms after they can be read\n", took);
    chorus_close(&probe.chorus);
}

/* ---- maxclients ---- */

static void full_before_channeld_comes(void **state)
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
    char *log = server_log(server);
    assert_non_null(strstr(log, "max number of clients reached"));
    free(log);
    int64_t roomy = wait_now_ms();
    redis_do(&stage->fixture.redis, "CONFIG SET maxclients 1000");
    int took = stage_await_connected(stage, roomy);
    assert_in_range(took, 0, STAGE_RECOVERY_MS + wait_slack_ms());
    stage_expect(stage, "channel/by-id/1/", stage_card(1, 1));
    print_message("redis full before channeld comes: recovered after %d ms\n", took);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(password_that_is_wanted_suddenly, begin, stage_teardown),
        cmocka_unit_test_setup_teardown(rights_to_the_keys_taken_away, begin, stage_teardown),
        cmocka_unit_test_setup_teardown(keys_that_could_not_be_read_are_held_again, begin_without_load,
                                        stage_teardown),
        cmocka_unit_test_setup_teardown(full_before_channeld_comes, begin_without_load, stage_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
