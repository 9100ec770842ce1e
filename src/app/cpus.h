/* How many processors this process may really use: affinity and cgroup quota, which libuv before 1.49
 * ignores. */
#ifndef APP_CPUS_H
#define APP_CPUS_H

/* At least 1. A quota of 1.5 processors counts as 2. */
int cpus_available(void);

/* The processors that the text of a cgroup v2 `cpu.max` grants ("150000 100000" is 2), or 0 for no quota. */
int cpus_from_cpu_max(const char *text);

#endif
