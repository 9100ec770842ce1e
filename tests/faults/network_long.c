/* A bad network for longer: loss of packets, holes in one direction alone, black holes one after another. */

#include "faults/bad_network.h"
#include "faults/outage.h"

enum { LASTS_MS = 10000, LOSS_MS = 30000, ROUNDS = 4 };

TEST_CASE_WITH(black_holes, NULL, stage_teardown)
{
    struct stage *stage = bad_network_begin(state);
    for (int i = 0; i < ROUNDS; i++)
        outage_run(stage, &(struct outage){.name = "network: black hole",
                                           .begin = bad_network_drop_all,
                                           .end = bad_network_heal,
                                           .lasts_ms = LASTS_MS + i * 700,
                                           .recovery_ms = BAD_NETWORK_RECOVERY_MS});
}

TEST_CASE_WITH(one_direction_alone, NULL, stage_teardown)
{
    struct stage *stage = bad_network_begin(state);
    outage_run(stage, &(struct outage){.name = "network: nothing gets to redis",
                                       .begin = bad_network_drop_in,
                                       .end = bad_network_heal,
                                       .lasts_ms = LASTS_MS,
                                       .recovery_ms = BAD_NETWORK_RECOVERY_MS});
    outage_run(stage, &(struct outage){.name = "network: nothing comes from redis",
                                       .begin = bad_network_drop_out,
                                       .end = bad_network_heal,
                                       .lasts_ms = LASTS_MS,
                                       .recovery_ms = BAD_NETWORK_RECOVERY_MS});
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
TEST_CASE_WITH(packet_loss, NULL, stage_teardown)
{
    struct stage *stage = bad_network_begin(state);
    outage_run(stage, &(struct outage){.name = "network: 5% of the packets lost, each way",
                                       .begin = lose_5,
                                       .end = bad_network_heal,
                                       .lasts_ms = LOSS_MS,
                                       .recovery_ms = BAD_NETWORK_RECOVERY_MS,
                                       .unnoticed = true});
    outage_run(stage, &(struct outage){.name = "network: 20% of the packets lost, each way",
                                       .begin = lose_20,
                                       .end = bad_network_heal,
                                       .lasts_ms = LOSS_MS,
                                       .recovery_ms = BAD_NETWORK_RECOVERY_MS,
                                       .unnoticed = true});
}
