/* The process: its standard descriptors, core dumps, processors, and its metrics. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buf.h"

/*
 * To be called before anything else is opened: opens /dev/null as descriptor 0, 1 or 2 where it is closed, so
 * that no socket gets that number and is used as standard input, output or error. It is opened in the
 * opposite direction: reading standard input and writing standard output or error still fail. Returns 0 or a
 * negative errno.
 */
int process_open_standard_descriptors(void) __attribute__((warn_unused_result));

/*
 * Permits or forbids core dumps of this process, debuggers of the same user and reading its memory through
 * /proc (PR_SET_DUMPABLE, prctl(2)): its memory holds clients' keys and the password of Redis. A process that
 * may trace any other (CAP_SYS_PTRACE) is always able to do so. Does nothing under AddressSanitizer, whose
 * search for leaks traces the process.
 */
void process_set_dumpable(bool dumpable);

/*
 * The number of processors granted to the process: its affinity and the quotas of its control groups, which
 * libuv before 1.49 ignores. At least 1. A quota of 1.5 processors counts as 2.
 */
int process_cpus_available(void);

/* The processors granted by the control groups of the process, its own and all above it; INT_MAX: no quota.
 * `root` is the prefix of all system files: empty except in tests. */
int process_cpus_granted(const char *root);

/*
 * Appends the metrics that all Prometheus clients have: process_cpu_seconds_total,
 * process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds, process_max_fds,
 * process_threads, without those that /proc does not have, and process_start_time_seconds: `started_s`, by
 * the wall clock.
 */
void process_metrics_write(struct buf *out, int64_t started_s);

#endif
