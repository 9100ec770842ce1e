/* The settings of a connection, counted; see config.h. */
#include "redis/config.h"

#include <errno.h>
#include <stdlib.h>

int redis_config_new(struct redis_endpoint *endpoint, const struct redis_options *options, uint64_t number,
                     struct redis_config **out, struct buf *error)
{
    struct redis_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        redis_endpoint_fini(endpoint);
        return -ENOMEM;
    }
    atomic_init(&c->references, 1);
    c->number = number;
    c->endpoint = *endpoint;
    *endpoint = (struct redis_endpoint){0};
    int err = redis_tls_new(&c->endpoint, options, &c->tls, error);
    if (err != 0) {
        redis_config_unref(c);
        return err;
    }
    *out = c;
    return 0;
}

void redis_config_unref(struct redis_config *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1)
        return;
    redis_tls_free(c->tls);
    redis_endpoint_fini(&c->endpoint);
    free(c);
}
