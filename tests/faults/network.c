/*
 * A network that drops packets, permanently or at random, or refuses them: Redis is in a network namespace of
 * its own, where the kernel's own retransmission and timeouts take part.
 */

#include "faults/testbed.h"

static void drop_in(struct testbed *bed)
{
    netns_drop_in(&bed->netns);
}

static void drop_out(struct testbed *bed)
{
    netns_drop_out(&bed->netns);
}

static void drop_all(struct testbed *bed)
{
    drop_in(bed);
    drop_out(bed);
}

static void refuse(struct testbed *bed)
{
    netns_refuse(&bed->netns);
}

static void lose_5(struct testbed *bed)
{
    netns_lose(&bed->netns, 5);
}

static void restore(struct testbed *bed)
{
    netns_restore(&bed->netns);
}

static const struct outage BLACK_HOLE = {"network: black hole", drop_all, restore, .lasts_ms = 3300};
static const struct outage RESETS = {"network: resets", refuse, restore, .lasts_ms = 1500};
static const struct outage NO_REQUESTS = {"network: nothing gets to redis", drop_in, restore,
                                          .recovery_ms = TESTBED_NETWORK_RECOVERY_MS};
static const struct outage NO_REPLIES = {"network: nothing comes from redis", drop_out, restore,
                                         .recovery_ms = TESTBED_NETWORK_RECOVERY_MS};
/* Connections may be given up now and then: the cache does not suffer. */
static const struct outage LOSS_5 = {"network: 5% packet loss, each way", lose_5, restore, .lasts_ms = 1500,
                                     .unnoticed = true};

static void run(void **state, const struct outage *outage, int lasts_ms, int rounds)
{
    struct testbed *bed = *state;
    struct outage actual = *outage;
    if (bed == NULL)
        bed = testbed_start(state, &(struct testbed_spec){.network = true});
    actual.recovery_ms = TESTBED_NETWORK_RECOVERY_MS;
    for (int i = 0; i < rounds; i++) {
        if (lasts_ms > 0)
            actual.lasts_ms = lasts_ms + i * 700;
        outage_run(bed, &actual);
    }
}

TEST_CASE_WITH(network_black_hole, NULL, testbed_teardown)
{
    run(state, &BLACK_HOLE, 0, 1);
}

TEST_CASE_WITH(network_resets, NULL, testbed_teardown)
{
    run(state, &RESETS, 0, 1);
}

TEST_CASE_WITH(network_packet_loss, NULL, testbed_teardown)
{
    run(state, &LOSS_5, 0, 1);
}

SLOW_TEST_WITH(network_black_hole_in_one_direction, NULL, testbed_teardown)
{
    run(state, &NO_REQUESTS, 10000, 1);
    run(state, &NO_REPLIES, 10000, 1);
}
