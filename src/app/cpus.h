/* The number of processors granted to this process: its affinity and cgroup quotas, which libuv before 1.49
 * ignores. */
#ifndef APP_CPUS_H
#define APP_CPUS_H

/* At least 1. A quota of 1.5 processors counts as 2. */
int cpus_available(void);

/* The processors granted by the control groups of this process, its own and all above it; 0: no quota. `root`
 * is the prefix of all system files: empty except in tests. */
int cpus_granted(const char *root);

#endif
