/* Addresses to listen on: "127.0.0.1:8080", "[::1]:8080", ":8080" (every address, both families). */
#ifndef BASE_ADDR_H
#define BASE_ADDR_H

#include "base/span.h"

#include <sys/socket.h>

struct addr {
    struct sockaddr_storage storage;
};

/* Numeric hosts only: a listener must not depend on a name service. Returns 0 or -EINVAL. */
int addr_parse(struct span text, struct addr *out) __attribute__((warn_unused_result));

/* The port, 0 to 65535, in host order. */
unsigned addr_port(const struct addr *a);

/* The length that belongs to the family. */
socklen_t addr_len(const struct addr *a);

static inline const struct sockaddr *addr_sockaddr(const struct addr *a)
{
    return (const struct sockaddr *)&a->storage;
}

#endif
