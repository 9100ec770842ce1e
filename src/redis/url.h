/* Reading Redis addresses; see target.h for their forms. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "redis/endpoint.h"

/*
 * Fills what `url` says into the zeroed `t`; user and password stay NULL where it has none. Returns 0,
 * -ENOMEM, or -EINVAL with a reason in `why`; redis_endpoint_fini is due in every case.
 */
int redis_url_read(struct redis_endpoint *t, struct span url, struct buf *why)
    __attribute__((warn_unused_result));

#endif
