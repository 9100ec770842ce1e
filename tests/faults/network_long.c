/* A bad network for longer: loss of packets, holes in one direction alone, black holes one after another. */

#include "faults/outage.h"

enum { LASTS_MS = 10000, LOSS_MS = 30000, BLACK_HOLE_RECOVERY_MS = 2 * STAGE_RECOVERY_MS, ROUNDS = 4 };

static struct stage *begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.network = true});
    *state = stage;
    (void)load_start(stage);
    return stage;
}

static void heal(struct stage *stage)
{
    netns_heal(&stage->netns);
}

static void drop_in(struct stage *stage)
{
    netns_drop_in(&stage->netns);
}

static void drop_out(struct stage *stage)
{
    netns_drop_out(&stage->netns);
}

static void drop_all(struct stage *stage)
{
    drop_in(stage);
    drop_out(stage);
}

static void black_holes(void **state)
{
    struct stage *stage = begin(state);
    for (int i = 0; i < ROUNDS; i++)
        outage_run(stage, &(struct outage){.name = "network: black hole",
                                           .begin = drop_all,
                                           .end = heal,
                                           .lasts_ms = LASTS_MS + i * 700,
                                           .recovery_ms = BLACK_HOLE_RECOVERY_MS});
}

static void one_direction_alone(void **state)
{
    struct stage *stage = begin(state);
    outage_run(stage, &(struct outage){.name = "network: nothing gets to redis",
                                       .begin = drop_in,
                                       .end = heal,
                                       .lasts_ms = LASTS_MS,
                                       .recovery_ms = BLACK_HOLE_RECOVERY_MS});
    outage_run(stage, &(struct outage){.name = "network: nothing comes from redis",
                                       .begin = drop_out,
                                       .end = heal,
                                       .lasts_ms = LASTS_MS,
                                       .recovery_ms = BLACK_HOLE_RECOVERY_MS});
}

static void lose_5(struct stage *stage)
{
    netns_lose(&stage->netns, 5);
}

static void lose_20(struct stage *stage)
{
    netns_lose(&stage->netns, 20);
}

/* Connections may be given up now and then: what is in memory does not suffer. */
static void packet_loss(void **state)
{
    struct stage *stage = begin(state);
    outage_run(stage, &(struct outage){.name = "network: 5% of the packets lost, each way",
                                       .begin = lose_5,
                                       .end = heal,
                                       .lasts_ms = LOSS_MS,
                                       .recovery_ms = BLACK_HOLE_RECOVERY_MS,
                                       .unnoticed = true});
    outage_run(stage, &(struct outage){.name = "network: 20% of the packets lost, each way",
                                       .begin = lose_20,
                                       .end = heal,
                                       .lasts_ms = LOSS_MS,
                                       .recovery_ms = BLACK_HOLE_RECOVERY_MS,
                                       .unnoticed = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(black_holes, stage_teardown),
        cmocka_unit_test_teardown(one_direction_alone, stage_teardown),
        cmocka_unit_test_teardown(packet_loss, stage_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
