/* Descriptors, system calls and stream handles; see streams.h. */
#include "simulation/http/streams.h"

#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/net.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SENT_MAX = 128 * 1024, SUGGESTED = 64 * 1024, WINDOW_MAX = 256 * 1024 };
enum { PIPE_FD = 800, LISTENER_FD = 900, STREAM_FD = 1000, LISTENERS_MAX = 4, PIPES_MAX = 4 };

struct listener {
    bool open;
    unsigned queue[STREAMS_MAX];
    unsigned count;
};

struct tcp streams[STREAMS_MAX];
unsigned streams_count;
uint64_t streams_inbox_full_ns;
void (*streams_on_close)(struct tcp *s);
void (*streams_on_accept)(struct tcp *s);
static struct listener listeners[LISTENERS_MAX];
static unsigned listener_count;
static struct buf pipes[PIPES_MAX];
static unsigned pipe_count, pipe_ends;

static struct tcp *stream_of_fd(int fd)
{
    return fd >= STREAM_FD && (unsigned)(fd - STREAM_FD) < streams_count ? &streams[fd - STREAM_FD] : NULL;
}

static int fd_of(const struct tcp *s)
{
    return STREAM_FD + (int)(s - streams);
}

static struct tcp *stream_of(const uv_stream_t *handle)
{
    struct tcp *s = stream_of_fd(handle->io_watcher.fd);
    assert(s != NULL);
    return s;
}

static struct listener *listener_of_fd(int fd)
{
    return fd >= LISTENER_FD && fd < LISTENER_FD + LISTENERS_MAX ? &listeners[fd - LISTENER_FD] : NULL;
}

static struct buf *pipe_of_fd(int fd)
{
    return fd >= PIPE_FD && fd < PIPE_FD + 2 * PIPES_MAX ? &pipes[(fd - PIPE_FD) / 2] : NULL;
}

static size_t unread(const struct tcp *s)
{
    return s->in.len - s->in_at;
}

size_t stream_unsent(const struct tcp *s)
{
    return s->out.len > s->window ? s->out.len - s->window : 0;
}

static size_t room(const struct tcp *s)
{
    size_t most = s->window + s->unsent_max;
    return s->out.len < most ? most - s->out.len : 0;
}

/* --- the client's end --- */

struct tcp *streams_connect(unsigned listener, const uint8_t ip[4])
{
    struct listener *l = &listeners[listener];
    assert(streams_count < STREAMS_MAX);
    if (listener >= listener_count || !l->open)
        return NULL;
    struct tcp *s = &streams[streams_count];
    memset(s, 0, sizeof *s);
    memcpy(s->ip, ip, sizeof s->ip);
    s->window = random_duration(STREAM_NET, WINDOW_MAX);
    s->unsent_max = 1 + random_duration(STREAM_NET, SENT_MAX);
    l->queue[l->count++] = streams_count++;
    return s;
}

unsigned streams_listeners(void)
{
    return listener_count;
}

bool streams_has_queue(void)
{
    for (unsigned i = 0; i < listener_count; i++)
        if (listeners[i].count > 0)
            return true;
    return false;
}

static void lose(struct tcp *s)
{
    s->lost = true;
    buf_clear(&s->out);
}

void stream_send(struct tcp *s, const char *data, size_t n)
{
    s->arrived += n;
    if (s->closed)
        lose(s);
    else
        buf_append(&s->in, data, n);
}

void stream_end(struct tcp *s)
{
    s->in_end = true;
}

void stream_close(struct tcp *s)
{
    s->in_end = s->gone = true;
    if (s->out.len > 0)
        s->reset = true; /* unread input: closing is a reset */
    buf_clear(&s->out);
}

void stream_reset(struct tcp *s)
{
    s->in_end = s->gone = s->reset = true;
    buf_clear(&s->out);
    buf_clear(&s->in);
    s->in_at = 0;
}

void stream_take(struct tcp *s, struct buf *to, size_t most)
{
    size_t n = s->out.len < most ? s->out.len : most;
    buf_append(to, s->out.data, n);
    buf_consume(&s->out, n);
}

bool stream_at_end(const struct tcp *s)
{
    return s->lost || (s->out_end && s->out.len == 0);
}

/* --- system calls; the C library has names of its own for parameters --- */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

/* Returns the bytes taken, or a negative errno. */
static ssize_t kernel_write(struct tcp *s, const char *data, size_t n)
{
    size_t taken = room(s) < n ? room(s) : n;
    if (s->reset)
        return -EPIPE;
    if (s->gone) {
        s->reset = true;
        return (ssize_t)n;
    }
    if (taken == 0)
        return n == 0 ? 0 : -EAGAIN;
    buf_append(&s->out, data, taken);
    return (ssize_t)taken;
}

