/* The course of an outage; see outage.h. */

#include "faults/outage.h"

#include <stdlib.h>
#include <string.h>

static int outage_await_notice(struct stage *stage, int64_t began)
{
    int noticed = stage_await_lost(stage, began);
    assert_in_range(noticed, 0, STAGE_NOTICE_MS + load_slack_ms(stage->load));
    server_await_log(&stage->fixture.server, "redis connection lost");
    return noticed;
}

void outage_run(struct stage *stage, const struct outage *outage)
{
    struct load *load = stage->load;
    load_mark(load);
    int64_t began = wait_now_ms();
    outage->begin(stage);
    int noticed = outage->unnoticed ? -1 : outage_await_notice(stage, began);
    int left = outage->lasts_ms - (int)(wait_now_ms() - began);
    load_watch(load, left > 0 ? left : 0);
    load_expect_cached_right(load);
    assert_true(load_tally(load, LOAD_CACHED).right > 0);
    assert_int_equal(server_admin_status(&stage->fixture.server, "/livez"), 200);
    assert_int_equal(server_admin_status(&stage->fixture.server, "/readyz"), 200);
    outage->end(stage);
    load_expect_cached_right(load);
    load_mark_end(load);
    int bound = outage->recovery_ms > 0 ? outage->recovery_ms : STAGE_RECOVERY_MS;
    int recovered = load_await_recovery(load, bound);
    load_expect_cached_right(load);
    stage_report(stage, outage->name, noticed, recovered);
    load_expect_all_right(load);
}
