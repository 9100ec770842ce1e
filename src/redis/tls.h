/*
 * TLS to Redis: hiredis checks a certificate's chain but not its host name, so the session is made here, with
 * the host name to be checked, and handed to hiredis.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "redis/endpoint.h"

#include <hiredis/hiredis.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/*
 * The TLS settings of an endpoint, to be shared by its connections. Owned by the caller (redis_tls_free).
 * Returns 0, -ENOMEM, or -EINVAL with a message in `error`. For an endpoint without TLS *out is NULL.
 */
int redis_tls_new(const struct redis_endpoint *t, const struct redis_options *options,
                  struct ssl_ctx_st **out, struct buf *error) __attribute__((warn_unused_result));

void redis_tls_free(struct ssl_ctx_st *tls);

/*
 * Starts TLS on a connection that is open, blocking or not; takes the context's privdata. Returns 0 or
 * -EPROTO with the reason in c->errstr. `host` is copied.
 */
int redis_tls_start(redisContext *c, struct ssl_ctx_st *tls, const char *host)
    __attribute__((warn_unused_result));

/* True when the last write, on a connection with TLS, has to be repeated when there is input, not before. */
bool redis_tls_wants_read(const redisContext *c);

/*
 * To be called when reading or writing has failed on a connection with TLS: c->errstr becomes OpenSSL's
 * reason, which hiredis does not ask for. It also clears OpenSSL's error queue, which belongs to the thread:
 * the next connection to find an error there would take it for its own.
 */
void redis_tls_explain(redisContext *c);

#endif
