/* A Redis that loads a large dump after its start: it takes connections, and refuses to be asked (LOADING).
 */

#include <stdlib.h>
#include <string.h>

#include "faults/outage.h"

/* 20,000 cards, so much for each, in microseconds. */
static const char *const args[] = {"--key-load-delay", "150", "--loading-process-events-interval-bytes",
                                   "2048", NULL};

static int begin(void **state)
{
    static const char *const env[] = {"CHANNELD_LOG_LEVEL=debug", NULL};
    struct stage *stage = stage_new(&(struct stage_plan){.env = env, .redis_args = args});
    *state = stage;
    redis_do(&stage->fixture.redis, "SAVE");
    (void)load_start(stage);
    return 0;
}

static void restart_slowly(struct stage *stage)
{
    redis_kill(&stage->fixture.redis);
    redis_launch(&stage->fixture.redis);
}

static void await_loaded(struct stage *stage)
{
    redis_await(&stage->fixture.redis);
}

TEST_CASE_WITH(loading_costs_memory_nothing, begin, stage_teardown)
{
    struct stage *stage = *state;
    outage_run(stage, &(struct outage){.name = "redis restarted, loading",
                                       .begin = restart_slowly,
                                       .end = await_loaded,
                                       .lasts_ms = 500});
    server_await_log(&stage->fixture.server, "LOADING");
}
