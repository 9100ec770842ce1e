/* A Redis that is stopped (SIGSTOP) for ten seconds, and for times around those that channeld waits. */

#include "faults/outage.h"

static void pause_redis(struct stage *stage)
{
    redis_pause(&stage->fixture.redis);
}

static void resume_redis(struct stage *stage)
{
    redis_resume(&stage->fixture.redis);
}

static int begin(void **state)
{
    struct stage *stage = stage_new(NULL);
    *state = stage;
    (void)load_start(stage);
    return 0;
}

TEST_CASE_WITH(long_stops_one_after_another, begin, stage_teardown)
{
    static const int lasts_ms[] = {10000, 5000, 3500, 10000, 6300, 8100};
    for (size_t i = 0; i < TEST_COUNT(lasts_ms); i++)
        outage_run(*state, &(struct outage){.name = "redis stopped",
                                            .begin = pause_redis,
                                            .end = resume_redis,
                                            .lasts_ms = lasts_ms[i]});
}

/* It may or may not be noticed; what is in memory is answered either way. */
TEST_CASE_WITH(stops_as_long_as_the_patience, begin, stage_teardown)
{
    static const int lasts_ms[] = {1800, 1950, 2000, 2050, 2200, 2900, 3000, 3050};
    for (size_t i = 0; i < TEST_COUNT(lasts_ms); i++)
        outage_run(*state, &(struct outage){.name = "redis stopped for about the limit",
                                            .begin = pause_redis,
                                            .end = resume_redis,
                                            .lasts_ms = lasts_ms[i],
                                            .unnoticed = true});
}
