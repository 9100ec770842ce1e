/*
 * All code that depends on glibc's malloc: the size of its blocks, and how to spread the work that it defers.
 */
#ifndef BASE_ALLOCATOR_H
#define BASE_ALLOCATOR_H

#include <err.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

/* The bytes that malloc uses for a block: its usable size and its header. */
static inline size_t allocator_block_size(void *block)
{
    return block == NULL ? 0 : malloc_usable_size(block) + sizeof(size_t);
}

/* Merges small freed blocks with their neighbours at once. By default malloc collects them, and merges all
 * of them when a large block is freed: 12 ms for 100,000 links. */
static inline void allocator_disable_fastbins(void)
{
    (void)mallopt(M_MXFAST, 0);
}

/*
 * To be called after each of many blocks that are freed; *freed counts them. By default the next allocation
 * of an unusual size sorts all freed blocks: 10 ms for 100,000 cards. So one is made after every FREED_MAX.
 */
static inline void allocator_sort_freed(unsigned *freed)
{
    enum { FREED_MAX = 512, UNUSUAL_SIZE = 20011 };
    if (++*freed < FREED_MAX)
        return;
    *freed = 0;
    void *volatile block = malloc(UNUSUAL_SIZE); /* volatile: the compiler would remove both calls */
    free(block);
}

/* realloc for libuv, which reports all other lack of memory, and would abort. */
static inline void *allocator_realloc_or_exit(void *old, size_t size)
{
    void *block = realloc(old, size);
    if (block == NULL) {
        warnx("out of memory");
        _exit(EXIT_FAILURE);
    }
    return block;
}

#endif
