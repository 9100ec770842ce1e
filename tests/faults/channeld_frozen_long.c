/* channeld stopped again and again, for times around the lease and far beyond it, data and keys changing. */

#include <stdlib.h>

#include "faults/chorus.h"

enum { ROUNDS = 3 };

static const char *const paths[] = {"channel/by-id/1/", "channel/by-link/?link=https://max.ru/c1",
                                    "channels/"};

static char *body_of(size_t path, int version)
{
    return path == 2 ? stage_page(1, version) : stage_card(1, version);
}

static int begin(void **state)
{
    *state = stage_new(NULL);
    return 0;
}

/* The key is withdrawn during each second stop, and comes back with the data of the next. */
TEST_CASE_WITH(many_stops_beyond_the_lease, begin, stage_teardown)
{
    static const int extra_ms[] = {50, 200, 1000, 3000, 7000};
    struct stage *stage = *state;
    struct chorus chorus;
    int version = 1;
    chorus_open(&chorus, stage);
    for (int round = 0; round < ROUNDS * (int)TEST_COUNT(extra_ms); round++) {
        size_t path = (size_t)round % TEST_COUNT(paths);
        bool revoked = round % 2 == 1;
        chorus_ask(&chorus, paths[path], 200, body_of(path, version));
        stage_freeze(stage);
        stage_write(&stage->fixture.redis, ++version);
        if (revoked)
            redis_do(&stage->fixture.redis, "RENAME channels:api_keys channels:kept");
        chorus_send(&chorus, paths[path]);
        stage_let_pass(STAGE_LEASE_MS + extra_ms[(size_t)round % TEST_COUNT(extra_ms)]);
        int64_t thawed = wait_now_ms();
        stage_thaw(stage);
        chorus_expect(&chorus, revoked ? 401 : 200, revoked ? NULL : body_of(path, version));
        assert_in_range(wait_now_ms() - thawed, 0, STAGE_TIMEOUT_MS + wait_slack_ms());
        if (revoked)
            redis_do(&stage->fixture.redis, "RENAME channels:kept channels:api_keys");
    }
    chorus_close(&chorus);
}
