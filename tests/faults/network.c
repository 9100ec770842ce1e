/*
 * A network that drops packets, for good or by chance, or refuses them: Redis in a network namespace of its
 * own, where the kernel's own retransmission and time-outs are at work.
 */

#include "faults/bad_network.h"
#include "faults/outage.h"

enum {
    LASTS_MS = 3300,
    RESETS_MS = 1500,
    LOSS_MS = 1500,
    LOSS_PERCENT = 5,
};

TEST_CASE_WITH(black_hole, NULL, stage_teardown)
{
    outage_run(bad_network_begin(state), &(struct outage){.name = "network: black hole",
                                                          .begin = bad_network_drop_all,
                                                          .end = bad_network_heal,
                                                          .lasts_ms = LASTS_MS,
                                                          .recovery_ms = BAD_NETWORK_RECOVERY_MS});
}

static void refuse(struct stage *stage)
{
    netns_refuse(&stage->netns);
}

TEST_CASE_WITH(resets, NULL, stage_teardown)
{
    outage_run(bad_network_begin(state), &(struct outage){.name = "network: resets",
                                                          .begin = refuse,
                                                          .end = bad_network_heal,
                                                          .lasts_ms = RESETS_MS});
}

static void lose(struct stage *stage)
{
    netns_lose(&stage->netns, LOSS_PERCENT);
}

TEST_CASE_WITH(packet_loss, NULL, stage_teardown)
{
    outage_run(bad_network_begin(state), &(struct outage){.name = "network: 5% of the packets lost, each way",
                                                          .begin = lose,
                                                          .end = bad_network_heal,
                                                          .lasts_ms = LOSS_MS,
                                                          .unnoticed = true});
}
