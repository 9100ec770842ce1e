/* Streams in pieces, and the system calls on sockets, which replace those of the C library; see net.h. */
#include "simulation/net.h"

#include "simulation/bytes.h"
#include "simulation/events.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CONNS = 64,
    PIECES = 4096, /* that are remembered; no more may be under way */
    LISTENERS = 32,
    FD_FIRST = 1 << 20,
    SEND_BUFFER = 64 * 1024,
    WINDOW_MIN = 32 * 1024, /* more than one TLS record of the greatest size */
    WIDE = 1024             /* as much more */
};

static const uint64_t NEVER = UINT64_MAX;

struct piece {
    size_t len;
    uint64_t made_ns, due_ns;
};

/* One direction. */
struct stream_of {
    struct bytes bytes; /* under way, or arrived */
    size_t arrived;     /* bytes at the front that have */
    struct piece piece[PIECES];
    size_t sent, delivered; /* pieces so far */
    uint64_t last_due_ns;
    bool closed, ended; /* the sender has closed; the receiver has seen it */
};

struct net_conn {
    unsigned number; /* 0: free */
    enum { CONN_NEW, CONN_CONNECTING, CONN_OPEN, CONN_FAILED, CONN_CLOSED } state;
    int error;                     /* as SO_ERROR has it */
    struct net_listener *listener; /* NULL: nobody is there */
    void *peer;                    /* at the server; NULL: it has closed, or has not accepted */
    bool cut;
    bool blocked; /* pieces wait for room */
    size_t window;
    uint64_t delay_ns;
    struct stream_of to_client, to_server;
};

static struct net_conn conns[CONNS];
static unsigned last_number;
static size_t window_min;
static struct net_listener *listeners[LISTENERS];
static size_t listener_count;
static struct net_watcher watching;
static void (*on_connect)(unsigned number, const struct net_address *to);
static void (*on_end_of)(unsigned number, bool unanswered);

void net_begin(void)
{
    for (size_t i = 0; i < CONNS; i++)
        conns[i].number = 0;
    last_number = 0;
    window_min = WINDOW_MIN;
    listener_count = 0;
    watching = (struct net_watcher){NULL, NULL, NULL};
    on_connect = NULL;
    on_end_of = NULL;
    net_watch_look_ups(NULL);
}

void net_listen(struct net_listener *l)
{
    assert(listener_count < LISTENERS);
    listeners[listener_count++] = l;
}

static int fd_of(const struct net_conn *c)
{
    return FD_FIRST + (int)(c - conns);
}

static bool is_simulated(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + CONNS;
}

static struct net_conn *conn_of(int fd)
{
    if (!is_simulated(fd) || conns[fd - FD_FIRST].number == 0)
        trace_fail("a system call on descriptor %d, which is not open", fd);
    return &conns[fd - FD_FIRST];
}

unsigned net_number(const struct net_conn *c)
{
    return c->number;
}

void net_watch(const struct net_watcher *watcher)
{
    watching = *watcher;
}

void net_watch_connects(void (*connects)(unsigned number, const struct net_address *to),
                        void (*ends)(unsigned number, bool unanswered))
{
    on_connect = connects;
    on_end_of = ends;
}

unsigned net_open_sockets(void)
{
    unsigned open = 0;
    for (size_t i = 0; i < CONNS; i++)
        open += conns[i].number != 0 && conns[i].state != CONN_CLOSED;
    return open;
}

/* --- streams --- */

static void reset_stream(struct stream_of *s)
{
    bytes_clear(&s->bytes);
    s->arrived = s->sent = s->delivered = 0;
    s->last_due_ns = 0;
    s->closed = s->ended = false;
}

static void on_due(void *arg, uint64_t number);

static uint64_t delay_of(const struct net_conn *c)
{
    uint64_t extra_ns = c->listener == NULL ? 0 : c->listener->extra_delay_ns;
    uint64_t extra = extra_ns == 0 ? 0 : random_duration(STREAM_NET, extra_ns);
    uint64_t distance_ns = c->listener == NULL ? 0 : c->listener->distance_ns;
    return c->delay_ns + random_duration(STREAM_NET, c->delay_ns + 1) + extra + distance_ns;
}

static size_t rate_of(const struct net_conn *c)
{
    return c->listener == NULL ? 0 : c->listener->bytes_per_second;
}

