/*
 * A full socket, plain and with TLS: the server does not read for a while. Commands queue and leave later, in
 * order, and none is lost. And a socket that this process does not read for a while.
 */
#include <openssl/ssl.h>
#include <stdlib.h>

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
    assert_int_equal(redis_config_new(&endpoint, &options, 1, &tls_config, &why), 0);
    session.tls = redis_config_tls(tls_config);
    return ctx;
}

static void end_tls(SSL_CTX *ctx)
{
    redis_config_unref(tls_config);
    SSL_CTX_free(ctx);
}

/* For far less than the reply timeout: from here on time is slow, as it is much to encrypt, read and write.
 */
static void fill_socket(const char *large)
{
    enum { DEAF_MS = 200 };
    session_start();
    session_slow_down();
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
    session_speed_up();
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
    session_speed_up();
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
    session_slow_down();
    SESSION_UNTIL(session.answered == COUNT);
    session_speed_up();
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

static int remove_certificates(void **state)
{
    (void)state;
    tempdir_fini(&dir);
    return 0;
}

TEST_GROUP(make_certificates, remove_certificates)

/* At a time of the test's own. */
static bool is_behind_at(uint64_t ms)
{
    return redis_connection_is_behind(session.connection, ms);
}

TEST_CASE(input_that_waits_too_long_is_noticed)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
    session_start();
    const uint64_t read_ms = clock_boot_ms() + REDIS_SOCKET_BEHIND_MS + 1;
    assert_false(is_behind_at(read_ms)); /* it is empty, and counts as read at this time */
    fake_send(&fake, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n");
    fake_turn(&fake);
    assert_false(is_behind_at(read_ms + REDIS_SOCKET_BEHIND_MS));
    assert_true(is_behind_at(read_ms + REDIS_SOCKET_BEHIND_MS + 1));
    session_turn(); /* of the loop: it reads */
    session_turn();
    assert_false(is_behind_at(clock_boot_ms() + REDIS_SOCKET_BEHIND_MS + 1));
    session_end();
}

TEST_CASE(end_of_the_stream_is_input_too)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
    session_start();
    fake_drop_all(&fake, false);
    assert_true(is_behind_at(clock_boot_ms() + REDIS_SOCKET_BEHIND_MS + 1));
    SESSION_UNTIL(session.lost == 1);
    session_end();
}
