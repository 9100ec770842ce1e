#ifndef TEST_SUPPORT_CERTS_H
#define TEST_SUPPORT_CERTS_H

#include "support/tempdir.h"

/* Certificates made while the test runs. Every function fails the test when it cannot do its work. */

enum { CERTS_PATH_SIZE = TEMPDIR_PATH_SIZE + 32 };

/* A certificate and its key, as PEM files. */
struct certs_pair {
    char cert[CERTS_PATH_SIZE];
    char key[CERTS_PATH_SIZE];
};

/* A self-signed authority. `name` names the files in `dir`. */
void certs_make_authority(const struct tempdir *dir, const char *name, struct certs_pair *out);

/*
 * A certificate signed by that authority, for server or client. `names` is what it is valid for:
 * "DNS:redis.example,IP:127.0.0.1"; `days` is how long it is valid, negative for one that has expired.
 */
void certs_make(const struct tempdir *dir, const char *name, const struct certs_pair *authority,
                const char *names, int days, struct certs_pair *out);

/* The arguments of a Redis with that certificate at that port, which asks clients for one ("yes", "no",
 * "optional"). Borrowed until the next call. */
const char *const *certs_redis_args(int port, const struct certs_pair *own,
                                    const struct certs_pair *authority, const char *auth_clients);

#endif