static void add_piece(struct net_conn *c, struct stream_of *s, size_t len, uint64_t made_ns)
{
    uint64_t due_ns = now_ns() + delay_of(c);
    due_ns = due_ns > s->last_due_ns ? due_ns : s->last_due_ns;
    if (s == &c->to_client && rate_of(c) > 0)
        due_ns += len * SECOND / rate_of(c);
    if (c->cut)
        due_ns = NEVER;
    else
        s->last_due_ns = due_ns;
    if (s->sent - s->delivered == PIECES) { /* it goes with the one before it */
        s->piece[(s->sent - 1) % PIECES].len += len;
        return;
    }
    s->piece[s->sent++ % PIECES] = (struct piece){len, made_ns, due_ns};
    if (due_ns != NEVER)
        events_add(due_ns, on_due, c, c->number);
}

/* Mostly in one piece, otherwise in some, and rarely byte by byte. */
static void add_pieces(struct net_conn *c, struct stream_of *s, const char *data, size_t n, uint64_t made_ns)
{
    unsigned cuts = random_once_in(STREAM_NET, 8) ? 1 + random_below(STREAM_NET, 8) : 0;
    bytes_add(&s->bytes, data, n);
    for (; cuts > 0 && n > 1; cuts--) {
        size_t len = 1 + random_below(STREAM_NET, (unsigned)(n < 64 ? n : 64));
        len = len < n ? len : n - 1;
        add_piece(c, s, len, made_ns);
        n -= len;
    }
    size_t most = s == &c->to_client && rate_of(c) > 0 ? rate_of(c) / 4 : n; /* something each 250 ms */
    for (; n > most; n -= most)
        add_piece(c, s, most, made_ns);
    add_piece(c, s, n, made_ns);
}

static void free_if_unused(struct net_conn *c)
{
    if (c->state == CONN_CLOSED && c->peer == NULL)
        c->number = 0;
}

static void deliver_to_server(struct net_conn *c)
{
    struct stream_of *s = &c->to_server;
    while (s->delivered < s->sent && s->piece[s->delivered % PIECES].due_ns <= now_ns()) {
        size_t n = s->piece[s->delivered++ % PIECES].len;
        if (c->peer != NULL && c->listener->state != NET_SILENT)
            c->listener->received(c->peer, bytes_front(&s->bytes), n);
        bytes_drop(&s->bytes, n);
    }
}

static void deliver_to_client(struct net_conn *c)
{
    struct stream_of *s = &c->to_client;
    c->blocked = false;
    while (s->delivered < s->sent && s->piece[s->delivered % PIECES].due_ns <= now_ns()) {
        struct piece *p = &s->piece[s->delivered % PIECES];
        size_t room = c->window - s->arrived;
        size_t n = p->len < room ? p->len : room;
        p->len -= n;
        s->arrived += n;
        TRACE("net", "%u: %zu bytes have arrived", c->number, n);
        if (p->len > 0) {
            c->blocked = true;
            return;
        }
        s->delivered++;
    }
    s->ended = s->ended || (s->closed && s->delivered == s->sent && s->last_due_ns <= now_ns() && !c->cut);
}

static void on_due(void *arg, uint64_t number)
{
    struct net_conn *c = arg;
    if (c->number != number)
        return;
    deliver_to_server(c);
    deliver_to_client(c);
}

/* --- the server's side --- */

void net_send(struct net_conn *c, const char *data, size_t n, uint64_t made_ns)
{
    if (n > 0)
        add_pieces(c, &c->to_client, data, n, made_ns);
}

static void fail_conn(struct net_conn *c, int error)
{
    if (c->state == CONN_CLOSED || c->state == CONN_FAILED)
        return;
    TRACE("net", "%u: %s", c->number, strerror(error));
    c->state = CONN_FAILED;
    c->error = error;
}

static void on_reset(void *arg, uint64_t number)
{
    struct net_conn *c = arg;
    if (c->number == number)
        fail_conn(c, ECONNRESET);
}

static void on_end(void *arg, uint64_t number)
{
    struct net_conn *c = arg;
    if (c->number == number)
        deliver_to_client(c);
}

void net_close(struct net_conn *c, bool reset)
{
    struct stream_of *s = &c->to_client;
    uint64_t due_ns = now_ns() + delay_of(c);
    c->peer = NULL;
    due_ns = due_ns > s->last_due_ns ? due_ns : s->last_due_ns;
    add_piece(c, s, 0, now_ns()); /* for the oracle: from now on nothing is sent */
    s->piece[(s->sent - 1) % PIECES].due_ns = c->cut ? NEVER : due_ns;
    if (c->cut)
        return;
    if (reset) {
        events_add(due_ns, on_reset, c, c->number);
    } else {
        s->closed = true;
        s->last_due_ns = due_ns;
        events_add(due_ns, on_end, c, c->number);
    }
    free_if_unused(c);
}

