/*
 * The coherence test: writers change Redis, readers ask channeld, faults happen, and every answer is judged.
 * Exit code 0 when nothing was violated (with --expect-violations: when something was), else 1.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"
#include "coherence/faults.h"
#include "coherence/liar.h"
#include "coherence/reader.h"
#include "coherence/writer.h"
#include "support/text.h"

enum { ENVIRONMENT_MAX = 8, LAST_LOOK_MS = 300 };

struct run {
    struct options options;
    struct stage stage;
    struct liar *liar;
    struct writer writer[WRITERS_MAX];
    struct reader reader[READERS_MAX];
    atomic_bool readers_finished;
    atomic_bool finished;
    pthread_t teller;
};

/* ---- a line every second ---- */

static uint64_t run_changes(struct run *run)
{
    uint64_t changes = 0;
    for (int i = 0; i < run->options.writers; i++) {
        for (int k = 0; k < CHANGE_KINDS; k++)
            changes += atomic_load_explicit(&run->writer[i].changes[k], memory_order_relaxed);
    }
    return changes;
}

static uint64_t run_reads(struct run *run, uint64_t *failed)
{
    uint64_t reads = 0;
    *failed = 0;
    for (int i = 0; i < run->options.readers; i++) {
        reads += atomic_load_explicit(&run->reader[i].tally.reads, memory_order_relaxed);
        *failed += atomic_load_explicit(&run->reader[i].tally.failed, memory_order_relaxed);
    }
    return reads;
}

static void *run_tell(void *arg)
{
    struct run *run = arg;
    uint64_t reads = 0;
    uint64_t changes = 0;
    uint64_t failed = 0;
    for (int second = 1; !atomic_load(&run->finished); second++) {
        clock_sleep(CLOCK_S);
        uint64_t reads_now = run_reads(run, &failed);
        uint64_t changes_now = run_changes(run);
        const char *fault = weather_now(run->stage.weather);
        printf("%5d s: %7" PRIu64 " reads/s, %6" PRIu64 " changes/s, %" PRIu64 " 500s, %" PRIu64
               " violations%s%s\n",
               second, reads_now - reads, changes_now - changes, failed, report_violations(run->stage.report),
               fault != NULL ? ", " : "", fault != NULL ? fault : "");
        (void)fflush(stdout);
        reads = reads_now;
        changes = changes_now;
    }
    return NULL;
}

/* ---- faults in turn ---- */

static bool run_any_fault(const struct run *run)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (run->options.faults[i])
            return true;
    }
    return false;
}

/* Each fault at least once, and then until the time is over. */
static void run_faults(struct run *run)
{
    int64_t end = clock_now() + (int64_t)run->options.seconds * CLOCK_S;
    int64_t gap = (int64_t)run->options.fault_gap_ms * CLOCK_MS;
    if (!run_any_fault(run))
        clock_sleep(end - clock_now());
    else
        clock_sleep(gap);
    for (bool first = true; run_any_fault(run) && (first || clock_now() < end); first = false) {
        for (int i = 0; i < FAULT_KINDS && (first || clock_now() < end); i++) {
            if (!run->options.faults[i])
                continue;
            fault_run(&run->stage, (enum fault_kind)i);
            clock_sleep(gap);
        }
    }
}

/* ---- beginning and end ---- */

static void run_start_channeld(struct run *run)
{
    const char *env[ENVIRONMENT_MAX] = {NULL};
    char *own[] = {
        text_printf("CHANNELD_WORKERS=%d", run->options.workers),
        text_printf("CHANNELD_STALE_LIMIT=%dms", run->options.stale_limit_ms),
        text_printf("CHANNELD_REQUEST_TIMEOUT=%dms", (int)WEATHER_REQUEST_TIMEOUT_MS),
        text_printf("CHANNELD_CACHE_SIZE=%s", run->options.cache_size != NULL ? run->options.cache_size : ""),
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (i < 3 || run->options.cache_size != NULL)
            env[used++] = own[i];
    }
    if (run->options.ignore_invalidations)
        env[used] = "CHANNELD_TEST_IGNORE_INVALIDATIONS=1";
    const struct server_spec spec = {
        .redis_url = run->stage.redis.url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&run->stage.server, &spec);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        free(own[i]);
}

static void run_start(struct run *run)
{
    struct stage *stage = &run->stage;
    const struct weather_limits limits = {.bound = (int64_t)run->options.bound_ms * CLOCK_MS,
                                          .stale_limit = (int64_t)run->options.stale_limit_ms * CLOCK_MS};
    stage->options = &run->options;
    stage->weather = weather_new(&limits);
    stage->world = world_new(run->options.channels, run->options.writers);
    redis_start(&stage->redis, NULL);
    for (int i = 0; i < run->options.writers; i++)
        writer_start(&run->writer[i], &run->options, stage->world, i, stage->redis.port);
    fault_await_reload(stage);
    run_start_channeld(run);
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
    if (run->options.verbose && pthread_create(&run->teller, NULL, run_tell, run) != 0)
        abort();
}

/* The readers look on for a moment when all is written and still. */
static void run_stop(struct run *run)
{
    atomic_store(&run->stage.world->finished, true);
    for (int i = 0; i < run->options.writers; i++)
        writer_join(&run->writer[i]);
    clock_sleep((int64_t)(run->options.bound_ms + LAST_LOOK_MS) * CLOCK_MS);
    atomic_store(&run->readers_finished, true);
    for (int i = 0; i < run->options.readers; i++)
        reader_join(&run->reader[i]);
    atomic_store(&run->finished, true);
    if (run->options.verbose)
        (void)pthread_join(run->teller, NULL);
    if (run->liar != NULL)
        liar_free(run->liar);
    server_stop(&run->stage.server);
    redis_stop(&run->stage.redis);
}

static void run_summary(struct run *run, double seconds)
{
    struct tally *tally = calloc(1, sizeof *tally);
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

int main(int argc, char **argv)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    options_read(&run->options, argc, argv);
    run_start(run);
    run_faults(run);
    run_stop(run);
    run_summary(run, (double)(clock_now() - report_start(run->stage.report)) / CLOCK_S);
    bool violated = report_violations(run->stage.report) > 0;
    bool good = violated == run->options.expect_violations &&
                report_has_all(run->stage.report, run->options.expected);
    report_free(run->stage.report);
    world_free(run->stage.world);
    weather_free(run->stage.weather);
    free(run);
    return good ? 0 : 1;
}
