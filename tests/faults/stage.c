/* Redis, the line, channeld and the catalogue; see stage.h. */

#include "faults/stage.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* All in one turn: nobody sees half of it. ARGV: version, listed, first spare, spares, digest of the key. */
static const char write_script[] =
    "local function put(id) "
    "  redis.call('HSET', 'channels:card:' .. id, 'max_channel_id', id, 'title', 'v' .. ARGV[1] .. ' of ' .. "
    "id, "
    "    'description', string.rep('x', 200), 'link', 'https://max.ru/c' .. id, 'followers_cnt_today', id) "
    "end "
    "for i = 1, tonumber(ARGV[2]) do local id = string.format('%d', i) put(id) "
    "  redis.call('ZADD', 'channels:index', i, id) redis.call('SET', 'channels:link:https://max.ru/c' .. id, "
    "id) "
    "end "
    "for i = 0, tonumber(ARGV[4]) - 1 do put(string.format('%d', tonumber(ARGV[3]) + i)) end "
    "redis.call('SADD', 'channels:api_keys', ARGV[5]) return 1";

void stage_write(struct redis *redis, int version)
{
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    redis_do(redis, "EVAL %s 0 %d %d %d %d %s", write_script, version, STAGE_LISTED, STAGE_SPARE,
             STAGE_SPARES, digest);
}

struct stage *stage_new(const struct stage_plan *plan)
{
    static const struct stage_plan plain = {0};
    struct stage *stage = calloc(1, sizeof *stage);
    if (stage == NULL)
        abort();
    if (plan == NULL)
        plan = &plain;
    if (plan->network && !netns_open(&stage->netns)) {
        free(stage);
        skip();
        return NULL;
    }
    redis_start_in(&stage->fixture.redis, plan->network ? &stage->netns : NULL, plan->redis_args);
    stage_write(&stage->fixture.redis, 1);
    int port = stage->fixture.redis.port;
    if (plan->line) {
        stage->proxy = proxy_new(port);
        port = proxy_port(stage->proxy);
    }
    char *url = text_printf("redis://%s:%d/0", plan->line ? "127.0.0.1" : stage->fixture.redis.host, port);
    struct server_spec spec = {.redis_url = url, .env = plan->env, .wait = SERVER_WAIT_READY};
    server_start(&stage->fixture.server, &spec);
    free(url);
    return stage;
}

void stage_free(struct stage *stage)
{
    load_free(stage->load);
    if (stage->fixture.server.process.pid != 0)
        server_stop(&stage->fixture.server);
    server_kill(&stage->fixture.server);
    if (stage->proxy != NULL)
        proxy_free(stage->proxy);
    redis_stop(&stage->fixture.redis);
    netns_close(&stage->netns);
    free(stage);
}

int stage_teardown(void **state)
{
    if (*state != NULL)
        stage_free(*state);
    *state = NULL;
    return 0;
}

/* ---- what is right ---- */

char *stage_card(long long id, int version)
{
    char *description = text_repeat('x', 200);
    char *body = text_printf(
        "{\"success\":true,\"data\":{\"max_channel_id\":%lld,\"title\":\"v%d of "
        "%lld\",\"description\":\"%s\","
        "\"avatar\":null,\"link\":\"https://max.ru/c%lld\",\"category\":null,\"category2\":null,"
        "\"followers_cnt_today\":%lld,\"followers_history\":{},\"is_a_plus_flag\":null,\"views_24h\":null,"
        "\"views_48h\":null,\"er_24h\":null,\"er_48h\":null,\"updated_at\":null}}",
        id, version, id, description, id, id);
    free(description);
    return body;
}

char *stage_page(int number, int version)
{
    int first = (number - 1) * 100 + 1;
    int last = number * 100 < STAGE_LISTED ? number * 100 : STAGE_LISTED;
    char *description = text_repeat('x', 200);
    char *body = text_printf("{\"success\":true,\"data\":[");
    for (int id = first; id <= last; id++) {
        char *item = text_printf("%s{\"max_channel_id\":%d,\"title\":\"v%d of %d\",\"description\":\"%s\","
                                 "\"avatar\":null,\"link\":\"https://max.ru/c%d\",\"updated_at\":null}",
                                 id > first ? "," : "", id, version, id, description, id);
        body = text_append(body, item);
        free(item);
    }
    char *end =
        text_printf("],\"pagination\":{\"page\":%d,\"per_page\":100,\"count\":%d,\"has_next\":%s}}", number,
                    last >= first ? last - first + 1 : 0, last < STAGE_LISTED ? "true" : "false");
    body = text_append(body, end);
    free(end);
    free(description);
    return body;
}

void stage_expect(struct stage *stage, const char *path, char *body)
{
    char *answered = fixture_body(&stage->fixture, path);
    assert_string_equal(answered, body);
    free(answered);
    free(body);
}

void stage_expect_unavailable(struct stage *stage, const char *path)
{
    struct http_response response;
    int64_t began = wait_now_ms();
    fixture_get(&stage->fixture, path, &response);
    assert_in_range(wait_now_ms() - began, 0, STAGE_TIMEOUT_MS + wait_slack_ms());
    if (response.status != 500)
        fail_msg("%s: %d %s", path, response.status, response.body);
    assert_string_equal(response.body, "{\"success\":false,\"error\":\"Internal server error\"}");
    assert_string_equal(http_header(&response, "Retry-After"), "1");
    http_response_free(&response);
}

char *stage_spare_path(long long *id)
{
    static atomic_llong next;
    *id = STAGE_SPARE + atomic_fetch_add(&next, 1) % STAGE_SPARES;
    return text_printf("channel/by-id/%lld/", *id);
}

/* ---- times ---- */

void stage_freeze(struct stage *stage)
{
    struct process *process = &stage->fixture.server.process;
    process_signal(process, SIGSTOP);
    /* The signal is asynchronous: wait until the kernel reports the stop. */
    (void)waitid(P_PID, (id_t)process->pid, &(siginfo_t){0}, WSTOPPED);
}

void stage_thaw(struct stage *stage)
{
    process_signal(&stage->fixture.server.process, SIGCONT);
}

static bool stage_always(void *arg)
{
    (void)arg;
    return true;
}

void stage_let_pass(int ms)
{
    (void)wait_holds(stage_always, NULL, ms);
}

int stage_await_lost(struct stage *stage, int64_t since)
{
    server_await_metric_below(&stage->fixture.server, "channeld_redis_connected", 0.5);
    return (int)(wait_now_ms() - since);
}

int stage_await_connected(struct stage *stage, int64_t since)
{
    double workers = server_metric(&stage->fixture.server, "channeld_workers");
    server_await_metric(&stage->fixture.server, "channeld_redis_connected", workers);
    return (int)(wait_now_ms() - since);
}

void stage_report(struct stage *stage, const char *fault, int noticed_ms, int recovered_ms)
{
    struct load_tally cached = load_tally_of_fault(stage->load, LOAD_CACHED);
    struct load_tally uncached = load_tally_of_fault(stage->load, LOAD_UNCACHED);
    print_message(
        "%-40s cached %d right %d failed | uncached %d right %d failed, slowest %d ms | noticed after %d "
        "ms, recovered after %d ms\n",
        fault, cached.right, cached.failed, uncached.right, uncached.failed, uncached.slowest_ms, noticed_ms,
        recovered_ms);
}
