/*
 * What proxies say of the client behind them: version 2 of the PROXY protocol (HAProxy's proxy-protocol.txt,
 * section 2.2) at the beginning of a connection, and X-Forwarded-For in a request. Whom to believe is the
 * caller's affair.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include "base/net.h"

enum http_proxy_header {
    HTTP_PROXY_NONE,      /* the bytes begin with something else */
    HTTP_PROXY_NEED_MORE, /* it may be one, or is one that has not come to its end */
    HTTP_PROXY_READ,
    HTTP_PROXY_INVALID /* it is one, and broken or too long */
};

/* Of a whole header: the addresses, and what else the proxy has to say, which is passed over. */
enum { HTTP_PROXY_HEADER_MAX = 4096 };

/*
 * Looks for a header at the start of what a connection has sent. No request begins with its signature.
 * HTTP_PROXY_READ: *used is its length, and *client the address it tells; where it tells none (of the proxy's
 * own checks, or of what is neither TCP nor IP) *client is untouched.
 */
enum http_proxy_header http_proxy_header_read(struct span bytes, size_t *used, struct ip *client);

/*
 * Walks X-Forwarded-For from its end, where the nearest proxy writes, past those that are trusted. `from` is
 * the address that sent the request. Returns the first that is not trusted, or the last one that can be read.
 */
struct ip http_forwarded_client(struct span forwarded_for, const struct ip *from,
                                const struct ip_networks *trusted);

#endif
