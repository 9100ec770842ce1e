/*
 * A network that drops packets, for good or by chance, or refuses them: Redis in a network namespace of its
 * own, where the kernel's own retransmission and time-outs are at work.
 */

#include "faults/outage.h"

enum {
    LASTS_MS = 3300,
    RESETS_MS = 1500,
    LOSS_MS = 1500,
    LOSS_PERCENT = 5,
    BLACK_HOLE_RECOVERY_MS = 2 * STAGE_RECOVERY_MS
};

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

static void drop_all(struct stage *stage)
{
    netns_drop_in(&stage->netns);
    netns_drop_out(&stage->netns);
}

/* Its end is found out by the next attempt to connect: a SYN that was lost is not sent again at once. */
static void black_hole(void **state)
{
    outage_run(begin(state), &(struct outage){.name = "network: black hole",
                                              .begin = drop_all,
                                              .end = heal,
                                              .lasts_ms = LASTS_MS,
                                              .recovery_ms = BLACK_HOLE_RECOVERY_MS});
}

static void refuse(struct stage *stage)
{
    netns_refuse(&stage->netns);
}

static void resets(void **state)
{
    outage_run(
        begin(state),
        &(struct outage){.name = "network: resets", .begin = refuse, .end = heal, .lasts_ms = RESETS_MS});
}

static void lose(struct stage *stage)
{
    netns_lose(&stage->netns, LOSS_PERCENT);
}

static void packet_loss(void **state)
{
    outage_run(begin(state), &(struct outage){.name = "network: 5% of the packets lost, each way",
                                              .begin = lose,
                                              .end = heal,
                                              .lasts_ms = LOSS_MS,
                                              .unnoticed = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(black_hole, stage_teardown),
        cmocka_unit_test_teardown(resets, stage_teardown),
        cmocka_unit_test_teardown(packet_loss, stage_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
