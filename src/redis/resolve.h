/*
 * Names to addresses without blocking the loop: hiredis would call getaddrinfo inside connect.
 *
 * getaddrinfo cannot be interrupted, and its own time limits add up to minutes. So each look-up has a
 * detached thread, which the end of the resolver, the loop and the process do not wait for; libuv would keep
 * the loop alive until a thread of its pool is back, and join the pool when the process exits.
 */
#ifndef REDIS_RESOLVE_H
#define REDIS_RESOLVE_H

#include "base/span.h"

#include <netinet/in.h>
#include <uv.h>

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct resolver {
    struct resolver_query *query;                          /* under way, or NULL */
    int count;                                             /* addresses found */
    char address[RESOLVE_ADDRESSES_MAX][INET6_ADDRSTRLEN]; /* numeric, in the system's order of preference */
};

/* Takes `host` when it is a numeric address already: nothing to look up. False when it is a name. */
bool resolver_take_numeric(struct resolver *r, const char *host);

/*
 * Looks `host` up; `done` is called once from the loop, with NULL or the text of an error, and not at all
 * when this returns a negative errno or resolver_cancel was called. Only while the resolver is not busy.
 */
int resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                   void (*done)(void *arg, const char *error), void *arg) __attribute__((warn_unused_result));

static inline bool resolver_busy(const struct resolver *r)
{
    return r->query != NULL;
}

/* True when both have found the same address. */
bool resolver_meets(const struct resolver *a, const struct resolver *b);

/* Abandons the look-up, if one is under way: `done` is not called, and the resolver may be freed. Its thread
 * lasts until getaddrinfo returns. */
void resolver_cancel(struct resolver *r);

#endif
