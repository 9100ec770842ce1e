/*
 * A Redis that does what the test wants, and a session with it: both in the thread of the test, so that the
 * loop turns only while the test waits for something.
 */
#ifndef TEST_UNIT_STORE_FAKE_H
#define TEST_UNIT_STORE_FAKE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/connection.h"
#include "support/wait.h"
#include "unit/check.h"

enum { FAKE_CONNS_MAX = 8, ALL = -1 };

static const char HELLO_REPLY[] =
    "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n$5\r\nproto\r\n:3\r\n";

struct fake_conn {
    int fd; /* -1: not open */
    redisReader *reader;
    struct buf out;
    long sent;
};

struct fake {
    int listener; /* -1: nobody listens */
    int port;
    struct fake_conn conn[FAKE_CONNS_MAX];
    int accepted;
    struct buf log; /* commands as they came: words joined by spaces, one a line */
    /* What it answers. */
    const char *hello, *select, *ping, *role, *info, *tracking, *subscribe, *sentinel, *replicas;
    bool mute;        /* nothing at all */
    size_t slice;     /* bytes that leave in one turn; 0: all */
    long close_after; /* bytes sent, then it closes; ALL: never */
};

static inline void fake_init(struct fake *f)
{
    *f = (struct fake){.listener = -1,
                       .hello = HELLO_REPLY,
                       .select = "+OK\r\n",
                       .ping = "+PONG\r\n",
                       .role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
                       .info = "$0\r\n\r\n",
                       .tracking = "+OK\r\n",
                       .subscribe = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n",
                       .sentinel = "*-1\r\n",
                       .replicas = "*0\r\n",
                       .close_after = ALL};
    for (int i = 0; i < FAKE_CONNS_MAX; i++)
        f->conn[i].fd = -1;
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
}

/* Listens on a numeric address; port 0: any. */
/* Bytes that the system holds for a peer that has not read them yet. */
enum { FAKE_RCVBUF = 64 * 1024 };

static inline void fake_listen(struct fake *f, const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof address;
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(f->listener >= 0);
    (void)setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    (void)setsockopt(f->listener, SOL_SOCKET, SO_RCVBUF, &(int){FAKE_RCVBUF}, sizeof(int));
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(f->listener, 16), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    f->port = ntohs(address.sin_port);
}

static inline void fake_open(struct fake *f)
{
    fake_init(f);
    fake_listen(f, "127.0.0.1", 0);
}

static inline void fake_drop(struct fake_conn *c)
{
    if (c->fd < 0)
        return;
    close(c->fd);
    redisReaderFree(c->reader);
    buf_fini(&c->out);
    *c = (struct fake_conn){.fd = -1};
}

static inline void fake_drop_all(struct fake *f)
{
    for (int i = 0; i < FAKE_CONNS_MAX; i++)
        fake_drop(&f->conn[i]);
}

static inline void fake_stop_listening(struct fake *f)
{
    if (f->listener >= 0)
        close(f->listener);
    f->listener = -1;
}

static inline void fake_fini(struct fake *f)
{
    fake_stop_listening(f);
    fake_drop_all(f);
    buf_fini(&f->log);
}

/* The connection that was accepted last and is still open. */
static inline struct fake_conn *fake_current(struct fake *f)
{
    for (int i = FAKE_CONNS_MAX - 1; i >= 0; i--)
        if (f->conn[i].fd >= 0)
            return &f->conn[i];
    fail_msg("nobody is connected");
    return NULL;
}

/* Bytes that nobody asked for. */
static inline void fake_say(struct fake *f, const char *bytes)
{
    buf_append_str(&fake_current(f)->out, bytes);
}

