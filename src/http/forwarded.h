/*
 * Parses what proxies report about their client: the PROXY protocol header before the first request, and
 * X-Forwarded-For.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include "base/net.h"
#include "base/span.h"

enum http_proxy_header {
    HTTP_PROXY_NONE,      /* the bytes begin with something else */
    HTTP_PROXY_NEED_MORE, /* they may be the beginning of a header, or are an incomplete one */
    HTTP_PROXY_READ,
    HTTP_PROXY_INVALID /* an invalid header, or one that is too long */
};

/* Bytes of a whole header: the addresses and the proxy's further information, which is skipped. */
enum { HTTP_PROXY_HEADER_MAX = 4096 };

/*
 * Reads a header of version 2 of the PROXY protocol (HAProxy's proxy-protocol.txt, section 2.2) at the start
 * of a connection's input. No request begins with its signature. HTTP_PROXY_READ: *used is its length, and
 * *client the client's address; *client is unchanged if the header contains no address (health checks of the
 * proxy, protocols other than TCP over IP). The caller decides which proxies to trust.
 */
enum http_proxy_header http_proxy_header_read(struct span bytes, size_t *used, struct ip *client);

/*
 * Reads X-Forwarded-For from its end, which the nearest proxy writes, past the trusted proxies. `from` is the
 * address that sent the request. Returns the first address that is not trusted, or the last one that can be
 * parsed.
 */
struct ip http_forwarded_client(struct span forwarded_for, const struct ip *from,
                                const struct ip_networks *trusted);

#endif
