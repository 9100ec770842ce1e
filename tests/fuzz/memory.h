/*
 * Failing allocations, for a target that is linked with --wrap for malloc, calloc and realloc. Only
 * allocations of the code under test fail, not those of the target.
 */
#ifndef TEST_FUZZ_MEMORY_H
#define TEST_FUZZ_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static bool at_work;       /* the code under test is running, not the target */
static unsigned countdown; /* until the allocation that fails; 0: none fails */

static bool fails_now(void)
{
    if (!at_work || countdown == 0 || --countdown > 0)
        return false;
    errno = ENOMEM;
    return true;
}

#include "support/failing_malloc.h"

#endif