/* What it has to say to that command: that to PING, where there is nothing else. */
static inline const char *fake_word(const struct fake *f, const char *name)
{
    const struct {
        const char *name, *word;
    } words[] = {{"HELLO", f->hello},      {"SELECT", f->select},   {"ROLE", f->role},
                 {"INFO", f->info},        {"CLIENT", f->tracking}, {"SUBSCRIBE", f->subscribe},
                 {"SENTINEL", f->sentinel}};
    for (size_t i = 0; i < TEST_COUNT(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return words[i].word;
    return f->ping;
}

static inline bool fake_is_for_replicas(const redisReply *command)
{
    return command->elements > 1 && strcmp(command->element[0]->str, "SENTINEL") == 0 &&
           strcmp(command->element[1]->str, "REPLICAS") == 0;
}

/* ECHO x gives x, FAIL an error, HANG nothing. */
static inline void fake_answer(struct fake *f, struct fake_conn *c, const redisReply *command)
{
    const char *name = command->element[0]->str;
    for (size_t i = 0; i < command->elements; i++)
        buf_printf(&f->log, i == 0 ? "%s" : " %s", command->element[i]->str);
    buf_append_char(&f->log, '\n');
    if (f->mute || strcmp(name, "HANG") == 0)
        return;
    if (strcmp(name, "ECHO") == 0) {
        buf_printf(&c->out, "$%zu\r\n", command->element[1]->len);
        buf_append(&c->out, command->element[1]->str, command->element[1]->len);
        buf_append_str(&c->out, "\r\n");
    } else if (strcmp(name, "FAIL") == 0) {
        buf_append_str(&c->out, "-WRONGTYPE no\r\n");
    } else {
        buf_append_str(&c->out, fake_is_for_replicas(command) ? f->replicas : fake_word(f, name));
    }
}

static inline void fake_read(struct fake *f, struct fake_conn *c)
{
    char chunk[4096];
    ssize_t n = 0;
    while ((n = read(c->fd, chunk, sizeof chunk)) > 0) {
        void *command = NULL;
        assert_int_equal(redisReaderFeed(c->reader, chunk, (size_t)n), REDIS_OK);
        while (redisReaderGetReply(c->reader, &command) == REDIS_OK && command != NULL) {
            fake_answer(f, c, command);
            freeReplyObject(command);
        }
    }
    if (n == 0 || (n < 0 && errno != EAGAIN))
        fake_drop(c);
}

static inline void fake_write(struct fake *f, struct fake_conn *c)
{
    size_t n = f->slice > 0 && f->slice < c->out.len ? f->slice : c->out.len;
    if (f->close_after != ALL && c->sent + (long)n > f->close_after)
        n = (size_t)(f->close_after - c->sent);
    ssize_t taken = n > 0 ? send(c->fd, c->out.data, n, MSG_NOSIGNAL) : 0;
    if (taken > 0) {
        buf_consume(&c->out, (size_t)taken);
        c->sent += taken;
    }
    if (f->close_after != ALL && c->sent >= f->close_after) {
        f->close_after = ALL; /* once */
        fake_drop(c);
    }
}

static inline void fake_turn(struct fake *f)
{
    int fd = -1;
    while (f->listener >= 0 && (fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int i = 0;
        while (i < FAKE_CONNS_MAX && f->conn[i].fd >= 0)
            i++;
        assert_true(i < FAKE_CONNS_MAX);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        f->conn[i] = (struct fake_conn){.fd = fd, .reader = redisReaderCreate()};
        f->accepted++;
    }
    for (int i = 0; i < FAKE_CONNS_MAX; i++) {
        if (f->conn[i].fd >= 0)
            fake_read(f, &f->conn[i]);
        if (f->conn[i].fd >= 0 && (f->conn[i].out.len > 0 || f->close_after != ALL))
            fake_write(f, &f->conn[i]);
    }
}

/* --- the session -------------------------------------------------------------------------------------------
 */

enum { ASKED_MAX = 2048 };

struct asked {
    int calls, replies, errors, losses;
    size_t order; /* the how-maniest answer it was */
    char text[64];
};

struct session {
    uv_loop_t loop;
    struct fake *fake;
    struct fake *other, *third; /* further ones, or NULL */
    struct redis_endpoint target;
    struct redis_metrics metrics;
    struct loop_lag loop_lag;
    struct span tracking_prefix;
    uint64_t stale_limit_ms;
    struct redis_connection *redis_connection;
    int ready, lost, closed;
    bool closing;
    struct asked asked[ASKED_MAX];
    size_t asked_count, answered;
    void (*during_ready)(struct session *s); /* what the test does inside of callbacks */
    void (*during_lost)(struct session *s);
    void (*during_reply)(struct session *s, const redisReply *reply);
};

static struct session session;

static inline void session_on_ready(void *arg)
{
    (void)arg;
    session.ready++;
    if (session.during_ready != NULL)
        session.during_ready(&session);
}

static inline void session_on_lost(void *arg)
{
    (void)arg;
    session.lost++;
    if (session.during_lost != NULL)
        session.during_lost(&session);
}

static inline void session_on_closed(void *arg)
{
    (void)arg;
    session.closed++;
}

static inline void session_on_reply(void *arg, const redisReply *reply)
{
    struct asked *a = arg;
    a->calls++;
    a->order = session.answered++;
    if (reply == NULL) {
        a->losses++;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        a->errors++;
    } else {
        a->replies++;
        (void)snprintf(a->text, sizeof a->text, "%s", reply->str == NULL ? "" : reply->str);
    }
    if (session.during_reply != NULL)
        session.during_reply(&session, reply);
}

/* Asks one command of one or two words; returns what redis_connection_send did. */
static inline int session_ask(const char *name, const char *argument)
{
    assert_true(session.asked_count < ASKED_MAX);
    struct asked *a = &session.asked[session.asked_count];
    const char *argv[] = {name, argument};
    int err = redis_connection_send(session.redis_connection, argument == NULL ? 1 : 2, argv, NULL,
                                    session_on_reply, a);
    session.asked_count += err == 0;
    return err;
}

static inline void session_begin(struct fake *f, const char *host)
{
    static char any_host[64];
    static char user[] = "default";
    (void)snprintf(any_host, sizeof any_host, "%s", host);
    session = (struct session){.fake = f};
    session.target = (struct redis_endpoint){.host = any_host, .port = f->port, .user = user};
    assert_int_equal(uv_loop_init(&session.loop), 0);
}

/* A session that finds its Redis by one Sentinel, at another fake. `truth` is made to be its answer. */
static inline void session_begin_by_sentinel(struct fake *f, struct fake *sentinel, const char *host,
                                             char truth[64])
{
    static char any_host[64];
    static char master[] = "mymaster";
    static char user[] = "default";
    char port[16];
    int digits = snprintf(port, sizeof port, "%d", f->port);
    (void)snprintf(truth, 64, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", digits, port);
    (void)snprintf(any_host, sizeof any_host, "%s", host);
    sentinel->sentinel = truth;
    session_begin(f, "");
    session.other = sentinel;
    session.target =
        (struct redis_endpoint){.user = user, .sentinels = {.count = 1, .master = master, .user = user}};
    session.target.sentinels.at[0].host = any_host;
    session.target.sentinels.at[0].port = sentinel->port;
}

static inline void session_connect(void)
{
    const struct redis_connection_options options = {.target = &session.target,
                                                     .client_name = "test",
                                                     .metrics = &session.metrics,
                                                     .loop_lag = &session.loop_lag,
                                                     .tracking_prefix = session.tracking_prefix,
                                                     .stale_limit_ms = session.stale_limit_ms,
                                                     .on_ready = session_on_ready,
                                                     .on_lost = session_on_lost};
    assert_int_equal(redis_connection_new(&session.loop, &options, &session.redis_connection), 0);
}

static inline void session_turn(void)
{
    struct pollfd fd[2 + FAKE_CONNS_MAX];
    nfds_t n = 0;
    fd[n++] = (struct pollfd){.fd = uv_backend_fd(&session.loop), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = session.fake->listener, .events = POLLIN};
    for (int i = 0; i < FAKE_CONNS_MAX; i++)
        fd[n++] = (struct pollfd){.fd = session.fake->conn[i].fd, .events = POLLIN};
    int wait = uv_backend_timeout(&session.loop);
    (void)poll(fd, n, session.fake->slice > 0 ? 0 : wait < 0 || wait > 10 ? 10 : wait);
    fake_turn(session.fake);
    if (session.other != NULL)
        fake_turn(session.other);
    if (session.third != NULL)
        fake_turn(session.third);
    (void)uv_run(&session.loop, UV_RUN_NOWAIT);
}

#define SESSION_UNTIL(condition)                                                    \
    do {                                                                            \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                           \
        while (!(condition)) {                                                      \
            if (wait_left_ms(until_) == 0)                                          \
                fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__, #condition); \
            session_turn();                                                         \
        }                                                                           \
    } while (0)

static inline void session_turn_for(int ms)
{
    int64_t until = wait_now_ms() + ms;
    while (wait_now_ms() < until)
        session_turn();
}

/* Every command that was sent has been answered or told of its loss, once. */
static inline void session_check_answers(void)
{
    for (size_t i = 0; i < session.asked_count; i++) {
        if (session.asked[i].calls != 1)
            fail_msg("command %zu of %zu was told %d times", i, session.asked_count, session.asked[i].calls);
        assert_int_equal(session.asked[i].order, i);
    }
}

static inline void session_close(void)
{
    session.closing = true;
    redis_connection_close(session.redis_connection, session_on_closed, NULL);
}

/* Closes what is open, and the loop: nothing may be left. */
static inline void session_end(void)
{
    if (!session.closing)
        session_close();
    assert_int_equal(uv_run(&session.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(session.closed, 1);
    assert_int_equal(uv_loop_close(&session.loop), 0);
    assert_int_equal(session.metrics.redis_connected, 0);
    session_check_answers();
    fake_fini(session.fake);
}

#endif
