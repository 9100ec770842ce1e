/*
 * Opening loops, and what libuv would end the process for; see loop.h.
 *
 * libuv keeps a table by descriptor and grows it with realloc when a higher one comes; where there is no
 * memory for that it calls abort(), whoever's connection it was. (It reallocs nothing else that we use; what
 * else it cannot allocate it reports.) So a loop gets its table at full size before it serves, and if not
 * even that can be had, the process ends with a message.
 */
#include "app/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXIT_CANNOT_RUN = 1 };

static void *realloc_or_end(void *old, size_t size)
{
    static const char message[] = "channeld: out of memory\n";
    void *block = realloc(old, size);
    if (block != NULL)
        return block;
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(EXIT_CANNOT_RUN);
}

/*
 * glibc's malloc keeps small blocks that are given back in lists of their own, and joins all of them to their
 * neighbours when a large one comes back: 12 ms for 100,000 links. Without these lists each is joined at
 * once. (What each thread keeps for itself, a few blocks of each size, stays.)
 */
static void spread_work_of_allocator(void)
{
    (void)mallopt(M_MXFAST, 0);
}

int loop_prepare(void)
{
    spread_work_of_allocator();
    return uv_replace_allocator(malloc, realloc_or_end, calloc, free);
}

static int call_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

/* Of both ends of the connection; false for what is none. */
static bool end_connection(int fd)
{
    int listens = 0;
    socklen_t len = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens != 0)
        return false;
    (void)shutdown(fd, SHUT_RDWR);
    return true;
}

/*
 * In the C library's place, for libuv, which calls abort() when this fails: where the kernel has no memory,
 * or fs.epoll.max_user_watches is reached, which counts for all processes of a user together. A connection
 * that cannot be polled is shut down, and libuv is told that all is well: it hears no more of that
 * connection, which then ends by its deadline. Whatever else libuv does with it meanwhile is told the same.
 * What is no connection (a listener, the loop's own descriptors) is left to libuv: without it the process is
 * of no use.
 */
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    int done = call_epoll_ctl(epfd, op, fd, event);
    if (done != 0 && errno == ENOENT) { /* one that was not polled before */
        if (op == EPOLL_CTL_DEL)
            return 0;
        op = EPOLL_CTL_ADD;
        done = call_epoll_ctl(epfd, op, fd, event);
    }
    if (done == 0 || op != EPOLL_CTL_ADD || (errno != ENOSPC && errno != ENOMEM))
        return done;
    int err = errno;
    if (end_connection(fd))
        return 0;
    errno = err;
    return -1;
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

/* Polls the descriptor, though not for long. */
static int touch(uv_loop_t *loop, int fd)
{
    uv_poll_t poll;
    int err = uv_poll_init(loop, &poll, fd);
    if (err != 0)
        return err;
    err = uv_poll_start(&poll, UV_READABLE, on_event);
    uv_close((uv_handle_t *)&poll, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    return err;
}

static int make_room(uv_loop_t *loop, int descriptors)
{
    int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event < 0)
        return -errno;
    int highest = fcntl(event, F_DUPFD_CLOEXEC, descriptors - 1);
    int err =
        highest >= 0 ? touch(loop, highest) : 0; /* the system does not grant so many: so they cannot come */
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
    err = make_room(loop, descriptors);
    if (err != 0)
        (void)uv_loop_close(loop);
    return err;
}
