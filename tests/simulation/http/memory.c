/* Counts the blocks of memory in use, in place of the allocation functions of the C library. */
#include "simulation/http/memory.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

static long blocks;

long memory_blocks(void)
{
    return blocks;
}

void *__wrap_malloc(size_t size)
{
    blocks++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    blocks++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    blocks += block == NULL;
    return __real_realloc(block, size);
}

void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}
