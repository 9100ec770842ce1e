/* Allocations that can fail and are counted; they replace those of the C library. See memory.h. */
#include "simulation/memory.h"

#include "simulation/random.h"

#include <malloc.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static unsigned fails_one_in;
static long live, live_bytes;

void memory_fail(unsigned one_in)
{
    fails_one_in = one_in;
}

long memory_live(void)
{
    return live;
}

long memory_live_bytes(void)
{
    return live_bytes;
}

bool memory_suffices(void)
{
    return fails_one_in == 0;
}

static bool fails(void)
{
    return fails_one_in != 0 && random_once_in(STREAM_MEMORY, fails_one_in);
}

static void *counted(void *memory)
{
    live += memory != NULL;
    live_bytes += (long)malloc_usable_size(memory);
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (fails())
        return NULL;
    size_t before = malloc_usable_size(memory);
    void *moved = __real_realloc(memory, size);
    if (moved == NULL)
        return NULL;
    live -= memory != NULL;
    live_bytes -= (long)before;
    return counted(moved);
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    live_bytes -= (long)malloc_usable_size(memory);
    __real_free(memory);
}

char *__wrap_strndup(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    char *copy = __wrap_malloc(len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}
