/*
 * Look-ups of names, without blocking the loop.
 *
 * getaddrinfo cannot be interrupted, and its own time limits add up to minutes. So each look-up has a
 * detached thread, for which neither the loop nor the exit of the process waits. The alternatives would
 * block. hiredis calls getaddrinfo inside connect. uv_getaddrinfo keeps the loop alive until it returns, and
 * the exit joins its thread pool.
 *
 * A look-up may take longer than an attempt to connect. If the first name server of the system is down, each
 * takes 5 s by default. So it goes on when its caller gives it up (resolver_leave), and the next one for the
 * same name waits for it, or has its result. Attempts may alternate between several names.
 */
#ifndef REDIS_RESOLVER_H
#define REDIS_RESOLVER_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

enum { RESOLVE_ADDRESSES_MAX = 8, RESOLVE_ADDRESS_SIZE = INET6_ADDRSTRLEN + IF_NAMESIZE };

/* A result that nobody has waited for counts for this time, in milliseconds. */
enum { RESOLVER_KEPT_MS = 60000 };

/* Look-ups in progress: the one that is waited for, and those that go on although nobody waits for them. */
enum { RESOLVER_QUERIES_MAX = 9 };

struct resolver {
    struct resolver_query *query[RESOLVER_QUERIES_MAX]; /* or NULL */
    unsigned started;               /* the next one has the place of this number, modulo those */
    struct resolver_query *waiting; /* the one that is waited for, or NULL */
    void (*done)(void *arg, const char *error);
    void *arg;
    int count; /* addresses found */
    /* Numeric, in the system's order of preference; one of a link has its interface: fe80::1%eth0. */
    char address[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
};

/*
 * Looks `host` up, which may be a numeric address. Until then there are no addresses. `done` is called once,
 * with NULL or the text of an error: before this returns, or later from the loop. It is not called after
 * resolver_leave or resolver_cancel. One look-up at a time.
 */
void resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                    void (*done)(void *arg, const char *error), void *arg);

/* Whether the text is a numeric address. */
bool resolver_is_numeric(const char *host);

/* The caller does not wait any longer, if it did. The look-up goes on until RESOLVER_QUERIES_MAX later ones
 * have begun. */
static inline void resolver_leave(struct resolver *r)
{
    r->waiting = NULL;
}

/*
 * Cancels the look-ups, if there are any. `done` is not called, and the resolver may be freed. The threads
 * run until getaddrinfo returns.
 */
void resolver_cancel(struct resolver *r);

#endif
