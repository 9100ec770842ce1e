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
    proxy_set_hole(stage->proxy, PROXY_BOTH);
}

static void hole_up(struct stage *stage)
{
    proxy_set_hole(stage->proxy, PROXY_UP);
}

static void hole_down(struct stage *stage)
{
    proxy_set_hole(stage->proxy, PROXY_DOWN);
}

static void heal(struct stage *stage)
{
    proxy_heal(stage->proxy);
}

static void nothing_comes_through(void **state)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole both ways", .begin = hole_both, .end = heal, .lasts_ms = LASTS_MS});
}

static void no_question_arrives(void **state)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole for questions", .begin = hole_up, .end = heal, .lasts_ms = LASTS_MS});
}

static void no_answer_comes_back(void **state)
{
    outage_run(*state,
               &(struct outage){
                   .name = "line: hole for answers", .begin = hole_down, .end = heal, .lasts_ms = LASTS_MS});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_comes_through, begin, stage_teardown),
        cmocka_unit_test_setup_teardown(no_question_arrives, begin, stage_teardown),
        cmocka_unit_test_setup_teardown(no_answer_comes_back, begin, stage_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
