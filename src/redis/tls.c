/* TLS sessions for hiredis; see tls.h. */
#include "redis/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>

static int explain(struct buf *error, const char *setting, const char *file)
{
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    buf_printf(error, "%s: cannot use %s: %s", setting, file, reason);
    return -EINVAL;
}

static int trust(SSL_CTX *ctx, const char *ca_file, struct buf *error)
{
    if (ca_file[0] == '\0')
        return SSL_CTX_set_default_verify_paths(ctx) == 1
                   ? 0
                   : explain(error, "CHANNELD_REDIS_URL", "the system's certificates");
    return SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1
               ? 0
               : explain(error, "CHANNELD_REDIS_CA_FILE", ca_file);
}

static int present(SSL_CTX *ctx, const struct redis_options *o, struct buf *error)
{
    if (o->cert_file[0] == '\0' && o->key_file[0] == '\0')
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) != 1)
        return explain(error, "CHANNELD_REDIS_CERT_FILE", o->cert_file);
    if (SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return explain(error, "CHANNELD_REDIS_KEY_FILE", o->key_file);
    return 0;
}

int redis_tls_new(const struct redis_target *t, const struct redis_options *options, struct ssl_ctx_st **out,
                  struct buf *error)
{
    *out = NULL;
    if (t->transport != REDIS_TRANSPORT_TLS)
        return 0;
    ERR_clear_error(); /* so that explain() tells what failed here */
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return -ENOMEM;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    int err = SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 ? 0 : -EINVAL;
    if (err == 0)
        err = trust(ctx, options->ca_file, error);
    if (err == 0)
        err = present(ctx, options, error);
    if (err != 0) {
        SSL_CTX_free(ctx);
        return err;
    }
    *out = ctx;
    return 0;
}

void redis_tls_free(struct ssl_ctx_st *tls)
{
    SSL_CTX_free(tls);
}

static bool is_address(const char *host)
{
    unsigned char raw[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

/* As the macro SSL_set_tlsext_host_name, which casts const away. OpenSSL copies the name. */
static bool send_name(SSL *ssl, const char *host)
{
    void *name = (void *)(uintptr_t)host;
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

/* The certificate must name the host; a name is also sent (SNI), an address must not be (RFC 6066 section 3).
 */
static bool expect_host(SSL *ssl, const char *host)
{
    if (is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && send_name(ssl, host);
}

int redis_tls_start(redisContext *c, struct ssl_ctx_st *tls, const char *host)
{
    SSL *ssl = SSL_new(tls);
    if (ssl == NULL)
        return -EPROTO;
    if (!expect_host(ssl, host)) {
        SSL_free(ssl);
        return -EPROTO;
    }
    if (redisInitiateSSL(c, ssl) == REDIS_OK)
        return 0; /* the session now belongs to the connection */
    SSL_free(ssl);
    return -EPROTO;
}
