/* Redis, channeld and the course of an outage; see testbed.h. */

#include "faults/testbed.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void testbed_fill(struct redis *redis)
{
    testbed_write(redis, 1);
}

struct testbed *testbed_new(const struct testbed_spec *spec)
{
    static const struct testbed_spec plain = {0};
    struct testbed *bed = calloc(1, sizeof *bed);
    if (bed == NULL)
        abort();
    if (spec == NULL)
        spec = &plain;
    const struct fixture_spec fixture = {
        .env = spec->env, .redis_args = spec->redis_args, .fill = testbed_fill, .proxied = spec->proxied};
    fixture_init(&bed->fixture, &fixture);
    return bed;
}

struct testbed *testbed_start(void **state, const struct testbed_spec *spec)
{
    struct testbed *bed = testbed_new(spec);
    *state = bed;
    if (bed != NULL)
        bed->clients = clients_start(bed);
    return bed;
}

void testbed_start_at(void **state, const char *url, const char *const *env, const char *metric)
{
    struct testbed *bed = calloc(1, sizeof *bed);
    assert_non_null(bed);
    fixture_serve(&bed->fixture, url, env, SERVER_WAIT_READY);
    server_await_metric(&bed->fixture.server, metric, 2);
    *state = bed;
    bed->clients = clients_start(bed);
}

int testbed_setup(void **state)
{
    *state = testbed_new(NULL);
    return 0;
}

int testbed_setup_clients(void **state)
{
    (void)testbed_start(state, NULL);
    return 0;
}

int testbed_teardown(void **state)
{
    struct testbed *bed = *state;
    *state = NULL;
    if (bed == NULL)
        return 0;
    clients_free(bed->clients);
    fixture_fini(&bed->fixture);
    free(bed);
    return 0;
}

void testbed_write(struct redis *redis, int version)
{
    catalogue_put_version(redis, version, FIXTURE_KEY);
}

void testbed_expect(struct testbed *bed, const char *path, char *body)
{
    AUTOFREE char *actual = fixture_body(&bed->fixture, path);
    assert_string_equal(actual, body);
    free(body);
}

void testbed_expect_unavailable(struct testbed *bed, const char *path)
{
    int64_t began = wait_now_ms();
    fixture_expect_unavailable(&bed->fixture, path);
    assert_in_range(wait_now_ms() - began, 0, wait_bound_ms(TESTBED_TIMEOUT_MS));
}

char *testbed_spare_path(long long *id)
{
    static atomic_llong next;
    *id = CATALOGUE_SPARE + atomic_fetch_add(&next, 1) % CATALOGUE_SPARES;
    return text_printf("channel/by-id/%lld/", *id);
}

int testbed_fan_out(struct testbed *bed, const char *path, int status, const char *body, const char *instead)
{
    struct http_conn conn[TESTBED_FAN_OUT];
    int count = 0;
    AUTOFREE char *target = text_printf("/api/%s", path);
    for (int i = 0; i < TESTBED_FAN_OUT; i++)
        http_start_get(&conn[i], bed->fixture.server.port, target, FIXTURE_AUTH);
    for (int i = 0; i < TESTBED_FAN_OUT; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn[i], false, &response), 0);
        bool same = response.status == status && (body == NULL || strcmp(response.body, body) == 0);
        if (!same && instead != NULL && (response.status != 200 || strcmp(response.body, instead) != 0))
            fail_msg("%s: %d %.90s", path, response.status, response.body);
        count += same;
        http_close(&conn[i]);
    }
    return count;
}

bool testbed_serves_version_2(void *bed)
{
    AUTOFREE char *now = catalogue_version_card(1, 2);
    AUTOFREE char *before = catalogue_version_card(1, 1);
    return testbed_fan_out(bed, "channel/by-id/1/", 200, now, before) == TESTBED_FAN_OUT;
}

bool testbed_has_cached(struct testbed *bed)
{
    double before = server_metric(&bed->fixture.server, "channeld_redis_commands_total");
    AUTOFREE char *card = catalogue_version_card(1, 1);
    assert_int_equal(testbed_fan_out(bed, "channel/by-id/1/", 200, card, NULL), TESTBED_FAN_OUT);
    return server_metric(&bed->fixture.server, "channeld_redis_commands_total") <= before;
}

