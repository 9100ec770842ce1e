/*
 * Parses what proxies report about their client: the PROXY protocol header before the first request, and
 * X-Forwarded-For.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include "base/net.h"
#include "base/span.h"

/* Bytes of a whole header: the addresses and the proxy's further information, which is skipped. */
enum { HTTP_PROXY_HEADER_MAX = 4096 };

/*
 * Reads a header of version 2 of the PROXY protocol (HAProxy's proxy-protocol.txt, section 2.2) at the start
 * of a connection's input. No request begins with its signature. Returns the length of the header, 0 if the
 * input begins with something else, -EAGAIN if the header is incomplete, or -EINVAL if it is invalid or too
 * long. *client becomes the client's address, unless the header contains none (health checks of the proxy,
 * protocols other than TCP over IP). The caller decides which proxies to trust.
 */
int http_proxy_header_read(struct span bytes, struct ip *client);

/*
 * Reads X-Forwarded-For from its end, which the nearest proxy writes, past the trusted proxies. `from` is the
 * address that sent the request. Returns the first address that is not trusted, or the last one that can be
 * parsed.
 */
struct ip http_forwarded_client(struct span forwarded_for, const struct ip *from,
                                const struct ip_networks *trusted);

#endif
