/* The process as the system sees it, as metrics under the names that all of Prometheus' own clients use. */
#ifndef APP_PROCESS_H
#define APP_PROCESS_H

#include "base/buf.h"

/*
 * Appends process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
 * process_open_fds, process_max_fds, process_threads and process_start_time_seconds. What /proc does not tell
 * is left out.
 */
void process_write_metrics(struct buf *out);

#endif
