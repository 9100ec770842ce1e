/*
 * What a test and the failing allocator in the program it tests share: one page of a file.
 *
 * The allocator (failing_alloc.c) is a library that LD_PRELOAD puts before the C library; the file is named
 * by FAILING_ALLOC. While nothing is armed it only counts.
 */
#ifndef TEST_OOM_FAILING_ALLOC_H
#define TEST_OOM_FAILING_ALLOC_H

#include <stdatomic.h>
#include <stdint.h>

#define FAILING_ALLOC_VARIABLE "FAILING_ALLOC"

struct failing_alloc {
    _Atomic int64_t countdown; /* the allocation that fails, counted from now on; 0: none */
    _Atomic int64_t lasting;   /* 1: and all after it; 2: that has begun, and ends with 0 */
    _Atomic int64_t failed;    /* how many did so far */
    _Atomic int64_t live;      /* blocks that are allocated and not freed */
};

#endif
