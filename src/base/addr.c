/* Listen addresses; see addr.h. */
#include "base/addr.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

enum { HOST_MAX = INET6_ADDRSTRLEN, PORT_MAX = 65535 };

static int parse_port(struct span text, in_port_t *out)
{
    int64_t port = 0;
    if (parse_int64(text, &port) != 0 || port < 0 || port > PORT_MAX)
        return -EINVAL;
    *out = htons((uint16_t)port);
    return 0;
}

static int set_v4(const char *host, in_port_t port, struct addr *out)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        return -EINVAL;
    memcpy(&out->storage, &in, sizeof in);
    return 0;
}

static int set_v6(const char *host, in_port_t port, struct addr *out)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = port};
    if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1)
        return -EINVAL;
    memcpy(&out->storage, &in, sizeof in);
    return 0;
}

int addr_parse(struct span text, struct addr *out)
{
    *out = (struct addr){0};
    size_t colon = text.len;
    while (colon > 0 && text.data[colon - 1] != ':')
        colon--;
    in_port_t port = 0;
    if (colon == 0 || parse_port(span_skip(text, colon), &port) != 0)
        return -EINVAL;
    struct span name = {text.data, colon - 1};
    out->any_family = name.len == 0;
    if (out->any_family)
        return set_v6("::", port, out);
    bool bracketed = name.len >= 2 && name.data[0] == '[' && name.data[name.len - 1] == ']';
    if (bracketed)
        name = (struct span){name.data + 1, name.len - 2};
    char host[HOST_MAX + 1];
    if (name.len > HOST_MAX)
        return -EINVAL;
    memcpy(host, name.data, name.len);
    host[name.len] = '\0';
    return bracketed ? set_v6(host, port, out) : set_v4(host, port, out);
}

struct addr addr_any_v4(unsigned port)
{
    struct addr any = {0};
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    memcpy(&any.storage, &in, sizeof in);
    return any;
}

unsigned addr_port(const struct addr *a)
{
    if (a->storage.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&a->storage)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)&a->storage)->sin_port);
}

socklen_t addr_len(const struct addr *a)
{
    return a->storage.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}
