/* The Host header field (RFC 9110 section 7.2): uri-host [ ":" port ]. */
#ifndef HTTP_HOST_H
#define HTTP_HOST_H

#include "base/span.h"

/* True for a non-empty registered name or address, with or without a port. */
bool http_host_valid(struct span host);

#endif
