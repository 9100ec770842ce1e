/*
 * Opening loops, and replacements for cases in which libuv aborts; see loop.h.
 *
 * libuv has a table indexed by descriptor and grows it with realloc for a higher descriptor; if that fails,
 * it calls abort(). (It reallocates nothing else that is used here.) So the table of a loop gets its full
 * size before the loop serves; if that fails, the process exits with a message.
 */
#include "app/loop.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Newer versions of libuv (1.50) add descriptors to epoll by io_uring, past the epoll_ctl() below, and abort
 * where that fails. Without io_uring they call epoll_ctl(). Nothing else uses io_uring, so the process denies
 * it to itself. A kernel without such filters leaves it to libuv.
 */
static void loop_deny_io_uring(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

int loop_prepare(void)
{
    allocator_disable_fastbins();
    loop_deny_io_uring();
    return uv_replace_allocator(malloc, allocator_realloc_or_exit, calloc, free);
}

static int loop_call_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

/* False if `fd` is not a connection. */
static bool loop_shut_down_connection(int fd)
{
    int listens = 0;
    socklen_t len = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens != 0)
        return false;
    (void)shutdown(fd, SHUT_RDWR);
    return true;
}

static void loop_log_refusal(int err)
{
    static _Thread_local struct log_reasons reasons;
    const char *reason = strerror(err);
    if (log_reason_is_due(&reasons, reason, clock_now_ms()))
        log_text(LOG_WARN, "connections are closed that the kernel cannot poll", "reason", reason);
}

/*
 * Replaces epoll_ctl of the C library for libuv, which calls abort() when it fails: when the kernel is out of
 * memory, or fs.epoll.max_user_watches is reached. A connection that cannot be polled is shut down, and
 * success is returned: libuv gets no events of it, and its timeout closes it. Without other descriptors
 * (listeners, the loop's own) the process cannot work.
 */
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    int done = loop_call_epoll_ctl(epfd, op, fd, event);
    if (done != 0 && errno == ENOENT) { /* it was never added */
        if (op == EPOLL_CTL_DEL)
            return 0;
        op = EPOLL_CTL_ADD;
        done = loop_call_epoll_ctl(epfd, op, fd, event);
    }
    if (done == 0 || op != EPOLL_CTL_ADD || (errno != ENOSPC && errno != ENOMEM))
        return done;
    int err = errno;
    bool is_connection = loop_shut_down_connection(fd);
    if (is_connection)
        loop_log_refusal(err);
    errno = err;
    return is_connection ? 0 : -1;
}

static _Thread_local struct {
    struct histogram *iterations; /* NULL: not measured */
    uint64_t began_ns;            /* the last poll has returned; 0: there was none */
} measured;

void loop_measure(struct histogram *iterations)
{
    measured.iterations = iterations;
    measured.began_ns = 0;
}

/* Replace those of the C library for libuv, which has no callback between a poll and those of its events. */
int epoll_pwait(int epfd, struct epoll_event *events, int maxevents, int timeout, const sigset_t *ss)
{
    if (measured.began_ns != 0)
        histogram_observe(measured.iterations, clock_now_ns() - measured.began_ns);
    int count = (int)syscall(SYS_epoll_pwait, epfd, events, maxevents, timeout, ss, _NSIG / 8);
    if (measured.iterations != NULL)
        measured.began_ns = clock_now_ns();
    return count;
}

int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    return epoll_pwait(epfd, events, maxevents, timeout, NULL);
}

static void loop_on_event(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

/* Polls the highest descriptor once, so that libuv grows its table. One beyond the limit cannot be opened. */
static int loop_make_room(uv_loop_t *loop, int descriptors)
{
    uv_poll_t poll;
    int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event < 0)
        return -errno;
    int highest = fcntl(event, F_DUPFD_CLOEXEC, descriptors - 1);
    int err = highest < 0 ? 0 : uv_poll_init(loop, &poll, highest);
    if (highest >= 0 && err == 0) {
        err = uv_poll_start(&poll, UV_READABLE, loop_on_event);
        uv_close((uv_handle_t *)&poll, NULL);
        (void)uv_run(loop, UV_RUN_DEFAULT);
    }
    if (highest >= 0)
        close(highest);
    close(event);
    return err;
}

int loop_open(uv_loop_t *loop, int descriptors)
{
    int err = uv_loop_init(loop);
    if (err != 0)
        return err;
    err = loop_make_room(loop, descriptors);
    if (err != 0)
        (void)uv_loop_close(loop);
    return err;
}

static void loop_close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_close(uv_loop_t *loop)
{
    uv_walk(loop, loop_close_handle, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    int err = uv_loop_close(loop);
    assert(err == 0); /* every handle was closed */
    (void)err;
}
