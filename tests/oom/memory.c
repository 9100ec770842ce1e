/* The test's side of the failing allocator. */

#include "oom/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/process.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

void memory_init(struct memory *m)
{
    tempdir_init(&m->dir);
    AUTOFREE char *path = text_printf("%s/memory", m->dir.path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof *m->shared), 0);
    m->shared = mmap(NULL, sizeof *m->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(m->shared != MAP_FAILED);
    close(fd);
    m->preload = text_printf("LD_PRELOAD=%s", process_require_env("FAILING_ALLOC_LIBRARY"));
    m->file = text_printf("%s=%s", FAILING_ALLOC_VARIABLE, path);
}

void memory_fini(struct memory *m)
{
    (void)munmap(m->shared, sizeof *m->shared);
    free(m->preload);
    free(m->file);
    tempdir_fini(&m->dir);
}

void memory_fail(struct memory *m, int n, enum memory_failure how)
{
    atomic_store(&m->shared->failed, 0);
    atomic_store(&m->shared->lasting, how == MEMORY_LASTING);
    atomic_store(&m->shared->countdown, n);
}

int memory_restore(struct memory *m)
{
    atomic_store(&m->shared->lasting, 0);
    atomic_store(&m->shared->countdown, 0);
    return memory_failures(m);
}

int memory_failures(const struct memory *m)
{
    return (int)atomic_load(&m->shared->failed);
}

int64_t memory_live(const struct memory *m)
{
    return atomic_load(&m->shared->live);
}

struct live_expectation {
    struct memory *memory;
    int64_t at_most;
};

static bool has_no_more(void *arg)
{
    struct live_expectation *expected = arg;
    return memory_live(expected->memory) <= expected->at_most;
}

bool memory_await_live(struct memory *m, int64_t at_most)
{
    struct live_expectation expected = {m, at_most};
    return wait_until(has_no_more, &expected, WAIT_DEADLINE_MS);
}