static ssize_t kernel_read(struct tcp *s, void *out, size_t size)
{
    size_t n = unread(s) < size ? unread(s) : size;
    process_spend(500);
    if (s->reset) {
        s->ended_read = true;
        return -ECONNRESET;
    }
    if (n == 0 && s->in_end) {
        s->ended_read = true;
        return 0;
    }
    if (n == 0)
        return -EAGAIN;
    memcpy(out, s->in.data + s->in_at, n);
    s->in_at += n;
    s->read += n;
    s->read_ns = process_monotonic_ns();
    if (unread(s) == 0) {
        buf_clear(&s->in);
        s->in_at = 0;
    }
    return (ssize_t)n;
}

static void kernel_close(struct tcp *s)
{
    if (s->closed)
        trace_fail("a descriptor is closed twice: %u", (unsigned)(s - streams));
    if (s->opened)
        streams_on_close(s);
    s->closed = true;
    s->closed_ns = process_monotonic_ns();
    s->out_end = true;
    if (unread(s) > 0 || s->linger_at_once)
        lose(s);
    buf_fini(&s->in);
    s->in_at = 0;
}

int accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    struct listener *l = listener_of_fd(fd);
    (void)flags;
    process_spend(2000);
    assert(l != NULL && l->open);
    if (l->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (random_once_in(STREAM_NET, 100)) {
        static const int errors[] = {EMFILE, ENFILE, EINTR, ECONNABORTED, ENOMEM, ENOBUFS};
        errno = errors[random_below(STREAM_NET, sizeof errors / sizeof errors[0])];
        return -1;
    }
    struct tcp *s = &streams[l->queue[0]];
    memmove(l->queue, l->queue + 1, --l->count * sizeof l->queue[0]);
    struct sockaddr_in from = {.sin_family = AF_INET};
    memcpy(&from.sin_addr, s->ip, sizeof s->ip);
    memcpy(peer, &from, sizeof from);
    *len = sizeof from;
    s->accepted = true;
    s->accepted_ns = process_monotonic_ns();
    if (streams_on_accept != NULL)
        streams_on_accept(s);
    return fd_of(s);
}

int socket(int domain, int type, int protocol)
{
    (void)domain;
    (void)type;
    (void)protocol;
    assert(listener_count < LISTENERS_MAX);
    listeners[listener_count] = (struct listener){.open = true};
    return LISTENER_FD + (int)listener_count++;
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    (void)address;
    (void)len;
    return listener_of_fd(fd) != NULL ? 0 : -1;
}

int listen(int fd, int backlog)
{
    (void)backlog;
    return listener_of_fd(fd) != NULL ? 0 : -1;
}

int fcntl(int fd, int command, ...)
{
    (void)fd;
    (void)command;
    errno = EINVAL;
    return -1;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    struct tcp *s = stream_of_fd(fd);
    (void)value;
    (void)len;
    if (s != NULL && level == SOL_SOCKET && name == SO_LINGER)
        s->linger_at_once = true;
    return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    struct tcp *s = stream_of_fd(fd);
    va_list args;
    va_start(args, request);
    int *out = va_arg(args, int *);
    va_end(args);
    assert(s != NULL && !s->closed);
    *out = request == SIOCINQ ? (int)unread(s) : (int)stream_unsent(s);
    return 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    const struct listener *l = listener_of_fd(fds->fd);
    assert(count == 1 && timeout == 0 && l != NULL);
    return l->count > 0;
}

int shutdown(int fd, int how)
{
    struct tcp *s = stream_of_fd(fd);
    assert(s != NULL && !s->closed && how == SHUT_WR);
    if (s->reset) {
        errno = ENOTCONN;
        return -1;
    }
    s->out_end = true;
    s->shutdown_ns = process_monotonic_ns();
    return 0;
}

static ssize_t with_errno(ssize_t result)
{
    errno = result < 0 ? (int)-result : errno;
    return result < 0 ? -1 : result;
}

ssize_t recv(int fd, void *out, size_t size, int flags)
{
    struct tcp *s = stream_of_fd(fd);
    (void)flags;
    assert(s != NULL && !s->closed);
    return with_errno(kernel_read(s, out, size));
}

ssize_t __recv_chk(int fd, void *out, size_t size, size_t room_in_out, int flags);
ssize_t __recv_chk(int fd, void *out, size_t size, size_t room_in_out, int flags)
{
    assert(size <= room_in_out);
    return recv(fd, out, size, flags);
}

int pipe2(int fds[2], int flags)
{
    (void)flags;
    assert(pipe_count < PIPES_MAX);
    fds[0] = PIPE_FD + 2 * (int)pipe_count++;
    fds[1] = fds[0] + 1;
    pipe_ends += 2;
    return 0;
}

