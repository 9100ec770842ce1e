/* TLS by OpenSSL; see tls.h. */
#include "redis/tls.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

/* --- certificates --- */

/* Adds the fault of a certificate to the errors, since OpenSSL does not list it among them. */
static int redis_tls_on_verified(int good, X509_STORE_CTX *store)
{
    if (good == 0)
        ERR_raise_data(ERR_LIB_X509, X509_R_CERTIFICATE_VERIFICATION_FAILED, "%s",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
    return good;
}

/* Returns NULL, or the file that cannot be used. *setting names the setting concerned. */
static const char *redis_tls_load(SSL_CTX *ctx, const struct redis_options *o, const char **setting)
{
    *setting = "redis-url";
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        return "TLS 1.2";
    if (o->ca_file[0] == '\0' && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return "the system's certificates";
    *setting = "redis-ca-file";
    if (o->ca_file[0] != '\0' && SSL_CTX_load_verify_locations(ctx, o->ca_file, NULL) != 1)
        return o->ca_file;
    if (o->cert_file[0] == '\0' && o->key_file[0] == '\0')
        return NULL;
    *setting = "redis-cert-file";
    if (SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) != 1)
        return o->cert_file;
    *setting = "redis-key-file";
    bool fits = SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) == 1 &&
                SSL_CTX_check_private_key(ctx) == 1;
    return fits ? NULL : o->key_file;
}

int redis_tls_new(const struct redis_options *options, struct ssl_ctx_st **out, struct buf *why,
                  const char **setting)
{
    char reason[256];
    ERR_clear_error(); /* so that the error is one of this function */
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return -ENOMEM;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, redis_tls_on_verified);
    const char *file = redis_tls_load(ctx, options, setting);
    if (file != NULL) {
        ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
        buf_printf(why, "cannot use %s: %s", file, reason);
        SSL_CTX_free(ctx);
        return -EINVAL;
    }
    *out = ctx;
    return 0;
}

/* --- sessions --- */

/* Does what the macro SSL_set_tlsext_host_name does, which casts const away. OpenSSL copies the name. */
static bool redis_tls_send_name(SSL *ssl, const char *host)
{
    void *name = (void *)(uintptr_t)host;
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

/* A name is also sent (SNI), but an address must not be (RFC 6066 section 3). */
static bool redis_tls_expect_host(SSL *ssl, const char *host)
{
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 ||
           (SSL_set1_host(ssl, host) == 1 && redis_tls_send_name(ssl, host));
}

bool redis_tls_explain(redisContext *c)
{
    const char *details = NULL;
    int flags = 0;
    unsigned long code = ERR_peek_error_data(&details, &flags); /* the first is the cause of the others */
    if (code != 0) {
        const char *reason = ERR_reason_error_string(code);
        bool detailed = (flags & ERR_TXT_STRING) != 0 && details[0] != '\0';
        (void)snprintf(c->errstr, sizeof c->errstr, "TLS: %s%s%s", reason == NULL ? "failed" : reason,
                       detailed ? ": " : "", detailed ? details : "");
    }
    ERR_clear_error();
    return code != 0 && ERR_GET_REASON(code) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

int redis_tls_start(redisContext *c, struct ssl_ctx_st *tls, const char *host)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(tls);
    if (ssl != NULL && redis_tls_expect_host(ssl, host) && redisInitiateSSL(c, ssl) == REDIS_OK) {
        c->privdata = ssl; /* borrowed: the session now belongs to the context */
        return 0;
    }
    if (c->err == 0)
        (void)snprintf(c->errstr, sizeof c->errstr, "TLS cannot be started");
    SSL_free(ssl);
    return -EPROTO;
}

bool redis_tls_wants_read(const redisContext *c)
{
    return SSL_want_read((const SSL *)c->privdata);
}
