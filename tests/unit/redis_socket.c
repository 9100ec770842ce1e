/*
 * A full socket, plain and with TLS: the server does not read for a while. Commands queue and leave later, in
 * order, and none is lost. And a socket that this process does not read for a while.
 */
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "redis/endpoint.h"
#include "redis/socket.h"
#include "support/certs.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

enum { LARGE = 8 * 1024 * 1024 }; /* far more than the system buffers */

static struct fake_redis fake;
static struct tempdir dir;
static struct certs_pair server, authority;

static void begin_plain(void)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
}

static struct redis_config *tls_config; /* of the session */

static SSL_CTX *begin_tls(void)
{
    static char empty[] = "";
    const char *setting = NULL;
    struct buf why = BUF_INIT;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_non_null(ctx);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, server.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, server.key, SSL_FILETYPE_PEM), 1);
    begin_plain();
    fake.tls = ctx;
    session.endpoint.transport = REDIS_TRANSPORT_TLS;
    const struct redis_options options = {empty, empty, authority.cert, empty, empty, empty, empty};
    struct redis_endpoint endpoint = {.transport = REDIS_TRANSPORT_TLS};
    assert_int_equal(redis_config_new(&endpoint, &options, 1, &tls_config, &why, &setting), 0);
    session.tls = redis_config_tls(tls_config);
    return ctx;
}

static void end_tls(SSL_CTX *ctx)
{
    redis_config_unref(tls_config);
    SSL_CTX_free(ctx);
}

/* For far less than the reply timeout. */
static void fill_socket(const char *large)
{
    enum { DEAF_MS = 200 };
    session_start();
    fake.deaf = true;
    assert_int_equal(session_send("SET", large), 0);
    assert_int_equal(session_send("ECHO", "first"), 0);
    session_turn_for(DEAF_MS / 2);
    assert_int_equal(session_send("ECHO", "second"), 0); /* while the socket is full */
    session_turn_for(DEAF_MS / 2);
    assert_int_equal(session_send("SET", large), 0);
    assert_int_equal(session_send("ECHO", "third"), 0);
    assert_int_equal(session.answered, 0);
    fake.deaf = false;
}

static void check_full_socket(void)
{
    char *large = text_repeat('x', LARGE);
    fill_socket(large);
    SESSION_UNTIL(session.answered == 5);
    assert_string_equal(session.sent[1].text, "first");
    assert_string_equal(session.sent[2].text, "second");
    assert_string_equal(session.sent[4].text, "third");
    for (int i = 0; i < 5; i++)
        assert_int_equal(session.sent[i].replies, 1);
    assert_int_equal(text_count(buf_c_str(&fake.log), large), 2);
    assert_int_equal(session.lost, 0);
    assert_int_equal(fake.accepted, 1);
    session_end();
    free(large);
}

TEST_CASE(full_socket_delays_commands)
{
    begin_plain();
    check_full_socket();
}

TEST_CASE(full_tls_socket_delays_commands)
{
    SSL_CTX *ctx = begin_tls();
    check_full_socket();
    end_tls(ctx);
}

