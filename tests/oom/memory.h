#ifndef TEST_OOM_MEMORY_H
#define TEST_OOM_MEMORY_H

#include <stdbool.h>

#include "oom/failing_alloc.h"
#include "support/tempdir.h"

/*
 * The memory of a program under test, whose allocations fail when the test says so. The program has to be
 * started with the environment that memory_init gives.
 */

enum memory_failure { MEMORY_ONCE, MEMORY_LASTING, MEMORY_FAILURES };

struct memory {
    struct tempdir dir;
    struct failing_alloc *shared;
    char *preload, *file; /* "NAME=value" for its environment */
};

void memory_init(struct memory *m);
void memory_fini(struct memory *m);

/* The n-th allocation from now on fails, counted from 1; MEMORY_LASTING: and all after it. */
void memory_fail(struct memory *m, int n, enum memory_failure how);

/* No allocation fails any more; returns how many did. */
int memory_restore(struct memory *m);

/* How many failed since memory_fail. */
int memory_failures(const struct memory *m);

/* Blocks that are allocated. */
int64_t memory_live(const struct memory *m);

/* Waits until no more than so many blocks are allocated; false when it does not come to that. */
bool memory_await_live(struct memory *m, int64_t at_most);

#endif
