/* IP addresses, networks, and the addresses of listeners. An IPv4 address is kept as its IPv4-mapped IPv6
 * address (RFC 4291 section 2.5.5.2), so that a listener for both families and one for IPv4 see the same
 * clients. */
#ifndef BASE_NET_H
#define BASE_NET_H

#include "base/span.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { IP_LEN = 16, IP_TEXT_MAX = 46, IP_NETWORKS_MAX = 64, ADDR_TEXT_MAX = IP_TEXT_MAX + 8 };

struct ip {
    uint8_t bytes[IP_LEN];
};

struct ip_network {
    struct ip address;
    uint8_t bits; /* length of the prefix */
};

struct ip_networks {
    unsigned count;
    struct ip_network network[IP_NETWORKS_MAX];
};

/* `bytes` in network order. */
struct ip ip_from_v4(const uint8_t bytes[4]);

struct ip ip_from_sockaddr(const struct sockaddr_storage *address);

/* Parses 192.0.2.1 or 2001:db8::1, without brackets, port or zone. Returns 0, or -EINVAL with *out
 * untouched. */
int ip_parse(struct span text, struct ip *out) __attribute__((warn_unused_result));

/* Writes the address and a NUL, IPv4 in dotted decimal; returns the length. */
size_t ip_write(const struct ip *ip, char out[IP_TEXT_MAX]);

/*
 * Parses networks separated by commas, such as 10.0.0.0/8 or 2001:db8::/32; an address without a length is a
 * network of one address. Returns NULL, or what is wrong with *which.
 */
const char *ip_networks_parse(struct span text, struct ip_networks *out, struct span *which)
    __attribute__((warn_unused_result));

bool ip_networks_contain(const struct ip_networks *networks, const struct ip *ip);

/*
 * Addresses to listen on:
 *
 *     127.0.0.1:8080, [::1]:8080   one address
 *     0.0.0.0:8080                 every IPv4 address
 *     [::]:8080                    every IPv6 and IPv4 address
 *     :8080                        the same, and IPv4 alone where there is no IPv6
 */
struct addr {
    struct ip ip; /* the family is IPv4 if it is an IPv4 address */
    uint16_t port;
    bool any_family; /* ":8080": [::], or 0.0.0.0 without IPv6 */
};

/* Numeric hosts only: a listener must not depend on name resolution. Returns 0 or -EINVAL. */
int addr_parse(struct span text, struct addr *out) __attribute__((warn_unused_result));

/* Writes the address for bind(2) and connect(2); returns its length. */
socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out);

/* The address of a socket of IPv4 or IPv6. */
struct addr addr_local(int fd);

void addr_write(const struct addr *a, char out[ADDR_TEXT_MAX]);

/* The same port of every IPv4 address. */
struct addr addr_any_v4(const struct addr *a);

#endif
