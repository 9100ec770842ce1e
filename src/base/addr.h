/*
 * Addresses to listen on:
 *
 *     127.0.0.1:8080, [::1]:8080   one address
 *     0.0.0.0:8080                 every address of IPv4
 *     [::]:8080                    every address of IPv6 and of IPv4
 *     :8080                        the same, and of IPv4 alone where there is no IPv6
 */
#ifndef BASE_ADDR_H
#define BASE_ADDR_H

#include "base/span.h"

#include <sys/socket.h>

struct addr {
    struct sockaddr_storage storage;
    bool any_family; /* ":8080": [::], or else 0.0.0.0 */
};

/* Numeric hosts only: a listener must not depend on a name service. Returns 0 or -EINVAL. */
int addr_parse(struct span text, struct addr *out) __attribute__((warn_unused_result));

/* The port, 0 to 65535, in host order. */
unsigned addr_port(const struct addr *a);

/* Every address of IPv4. */
struct addr addr_any_v4(unsigned port);

/* The length that belongs to the family. */
socklen_t addr_len(const struct addr *a);

static inline const struct sockaddr *addr_sockaddr(const struct addr *a)
{
    return (const struct sockaddr *)&a->storage;
}

#endif
