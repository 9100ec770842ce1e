/*
 * What a connection to Redis is made with: an endpoint and its TLS settings, read and checked together.
 *
 * Immutable and counted, so that threads can share one while the settings are read again into the next. Each
 * that is put into force has a number of its own, which tells whether a connection uses it.
 */
#ifndef REDIS_CONFIG_H
#define REDIS_CONFIG_H

#include "redis/endpoint.h"

#include <assert.h>
#include <stdatomic.h>

struct ssl_ctx_st;

/* Private to config.c and the functions below. */
struct redis_config {
    atomic_int references;
    uint64_t number;
    struct redis_endpoint endpoint;
    struct ssl_ctx_st *tls;
};

/*
 * Takes `endpoint`, in every case, and reads the certificates that `options` names. One reference, for the
 * caller. Returns 0, -ENOMEM, or -EINVAL with a message in `error` that names the setting, and holds no
 * secret.
 */
int redis_config_new(struct redis_endpoint *endpoint, const struct redis_options *options, uint64_t number,
                     struct redis_config **out, struct buf *error) __attribute__((warn_unused_result));

/* From any thread; `c` itself is returned. */
static inline struct redis_config *redis_config_ref(struct redis_config *c)
{
    int before = atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return c;
}

/* From any thread; NULL is allowed. The last one erases the passwords. */
void redis_config_unref(struct redis_config *c);

/* Borrowed while there is a reference. */
static inline const struct redis_endpoint *redis_config_endpoint(const struct redis_config *c)
{
    return &c->endpoint;
}

/* The same; NULL without TLS. */
static inline struct ssl_ctx_st *redis_config_tls(const struct redis_config *c)
{
    return c->tls;
}

static inline uint64_t redis_config_number(const struct redis_config *c)
{
    return c->number;
}

#endif
