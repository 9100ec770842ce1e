/*
 * malloc and its family with failures at will; see failing_alloc.h. Stands before all of the program: its own
 * code, libuv, OpenSSL and the C library. Only glibc's allocator behind it is known by these names.
 */
#include "oom/failing_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

static struct failing_alloc nobody; /* until the file is there */
static struct failing_alloc *shared = &nobody;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv(FAILING_ALLOC_VARIABLE);
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (page != MAP_FAILED)
        shared = page;
}

/* Of all threads that allocate at a time, one meets the end of the countdown. */
static bool fails(void)
{
    int64_t left = atomic_load(&shared->countdown);
    while (left > 0 && !atomic_compare_exchange_weak(&shared->countdown, &left, left - 1)) {
    }
    bool now = left == 1 || (left == 0 && atomic_load(&shared->lasting) == 2);
    if (left == 1 && atomic_load(&shared->lasting) == 1)
        atomic_store(&shared->lasting, 2);
    if (!now)
        return false;
    atomic_fetch_add(&shared->failed, 1);
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block != NULL)
        atomic_fetch_add(&shared->live, 1);
    return block;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t nmemb, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(nmemb, size));
}

void *realloc(void *ptr, size_t size)
{
    if (fails())
        return NULL;
    void *block = __libc_realloc(ptr, size);
    if (ptr == NULL)
        return counted(block);
    if (size == 0 && block == NULL)
        atomic_fetch_sub(&shared->live, 1);
    return block;
}

void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **memptr, size_t alignment, size_t size)
{
    void *block = memalign(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *memptr = block;
    return 0;
}

void free(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_sub(&shared->live, 1);
    __libc_free(ptr);
}
