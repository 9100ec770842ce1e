/*
 * Look-ups of names, without blocking the loop. Each has a detached thread, for which neither the loop nor
 * the exit of the process waits, as they do for uv_getaddrinfo.
 */
#ifndef REDIS_RESOLVER_H
#define REDIS_RESOLVER_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

enum { RESOLVE_ADDRESSES_MAX = 8, RESOLVE_ADDRESS_SIZE = INET6_ADDRSTRLEN + IF_NAMESIZE };

struct resolver_result {
    const char *error; /* why there are no addresses, or NULL */
    int count;
    /* Numeric, in the system's order of preference; one of a link has its interface: fe80::1%eth0. */
    char address[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
};

/* All zero at first. */
struct resolver {
    struct resolver_query *query;  /* the look-up in progress, or NULL */
    struct resolver_result result; /* of the last one that has ended */
    void (*done)(void *arg, const char *error);
    void *arg;
};

/*
 * Looks `host` up, which may be a numeric address. `done` is called once, with NULL or the text of an error:
 * before this returns, or later from the loop. One look-up at a time.
 */
void resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                    void (*done)(void *arg, const char *error), void *arg);

/* Whether this numeric address is one of the result. */
bool resolver_has_address(const struct resolver_result *r, const char *address);

/* Cancels the look-up, if there is one: `done` is not called, and the resolver may be freed. */
void resolver_cancel(struct resolver *r);

#endif
