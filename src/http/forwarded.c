/* The client behind proxies; see forwarded.h. */
#include "http/forwarded.h"

#include "base/text.h"

#include <errno.h>

/* --- the PROXY protocol --- */

static const char SIGNATURE[] = "\r\n\r\n\0\r\nQUIT\n";

enum {
    SIGNATURE_LEN = sizeof SIGNATURE - 1,
    FIXED_LEN = SIGNATURE_LEN + 4, /* version, family, and the length of the rest */
    VERSION_LOCAL = 0x20,
    VERSION_PROXY = 0x21,
    FAMILY_TCP4 = 0x11,
    FAMILY_TCP6 = 0x21,
    TCP4_LEN = 12, /* two addresses and two ports */
    TCP6_LEN = 36
};

/* The source address comes first. */
static bool forwarded_read_address(unsigned char family, struct span addresses, struct ip *client)
{
    if (family == FAMILY_TCP4 && addresses.len >= TCP4_LEN)
        *client = ip_from_v4((const uint8_t *)addresses.data);
    else if (family == FAMILY_TCP6 && addresses.len >= TCP6_LEN)
        memcpy(client->bytes, addresses.data, IP_LEN);
    else
        return family != FAMILY_TCP4 && family != FAMILY_TCP6;
    return true;
}

int http_proxy_header_read(struct span bytes, struct ip *client)
{
    size_t known = bytes.len < SIGNATURE_LEN ? bytes.len : SIGNATURE_LEN;
    if (memcmp(bytes.data, SIGNATURE, known) != 0)
        return 0;
    if (bytes.len < FIXED_LEN)
        return -EAGAIN;
    const unsigned char *at = (const unsigned char *)bytes.data + SIGNATURE_LEN;
    size_t len = FIXED_LEN + ((size_t)at[2] << 8 | at[3]);
    bool is_proxy = at[0] == VERSION_PROXY;
    if (len > HTTP_PROXY_HEADER_MAX || (!is_proxy && at[0] != VERSION_LOCAL))
        return -EINVAL;
    if (bytes.len < len)
        return -EAGAIN;
    if (is_proxy &&
        !forwarded_read_address(at[1], (struct span){bytes.data + FIXED_LEN, len - FIXED_LEN}, client))
        return -EINVAL;
    return (int)len;
}

/* --- X-Forwarded-For --- */

/* Parses an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or
 * [2001:db8::1]:80. */
static int forwarded_parse_node(struct span node, struct ip *out)
{
    struct authority a;
    if (!authority_split(node, &a))
        return -EINVAL;
    bool is_v6 = !a.bracketed && span_find(a.port, ':') < a.port.len; /* so it has no port */
    return ip_parse(is_v6 ? node : a.host, out);
}

/* Removes the last element of the list and returns it without the white space around it. */
static struct span forwarded_pop_last(struct span *list)
{
    size_t at = list->len;
    while (at > 0 && list->data[at - 1] != ',')
        at--;
    struct span last = span_trim(span_skip(*list, at));
    list->len = at > 0 ? at - 1 : 0;
    return last;
}

struct ip http_forwarded_client(struct span forwarded_for, const struct ip *from,
                                const struct ip_networks *trusted)
{
    struct ip client = *from;
    while (forwarded_for.len > 0 && ip_networks_contain(trusted, &client))
        if (forwarded_parse_node(forwarded_pop_last(&forwarded_for), &client) != 0)
            break;
    return client;
}
