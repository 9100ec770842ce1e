/* Beginning, counting and ending; see run.h. */

#include "coherence/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coherence/clock.h"
#include "support/text.h"

enum { SETTINGS_MAX = 16, LAST_LOOK_MS = 300 };

uint64_t run_changes(struct run *run)
{
    uint64_t changes = 0;
    for (int i = 0; i < run->options.writers; i++) {
        for (int k = 0; k < CHANGE_KINDS; k++)
            changes += atomic_load_explicit(&run->writer[i].changes[k], memory_order_relaxed);
    }
    return changes;
}

uint64_t run_reads(struct run *run, uint64_t *failed)
{
    uint64_t reads = 0;
    *failed = 0;
    for (int i = 0; i < run->options.readers; i++) {
        reads += atomic_load_explicit(&run->reader[i].tally.reads, memory_order_relaxed);
        *failed += atomic_load_explicit(&run->reader[i].tally.failed, memory_order_relaxed);
    }
    return reads;
}

static void run_start_channeld(struct run *run)
{
    const char *env[SETTINGS_MAX] = {NULL};
    char *own[] = {
        text_printf("CHANNELD_WORKERS=%d", run->options.workers),
        text_printf("CHANNELD_STALE_LIMIT=%dms", run->options.stale_limit_ms),
        text_printf("CHANNELD_REQUEST_TIMEOUT=%dms", (int)WEATHER_REQUEST_TIMEOUT_MS),
        text_printf("CHANNELD_MAX_CONNECTION_AGE=0"), /* a lane is one connection */
        text_printf("CHANNELD_CACHE_SIZE=%s", run->options.cache_size != NULL ? run->options.cache_size : ""),
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (i < 4 || run->options.cache_size != NULL)
            env[used++] = own[i];
    }
    if (run->options.ignore_invalidations)
        env[used++] = "CHANNELD_TEST_IGNORE_INVALIDATIONS=1";
    for (size_t i = 0; run->options.env != NULL && run->options.env[i] != NULL && used < SETTINGS_MAX - 1;
         i++)
        env[used++] = run->options.env[i];
    const struct server_spec spec = {
        .redis_url = run->stage.redis.url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&run->stage.server, &spec);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        free(own[i]);
}

void run_start(struct run *run)
{
    struct stage *stage = &run->stage;
    const struct weather_limits limits = {.bound = (int64_t)run->options.bound_ms * CLOCK_MS,
                                          .stale_limit = (int64_t)run->options.stale_limit_ms * CLOCK_MS};
    stage->options = &run->options;
    stage->weather = weather_new(&limits);
    stage->world = world_new(run->options.channels, run->options.writers);
    fault_start_redis(stage);
    for (int i = 0; i < run->options.writers; i++)
        writer_start(&run->writer[i], &run->options, stage->world, i, stage->redis.port);
    fault_await_reload(stage);
    run_start_channeld(run);
}

void run_start_readers(struct run *run)
{
    struct stage *stage = &run->stage;
    stage->report = report_new(run->options.verbose);
    int port = stage->server.port;
    if (run->options.lie_ms > 0) {
        run->liar = liar_new(port, run->options.lie_ms);
        port = liar_port(run->liar);
    }
    const struct checker checker = {
        .world = stage->world, .weather = stage->weather, .report = stage->report};
    for (int i = 0; i < run->options.readers; i++)
        reader_start(&run->reader[i], &run->options, &checker, i, port, &run->readers_finished);
}

void run_settle(struct run *run)
{
    atomic_store(&run->stage.world->finished, true);
    for (int i = 0; i < run->options.writers; i++)
        writer_join(&run->writer[i]);
    clock_sleep((int64_t)(run->options.bound_ms + LAST_LOOK_MS) * CLOCK_MS);
    atomic_store(&run->readers_finished, true);
    for (int i = 0; i < run->options.readers; i++)
        reader_join(&run->reader[i]);
}

void run_stop(struct run *run)
{
    if (run->liar != NULL)
        liar_free(run->liar);
    server_stop(&run->stage.server);
    redis_stop(&run->stage.redis);
}

void run_summary(struct run *run)
{
    struct tally *tally = calloc(1, sizeof *tally);
    double seconds = (double)(clock_now() - report_start(run->stage.report)) / CLOCK_S;
    uint64_t failed = 0;
    if (tally == NULL)
        abort();
    uint64_t reads = run_reads(run, &failed);
    uint64_t changes = run_changes(run);
    for (int i = 0; i < run->options.readers; i++)
        tally_merge(tally, &run->reader[i].tally);
    printf("%.1f s: %" PRIu64 " reads (%.0f a second), %" PRIu64 " changes (%.0f a second):", seconds, reads,
           (double)reads / seconds, changes, (double)changes / seconds);
    for (int k = 0; k < CHANGE_KINDS; k++) {
        uint64_t count = 0;
        for (int i = 0; i < run->options.writers; i++)
            count += run->writer[i].changes[k];
        printf(" %s %" PRIu64, writer_change_name((enum change_kind)k), count);
    }
    printf("\n");
    report_summary(run->stage.report, tally, run->stage.weather);
    free(tally);
}

void run_fini(struct run *run)
{
    report_free(run->stage.report);
    world_free(run->stage.world);
    weather_free(run->stage.weather);
}
