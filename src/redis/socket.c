/* A polled, non-blocking hiredis context; see socket.h. */
#include "redis/socket.h"

#include "base/clock.h"
#include "base/state.h"
#include "redis/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    READ_MAX = 16 * 1024,   /* bytes read at a time; the size of the largest TLS record */
    BACKLOG_MIN = 4 * 1024, /* bytes; fewer never fill the kernel's buffers, however small the segments are */
    TURN_MAX = 128 * 1024,  /* bytes; further input waits for the next loop iteration */
    OUTPUT_KEPT = 256 * 1024 /* the memory that an empty output buffer keeps */
};

/* 16 KiB of invalidations take a millisecond. Further input waits for the next loop iteration. */
static const uint64_t TURN_NS = 1000000;

enum socket_state { CONNECTING, OPEN, CLOSED };

/* The states that may follow each state, as a set of bits. */
static const unsigned NEXT[] = {
    [CONNECTING] = STATE(OPEN) | STATE(CLOSED), [OPEN] = STATE(CLOSED), [CLOSED] = 0};

struct redis_socket {
    uv_poll_t poll;
    redisContext *context;
    struct resp_parser parser;
    struct redis_socket_options options;
    struct ssl_ctx_st *tls; /* borrowed, as is its host; NULL without TLS */
    const char *host;
    bool writing; /* hiredis has commands that the kernel has not accepted yet */
    bool polling_writable;
    enum socket_state state;
    uint64_t read_ns;     /* when input was last read, by the monotonic clock */
    uint64_t drained_ms;  /* see redis_socket_drained_ms; set by redis_socket_set_drained() alone */
    bool reading;         /* a part of the input that was read may not have been delivered */
    size_t backlog;       /* bytes read since `drained_ms` */
    bool backlog_told;    /* on_backlog was called since `drained_ms` */
    uint64_t progress_ns; /* see redis_socket_progress */
    char input[READ_MAX];
};

static void redis_socket_fail_as(struct redis_socket *s, const char *why, enum redis_failure failure)
{
    if (s->state != CLOSED)
        s->options.on_failed(s->options.arg, why, failure);
}

static void redis_socket_fail(struct redis_socket *s, const char *why)
{
    redis_socket_fail_as(s, why, REDIS_FAILURE_PASSING);
}

/* Reading or writing has failed. */
static void redis_socket_fail_io(struct redis_socket *s)
{
    bool rejected = s->tls != NULL && redis_tls_explain(s->context);
    redis_socket_fail_as(s, s->context->errstr, rejected ? REDIS_FAILURE_REJECTED : REDIS_FAILURE_PASSING);
}

static void redis_socket_on_poll(uv_poll_t *poll, int status, int events);

static void redis_socket_poll_for(struct redis_socket *s, bool writable)
{
    s->polling_writable = writable;
    int events = UV_READABLE | (writable ? UV_WRITABLE : 0);
    int err = uv_poll_start(&s->poll, events, redis_socket_on_poll);
    if (err != 0)
        redis_socket_fail(s, uv_strerror(err));
}

