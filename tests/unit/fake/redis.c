/* A fake Redis and a connection to it; see redis.h. */
#include "unit/fake/redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/resp.h"

enum { RCVBUF = 64 * 1024 }; /* bytes that the system holds for a server that has not read them */

const char FAKE_HELLO[] =
    "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n$5\r\nproto\r\n:3\r\n";

struct session session;

/* --- the server --- */

void fake_init(struct fake_redis *f)
{
    *f = (struct fake_redis){.listener = -1,
                             .hello = FAKE_HELLO,
                             .select = "+OK\r\n",
                             .ping = "+PONG\r\n",
                             .role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
                             .info = "$0\r\n\r\n",
                             .tracking = "+OK\r\n",
                             .subscribe = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n",
                             .sentinel = "*-1\r\n",
                             .replicas = "*0\r\n",
                             .close_after = NEVER};
    for (int i = 0; i < FAKE_CONNECTIONS_MAX; i++)
        f->connection[i].fd = -1;
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
}

static void listen_at(struct fake_redis *f, const struct sockaddr *address, socklen_t len)
{
    f->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(f->listener >= 0);
    (void)setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    (void)setsockopt(f->listener, SOL_SOCKET, SO_RCVBUF, &(int){RCVBUF}, sizeof(int));
    assert_int_equal(bind(f->listener, address, len), 0);
    assert_int_equal(listen(f->listener, 16), 0);
}

void fake_listen(struct fake_redis *f, const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof address;
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    listen_at(f, (struct sockaddr *)&address, len);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    f->port = ntohs(address.sin_port);
}

void fake_listen_unix(struct fake_redis *f, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    listen_at(f, (struct sockaddr *)&address, sizeof address);
}

void fake_open(struct fake_redis *f)
{
    fake_init(f);
    fake_listen(f, "127.0.0.1", 0);
}

static void drop(struct fake_connection *c)
{
    if (c->fd < 0)
        return;
    SSL_free(c->tls);
    close(c->fd);
    redisReaderFree(c->reader);
    buf_fini(&c->out);
    *c = (struct fake_connection){.fd = -1};
}

