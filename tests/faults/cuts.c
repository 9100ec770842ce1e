/* Faults after so many bytes; see cuts.h. */

#include "faults/cuts.h"

#include <stdlib.h>
#include <string.h>

/* Links of channels that nobody has asked for. */
static const char link_script[] =
    "for i = 0, tonumber(ARGV[2]) - 1 do local id = string.format('%d', tonumber(ARGV[1]) + i) "
    "redis.call('SET', 'channels:link:https://max.ru/c' .. id, id) end return 1";

/* Makes channeld forget a page with all its channels; nothing of it changes. */
static const char touch_script[] =
    "for i = 1, 100 do redis.call('HSET', 'channels:card:' .. i, 'max_channel_id', i) end "
    "redis.call('ZREM', 'channels:index', 1) redis.call('ZADD', 'channels:index', 1, 1) return 1";

int cuts_begin(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    struct stage *stage = stage_new(&(struct stage_plan){.env = env, .line = true});
    *state = stage;
    redis_do(&stage->fixture.redis, "EVAL %s 0 %d %d", link_script, STAGE_SPARE, STAGE_SPARES);
    return 0;
}

/* A question that is right now: the connection is there, and all that was told on it has been heard. */
static void expect_connected(struct stage *stage)
{
    long long id = 0;
    char *path = stage_spare_path(&id);
    stage_expect(stage, path, stage_card(id, 1));
    free(path);
}

struct cut {
    char *path, *body; /* owned */
};

/* What memory does not know. */
static struct cut cut_prepare(struct stage *stage, enum cuts_question question)
{
    long long id = 0;
    char *path = question != CUTS_PAGE ? stage_spare_path(&id) : text_printf("channels/");
    if (question == CUTS_LINK) {
        free(path);
        path = text_printf("channel/by-link/?link=https://max.ru/c%lld", id);
    }
    if (question == CUTS_PAGE)
        redis_do(&stage->fixture.redis, "EVAL %s 0", touch_script);
    expect_connected(stage);
    return (struct cut){path, question == CUTS_PAGE ? stage_page(1, 1) : stage_card(id, 1)};
}

/* The status; fails for an answer that is neither right nor a 500, or late. */
static int cut_ask(struct stage *stage, struct cut cut)
{
    struct http_response response;
    int64_t began = wait_now_ms();
    fixture_get(&stage->fixture, cut.path, &response);
    assert_in_range(wait_now_ms() - began, 0, STAGE_TIMEOUT_MS + wait_slack_ms());
    int status = response.status;
    if (status == 200)
        assert_string_equal(response.body, cut.body);
    else if (status != 500)
        fail_msg("%s: %d %.90s", cut.path, status, response.body);
    http_response_free(&response);
    free(cut.path);
    free(cut.body);
    return status;
}

/* How many bytes Redis answers to such a question. */
static size_t measure(struct stage *stage, enum cuts_question question)
{
    struct cut cut = cut_prepare(stage, question);
    size_t before = proxy_bytes_down(stage->proxy);
    assert_int_equal(cut_ask(stage, cut), 200);
    return proxy_bytes_down(stage->proxy) - before;
}

void cuts_run(struct stage *stage, const struct cuts *cuts)
{
    size_t size = measure(stage, cuts->question);
    assert_true(size > 200);
    int made = 0;
    int struck = 0;
    int failed = 0;
    int slowest = 0;
    for (size_t at = 0; at <= size; at += cuts->step) {
        struct cut cut = cut_prepare(stage, cuts->question);
        int64_t began = wait_now_ms();
        proxy_inject_after(stage->proxy, at, cuts->fault);
        failed += cut_ask(stage, cut) == 500;
        struck += proxy_has_injected(stage->proxy);
        made++;
        proxy_restore(stage->proxy);
        expect_connected(stage);
        int took = (int)(wait_now_ms() - began);
        slowest = took > slowest ? took : slowest;
    }
    /* The last one may come after the answer, a heartbeat's reply be counted with it. */
    assert_true(struck >= made - 1 - made / 10);
    if (cuts->fault != PROXY_DROP)
        assert_int_equal(failed, 0);
    print_message(
        "%-40s %d cuts in %zu bytes: %d right, %d failed | the next question was answered after %d ms at the "
        "latest\n",
        cuts->name, struck, size, made - failed, failed, slowest);
}
