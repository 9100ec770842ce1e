/*
 * malloc, calloc and realloc of a program that is linked with --wrap for them. They fail when the program's
 * fails_now() returns true. That function is defined before this file is included, and sets errno.
 */
#ifndef TEST_SUPPORT_FAILING_MALLOC_H
#define TEST_SUPPORT_FAILING_MALLOC_H

#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

#endif