/* --- faults --- */

void net_widen(void)
{
    window_min = (size_t)WINDOW_MIN * WIDE;
}

static void cut_stream(struct stream_of *s)
{
    for (size_t i = s->delivered; i < s->sent; i++)
        s->piece[i % PIECES].due_ns = NEVER;
}

void net_cut(const struct net_listener *l)
{
    for (struct net_conn *c = conns; c < conns + CONNS; c++) {
        if (c->number == 0 || c->listener != l)
            continue;
        c->cut = true;
        cut_stream(&c->to_client);
        cut_stream(&c->to_server);
    }
}

void net_reset(const struct net_listener *l, bool reset)
{
    for (struct net_conn *c = conns; c < conns + CONNS; c++) {
        void *peer = c->peer;
        if (c->number == 0 || c->listener != l || peer == NULL)
            continue;
        net_close(c, reset);
        l->closed(peer);
    }
}

/* --- the process' side: system calls --- */

/* Each takes a moment, and rarely a long one. */
static void enter(void)
{
    process_spend(300 + random_bits(STREAM_PROCESS) % 2048);
}

static struct net_listener *find_listener(const struct net_address *a)
{
    for (size_t i = 0; i < listener_count; i++)
        if (listeners[i]->address.host == a->host && listeners[i]->address.port == a->port)
            return listeners[i];
    return NULL;
}

static struct net_conn *oldest_free(void)
{
    for (struct net_conn *c = conns; c < conns + CONNS;
         c++) /* in turn, so that the last ones are remembered */
        if (conns[(last_number + (unsigned)(c - conns)) % CONNS].number == 0)
            return &conns[(last_number + (unsigned)(c - conns)) % CONNS];
    trace_fail("there are too many connections");
}

int socket(int domain, int type, int protocol)
{
    struct net_conn *c = oldest_free();
    (void)domain;
    (void)type;
    (void)protocol;
    enter();
    c->number = ++last_number;
    c->state = CONN_NEW;
    c->error = 0;
    c->listener = NULL;
    c->peer = NULL;
    c->cut = c->blocked = false;
    c->window = window_min << random_below(STREAM_NET, 4);
    c->delay_ns = 20 * (uint64_t)US + random_duration(STREAM_NET, 2 * (uint64_t)MS);
    reset_stream(&c->to_client);
    reset_stream(&c->to_server);
    return fd_of(c);
}

static void on_syn(void *arg, uint64_t number)
{
    struct net_conn *c = arg;
    if (c->number != number || c->state != CONN_CONNECTING)
        return;
    if (c->listener == NULL || c->listener->state == NET_REFUSES) {
        fail_conn(c, ECONNREFUSED);
    } else if (c->listener->state != NET_IGNORES) {
        TRACE("net", "%u: connected to 10.0.0.%d:%d", c->number, c->listener->address.host,
              c->listener->address.port);
        c->state = CONN_OPEN;
        c->peer = c->listener->accepted(c->listener->server, c);
    }
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
    struct net_conn *c = conn_of(fd);
    (void)len;
    enter();
    const struct net_address address = {(uint8_t)(ntohl(in->sin_addr.s_addr) & 0xff), ntohs(in->sin_port)};
    c->state = CONN_CONNECTING;
    c->listener = find_listener(&address);
    if (c->listener != NULL)
        c->listener->attempts++;
    events_add_in(delay_of(c), on_syn, c, c->number);
    if (on_connect != NULL)
        on_connect(c->number, &address);
    errno = EINPROGRESS;
    return -1;
}

/* What waits at the server, for want of room, has not been read. */
static void tell_read(const struct net_conn *c)
{
    const struct stream_of *s = &c->to_client;
    if (watching.read == NULL || s->arrived > 0 || s->delivered == 0)
        return;
    uint64_t made_ns = s->piece[(s->delivered - 1) % PIECES].made_ns;
    bool is_part = s->delivered < s->sent && s->piece[s->delivered % PIECES].made_ns == made_ns;
    watching.read(c->number, made_ns, is_part);
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    struct net_conn *c = conn_of(fd);
    struct stream_of *s = &c->to_client;
    enter();
    size_t taken = s->arrived < n ? s->arrived : n;
    if (taken > 0) {
        memcpy(buf, bytes_front(&s->bytes), taken);
        if ((flags & MSG_PEEK) != 0)
            return (ssize_t)taken;
        bytes_drop(&s->bytes, taken);
        s->arrived -= taken;
        tell_read(c);
        if (c->blocked) /* the server learns of the room */
            events_add_in(2 * c->delay_ns, on_due, c, c->number);
        return (ssize_t)taken;
    }
    if (c->error != 0 || (c->state == CONN_FAILED && (flags & MSG_PEEK) != 0)) {
        errno = c->error != 0 ? c->error : ECONNRESET;
        c->error = (flags & MSG_PEEK) != 0 ? c->error : 0;
        return -1;
    }
    if (s->ended || c->state == CONN_FAILED)
        return 0;
    errno = EAGAIN;
    return -1;
}

