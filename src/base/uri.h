/* Percent-encoding and query strings (RFC 3986 sections 2.1 and 3.4). */
#ifndef BASE_URI_H
#define BASE_URI_H

#include "base/span.h"

/*
 * Decodes each %XX once into `out`, which takes `in.len` bytes and may be where `in` is. A plus sign stays a
 * plus sign; a percent sign that two hexadecimal digits do not follow stays itself. Returns the decoded
 * length.
 */
size_t uri_decode(struct span in, char *out);

/* True when every percent sign of `s` is followed by two hexadecimal digits. */
bool uri_escapes_valid(struct span s);

/*
 * The value of the first parameter called `name` in a query string (`a=1&b=2`, without the question mark),
 * still encoded and borrowed from `query`; names are compared after decoding. A parameter without `=` has an
 * empty value; when there is none of that name, the span is absent.
 */
struct span uri_query_find(struct span query, struct span name);

#endif