/* What was not written is told of the loss, as all that was not answered. */
TEST_CASE(full_socket_that_is_lost_fails_its_commands)
{
    char *large = text_repeat('x', LARGE);
    begin_plain();
    fill_socket(large);
    fake_drop_all(&fake, true);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(session.answered, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(session.sent[i].losses, 1);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(session_send("ECHO", "again"), 0);
    SESSION_UNTIL(session.answered == 6);
    assert_string_equal(session.sent[5].text, "again");
    session_end();
    free(large);
}

/* Large replies and commands at once: neither side may wait for the other. */
TEST_CASE(tls_reads_and_writes_at_once)
{
    enum { COUNT = 200, SIZE = 64 * 1024 };
    char *large = text_repeat('y', SIZE);
    SSL_CTX *ctx = begin_tls();
    session_start();
    session_send_many(COUNT, large);
    SESSION_UNTIL(session.answered == COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(session.sent[i].replies, 1);
    assert_int_equal(session.lost, 0);
    session_end();
    end_tls(ctx);
    free(large);
}

static int make_certificates(void **state)
{
    (void)state;
    tempdir_init(&dir);
    certs_make_authority(&dir, "authority", &authority);
    certs_make(&dir, "server", &authority, "IP:127.0.0.1", 1, &server);
    return 0;
}

TEST_GROUP(make_certificates, NULL)

/* Whether a hit can rely on the socket now. */
static bool is_drained(void)
{
    uint64_t now = clock_boot_ms();
    return redis_connection_drained_until_ms(session_connection(), now) > now;
}

enum { WAITS_MS = REDIS_SOCKET_BACKLOG_MS + 10 };

static const char PUSH[] = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n";

TEST_CASE(input_that_waits_too_long_is_noticed)
{
    session_open_ready(&fake);
    session_pass(WAITS_MS);
    assert_true(is_drained()); /* by a look: nothing waits */
    fake_send(&fake, PUSH);
    fake_turn(&fake);
    assert_true(is_drained()); /* as it was a moment ago */
    session_pass(WAITS_MS);
    assert_false(is_drained());
    session_turn_loop();
    assert_true(is_drained());
    session_end();
}

TEST_CASE(end_of_the_stream_is_input_too)
{
    session_open_ready(&fake);
    session_pass(WAITS_MS);
    fake_drop_all(&fake, false);
    assert_false(is_drained());
    SESSION_UNTIL(session.lost == 1);
    session_end();
}

/* What was read in that turn may be older than what happened since the stream ended. */
TEST_CASE(end_of_the_stream_behind_input_is_read_in_the_same_turn)
{
    session_open_ready(&fake);
    fake_send(&fake, PUSH);
    fake_turn(&fake);
    fake_drop_all(&fake, false);
    session_pass(WAITS_MS);
    session_turn_loop();
    assert_int_equal(session.lost, 1);
    session_end();
}

/* Each of them a record, as Redis writes them that come one by one. */
static void push_records(int count)
{
    for (int i = 0; i < count; i++) {
        fake_send(&fake, PUSH);
        fake_turn(&fake);
    }
}

TEST_CASE(all_tls_records_that_wait_are_read_in_one_turn)
{
    enum { RECORDS = 20 };
    SSL_CTX *ctx = begin_tls();
    session_start();
    assert_int_equal(session_send("ECHO", "last"), 0);
    session_turn_loop(); /* writes it */
    fake.deaf = true;
    push_records(RECORDS);
    fake.deaf = false; /* and replies, in the last record */
    fake_turn(&fake);
    session_pass(WAITS_MS);
    assert_false(is_drained());
    session_turn_loop();
    assert_int_equal(session.answered, 1);
    assert_true(is_drained());
    session_end();
    end_tls(ctx);
}

static int drained_at_reply;

static void look_at_reply(struct session *s, const struct redis_reply *reply)
{
    (void)s;
    (void)reply;
    drained_at_reply = is_drained();
}

/* The kernel has nothing more then. */
TEST_CASE(socket_is_not_drained_before_all_that_was_read_is_delivered)
{
    session_open_ready(&fake);
    session.during_reply = look_at_reply;
    drained_at_reply = -1;
    assert_int_equal(session_send("ECHO", "x"), 0);
    session_turn_loop(); /* writes it */
    fake_turn(&fake);
    push_records(1);
    session_pass(WAITS_MS);
    session_turn_loop();
    assert_int_equal(drained_at_reply, false);
    assert_true(is_drained());
    session_end();
}

static void write_all(void)
{
    for (const struct buf *out = &fake_current(&fake)->out; out->len > 0;)
        fake_turn(&fake);
}

/* More than a turn of the loop reads waits, and behind it the reply to a command. */
static void push_backlog(void)
{
    enum { PUSHES = 5000 }; /* 180 KB */
    assert_int_equal(session_send("ECHO", "last"), 0);
    session_turn_loop(); /* writes it */
    for (int i = 0; i < PUSHES; i++)
        fake_send(&fake, PUSH);
    write_all();
}

static char *begin_local(void)
{
    char *path = text_printf("%s/redis.sock", dir.path);
    fake_init(&fake);
    fake_listen_unix(&fake, path);
    session_begin(&fake, "");
    session.endpoint.transport = REDIS_TRANSPORT_UNIX;
    session.endpoint.path = path;
    return path;
}

/* By a local socket, whose buffer is the server's: as large as all that. */
static char *open_local(void)
{
    enum { BUFFER = 512 * 1024 };
    char *path = begin_local();
    session_start();
    (void)setsockopt(fake_current(&fake)->fd, SOL_SOCKET, SO_SNDBUF, &(int){BUFFER}, sizeof(int));
    return path;
}

static void close_local(char *path)
{
    assert_int_equal(unlink(path), 0);
    free(path);
}

TEST_CASE(socket_is_not_drained_by_a_turn_that_was_cut_off)
{
    char *path = open_local();
    push_backlog();
    session_pass(WAITS_MS);
    session_turn_loop();
    assert_int_equal(session.answered, 0);
    assert_false(is_drained());
    SESSION_UNTIL(session.answered == 1);
    SESSION_UNTIL(is_drained());
    session_end();
    close_local(path);
}

TEST_CASE(timeout_does_not_count_while_input_waits)
{
    char *path = open_local();
    push_backlog();
    session_pass(REDIS_CONNECTION_REPLY_TIMEOUT_MS + WAITS_MS);
    session_turn_loop(); /* sees the timeout, and reads a part */
    session_pass(REDIS_CONNECTION_SECOND_LOOK_MS);
    session_turn_loop();
    SESSION_UNTIL(session.answered == 1);
    assert_int_equal(session.lost, 0);
    session_end();
    close_local(path);
}

/* The server may have more, which it could not write. */
TEST_CASE(backlog_ends_with_the_reply_to_a_ping)
{
    char *path = open_local();
    push_backlog();
    buf_clear(&fake.log);
    fake.deaf = true;
    session_pass(WAITS_MS);
    SESSION_UNTIL(session.answered == 1);
    assert_false(is_drained());
    fake.deaf = false;
    SESSION_UNTIL(is_drained());
    assert_true(text_count(buf_c_str(&fake.log), "PING") > 0);
    session_end();
    close_local(path);
}

/* A backlog that begins in the handshake and goes on in READY: what Redis holds back may concern entries. */
TEST_CASE(backlog_of_the_handshake_ends_with_the_reply_to_a_ping)
{
    enum { BEFORE = 1000, AFTER = 1000 }; /* 36 KB each */
    struct buf reply = BUF_INIT;
    char *path = begin_local();
    for (int i = 0; i < BEFORE; i++)
        buf_append_str(&reply, PUSH);
    buf_append_str(&reply, "+PONG\r\n");
    for (int i = 0; i < AFTER; i++)
        buf_append_str(&reply, PUSH);
    fake.ping = buf_c_str(&reply);
    session_connect();
    while (text_count(buf_c_str(&fake.log), "PING") == 0) {
        session_turn_loop();
        fake_turn(&fake);
    }
    write_all();
    fake.ping = "+PONG\r\n";
    buf_clear(&fake.log);
    fake.deaf = true;
    session_pass(WAITS_MS);
    SESSION_UNTIL(session.ready == 1);
    session_turn_loop();
    session_turn_loop();
    assert_false(is_drained());
    fake.deaf = false;
    SESSION_UNTIL(is_drained());
    assert_true(text_count(buf_c_str(&fake.log), "PING") > 0);
    session_end();
    close_local(path);
    buf_fini(&reply);
}

TEST_CASE(little_input_after_a_pause_is_no_backlog)
{
    enum { PUSHES = 100 };
    session_open_ready(&fake);
    buf_clear(&fake.log);
    session_pass(WAITS_MS);
    push_records(PUSHES);
    session_turn_loop();
    assert_true(is_drained());
    fake_turn(&fake);
    assert_string_equal(buf_c_str(&fake.log), "");
    session_end();
}
