/* Conditional requests (RFC 9110 section 13.1.2). */
#ifndef HTTP_ETAG_H
#define HTTP_ETAG_H

#include "base/span.h"

/* True when If-None-Match (a list, or "*") names `etag` by weak comparison: then the answer is 304. */
bool http_etag_listed(struct span if_none_match, struct span etag);

#endif