int testbed_await_lost(struct testbed *bed, int64_t since)
{
    server_await_metric_below(&bed->fixture.server, "channeld_redis_connected", 0.5);
    return (int)(wait_now_ms() - since);
}

void testbed_await_workers(struct testbed *bed, const char *gauge)
{
    double workers = server_metric(&bed->fixture.server, "channeld_workers");
    server_await_metric(&bed->fixture.server, gauge, workers);
}

int testbed_await_connected(struct testbed *bed, int64_t since)
{
    testbed_await_workers(bed, "channeld_redis_connected");
    return (int)(wait_now_ms() - since);
}

/* ---- outages ---- */

static void outage_begin(struct testbed *bed, const struct outage *outage)
{
    if (outage->begin_command != NULL)
        redis_do(&bed->fixture.redis, outage->begin_command);
    if (outage->kill)
        fixture_kill_connections(&bed->fixture);
    if (outage->begin != NULL)
        outage->begin(bed);
}

static void outage_end(struct testbed *bed, const struct outage *outage)
{
    if (outage->end_command != NULL)
        redis_do(&bed->fixture.redis, outage->end_command);
    if (outage->end != NULL)
        outage->end(bed);
}

static int outage_await_notice(struct testbed *bed, int64_t began)
{
    int noticed = testbed_await_lost(bed, began);
    assert_in_range(noticed, 0, clients_bound_ms(bed->clients, TESTBED_NOTICE_MS));
    server_await_log(&bed->fixture.server, "redis connection lost");
    return noticed;
}

void outage_report(struct testbed *bed, const char *fault, int noticed_ms, int recovered_ms)
{
    struct client_tally cached = clients_tally_of_fault(bed->clients, CLIENTS_CACHED);
    struct client_tally uncached = clients_tally_of_fault(bed->clients, CLIENTS_UNCACHED);
    print_message("%-40s cached %d right %d failed | uncached %d right %d failed, slowest %d ms | noticed "
                  "after %d ms, recovered after %d ms\n",
                  fault, cached.right, cached.failed, uncached.right, uncached.failed, uncached.slowest_ms,
                  noticed_ms, recovered_ms);
}

void outage_finish(struct testbed *bed, const char *name, int noticed_ms, int recovery_ms)
{
    clients_expect_cached_right(bed->clients);
    clients_mark_end(bed->clients);
    int recovered = clients_await_recovery(bed->clients, recovery_ms);
    clients_expect_cached_right(bed->clients);
    outage_report(bed, name, noticed_ms, recovered);
    clients_expect_all_right(bed->clients);
}

/* It lasts until there was a response of each kind that it lets through. */
static void outage_await_responses(struct testbed *bed, const struct outage *outage)
{
    clients_await_right(bed->clients, CLIENTS_CACHED);
    if (outage->passable)
        clients_await_right(bed->clients, CLIENTS_UNCACHED);
}

void outage_run(struct testbed *bed, const struct outage *outage)
{
    struct clients *clients = bed->clients;
    clients_mark(clients);
    int64_t began = wait_now_ms();
    outage_begin(bed, outage);
    int noticed = outage->unnoticed ? -1 : outage_await_notice(bed, began);
    int left = outage->lasts_ms - (int)(wait_now_ms() - began);
    clients_watch(clients, left > 0 ? left : 0);
    outage_await_responses(bed, outage);
    clients_expect_cached_right(clients);
    assert_int_equal(server_admin_status(&bed->fixture.server, "/livez"), 200);
    assert_int_equal(server_admin_status(&bed->fixture.server, "/readyz"), 200);
    outage_end(bed, outage);
    outage_finish(bed, outage->name, noticed,
                  outage->recovery_ms > 0 ? outage->recovery_ms : TESTBED_RECOVERY_MS);
    if (outage->harmless)
        assert_int_equal(clients_tally_of_fault(bed->clients, CLIENTS_UNCACHED).failed, 0);
}
