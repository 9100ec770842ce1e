/* Keys and certificates, made with OpenSSL's library. */

#include "support/certs.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "support/test.h"
#include "support/text.h"

enum { DAY_S = 24 * 60 * 60, AUTHORITY_DAYS = 30 };

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (f == NULL)
        fail_msg("cannot open %s", path);
    return f;
}

static EVP_PKEY *make_key(const char *path)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    FILE *f = open_file(path, "we");
    assert_non_null(key);
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(f), 0);
    return key;
}

static EVP_PKEY *read_key(const char *path)
{
    FILE *f = open_file(path, "re");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    assert_non_null(key);
    (void)fclose(f);
    return key;
}

static X509 *read_cert(const char *path)
{
    FILE *f = open_file(path, "re");
    X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);
    assert_non_null(cert);
    (void)fclose(f);
    return cert;
}

static void add_extension(X509 *cert, int what, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, what, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A certificate for the key that still lacks its issuer and signature. */
static X509 *begin(const char *name, EVP_PKEY *key, int days)
{
    static long serial = 1;
    X509 *cert = X509_new();
    assert_non_null(cert);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    /* From yesterday: or, where it has run out, from the day before that. */
    X509_gmtime_adj(X509_getm_notBefore(cert), ((days < 0 ? days : 0) - 1) * (long)DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert), days * (long)DAY_S);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)name,
                               -1, -1, 0);
    return cert;
}

static void finish(X509 *cert, X509_NAME *issuer, EVP_PKEY *issuer_key, const char *path)
{
    X509_set_issuer_name(cert, issuer);
    assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    FILE *f = open_file(path, "we");
    assert_int_equal(PEM_write_X509(f, cert), 1);
    assert_int_equal(fclose(f), 0);
    X509_free(cert);
}

static void name_files(const struct tempdir *dir, const char *name, struct certs_pair *out)
{
    (void)snprintf(out->cert, sizeof out->cert, "%s/%s.crt", dir->path, name);
    (void)snprintf(out->key, sizeof out->key, "%s/%s.key", dir->path, name);
}

void certs_make_authority(const struct tempdir *dir, const char *name, struct certs_pair *out)
{
    name_files(dir, name, out);
    EVP_PKEY *key = make_key(out->key);
    X509 *cert = begin(name, key, AUTHORITY_DAYS);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    finish(cert, X509_get_subject_name(cert), key, out->cert);
    EVP_PKEY_free(key);
}

void certs_make(const struct tempdir *dir, const char *name, const struct certs_pair *authority,
                const char *names, int days, struct certs_pair *out)
{
    name_files(dir, name, out);
    EVP_PKEY *key = make_key(out->key);
    EVP_PKEY *authority_key = read_key(authority->key);
    X509 *authority_cert = read_cert(authority->cert);
    X509 *cert = begin(name, key, days);
    add_extension(cert, NID_subject_alt_name, names);
    finish(cert, X509_get_subject_name(authority_cert), authority_key, out->cert);
    X509_free(authority_cert);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(key);
}

const char *const *certs_redis_args(int port, const struct certs_pair *own,
                                    const struct certs_pair *authority, const char *auth_clients)
{
    static const char *args[11];
    const char *const now[] = {"--tls-port",
                               text_temp("%d", port),
                               "--tls-cert-file",
                               own->cert,
                               "--tls-key-file",
                               own->key,
                               "--tls-ca-cert-file",
                               authority->cert,
                               "--tls-auth-clients",
                               auth_clients,
                               NULL};
    memcpy(args, now, sizeof args);
    return args;
}
