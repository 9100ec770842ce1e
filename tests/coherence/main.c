/*
 * The coherence test: writers change Redis, readers send requests to channeld, faults happen, and every
 * response is checked. The exit code is 0 when nothing was violated, and 1 otherwise. With
 * --expect-violations it is the reverse.
 */

#include <signal.h>
#include <stdlib.h>

#include "coherence/clock.h"
#include "coherence/run.h"

enum { CALM_MS = 100, EXPECTED_WITHIN_S = 40 };

static bool any_fault(const struct run *run)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (run->options.faults[i])
            return true;
    }
    return false;
}

/* The violations that are expected were seen. */
static bool has_expected(struct run *run)
{
    const struct options *options = &run->options;
    return !options->expect_violations ||
           (report_violations(run->report) > 0 && report_has_all(run->report, options->expected));
}

/* A busy machine takes longer until all that is expected was seen. */
static bool is_over(struct run *run, int64_t end)
{
    return clock_now() >= end + (int64_t)(has_expected(run) ? 0 : EXPECTED_WITHIN_S) * CLOCK_S;
}

/* Causes each fault at least once, and then again until the time is over. */
static void cause_faults(struct run *run)
{
    int64_t end = clock_now() + (int64_t)run->options.seconds * CLOCK_S;
    int64_t gap = (int64_t)(any_fault(run) ? run->options.fault_gap_ms : CALM_MS) * CLOCK_MS;
    clock_sleep(gap);
    for (bool first = true; first || !is_over(run, end); first = false) {
        for (int i = 0; i < FAULT_KINDS && (first || !is_over(run, end)); i++) {
            if (!run->options.faults[i])
                continue;
            run_fault(run, (enum fault_kind)i);
            clock_sleep(gap);
        }
        if (!any_fault(run))
            clock_sleep(gap);
    }
}

int main(int argc, char **argv)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    options_read(&run->options, argc, argv);
    run_start(run);
    run_start_readers(run);
    cause_faults(run);
    run_settle(run);
    run_stop(run);
    run_summary(run);
    bool good = run->options.expect_violations ? has_expected(run) : report_violations(run->report) == 0;
    run_fini(run);
    free(run);
    return good ? 0 : 1;
}
