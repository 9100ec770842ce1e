/* IP addresses, networks and listen addresses; see net.h. */
#include "base/net.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { V4_LEN = 4, V4_OFFSET = IP_LEN - V4_LEN, V4_OFFSET_BITS = 8 * V4_OFFSET, IP_BITS = 8 * IP_LEN };

static const uint8_t V4_PREFIX[V4_OFFSET] = {[10] = 0xFF, [11] = 0xFF};

struct ip ip_from_v4(const uint8_t bytes[4])
{
    struct ip ip;
    memcpy(ip.bytes, V4_PREFIX, sizeof V4_PREFIX);
    memcpy(ip.bytes + V4_OFFSET, bytes, V4_LEN);
    return ip;
}

struct ip ip_from_sockaddr(const struct sockaddr_storage *address)
{
    const void *storage = address;
    struct ip v6;
    assert(address->ss_family == AF_INET || address->ss_family == AF_INET6);
    if (address->ss_family == AF_INET)
        return ip_from_v4((const uint8_t *)&((const struct sockaddr_in *)storage)->sin_addr);
    memcpy(v6.bytes, &((const struct sockaddr_in6 *)storage)->sin6_addr, IP_LEN);
    return v6;
}

static bool net_is_v4(const struct ip *ip)
{
    return memcmp(ip->bytes, V4_PREFIX, sizeof V4_PREFIX) == 0;
}

/* IPv4 is parsed in its IPv4-mapped form. */
int ip_parse(struct span text, struct ip *out)
{
    enum { MAPPED_LEN = sizeof "::ffff:" - 1 };
    char copy[MAPPED_LEN + IP_TEXT_MAX] = "::ffff:";
    struct ip ip;
    bool v4 = span_find(text, ':') == text.len && span_find(text, '.') < text.len;
    if (text.len >= IP_TEXT_MAX || span_find(text, '\0') < text.len)
        return -EINVAL;
    *span_put(text, copy + MAPPED_LEN) = '\0';
    if (inet_pton(AF_INET6, v4 ? copy : copy + MAPPED_LEN, ip.bytes) != 1)
        return -EINVAL;
    *out = ip;
    return 0;
}

size_t ip_write(const struct ip *ip, char out[IP_TEXT_MAX])
{
    bool v4 = net_is_v4(ip);
    const void *bytes = v4 ? ip->bytes + V4_OFFSET : ip->bytes;
    (void)inet_ntop(v4 ? AF_INET : AF_INET6, bytes, out, IP_TEXT_MAX); /* there is room */
    return strlen(out);
}

static struct ip net_first_bits(const struct ip *ip, unsigned bits)
{
    struct ip first = {{0}};
    memcpy(first.bytes, ip->bytes, bits / 8);
    if (bits % 8 != 0)
        first.bytes[bits / 8] = (uint8_t)(ip->bytes[bits / 8] & 0xFF00 >> bits % 8);
    return first;
}

static bool net_contains(const struct ip_network *n, const struct ip *ip)
{
    const struct ip first = net_first_bits(ip, n->bits);
    return memcmp(&first, &n->address, sizeof first) == 0;
}

static const char *net_parse_network(struct span text, struct ip_network *out)
{
    size_t slash = span_find(text, '/');
    struct span address = {text.data, slash};
    if (ip_parse(address, &out->address) != 0)
        return "an IP address or network is expected";
    bool v4 = span_find(address, ':') == address.len;
    int64_t most = v4 ? 8 * V4_LEN : IP_BITS;
    int64_t bits = most;
    if (slash < text.len && (parse_int64(span_skip(text, slash + 1), &bits) != 0 || bits < 0 || bits > most))
        return "the length of a network is 0 to 32 for IPv4 and 0 to 128 for IPv6";
    out->bits = (uint8_t)(bits + (v4 ? V4_OFFSET_BITS : 0));
    return net_contains(out, &out->address) ? NULL : "a network has no bits after its length";
}

const char *ip_networks_parse(struct span text, struct ip_networks *out, struct span *which)
{
    out->count = 0;
    for (struct span list = text.len > 0 ? text : SPAN_ABSENT; list.data != NULL;) {
        *which = span_trim(span_cut(&list, ','));
        if (out->count == IP_NETWORKS_MAX)
            return "at most 64 networks are accepted";
        const char *error = net_parse_network(*which, &out->network[out->count]);
        if (error != NULL)
            return error;
        out->count++;
    }
    return NULL;
}

bool ip_networks_contain(const struct ip_networks *networks, const struct ip *ip)
{
    for (unsigned i = 0; i < networks->count; i++)
        if (net_contains(&networks->network[i], ip))
            return true;
    return false;
}

/* --- listen addresses --- */

int addr_parse(struct span text, struct addr *out)
{
    struct ip ip = {{0}}; /* [::] */
    struct authority a;
    int64_t port = 0;
    if (!authority_split(text, &a) || parse_int64(a.port, &port) != 0 || port < 0 || port > UINT16_MAX)
        return -EINVAL;
    bool any = a.host.len == 0 && !a.bracketed;
    bool v6 = span_find(a.host, ':') < a.host.len;
    if (!any && (v6 != a.bracketed || ip_parse(a.host, &ip) != 0))
        return -EINVAL;
    *out = (struct addr){ip, (uint16_t)port, any};
    return 0;
}

socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (void *)out;
    struct sockaddr_in6 *v6 = (void *)out;
    *out = (struct sockaddr_storage){.ss_family = net_is_v4(&a->ip) ? AF_INET : AF_INET6};
    if (net_is_v4(&a->ip)) {
        v4->sin_port = htons(a->port);
        memcpy(&v4->sin_addr, a->ip.bytes + V4_OFFSET, V4_LEN);
        return sizeof *v4;
    }
    v6->sin6_port = htons(a->port);
    memcpy(&v6->sin6_addr, a->ip.bytes, IP_LEN);
    return sizeof *v6;
}

struct addr addr_any_v4(const struct addr *a)
{
    return (struct addr){.ip = ip_from_v4((const uint8_t[V4_LEN]){0}), .port = a->port};
}

struct addr addr_local(int fd)
{
    struct sockaddr_storage local = {.ss_family = AF_INET6};
    socklen_t len = sizeof local;
    in_port_t port = 0;
    (void)getsockname(fd, (struct sockaddr *)&local, &len);
    memcpy(&port, (char *)&local + offsetof(struct sockaddr_in, sin_port),
           sizeof port); /* of both families */
    return (struct addr){.ip = ip_from_sockaddr(&local), .port = ntohs(port)};
}

void addr_write(const struct addr *a, char out[ADDR_TEXT_MAX])
{
    char host[IP_TEXT_MAX];
    int n = a->any_family ? 0 : (int)ip_write(&a->ip, host);
    bool bracketed = !a->any_family && !net_is_v4(&a->ip);
    (void)snprintf(out, ADDR_TEXT_MAX, bracketed ? "[%.*s]:%u" : "%.*s:%u", n, host, a->port);
}
