/* Names to addresses without blocking the loop: hiredis would call getaddrinfo inside connect. */
#ifndef STORE_RESOLVE_H
#define STORE_RESOLVE_H

#include "base/span.h"

#include <netinet/in.h>
#include <uv.h>

enum { RESOLVE_ADDRESSES_MAX = 8 };

struct resolver {
    uv_getaddrinfo_t request;
    bool busy;
    void (*done)(void *arg, int err);
    void *arg;
    int count;                                             /* addresses found */
    char address[RESOLVE_ADDRESSES_MAX][INET6_ADDRSTRLEN]; /* numeric, in the system's order of preference */
};

/* Takes `host` as it is when it is a numeric address already: nothing to look up. False when it is a name. */
bool resolver_take_numeric(struct resolver *r, const char *host);

/*
 * Looks `host` up; `done` is called once from the loop, with 0 or a negative uv error (UV_EAI_CANCELED after
 * resolver_cancel), and not at all when this returns an error. The resolver must not be freed while busy.
 */
int resolver_start(struct resolver *r, uv_loop_t *loop, const char *host, void (*done)(void *arg, int err),
                   void *arg) __attribute__((warn_unused_result));

/* Asks for an early end; `done` is still called. */
void resolver_cancel(struct resolver *r);

#endif