/* The pending error of the socket, as an errno; 0 when there is none. */
static int redis_socket_pending_error(const struct redis_socket *s)
{
    int err = 0;
    socklen_t len = sizeof err;
    return getsockopt(s->context->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 ? err : errno;
}

/* The first writable event means that connect() has ended. */
static bool redis_socket_finish_connecting(struct redis_socket *s)
{
    int err = redis_socket_pending_error(s);
    if (err != 0) {
        redis_socket_fail(s, strerror(err));
        return false;
    }
    STATE_ENTER(&s->state, OPEN, NEXT);
    err = s->tls != NULL ? redis_tls_start(s->context, s->tls, s->host) : 0;
    if (err != 0) {
        redis_socket_fail_as(s, s->context->errstr,
                             err == -EACCES ? REDIS_FAILURE_REJECTED : REDIS_FAILURE_PASSING);
        return false;
    }
    redis_socket_poll_for(s, false);
    if (s->state == OPEN)
        s->options.on_connected(s->options.arg);
    return s->state == OPEN;
}

/* Delivers everything that is complete in the input. False when the socket was closed or failed meanwhile. */
static bool redis_socket_deliver(struct redis_socket *s, struct span input)
{
    uint64_t push = resp_in_push(&s->parser);
    if (resp_in_reply(&s->parser))
        s->progress_ns = s->read_ns;
    for (;;) {
        const struct redis_reply *reply = NULL;
        switch (resp_parse(&s->parser, &input, &reply)) {
        case RESP_INCOMPLETE:
            if (push != 0 && resp_in_push(&s->parser) == push)
                s->progress_ns = s->read_ns;
            return true;
        case RESP_REPLY:
            s->options.on_reply(s->options.arg, reply, s->read_ns);
            break;
        case RESP_PUSH_ELEMENT:
            s->options.on_push(s->options.arg, resp_push_kind(&s->parser), reply);
            break;
        case RESP_ERROR:
            redis_socket_fail_as(s, s->parser.error,
                                 s->parser.error == resp_no_memory ? REDIS_FAILURE_PASSING
                                                                   : REDIS_FAILURE_INVALID);
            return false;
        }
        if (s->state == CLOSED)
            return false;
    }
}

/*
 * True when a read that returned `n` bytes has found the socket empty. A short read has not: the end of the
 * stream may be behind it, and TLS returns one record at a time. TLS is empty only if it waits for input.
 */
static bool redis_socket_is_empty_after(const struct redis_socket *s, size_t n)
{
    /* not covered: TLS that is empty waits for input, but while it negotiates new keys */
    return n == 0 && (s->tls == NULL || redis_tls_wants_read(s->context));
}

static bool redis_socket_has_decrypted(const struct redis_socket *s)
{
    /* not covered: READ_MAX has room for a whole record */
    return s->tls != NULL && redis_tls_has_decrypted(s->context);
}

/*
 * `at_ms` is a time before the check that found the socket empty. Input that arrived later may not have been
 * read.
 */
static void redis_socket_set_drained(struct redis_socket *s, uint64_t at_ms)
{
    assert(at_ms >= s->drained_ms);
    s->drained_ms = at_ms;
    s->backlog = 0;
    s->backlog_told = false;
}

/*
 * Counts the input that was read, and reports a backlog. The process may have been stopped before the read,
 * so the time is taken after it. False when the socket was closed meanwhile.
 */
static bool redis_socket_count_backlog(struct redis_socket *s, size_t n)
{
    s->backlog += n;
    if (s->backlog_told || s->options.on_backlog == NULL || s->backlog < BACKLOG_MIN ||
        clock_boot_ms() - s->drained_ms <= REDIS_SOCKET_BACKLOG_MS)
        return true;
    s->backlog_told = true;
    s->options.on_backlog(s->options.arg);
    return s->state == OPEN;
}

/*
 * Reads until the socket is drained or the limit of the iteration is reached. Input that TLS has decrypted is
 * always read, as no poll reports it. Everything before the end of the stream is delivered before the end is
 * read. False when the socket was closed or failed.
 */
static bool redis_socket_read_turn(struct redis_socket *s)
{
    uint64_t began_ns = clock_now_ns();
    bool enough = false;
    /* not covered: READ_MAX has room for a whole record */
    for (size_t total = 0; !enough || redis_socket_has_decrypted(s);) {
        uint64_t read_ms = clock_boot_ms();
        ssize_t n = s->context->funcs->read(s->context, s->input, sizeof s->input);
        if (n < 0) {
            redis_socket_fail_io(s);
            return false;
        }
        s->read_ns = clock_now_ns();
        if (n > 0 && !redis_socket_deliver(s, (struct span){s->input, (size_t)n}))
            return false;
        if (!redis_socket_count_backlog(s, (size_t)n))
            return false;
        if (redis_socket_is_empty_after(s, (size_t)n)) {
            redis_socket_set_drained(s, read_ms);
            return true;
        }
        total += (size_t)n;
        /* not covered: a socket without input is drained, but while TLS negotiates new keys */
        enough = n == 0 || total >= TURN_MAX || clock_now_ns() - began_ns > TURN_NS;
    }
    return true;
}

static bool redis_socket_read_available(struct redis_socket *s)
{
    s->reading = true;
    bool open = redis_socket_read_turn(s);
    s->reading = false;
    return open;
}

static void redis_socket_on_poll(uv_poll_t *poll, int status, int events)
{
    struct redis_socket *s = poll->data;
    if (status != 0) { /* libuv reports every error as EBADF; an error reply may be in the socket */
        if (s->state == OPEN && !redis_socket_read_available(s))
            return;
        int err = redis_socket_pending_error(s);
        redis_socket_fail(s, err != 0 ? strerror(err) : uv_strerror(status));
        return;
    }
    if (s->state == CONNECTING && !redis_socket_finish_connecting(s))
        return;
    if ((events & UV_READABLE) != 0 && !redis_socket_read_available(s))
        return;
    if (s->writing)
        redis_socket_flush(s);
}

/* As redisBufferWrite, which frees the output with each write. */
static int redis_socket_write(redisContext *context)
{
    if (sdsalloc(context->obuf) > OUTPUT_KEPT)
        return redisBufferWrite(context, NULL);
    ssize_t n = sdslen(context->obuf) > 0 ? context->funcs->write(context) : 0;
    if (n > 0)
        (void)sdsrange(context->obuf, n, -1); /* it fails only beyond SSIZE_MAX */
    return n < 0 ? REDIS_ERR : REDIS_OK;
}

void redis_socket_flush(struct redis_socket *s)
{
    if (s->state != OPEN)
        return;
    if (redis_socket_write(s->context) != REDIS_OK) {
        redis_socket_fail_io(s);
        return;
    }
    s->writing = sdslen(s->context->obuf) > 0;
    /* While TLS must read first (its handshake) the socket is always writable, so it waits for input. */
    bool wait_writable = s->writing && (s->tls == NULL || !redis_tls_wants_read(s->context));
    if (wait_writable != s->polling_writable)
        redis_socket_poll_for(s, wait_writable);
}

int redis_socket_send(struct redis_socket *s, struct span command)
{
    return redisAppendFormattedCommand(s->context, command.data, command.len) == REDIS_OK ? 0 : -ENOMEM;
}

static redisContext *redis_socket_connect_to(const struct redis_endpoint *endpoint, const char *address)
{
    redisOptions options = {0};
    options.options = REDIS_OPT_NONBLOCK | REDIS_OPT_NO_PUSH_AUTOFREE;
    if (endpoint->transport == REDIS_TRANSPORT_UNIX)
        REDIS_OPTIONS_SET_UNIX(&options, endpoint->path);
    else
        REDIS_OPTIONS_SET_TCP(&options, address, endpoint->port);
    return redisConnectWithOptions(&options);
}

/*
 * Sets options that hiredis does not: children do not inherit the socket, and small segments are sent at
 * once.
 */
static void redis_socket_tune(const redisContext *context, enum redis_transport transport)
{
    int flags = fcntl(context->fd, F_GETFD);
    if (flags >= 0)
        (void)fcntl(context->fd, F_SETFD, flags | FD_CLOEXEC);
    if (transport != REDIS_TRANSPORT_UNIX)
        (void)setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static int redis_socket_open_context(const struct redis_endpoint *endpoint, const char *address,
                                     redisContext **out)
{
    redisContext *context = redis_socket_connect_to(endpoint, address);
    if (context == NULL)
        return -ENOMEM;
    int err = 0;
    if (context->err != 0)
        /* not covered: hiredis leaves errno where it reports REDIS_ERR_IO */
        err = context->err == REDIS_ERR_IO && errno != 0 ? -errno : -ECONNREFUSED;
    if (err != 0) {
        redisFree(context);
        return err;
    }
    redis_socket_tune(context, endpoint->transport);
    *out = context;
    return 0;
}

int redis_socket_open(uv_loop_t *loop, const struct redis_endpoint *endpoint, struct ssl_ctx_st *tls,
                      const char *address, const struct redis_socket_options *options,
                      struct redis_socket **out)
{
    struct redis_socket *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->tls = tls;
    s->host = endpoint->host;
    int err = redis_socket_open_context(endpoint, address, &s->context);
    if (err != 0) {
        free(s);
        return err;
    }
    err = uv_poll_init(loop, &s->poll, s->context->fd);
    if (err != 0) {
        redisFree(s->context);
        free(s);
        return err;
    }
    resp_init(&s->parser);
    if (options->bytes_max != 0)
        s->parser.bytes_max = options->bytes_max;
    if (options->elements_max != 0)
        s->parser.elements_max = options->elements_max;
    s->poll.data = s;
    s->polling_writable = true;
    err = uv_poll_start(&s->poll, UV_READABLE | UV_WRITABLE, redis_socket_on_poll);
    if (err != 0) {
        redis_socket_close(s);
        return err;
    }
    *out = s;
    return 0;
}

/* The context is freed with the handle: an event that is being delivered may still use it. */
static void redis_socket_on_closed(uv_handle_t *handle)
{
    struct redis_socket *s = handle->data;
    redisFree(s->context);
    resp_fini(&s->parser);
    free(s);
}

void redis_socket_close(struct redis_socket *s)
{
    STATE_ENTER(&s->state, CLOSED, NEXT);
    uv_close((uv_handle_t *)&s->poll, redis_socket_on_closed);
}

/*
 * Checks whether the socket is empty now. The end of the stream, or an error, is input too: it will be read,
 * and the connection is lost. Not inline, since its caller is called with every hit.
 */
__attribute__((noinline)) static void redis_socket_look(struct redis_socket *s)
{
    char byte = 0;
    uint64_t now_ms = clock_boot_ms();
    if (recv(s->context->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
        redis_socket_set_drained(s, now_ms);
}

uint64_t redis_socket_drained_ms(struct redis_socket *s, uint64_t since_ms)
{
    if (s->drained_ms <= since_ms && !s->reading)
        redis_socket_look(s);
    return s->drained_ms;
}

struct redis_socket_progress redis_socket_progress(const struct redis_socket *s)
{
    return (struct redis_socket_progress){.progress_ns = s->progress_ns,
                                          .in_reply = resp_in_reply(&s->parser),
                                          .in_push = resp_in_push(&s->parser) != 0};
}

bool redis_socket_has_backlog(const struct redis_socket *s)
{
    return s->backlog_told;
}
