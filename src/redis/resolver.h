/*
 * Look-ups of names, without blocking the loop.
 *
 * getaddrinfo cannot be interrupted, and its own time limits add up to minutes. So each look-up has a
 * detached thread, for which neither the loop nor the exit of the process waits. The alternatives would
 * block. hiredis calls getaddrinfo inside connect. uv_getaddrinfo keeps the loop alive until it returns, and
 * the exit joins its thread pool.
 */
#ifndef REDIS_RESOLVER_H
#define REDIS_RESOLVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct resolver {
    struct resolver_query *query;                          /* in progress, or NULL */
    int count;                                             /* addresses found */
    char address[RESOLVE_ADDRESSES_MAX][INET6_ADDRSTRLEN]; /* numeric, in the system's order of preference */
};

/* Takes a numeric address, which needs no look-up. False when `host` is a name. */
bool resolver_take_numeric(struct resolver *r, const char *host);

/*
 * Looks `host` up. `done` is called once from the loop, with NULL or the text of an error. It is not called
 * if this returns a negative errno, or after resolver_cancel. The resolver must not be busy.
 */
int resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                   void (*done)(void *arg, const char *error), void *arg) __attribute__((warn_unused_result));

static inline bool resolver_busy(const struct resolver *r)
{
    return r->query != NULL;
}

/*
 * Cancels the look-up, if there is one. `done` is not called, and the resolver may be freed. The thread runs
 * until getaddrinfo returns.
 */
void resolver_cancel(struct resolver *r);

#endif
