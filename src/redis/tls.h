/*
 * TLS: the certificates of the settings, and sessions on connections of hiredis.
 *
 * hiredis checks a certificate's chain but not its host name, so the session is made here, with the host name
 * to be checked, and handed to hiredis. OpenSSL's error queue belongs to the thread, and an error that is
 * left there would be taken for that of the next connection: redis_tls_explain empties it, the others do so
 * first.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "redis/endpoint.h"

struct redisContext; /* hiredis' */

/*
 * Reads the certificates that `options` names. *out is owned (redis_tls_free). Returns 0, -ENOMEM, or -EINVAL
 * with a reason in `why` and in *setting the name of the setting that it is about.
 */
int redis_tls_new(const struct redis_options *options, struct ssl_ctx_st **out, struct buf *why,
                  const char **setting) __attribute__((warn_unused_result));

/* NULL is allowed. */
void redis_tls_free(struct ssl_ctx_st *tls);

/*
 * Starts TLS on a connection that is open, blocking or not; takes the context's privdata. Returns 0, or with
 * the reason in c->errstr -EACCES, where one side has rejected the other, or -EPROTO. `host` is copied.
 */
int redis_tls_start(struct redisContext *c, struct ssl_ctx_st *tls, const char *host)
    __attribute__((warn_unused_result));

/* True when the last read or write, on a connection with TLS, found too little input: it waits for more. */
bool redis_tls_wants_read(const struct redisContext *c);

/* True when TLS holds decrypted input that was not read, on a connection with TLS: no poll tells of it. */
bool redis_tls_has_decrypted(const struct redisContext *c);

/*
 * To be called when reading or writing has failed on a connection with TLS: c->errstr becomes OpenSSL's
 * reason, which hiredis does not ask for. Returns true where one side has
 * rejected the other, its certificate for instance, and false where the connection was lost.
 */
bool redis_tls_explain(struct redisContext *c);

#endif
