/*
 * The coherence test: writers change Redis, readers ask channeld, faults happen, and every answer is judged.
 * Exit code 0 when nothing was violated (with --expect-violations: when something was), else 1.
 */

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "coherence/clock.h"
#include "coherence/run.h"

/* ---- a line every second ---- */

struct teller {
    struct run *run;
    atomic_bool finished;
    pthread_t thread;
};

static void *tell(void *arg)
{
    struct teller *teller = arg;
    struct run *run = teller->run;
    uint64_t reads = 0;
    uint64_t changes = 0;
    uint64_t failed = 0;
    for (int second = 1; !atomic_load(&teller->finished); second++) {
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

static void teller_start(struct teller *teller)
{
    if (teller->run->options.verbose && pthread_create(&teller->thread, NULL, tell, teller) != 0)
        abort();
}

static void teller_stop(struct teller *teller)
{
    atomic_store(&teller->finished, true);
    if (teller->run->options.verbose)
        (void)pthread_join(teller->thread, NULL);
}

/* ---- faults in turn ---- */

static bool any_fault(const struct run *run)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (run->options.faults[i])
            return true;
    }
    return false;
}

/* Each fault at least once, and then until the time is over. */
static void cause_faults(struct run *run)
{
    int64_t end = clock_now() + (int64_t)run->options.seconds * CLOCK_S;
    int64_t gap = (int64_t)run->options.fault_gap_ms * CLOCK_MS;
    if (!any_fault(run))
        clock_sleep(end - clock_now());
    else
        clock_sleep(gap);
    for (bool first = true; any_fault(run) && (first || clock_now() < end); first = false) {
        for (int i = 0; i < FAULT_KINDS && (first || clock_now() < end); i++) {
            if (!run->options.faults[i])
                continue;
            fault_run(&run->stage, (enum fault_kind)i);
            clock_sleep(gap);
        }
    }
}

int main(int argc, char **argv)
{
    struct run *run = calloc(1, sizeof *run);
    struct teller teller = {.run = run};
    if (run == NULL)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    options_read(&run->options, argc, argv);
    run_start(run);
    run_start_readers(run);
    teller_start(&teller);
    cause_faults(run);
    run_settle(run);
    run_stop(run);
    teller_stop(&teller);
    run_summary(run);
    bool violated = report_violations(run->stage.report) > 0;
    bool good = violated == run->options.expect_violations &&
                report_has_all(run->stage.report, run->options.expected);
    run_fini(run);
    free(run);
    return good ? 0 : 1;
}
