/* What the system grants the process, and its metrics. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buf.h"

/*
 * To be called before anything else is opened: where descriptor 0, 1 or 2 is closed, /dev/null takes its
 * place, opened in the opposite direction, so that using it still fails. Returns 0 or a negative errno.
 */
int process_open_standard_descriptors(void) __attribute__((warn_unused_result));

/*
 * Permits or forbids core dumps and debuggers of the same user (PR_SET_DUMPABLE, prctl(2)): the memory holds
 * clients' keys and the password of Redis. Does nothing under AddressSanitizer, whose search for leaks traces
 * the process.
 */
void process_set_dumpable(bool dumpable);

/* By the affinity of the process and the quotas of its control groups, which libuv before 1.49 ignores. At
 * least 1. A quota of 1.5 processors counts as 2. */
int process_cpus_available(void);

/* The processors granted by the control groups of the process, its own and all above it; INT_MAX: no quota.
 * `root` is the prefix of all system files: empty except in tests. */
int process_cpus_granted(const char *root);

/* Appends the metrics that all Prometheus clients have. `started_s`: by the wall clock. */
void process_metrics_write(struct buf *out, int64_t started_s);

#endif
