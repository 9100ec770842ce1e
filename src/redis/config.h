/*
 * What a connection to Redis is made with: an endpoint and its TLS settings, read and checked together.
 *
 * Immutable and counted, so that threads can share one while the settings are read again into the next. Each
 * that is put into force has a number of its own, which tells whether a connection uses it.
 */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "redis/endpoint.h"

struct redis_config;
struct ssl_ctx_st;

/*
 * Takes `endpoint`, in every case, and reads the certificates that `options` names. One reference, for the
 * caller. Returns 0, -ENOMEM, or -EINVAL with a message in `error` that names the setting, and holds no
 * secret.
 */
int redis_config_new(struct redis_endpoint *endpoint, const struct redis_options *options, uint64_t number,
                     struct redis_config **out, struct buf *error) __attribute__((warn_unused_result));

/* From any thread; `c` itself is returned. */
struct redis_config *redis_config_ref(struct redis_config *c);

/* From any thread; NULL is allowed. The last one erases the passwords. */
void redis_config_unref(struct redis_config *c);

/* Borrowed while there is a reference; the second is NULL without TLS. */
const struct redis_endpoint *redis_config_endpoint(const struct redis_config *c);
struct ssl_ctx_st *redis_config_tls(const struct redis_config *c);

uint64_t redis_config_number(const struct redis_config *c);

#endif