ssize_t net_receive(int fd, void *out, size_t n)
{
    return recv(fd, out, n, 0);
}

ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    struct net_conn *c = conn_of(fd);
    struct stream_of *s = &c->to_server;
    (void)flags;
    enter();
    if (c->state != CONN_OPEN) {
        errno = c->state == CONN_FAILED ? EPIPE : ENOTCONN;
        return -1;
    }
    size_t held = bytes_count(&s->bytes);
    size_t room = held < SEND_BUFFER ? SEND_BUFFER - held : 0;
    size_t taken = n < room ? n : room;
    if (taken > 1 && random_once_in(STREAM_NET, 16))
        taken = 1 + random_below(STREAM_NET, (unsigned)taken);
    if (watching.wrote != NULL)
        watching.wrote(c->number, buf, taken, taken == n);
    if (taken == 0) {
        errno = EAGAIN;
        return -1;
    }
    add_pieces(c, s, buf, taken, now_ns());
    return (ssize_t)taken;
}

unsigned net_events(int fd)
{
    const struct net_conn *c = conn_of(fd);
    unsigned events = 0;
    if (c->state == CONN_FAILED)
        return NET_ERROR;
    if (c->state != CONN_OPEN)
        return 0;
    if (c->to_client.arrived > 0 || c->to_client.ended)
        events |= NET_READABLE;
    if (bytes_count(&c->to_server.bytes) < SEND_BUFFER)
        events |= NET_WRITABLE;
    return events;
}

static void on_closed(void *arg, uint64_t number)
{
    struct net_conn *c = arg;
    if (c->number != number)
        return;
    if (c->peer != NULL)
        c->listener->closed(c->peer);
    c->peer = NULL;
    free_if_unused(c);
}

int close(int fd)
{
    if (fd < FD_FIRST)
        return (int)syscall(SYS_close, fd);
    struct net_conn *c = conn_of(fd);
    enter();
    TRACE("process", "closes connection %u", c->number);
    if (watching.closed != NULL)
        watching.closed(c->number);
    if (on_end_of != NULL)
        on_end_of(c->number, c->state == CONN_CONNECTING);
    c->state = CONN_CLOSED;
    events_add_in(delay_of(c), on_closed, c, c->number);
    return 0;
}

int getsockopt(int fd, int level, int optname, void *optval,
               socklen_t *optlen) /* NOLINT(readability-non-const-parameter): a declaration of libc */
{
    struct net_conn *c = conn_of(fd);
    (void)level;
    (void)optlen;
    if (optname == SO_ERROR) {
        memcpy(optval, &c->error, sizeof c->error);
        c->error = 0;
    }
    return 0;
}

int setsockopt(int fd, int level, int optname, const void *optval, socklen_t optlen)
{
    (void)conn_of(fd);
    (void)level;
    (void)optname;
    (void)optval;
    (void)optlen;
    return 0;
}

int fcntl(int fd, int cmd, ...)
{
    va_list args;
    va_start(args, cmd);
    long arg = va_arg(args, long);
    va_end(args);
    if (!is_simulated(fd))
        return (int)syscall(SYS_fcntl, fd, cmd, arg);
    (void)conn_of(fd);
    return cmd == F_GETFL ? O_RDWR : 0;
}

/* --- for the oracle --- */

uint64_t net_horizon(unsigned number, uint64_t at_ns)
{
    const struct net_conn *c = conns;
    while (c < conns + CONNS && c->number != number)
        c++;
    if (c == conns + CONNS)
        return 0;
    const struct stream_of *s = &c->to_client;
    uint64_t horizon_ns = at_ns;
    size_t i = s->sent;
    for (; i > 0 && s->sent - i < PIECES && s->piece[(i - 1) % PIECES].due_ns > at_ns; i--) {
        uint64_t made_ns = s->piece[(i - 1) % PIECES].made_ns;
        horizon_ns = made_ns < horizon_ns ? made_ns : horizon_ns;
    }
    bool is_forgotten = i > 0 && s->sent - i == PIECES; /* too many have been sent since */
    return is_forgotten ? 0 : horizon_ns;
}
