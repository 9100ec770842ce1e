/* A line that is long, narrow, or delivers byte by byte: answers take longer and are the same. */

#include <stdlib.h>
#include <string.h>

#include "faults/chorus.h"
#include "faults/outage.h"

enum { LATENCY_MS = 200, LASTS_MS = 1500, RATE = 20000, KEYS = 20000, KEYS_RATE = 400000 };

static int begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.line = true});
    *state = stage;
    return 0;
}

static void stretch(struct stage *stage)
{
    proxy_set_latency(stage->proxy, LATENCY_MS);
}

static void slice(struct stage *stage)
{
    proxy_set_slice(stage->proxy, 1);
}

static void narrow(struct stage *stage)
{
    proxy_set_rate(stage->proxy, RATE);
}

static void heal(struct stage *stage)
{
    proxy_restore(stage->proxy);
}

static void expect_nothing_failed(struct stage *stage)
{
    assert_int_equal(load_tally_of_fault(stage->load, LOAD_UNCACHED).failed, 0);
    assert_true(load_tally_of_fault(stage->load, LOAD_UNCACHED).right > 0);
}

/* 400 ms a question: a page of unknown channels takes three of them, a link two. */
TEST_CASE_WITH(latency_of_200_ms_each_way, begin, stage_teardown)
{
    struct stage *stage = *state;
    (void)load_start(stage);
    outage_run(stage, &(struct outage){.name = "line: 200 ms each way",
                                       .begin = stretch,
                                       .end = heal,
                                       .lasts_ms = LASTS_MS,
                                       .unnoticed = true});
    expect_nothing_failed(stage);
}

TEST_CASE_WITH(connects_and_answers_over_200_ms_each_way, begin, stage_teardown)
{
    struct stage *stage = *state;
    stretch(stage);
    proxy_inject(stage->proxy, PROXY_RESET);
    int64_t began = wait_now_ms();
    (void)stage_await_lost(stage, began);
    int took = stage_await_connected(stage, began);
    assert_in_range(took, 0, 2 * 2 * LATENCY_MS + wait_slack_ms());
    began = wait_now_ms();
    stage_expect(stage, "channels/", stage_page(1, 1));
    stage_expect(stage, "channel/by-link/?link=https://max.ru/c7", stage_card(7, 1));
    stage_expect(stage, "channel/by-id/8/", stage_card(8, 1));
    print_message("line: 200 ms each way: connected after %d ms, a page, a link and a card in %d ms\n", took,
                  (int)(wait_now_ms() - began));
}

TEST_CASE_WITH(answers_byte_by_byte, begin, stage_teardown)
{
    struct stage *stage = *state;
    slice(stage);
    stage_expect(stage, "channels/", stage_page(1, 1));
    stage_expect(stage, "channels/?page=2", stage_page(2, 1));
    (void)load_start(stage);
    outage_run(stage, &(struct outage){.name = "line: single bytes",
                                       .begin = slice,
                                       .end = heal,
                                       .lasts_ms = LASTS_MS,
                                       .unnoticed = true});
    expect_nothing_failed(stage);
}

/* Narrower than the clients want it: they get what comes through in time. */
TEST_CASE_WITH(narrow_line, begin, stage_teardown)
{
    struct stage *stage = *state;
    (void)load_start(stage);
    outage_run(
        stage,
        &(struct outage){
            .name = "line: 20 kB/s", .begin = narrow, .end = heal, .lasts_ms = LASTS_MS, .unnoticed = true});
    assert_true(load_tally_of_fault(stage->load, LOAD_UNCACHED).right > 0);
}

/* More keys than would come through while a request is patient: they are read in portions, and requests in
 * between. */
TEST_CASE_WITH(many_keys_over_a_narrow_line, begin, stage_teardown)
{
    static const char wrong[] = "X-Api-Key: wrong\r\n";
    struct stage *stage = *state;
    struct redis *redis = &stage->fixture.redis;
    catalogue_issue_keys(redis, KEYS);
    double lost = server_metric(&stage->fixture.server, "channeld_redis_disconnects_total");
    proxy_set_rate(stage->proxy, KEYS_RATE);
    proxy_inject(stage->proxy, PROXY_RESET);
    server_await_metric(&stage->fixture.server, "channeld_redis_disconnects_total", lost + 2);
    int64_t began = wait_now_ms();
    int answered = 0;
    while (!chorus_is_from_memory(stage)) /* each question is answered, and right */
        answered++;
    int took = (int)(wait_now_ms() - began);
    print_message("line: %d keys, %d kB/s: answers from memory after %d ms, after %d rounds of questions\n",
                  KEYS, KEYS_RATE / 1000, took, answered);
    assert_true(answered > 0);
    assert_int_equal(http_get_status(stage->fixture.server.port, "/api/channels/", wrong), 401);
    struct chorus chorus;
    chorus_open(&chorus, stage);
    redis_do(redis, "DEL channels:api_keys");
    chorus_await(&chorus, "channel/by-id/1/", 401, NULL);
    chorus_close(&chorus);
    assert_true(server_metric(&stage->fixture.server, "channeld_redis_disconnects_total") <= lost + 2);
}
