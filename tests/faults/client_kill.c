/* Connections that Redis cuts (CLIENT KILL), once and without end, and those that it lets wait (CLIENT
 * PAUSE). */

#include <stdlib.h>
#include <string.h>

#include "faults/outage.h"

enum { KILLS = 25, KILL_EVERY_MS = 25, PAUSE_WRITE_MS = 1000, PAUSE_ALL_MS = 3200 };

static int begin(void **state)
{
    struct stage *stage = stage_new(NULL);
    *state = stage;
    (void)load_start(stage);
    return 0;
}

/* One command for each client of channeld's; `key` is a word of CLIENT LIST, "id" or "addr". */
static int kill_each(struct stage *stage, const char *key, const char *command)
{
    int killed = 0;
    char *rest = NULL;
    char *list = redis_text(&stage->fixture.redis, "CLIENT LIST");
    for (char *line = strtok_r(list, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char value[64] = "";
        char *pattern = text_printf(" %s=", key);
        char *spaced = text_printf(" %s", line);
        const char *at = strstr(spaced, pattern);
        if (at != NULL && strstr(line, " name=channeld-") != NULL) {
            at += strlen(pattern);
            memcpy(value, at, strcspn(at, " ") % sizeof value);
            redis_do(&stage->fixture.redis, command, value);
            killed++;
        }
        free(spaced);
        free(pattern);
    }
    free(list);
    return killed;
}

static void expect_unharmed(struct stage *stage, const char *what)
{
    struct load *load = stage->load;
    load_watch(load, 0);
    load_expect_cached_right(load);
    assert_int_equal(load_tally(load, LOAD_UNCACHED).failed, 0);
    load_mark_end(load);
    int recovered = load_await_recovery(load, STAGE_RECOVERY_MS);
    stage_report(stage, what, -1, recovered);
    load_expect_all_right(load);
}

TEST_CASE_WITH(each_way_to_kill_costs_no_request, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct redis *redis = &stage->fixture.redis;
    load_mark(stage->load);
    redis_do(redis, "CLIENT KILL TYPE normal SKIPME yes");
    (void)stage_await_connected(stage, 0);
    expect_unharmed(stage, "CLIENT KILL TYPE normal");
    load_mark(stage->load);
    assert_int_equal(kill_each(stage, "id", "CLIENT KILL ID %s"), 2);
    (void)stage_await_connected(stage, 0);
    expect_unharmed(stage, "CLIENT KILL ID, both");
    load_mark(stage->load);
    assert_int_equal(kill_each(stage, "addr", "CLIENT KILL ADDR %s"), 2);
    (void)stage_await_connected(stage, 0);
    expect_unharmed(stage, "CLIENT KILL ADDR, both");
}

TEST_CASE_WITH(killed_again_and_again, begin, stage_teardown)
{
    struct stage *stage = *state;
    load_mark(stage->load);
    double before = server_metric(&stage->fixture.server, "channeld_redis_disconnects_total");
    for (int i = 0; i < KILLS; i++) {
        redis_do(&stage->fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
        load_watch(stage->load, KILL_EVERY_MS);
    }
    assert_true(server_metric(&stage->fixture.server, "channeld_redis_disconnects_total") > before + 2);
    expect_unharmed(stage, "CLIENT KILL every 25 ms");
}

static void pause_writes(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CLIENT PAUSE %d WRITE", PAUSE_WRITE_MS);
}

static void pause_all(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CLIENT PAUSE %d ALL", PAUSE_ALL_MS);
}

/* What is not answered before the pause is over. */
static void await_end(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "DEL channels:nothing");
}

TEST_CASE_WITH(paused_writes_do_not_matter, begin, stage_teardown)
{
    struct stage *stage = *state;
    outage_run(stage, &(struct outage){.name = "CLIENT PAUSE WRITE",
                                       .begin = pause_writes,
                                       .end = await_end,
                                       .lasts_ms = PAUSE_WRITE_MS,
                                       .unnoticed = true});
    assert_int_equal(load_tally_of_fault(stage->load, LOAD_UNCACHED).failed, 0);
}

TEST_CASE_WITH(paused_clients_are_an_outage, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "CLIENT PAUSE ALL",
                                        .begin = pause_all,
                                        .end = await_end,
                                        .lasts_ms = PAUSE_ALL_MS});
}
