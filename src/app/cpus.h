/* How many processors this process may really use: affinity and cgroup quotas, which libuv before 1.49
 * ignores. */
#ifndef APP_CPUS_H
#define APP_CPUS_H

/* At least 1. A quota of 1.5 processors counts as 2. */
int cpus_available(void);

/* The processors that the control groups of this process grant, its own and all above it; 0 for no quota. The
 * files of the system are read below `root`, which is empty but in tests. */
int cpus_granted(const char *root);

/* The processors that the text of a cgroup v2 `cpu.max` grants ("150000 100000" is 2), or 0 for no quota. */
int cpus_from_cpu_max(const char *text);

#endif
