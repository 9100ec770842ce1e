/* A Redis that keeps its connections and says nothing (SIGSTOP): half-open, as after a crash of its machine.
 */

#include "faults/outage.h"

enum { LASTS_MS = 3300, BRIEF_MS = 1000, PAUSES = 2 };

static int begin(void **state)
{
    struct stage *stage = stage_new(NULL);
    *state = stage;
    (void)load_start(stage);
    return 0;
}

static void pause_redis(struct stage *stage)
{
    redis_pause(&stage->fixture.redis);
}

static void resume_redis(struct stage *stage)
{
    redis_resume(&stage->fixture.redis);
}

TEST_CASE_WITH(stop_is_noticed_and_costs_memory_nothing, begin, stage_teardown)
{
    outage_run(*state,
               &(struct outage){
                   .name = "redis stopped", .begin = pause_redis, .end = resume_redis, .lasts_ms = LASTS_MS});
}

/* No connection is given up, no request is failed. */
TEST_CASE_WITH(brief_stops_cost_nothing, begin, stage_teardown)
{
    struct stage *stage = *state;
    double before = server_metric(&stage->fixture.server, "channeld_redis_disconnects_total");
    for (int i = 0; i < PAUSES; i++) {
        outage_run(stage, &(struct outage){.name = "redis stopped briefly",
                                           .begin = pause_redis,
                                           .end = resume_redis,
                                           .lasts_ms = BRIEF_MS,
                                           .unnoticed = true});
        assert_int_equal(load_tally_of_fault(stage->load, LOAD_UNCACHED).failed, 0);
    }
    assert_true(server_metric(&stage->fixture.server, "channeld_redis_disconnects_total") <= before);
}
