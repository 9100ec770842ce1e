/* Counted settings: read and checked as a whole, shared by threads, and no secret in an error. */
#include "redis/endpoint.h"

#include "redis/tls.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certs.h"
#include "support/text.h"
#include "unit/check.h"
#include "unit/fixtures/redis_config.h"

static struct tempdir dir;
static struct certs_pair authority, mine, other;

static int make_files(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    tempdir_init(&dir);
    certs_make_authority(&dir, "authority", &authority);
    certs_make(&dir, "mine", &authority, "DNS:mine.example", 1, &mine);
    certs_make(&dir, "other", &authority, "DNS:other.example", 1, &other);
    return 0;
}

TEST_GROUP(make_files, NULL)

static int make(const char *ca, const char *cert, const char *key, struct redis_config **out,
                struct buf *error, const char **setting)
{
    char url[] = "rediss://user:hush@redis.example";
    char none[] = "";
    struct redis_options options = {
        url, none, (char *)(uintptr_t)ca, (char *)(uintptr_t)cert, (char *)(uintptr_t)key, none, none};
    return redis_config_new(&options, SPAN("channels:"), 7, out, error, setting);
}

TEST_CASE(what_was_read_is_there_until_the_last_reference)
{
    struct redis_config *c = NULL;
    const char *setting = NULL;
    SCOPED_BUF(error);
    assert_int_equal(make(authority.cert, mine.cert, mine.key, &c, &error, &setting), 0);
    assert_ptr_equal(redis_config_ref(c), c);
    redis_config_unref(c);
    assert_int_equal(c->number, 7);
    assert_string_equal(c->endpoint.host, "redis.example");
    assert_string_equal(c->endpoint.password, "hush");
    assert_non_null(c->endpoint.tls);
    redis_config_unref(c);
    redis_config_unref(NULL);
}

TEST_CASE(no_tls_no_certificates)
{
    struct redis_config *c = config_numbered(1);
    assert_null(c->endpoint.tls);
    redis_config_unref(c);
}

/* The first `part` percent of a file, in a file of its own. */
static const char *cut(const char *path, int part)
{
    AUTOFREE char *text = text_read_file(path);
    const char *to = text_temp("%s.%d", path, part);
    text[strlen(text) * (size_t)part / 100] = '\0';
    assert_true(text_write_file(to, text));
    return to;
}

/* Two certificates, the second cut off within its text. */
static const char *cut_bundle(void)
{
    AUTOFREE char *one = text_read_file(authority.cert);
    AUTOFREE char *text = text_printf("%s%.*s", one, (int)strlen(one) / 2, one);
    const char *to = text_temp("%s/bundle", dir.path);
    assert_true(text_write_file(to, text));
    return to;
}

TEST_CASE(certificates_that_cannot_be_used)
{
    const struct {
        const char *ca, *cert, *key, *setting;
    } rows[] = {{authority.cert, mine.cert, other.key, "redis-key-file"},
                {authority.cert, mine.cert, cut(mine.key, 50), "redis-key-file"},
                {authority.cert, mine.cert, cut(mine.key, 0), "redis-key-file"},
                {authority.cert, mine.cert, "/nonexistent", "redis-key-file"},
                {authority.cert, cut(mine.cert, 50), mine.key, "redis-cert-file"},
                {authority.cert, cut(mine.cert, 0), mine.key, "redis-cert-file"},
                {authority.cert, mine.key, mine.key, "redis-cert-file"},
                {cut(authority.cert, 50), mine.cert, mine.key, "redis-ca-file"},
                {cut(authority.cert, 0), mine.cert, mine.key, "redis-ca-file"},
                {cut_bundle(), mine.cert, mine.key, "redis-ca-file"},
                {mine.key, mine.cert, mine.key, "redis-ca-file"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct redis_config *c = NULL;
        const char *setting = NULL;
        SCOPED_BUF(error);
        if (make(rows[i].ca, rows[i].cert, rows[i].key, &c, &error, &setting) != -EINVAL)
            fail_msg("row %zu is accepted", i);
        assert_null(c);
        assert_string_equal(setting, rows[i].setting);
        assert_null(strstr(buf_c_str(&error), "hush"));
    }
}

/* Accepts one connection by TLS; the name that the client has sent is in `asked_for`. */
struct server {
    SSL_CTX *ctx;
    int fd;
    char asked_for[64];
};

static void *serve(void *arg)
{
    struct server *s = arg;
    SSL *ssl = SSL_new(s->ctx);
    if (SSL_set_fd(ssl, s->fd) == 1 && SSL_accept(ssl) == 1)
        (void)SSL_read(ssl, &(char){0}, 1); /* until the client has gone */
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    (void)snprintf(s->asked_for, sizeof s->asked_for, "%s", name == NULL ? "" : name);
    SSL_free(ssl);
    (void)close(s->fd);
    return NULL;
}

/* An address is not sent as a name (RFC 6066, section 3). */
TEST_CASE(tls_names_the_server_unless_it_has_an_address)
{
    static const char *const rows[][2] = {{"mine.example", "mine.example"}, {"127.0.0.1", ""}, {"::1", ""}};
    struct redis_config *c = NULL;
    const char *setting = NULL;
    SCOPED_BUF(error);
    assert_int_equal(make(authority.cert, mine.cert, mine.key, &c, &error, &setting), 0);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct server server = {.ctx = SSL_CTX_new(TLS_server_method())};
        pthread_t thread;
        int fds[2];
        assert_int_equal(SSL_CTX_use_certificate_chain_file(server.ctx, mine.cert), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(server.ctx, mine.key, SSL_FILETYPE_PEM), 1);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        server.fd = fds[1];
        assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
        redisContext *context = redisConnectFd(fds[0]);
        assert_non_null(context);
        int err = redis_tls_start(context, c->endpoint.tls, rows[i][0]);
        bool is_rejected = err != 0 && redis_tls_explain(context);
        redisFree(context);
        assert_int_equal(pthread_join(thread, NULL), 0);
        SSL_CTX_free(server.ctx);
        assert_string_equal(server.asked_for, rows[i][1]);
        assert_int_equal(is_rejected, *rows[i][1] == '\0'); /* the certificate has the name alone */
    }
    redis_config_unref(c);
}

static void *share(void *arg)
{
    for (int i = 0; i < 10000; i++) {
        struct redis_config *c = redis_config_ref(arg);
        assert_int_equal(c->number, 1);
        redis_config_unref(c);
    }
    redis_config_unref(arg);
    return NULL;
}

TEST_CASE(threads_share_one)
{
    pthread_t thread[4];
    struct redis_config *c = config_numbered(1);
    for (size_t i = 0; i < TEST_COUNT(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, share, redis_config_ref(c)), 0);
    redis_config_unref(c);
    for (size_t i = 0; i < TEST_COUNT(thread); i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}
