/* Loops have room for exactly the descriptors of the process before they serve. */
#include "app/loop.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/check.h"

/*
 * libuv's table grows to 2^n - 2 descriptors. So a loop for 2^n - 2 has that many and one for 2^n - 1 has the
 * next size: a descriptor more or less would show.
 */
static unsigned room_for(int descriptors)
{
    uv_loop_t loop;
    assert_int_equal(loop_open(&loop, descriptors), 0);
    unsigned room = loop.nwatchers;
    assert_int_equal(uv_loop_alive(&loop), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    return room;
}

TEST_CASE(loop_has_room_for_exactly_the_descriptors_of_the_process)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur >= 512);
    assert_int_equal(room_for(254), 254);
    assert_int_equal(room_for(255), 510);
    assert_int_equal(room_for(510), 510);
}

TEST_CASE(loop_opens_where_the_system_grants_fewer_descriptors)
{
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit few = {.rlim_cur = 256, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_true(room_for(4096) < 4096);
    assert_int_equal(room_for(256), 510); /* the last that can be opened */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* In a process of its own, since it cannot be permitted again. */
TEST_CASE(io_uring_is_denied_so_that_libuv_adds_descriptors_by_epoll_ctl)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct io_uring_params params = {0};
        bool is_denied =
            loop_prepare() == 0 && syscall(SYS_io_uring_setup, 1, &params) < 0 && errno == ENOSYS;
        _exit(is_denied ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void sleep_once(uv_timer_t *timer)
{
    bool *slept = timer->data;
    if (*slept)
        (void)uv_timer_stop(timer);
    else
        (void)nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    *slept = true;
}

/* The first poll waits for 50 ms, which belong to no iteration. */
TEST_CASE(iteration_is_observed_from_one_poll_to_the_next)
{
    struct histogram iterations = {0};
    bool slept = false;
    uv_loop_t loop;
    uv_timer_t timer;
    assert_int_equal(loop_open(&loop, 64), 0);
    assert_int_equal(uv_timer_init(&loop, &timer), 0);
    timer.data = &slept;
    assert_int_equal(uv_timer_start(&timer, sleep_once, 50, 1), 0);
    uint64_t began_ns = clock_now_ns();
    loop_measure(&iterations);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    loop_measure(NULL);
    loop_close(&loop);
    assert_in_range(metric_get(&iterations.sum_ns), 60000000, clock_now_ns() - began_ns - 45000000);
}
