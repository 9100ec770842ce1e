/* A line on which nothing comes through any more while connections stay open: both ways, or one way alone. */

#include "faults/outage.h"

enum { LASTS_MS = 10000 };

static int begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.line = true});
    *state = stage;
    (void)load_start(stage);
    return 0;
}

static void hole_both(struct stage *stage)
{
    proxy_set_blackhole(stage->proxy, PROXY_BOTH);
}

static void hole_up(struct stage *stage)
{
    proxy_set_blackhole(stage->proxy, PROXY_UP);
}

static void hole_down(struct stage *stage)
{
    proxy_set_blackhole(stage->proxy, PROXY_DOWN);
}

static void heal(struct stage *stage)
{
    proxy_restore(stage->proxy);
}

TEST_CASE_WITH(nothing_comes_through, begin, stage_teardown)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole both ways", .begin = hole_both, .end = heal, .lasts_ms = LASTS_MS});
}

TEST_CASE_WITH(no_question_arrives, begin, stage_teardown)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole for questions", .begin = hole_up, .end = heal, .lasts_ms = LASTS_MS});
}

TEST_CASE_WITH(no_answer_comes_back, begin, stage_teardown)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole for answers", .begin = hole_down, .end = heal, .lasts_ms = LASTS_MS});
}
