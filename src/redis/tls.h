/*
 * TLS: the certificates of the settings, and sessions on connections of hiredis.
 *
 * hiredis checks a certificate's chain but not its host name. So this module makes the session, with the host
 * name to be checked, and passes it to hiredis. OpenSSL's error queue belongs to the thread. An error that
 * stays in it would be taken for an error of the next connection. So redis_tls_explain empties the queue, and
 * the other functions do so at their start.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "redis/endpoint.h"

struct redisContext; /* hiredis' type */

/*
 * Reads the certificates that `options` names. *out is owned (SSL_CTX_free). Returns 0, -ENOMEM, or
 * -EINVAL. Then `why` has a reason, and *setting the name of the setting concerned.
 */
int redis_tls_new(const struct redis_options *options, struct ssl_ctx_st **out, struct buf *why,
                  const char **setting) __attribute__((warn_unused_result));

/* Starts TLS; uses the context's privdata. Returns 0 or -EPROTO: see redis_tls_explain. */
int redis_tls_start(struct redisContext *c, struct ssl_ctx_st *tls, const char *host)
    __attribute__((warn_unused_result));

/* True when the last read or write found too little input and waits for more. */
bool redis_tls_wants_read(const struct redisContext *c);

/*
 * To be called when starting, reading or writing has failed. c->errstr becomes OpenSSL's reason, which
 * hiredis does not query. Returns true if one side has rejected the other, for example its certificate.
 */
bool redis_tls_explain(struct redisContext *c);

#endif