ssize_t read(int fd, void *out, size_t size)
{
    struct buf *p = pipe_of_fd(fd);
    if (p == NULL)
        return syscall(SYS_read, fd, out, size);
    size_t n = p->len < size ? p->len : size;
    if (n == 0)
        return with_errno(-EAGAIN);
    memcpy(out, p->data, n);
    buf_consume(p, n);
    return (ssize_t)n;
}

ssize_t __read_chk(int fd, void *out, size_t size, size_t room_in_out);
ssize_t __read_chk(int fd, void *out, size_t size, size_t room_in_out)
{
    assert(size <= room_in_out);
    return read(fd, out, size);
}

/* The pipe is small, so that it is full now and then. */
ssize_t write(int fd, const void *data, size_t n)
{
    enum { PIPE_SIZE = 100 };
    struct buf *p = pipe_of_fd(fd);
    if (p == NULL)
        return syscall(SYS_write, fd, data, n);
    if (p->len + n > PIPE_SIZE) {
        streams_inbox_full_ns = process_monotonic_ns();
        return with_errno(-EAGAIN);
    }
    buf_append(p, data, n);
    return (ssize_t)n;
}

static void close_queue(struct listener *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        streams[l->queue[i]].lost = true;
        streams[l->queue[i]].closed = true;
    }
    l->count = 0;
    l->open = false;
}

int close(int fd)
{
    if (listener_of_fd(fd) != NULL)
        close_queue(listener_of_fd(fd));
    else if (pipe_of_fd(fd) != NULL)
        pipe_ends--;
    else if (stream_of_fd(fd) != NULL)
        kernel_close(stream_of_fd(fd));
    else
        return (int)syscall(SYS_close, fd);
    return 0;
}

unsigned net_events(int fd)
{
    const struct listener *l = listener_of_fd(fd);
    const struct buf *p = pipe_of_fd(fd);
    return (l != NULL && l->count > 0) || (p != NULL && p->len > 0) ? NET_READABLE : 0;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* --- libuv --- */

/* In uv_stream_t.flags, beside those of loop.c. */
enum { READING = 1 << 16 };

static unsigned events_of(const uv_handle_t *h)
{
    const uv_stream_t *stream = (const uv_stream_t *)h;
    const struct tcp *s = stream_of_fd(stream->io_watcher.fd);
    unsigned events = 0;
    if (s == NULL || s->closed)
        return 0;
    if ((h->flags & READING) != 0 && (unread(s) > 0 || s->in_end || s->reset))
        events |= NET_READABLE;
    if (s->writes > 0 && (room(s) > 0 || s->reset || s->gone))
        events |= NET_WRITABLE;
    return events;
}

/* As uv__read: until a read does not fill its buffer. */
static void read_stream(uv_stream_t *stream)
{
    static char none;
    struct tcp *s = stream_of(stream);
    for (int left = 32; left > 0 && !s->closed && (stream->flags & READING) != 0; left--) {
        uv_buf_t buf = {.base = &none, .len = 0};
        stream->alloc_cb((uv_handle_t *)stream, SUGGESTED, &buf);
        if (buf.len == 0) {
            stream->read_cb(stream, UV_ENOBUFS, &buf);
            return;
        }
        ssize_t n = kernel_read(s, buf.base, buf.len);
        TRACE("read", "%u: %zd", (unsigned)(s - streams), n);
        if (n > 0 && left < 32)
            trace_fail("a poll reads a socket twice: %u", (unsigned)(s - streams));
        if (n == -EAGAIN) {
            stream->read_cb(stream, 0, &buf);
            return;
        }
        if (n <= 0)
            stream->flags &= ~(unsigned)READING;
        stream->read_cb(stream, n == 0 ? UV_EOF : n, &buf);
        if (n < (ssize_t)buf.len)
            return;
    }
}

/* Removes the first write, and calls back. */
static void end_write(struct tcp *s, int status)
{
    struct stream_write w = s->write[0];
    memmove(s->write, s->write + 1, --s->writes * sizeof s->write[0]);
    buf_fini(&w.rest);
    s->write_since_ns = s->writes > 0 ? process_monotonic_ns() : 0;
    if (s->writes == 0)
        s->written_ns = process_monotonic_ns();
    w.request->cb(w.request, status);
}

static void call_written(void *arg)
{
    struct tcp *s = arg;
    while (s->writes > 0 && s->write[0].done)
        end_write(s, s->write[0].status);
}

static void try_writes(struct tcp *s)
{
    for (unsigned i = 0; i < s->writes; i++) {
        struct stream_write *w = &s->write[i];
        if (w->done)
            continue;
        ssize_t n = kernel_write(s, w->rest.data, w->rest.len);
        if (n == -EAGAIN)
            return;
        if (n < 0) {
            w->status = (int)n;
            w->done = true;
            return;
        }
        buf_consume(&w->rest, (size_t)n);
        w->done = w->rest.len == 0;
        if (!w->done)
            return;
    }
}

static void deliver(uv_handle_t *h, unsigned events)
{
    uv_stream_t *stream = (uv_stream_t *)h;
    struct tcp *s = stream_of(stream);
    if ((events & NET_READABLE) != 0 && !s->closed)
        read_stream(stream);
    if ((events & NET_WRITABLE) != 0 && !s->closed) {
        try_writes(s);
        call_written(s);
    }
}

static void on_close(uv_handle_t *h)
{
    uv_stream_t *stream = (uv_stream_t *)h;
    struct tcp *s = stream_of_fd(stream->io_watcher.fd);
    stream->flags &= ~(unsigned)READING;
    if (s != NULL)
        kernel_close(s);
}

static void on_closed(uv_handle_t *h)
{
    struct tcp *s = stream_of_fd(((uv_stream_t *)h)->io_watcher.fd);
    while (s != NULL && s->writes > 0)
        end_write(s, s->write[0].done ? s->write[0].status : UV_ECANCELED);
}

int uv_tcp_init(uv_loop_t *loop, uv_tcp_t *tcp)
{
    loop_begin_handle(loop, (uv_handle_t *)tcp, UV_TCP);
    tcp->io_watcher.fd = -1;
    return 0;
}

int uv_tcp_open(uv_tcp_t *tcp, uv_os_sock_t fd)
{
    struct tcp *s = stream_of_fd(fd);
    if (random_once_in(STREAM_NET, 500))
        return UV_ENOMEM;
    assert(s != NULL && !s->closed && !s->opened);
    tcp->io_watcher.fd = fd;
    s->opened = true;
    s->opened_ns = process_monotonic_ns();
    s->handle = (uv_stream_t *)tcp;
    return 0;
}

int uv_fileno(const uv_handle_t *h, uv_os_fd_t *fd)
{
    *fd = ((const uv_stream_t *)h)->io_watcher.fd;
    return *fd < 0 || uv_is_closing(h) ? UV_EBADF : 0;
}

int uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb fn)
{
    if (uv_is_closing((uv_handle_t *)stream))
        return UV_EINVAL;
    if ((stream->flags & READING) != 0)
        return UV_EALREADY;
    if (stream->io_watcher.fd < 0)
        return UV_ENOTCONN;
    stream->flags |= READING;
    stream->alloc_cb = alloc;
    stream->read_cb = fn;
    return 0;
}

