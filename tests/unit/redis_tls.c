/* TLS: a file that cannot be used is named by its setting, and a server by another name is no server. */
#include "redis/tls.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certs.h"
#include "unit/check.h"

static struct tempdir dir;
static struct certs_pair authority, pair;
static char garbage[CERTS_PATH_SIZE];

static char EMPTY[] = "";
static char MISSING[] = "/nonexistent/file.pem";

static int make_files(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN); /* as the programs do: a peer that hangs up is an error, not an end */
    tempdir_init(&dir);
    certs_make_authority(&dir, "authority", &authority);
    certs_make(&dir, "server", &authority, "DNS:redis.example,IP:127.0.0.1,IP:::1", 1, &pair);
    (void)snprintf(garbage, sizeof garbage, "%s/garbage.pem", dir.path);
    FILE *f = fopen(garbage, "we");
    assert_non_null(f);
    assert_true(fputs("no certificate\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    return 0;
}

/* Runs redis_config_new for an endpoint of that transport; the caller frees what comes of it. */
/* NOLINTNEXTLINE(readability-non-const-parameter): struct redis_options owns its texts elsewhere */
static int make(enum redis_transport transport, char *ca, char *cert, char *key, struct redis_config **out,
                struct buf *error, const char **setting)
{
    struct redis_endpoint endpoint = {.transport = transport, .host = strdup("redis.example")};
    const struct redis_options options = {EMPTY, EMPTY, ca, cert, key, EMPTY, EMPTY};
    return redis_config_new(&endpoint, &options, 1, out, error, setting);
}

static void assert_made(char *ca, char *cert, char *key)
{
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    int err = make(REDIS_TRANSPORT_TLS, ca, cert, key, &config, &error, &setting);
    if (err != 0)
        fail_msg("%s", buf_c_str(&error));
    assert_non_null(redis_config_tls(config));
    assert_int_equal(error.len, 0);
    redis_config_unref(config);
}

static void assert_refused(char *ca, char *cert, char *key, const char *expected, const char *reason)
{
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    assert_int_equal(make(REDIS_TRANSPORT_TLS, ca, cert, key, &config, &error, &setting), -EINVAL);
    assert_null(config);
    const char *message = buf_c_str(&error);
    assert_string_equal(setting, expected);
    if (strstr(message, reason) == NULL)
        fail_msg("\"%s\" does not tell %s", message, reason);
    buf_fini(&error);
}

TEST_CASE(tls_is_null_for_other_transports)
{
    static const enum redis_transport plain[] = {REDIS_TRANSPORT_TCP, REDIS_TRANSPORT_UNIX};
    for (size_t i = 0; i < TEST_COUNT(plain); i++) {
        struct buf error = BUF_INIT;
        struct redis_config *config = NULL;
        const char *setting = NULL;
        assert_int_equal(make(plain[i], MISSING, MISSING, MISSING, &config, &error, &setting), 0);
        assert_null(redis_config_tls(config));
        assert_int_equal(error.len, 0);
        redis_config_unref(config);
    }
}

TEST_CASE(tls_files_are_loaded_or_the_systems_authorities)
{
    assert_made(EMPTY, EMPTY, EMPTY);
    assert_made(authority.cert, EMPTY, EMPTY);
    assert_made(authority.cert, pair.cert, pair.key);
}

TEST_CASE(tls_missing_or_invalid_file_names_its_setting)
{
    char *const bad[] = {MISSING, garbage};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_refused(bad[i], EMPTY, EMPTY, "redis-ca-file", bad[i]);
        assert_refused(EMPTY, bad[i], pair.key, "redis-cert-file", bad[i]);
        assert_refused(EMPTY, pair.cert, bad[i], "redis-key-file", bad[i]);
    }
}

TEST_CASE(tls_certificate_and_key_must_match)
{
    assert_refused(EMPTY, pair.cert, authority.key, "redis-key-file", "mismatch");
    assert_refused(MISSING, EMPTY, EMPTY, "redis-ca-file", "No such file"); /* not the error before */
    assert_refused(EMPTY, pair.cert, EMPTY, "redis-key-file", "");
    assert_refused(EMPTY, EMPTY, pair.key, "redis-cert-file", "");
}

struct server {
    SSL_CTX *ctx;
    int fd;
    char asked_for[64]; /* the name that the client sent */
};

static void *serve(void *arg)
{
    struct server *s = arg;
    SSL *ssl = SSL_new(s->ctx);
    char byte = 0;
    if (SSL_set_fd(ssl, s->fd) == 1 && SSL_accept(ssl) == 1)
        (void)SSL_read(ssl, &byte, 1); /* until the client has gone */
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    (void)snprintf(s->asked_for, sizeof s->asked_for, "%s", name == NULL ? "" : name);
    SSL_free(ssl);
    close(s->fd);
    return NULL;
}

/* Connects to a server with our certificate as if it were `host`; returns what redis_tls_start said. */
static int connect_as(const char *host, const char *ca, char *asked_for)
{
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    struct server server = {.ctx = SSL_CTX_new(TLS_server_method())};
    pthread_t thread;
    int fds[2];
    const char *setting = NULL;
    assert_int_equal(
        make(REDIS_TRANSPORT_TLS, (char *)(uintptr_t)ca, EMPTY, EMPTY, &config, &error, &setting), 0);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(server.ctx, pair.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(server.ctx, pair.key, SSL_FILETYPE_PEM), 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    server.fd = fds[1];
    assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
    redisContext *c = redisConnectFd(fds[0]);
    assert_non_null(c);
    int err = redis_tls_start(c, redis_config_tls(config), host);
    redisFree(c);
    pthread_join(thread, NULL);
    SSL_CTX_free(server.ctx);
    redis_config_unref(config);
    memcpy(asked_for, server.asked_for, sizeof server.asked_for);
    return err;
}

TEST_CASE(tls_accepts_the_names_of_the_certificate)
{
    char asked_for[64];
    assert_int_equal(connect_as("redis.example", authority.cert, asked_for), 0);
    assert_string_equal(asked_for, "redis.example");
    assert_int_equal(connect_as("127.0.0.1", authority.cert, asked_for), 0);
    assert_string_equal(asked_for, ""); /* an address must not be sent as a name */
    assert_int_equal(connect_as("::1", authority.cert, asked_for), 0);
    assert_string_equal(asked_for, "");
}

TEST_CASE(tls_refuses_other_names_and_unknown_authorities)
{
    static const char *const hosts[] = {"other.example", "redis.example.org", "x.redis.example", "127.0.0.2",
                                        "::2"};
    char asked_for[64];
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        assert_int_equal(connect_as(hosts[i], authority.cert, asked_for), -EACCES);
    assert_int_equal(connect_as("redis.example", "", asked_for), -EACCES);
}

TEST_GROUP(make_files, NULL)
