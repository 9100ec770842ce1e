/*
 * In the C library's place: the time is what $LOADER_CLOCK, a file of eight bytes, says in nanoseconds, and
 * passes only when the test writes to it or a program sleeps, which takes no real time. Redis keeps a
 * monotonic clock that runs, for its event loop; $LOADER_CLOCK_WHOLE replaces that one as well.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t *now_ns;
static bool whole;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("LOADER_CLOCK");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        abort();
    void *at = mmap(NULL, sizeof *now_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        abort();
    whole = getenv("LOADER_CLOCK_WHOLE") != NULL;
    now_ns = at;
    close(fd);
}

static int64_t now(void)
{
    return __atomic_load_n(now_ns, __ATOMIC_SEQ_CST);
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library names them its way */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
    bool simulated = now_ns != NULL && (clock == CLOCK_REALTIME || (whole && clock == CLOCK_MONOTONIC));
    if (!simulated)
        return (int)syscall(SYS_clock_gettime, clock, ts);
    *ts = (struct timespec){.tv_sec = now() / 1000000000, .tv_nsec = now() % 1000000000};
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    (void)zone;
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (out != NULL)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

int nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)left;
    (void)__atomic_add_fetch(now_ns, pause->tv_sec * 1000000000 + pause->tv_nsec, __ATOMIC_SEQ_CST);
    return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