void fake_drop_all(struct fake_redis *f, bool reset)
{
    const struct linger none = {.l_onoff = 1};
    for (int i = 0; i < FAKE_CONNECTIONS_MAX; i++) {
        if (reset && f->connection[i].fd >= 0)
            (void)setsockopt(f->connection[i].fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
        drop(&f->connection[i]);
    }
}

void fake_stop_listening(struct fake_redis *f)
{
    if (f->listener >= 0)
        close(f->listener);
    f->listener = -1;
}

void fake_fini(struct fake_redis *f)
{
    fake_stop_listening(f);
    fake_drop_all(f, false);
    buf_fini(&f->log);
}

struct fake_connection *fake_current(struct fake_redis *f)
{
    for (int i = FAKE_CONNECTIONS_MAX - 1; i >= 0; i--)
        if (f->connection[i].fd >= 0)
            return &f->connection[i];
    fail_msg("nothing is connected");
    return NULL;
}

void fake_send(struct fake_redis *f, const char *bytes)
{
    buf_append_str(&fake_current(f)->out, bytes);
}

static const char *reply_to(const struct fake_redis *f, const char *name)
{
    const struct {
        const char *name, *reply;
    } replies[] = {{"HELLO", f->hello},      {"SELECT", f->select},   {"ROLE", f->role},
                   {"INFO", f->info},        {"CLIENT", f->tracking}, {"SUBSCRIBE", f->subscribe},
                   {"SENTINEL", f->sentinel}};
    for (size_t i = 0; i < TEST_COUNT(replies); i++)
        if (strcmp(replies[i].name, name) == 0)
            return replies[i].reply;
    return f->ping;
}

static bool is_for_replicas(const redisReply *command)
{
    return command->elements > 1 && strcmp(command->element[0]->str, "SENTINEL") == 0 &&
           strcmp(command->element[1]->str, "REPLICAS") == 0;
}

static void answer(struct fake_redis *f, struct fake_connection *c, const redisReply *command)
{
    const char *name = command->element[0]->str;
    for (size_t i = 0; i < command->elements; i++)
        buf_printf(&f->log, i == 0 ? "%s" : " %s", command->element[i]->str);
    buf_append_str(&f->log, "\n");
    if (f->mute || strcmp(name, "HANG") == 0)
        return;
    if (strcmp(name, "ECHO") == 0) {
        buf_printf(&c->out, "$%zu\r\n", command->element[1]->len);
        buf_append(&c->out, command->element[1]->str, command->element[1]->len);
        buf_append_str(&c->out, "\r\n");
    } else if (strcmp(name, "FAIL") == 0) {
        buf_append_str(&c->out, "-WRONGTYPE no\r\n");
    } else {
        buf_append_str(&c->out, is_for_replicas(command) ? f->replicas : reply_to(f, name));
    }
}

/* As read(2) and send(2) of a non-blocking socket. */
static ssize_t receive_some(struct fake_connection *c, char *out, size_t size)
{
    if (c->tls == NULL)
        return read(c->fd, out, size);
    int n = SSL_read(c->tls, out, (int)size);
    errno = SSL_get_error(c->tls, n) == SSL_ERROR_WANT_READ ? EAGAIN : EIO;
    return n;
}

static ssize_t send_some(struct fake_connection *c, size_t size)
{
    if (c->tls == NULL)
        return send(c->fd, c->out.data, size, MSG_NOSIGNAL);
    size_t sent = 0;
    int n = 1;
    while (n > 0 && sent < size) /* a record at a time */
        if ((n = SSL_write(c->tls, c->out.data + sent, (int)(size - sent))) > 0)
            sent += (size_t)n;
    return (ssize_t)sent;
}

static void read_commands(struct fake_redis *f, struct fake_connection *c)
{
    char chunk[4096];
    ssize_t n = 0;
    while ((n = receive_some(c, chunk, sizeof chunk)) > 0) {
        void *command = NULL;
        assert_int_equal(redisReaderFeed(c->reader, chunk, (size_t)n), REDIS_OK);
        while (redisReaderGetReply(c->reader, &command) == REDIS_OK && command != NULL) {
            answer(f, c, command);
            freeReplyObject(command);
        }
    }
    if (n == 0 || (n < 0 && errno != EAGAIN))
        drop(c);
}

static void write_replies(struct fake_redis *f, struct fake_connection *c)
{
    size_t n = f->slice > 0 && f->slice < c->out.len ? f->slice : c->out.len;
    if (f->close_after != NEVER && c->sent + (long)n > f->close_after)
        n = (size_t)(f->close_after - c->sent);
    ssize_t taken = n > 0 ? send_some(c, n) : 0;
    if (taken > 0) {
        buf_consume(&c->out, (size_t)taken);
        c->sent += taken;
    }
    if (f->close_after != NEVER && c->sent >= f->close_after) {
        f->close_after = NEVER; /* once */
        drop(c);
    }
}

static void start_tls(struct fake_redis *f, struct fake_connection *c)
{
    c->tls = SSL_new(f->tls);
    assert_non_null(c->tls);
    SSL_set_mode(c->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    assert_int_equal(SSL_set_fd(c->tls, c->fd), 1);
    SSL_set_accept_state(c->tls);
}

static void accept_all(struct fake_redis *f)
{
    int fd = -1;
    while (f->listener >= 0 && (fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int i = 0;
        while (i < FAKE_CONNECTIONS_MAX && f->connection[i].fd >= 0)
            i++;
        assert_true(i < FAKE_CONNECTIONS_MAX);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        f->connection[i] = (struct fake_connection){.fd = fd, .reader = redisReaderCreate()};
        if (f->tls != NULL)
            start_tls(f, &f->connection[i]);
        f->accepted++;
    }
}

void fake_turn(struct fake_redis *f)
{
    accept_all(f);
    for (int i = 0; i < FAKE_CONNECTIONS_MAX; i++) {
        struct fake_connection *c = &f->connection[i];
        if (c->fd >= 0 && !f->deaf)
            read_commands(f, c);
        if (c->fd >= 0 && (c->out.len > 0 || f->close_after != NEVER))
            write_replies(f, c);
    }
}

/* --- the connection --- */

static void on_ready(void *arg)
{
    (void)arg;
    session.ready++;
    if (session.during_ready != NULL)
        session.during_ready(&session);
}

static void on_lost(void *arg)
{
    (void)arg;
    session.lost++;
    if (session.during_lost != NULL)
        session.during_lost(&session);
}

static void on_closed(void *arg)
{
    (void)arg;
    session.closed++;
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct sent_command *command = arg;
    command->calls++;
    command->order = session.answered++;
    if (reply == NULL) {
        command->losses++;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        command->errors++;
    } else {
        command->replies++;
        (void)snprintf(command->text, sizeof command->text, "%s", reply->str == NULL ? "" : reply->str);
    }
    if (session.during_reply != NULL)
        session.during_reply(&session, reply);
}

int session_try_send(const char *name, const char *argument)
{
    struct buf command = BUF_INIT;
    const char *argv[] = {name, argument};
    command_write(&command, argument == NULL ? 1 : 2, argv, NULL);
    assert_int_equal(buf_error(&command), 0);
    int err = redis_connection_send_command(session.connection, buf_span(&command), on_reply,
                                            &session.sent[session.sent_count]);
    buf_fini(&command);
    return err;
}

int session_send(const char *name, const char *argument)
{
    assert_true(session.sent_count < SENT_MAX);
    int err = session_try_send(name, argument);
    session.sent_count += err == 0;
    return err;
}

void session_begin(struct fake_redis *f, const char *host)
{
    static char any_host[64];
    static char user[] = "default";
    (void)snprintf(any_host, sizeof any_host, "%s", host);
    session = (struct session){.fake = f};
    session.endpoint = (struct redis_endpoint){.host = any_host, .port = f->port, .user = user};
    assert_int_equal(uv_loop_init(&session.loop), 0);
}

void session_begin_by_sentinel(struct fake_redis *f, struct fake_redis *sentinel, const char *host,
                               char reply[64])
{
    static char any_host[64];
    static char master[] = "mymaster";
    static char user[] = "default";
    char port[16];
    int digits = snprintf(port, sizeof port, "%d", f->port);
    (void)snprintf(reply, 64, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", digits, port);
    (void)snprintf(any_host, sizeof any_host, "%s", host);
    sentinel->sentinel = reply;
    session_begin(f, "");
    session.other = sentinel;
    session.endpoint =
        (struct redis_endpoint){.user = user, .sentinels = {.count = 1, .master = master, .user = user}};
    session.endpoint.sentinels.at[0].host = any_host;
    session.endpoint.sentinels.at[0].port = sentinel->port;
}

void session_connect(void)
{
    const struct redis_connection_options options = {.endpoint = &session.endpoint,
                                                     .tls = session.tls,
                                                     .client_name = "test",
                                                     .metrics = &session.metrics,
                                                     .loop_lag = &session.loop_lag,
                                                     .tracking_prefix = session.tracking_prefix,
                                                     .stale_limit_ms = session.stale_limit_ms,
                                                     .on_ready = on_ready,
                                                     .on_lost = on_lost};
    assert_int_equal(redis_connection_new(&session.loop, &options, &session.connection), 0);
}

void session_turn(void)
{
    struct pollfd fd[2 + FAKE_CONNECTIONS_MAX];
    nfds_t n = 0;
    fd[n++] = (struct pollfd){.fd = uv_backend_fd(&session.loop), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = session.fake->listener, .events = POLLIN};
    for (int i = 0; i < FAKE_CONNECTIONS_MAX && !session.fake->deaf; i++)
        fd[n++] = (struct pollfd){.fd = session.fake->connection[i].fd, .events = POLLIN};
    int wait = uv_backend_timeout(&session.loop);
    (void)poll(fd, n, session.fake->slice > 0 ? 0 : wait < 0 || wait > 10 ? 10 : wait);
    fake_turn(session.fake);
    if (session.other != NULL)
        fake_turn(session.other);
    if (session.third != NULL)
        fake_turn(session.third);
    (void)uv_run(&session.loop, UV_RUN_NOWAIT);
}

void session_turn_for(int ms)
{
    int64_t until = wait_now_ms() + ms;
    while (wait_now_ms() < until)
        session_turn();
}

void session_close(void)
{
    session.closing = true;
    redis_connection_close(session.connection, on_closed, NULL);
}

void session_end(void)
{
    if (!session.closing)
        session_close();
    assert_int_equal(uv_run(&session.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(session.closed, 1);
    assert_int_equal(uv_loop_close(&session.loop), 0);
    assert_int_equal(session.metrics.redis_connected, 0);
    for (size_t i = 0; i < session.sent_count; i++) {
        if (session.sent[i].calls != 1)
            fail_msg("command %zu of %zu was told %d times", i, session.sent_count, session.sent[i].calls);
        assert_int_equal(session.sent[i].order, i);
    }
    fake_fini(session.fake);
}