int uv_read_stop(uv_stream_t *stream)
{
    stream->flags &= ~(unsigned)READING;
    return 0;
}

/* The kernel may take less than it has room for. */
int uv_try_write(uv_stream_t *stream, const uv_buf_t bufs[], unsigned count)
{
    struct tcp *s = stream_of(stream);
    size_t total = 0;
    s->flushes++;
    process_spend(3000);
    if (s->writes > 0)
        return UV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        ssize_t n = kernel_write(s, bufs[i].base, bufs[i].len);
        if (n < 0)
            return total > 0 ? (int)total : (int)n;
        total += (size_t)n;
        if ((size_t)n < bufs[i].len)
            break;
    }
    TRACE("write", "%u: %zu", (unsigned)(s - streams), total);
    return (int)total;
}

int uv_write(uv_write_t *request, uv_stream_t *stream, const uv_buf_t bufs[], unsigned count, uv_write_cb fn)
{
    struct tcp *s = stream_of(stream);
    bool first = s->writes == 0;
    assert(s->writes < STREAM_WRITES_MAX && !uv_is_closing((uv_handle_t *)stream));
    struct stream_write *w = &s->write[s->writes++];
    *w = (struct stream_write){.request = request};
    request->handle = stream;
    request->cb = fn;
    for (unsigned i = 0; i < count; i++)
        buf_append(&w->rest, bufs[i].base, bufs[i].len);
    if (first) {
        s->write_since_ns = process_monotonic_ns();
        try_writes(s);
        if (w->done)
            loop_post(call_written, s);
    }
    TRACE("write", "%u: waits", (unsigned)(s - streams));
    return 0;
}

/* --- a run --- */

void streams_begin(void)
{
    static const struct loop_streams calls = {events_of, deliver, on_close, on_closed};
    streams_count = listener_count = pipe_count = pipe_ends = 0;
    streams_inbox_full_ns = 0;
    loop_use_streams(&calls);
}

bool streams_finish(void)
{
    bool all_closed = pipe_ends == 0;
    for (unsigned i = 0; i < streams_count; i++) {
        all_closed = all_closed && streams[i].closed;
        buf_fini(&streams[i].in);
        buf_fini(&streams[i].out);
    }
    for (unsigned i = 0; i < pipe_count; i++)
        buf_fini(&pipes[i]);
    for (unsigned i = 0; i < listener_count; i++)
        all_closed = all_closed && !listeners[i].open;
    return all_closed;
}
