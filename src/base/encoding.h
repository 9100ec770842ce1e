/*
 * Encodings of bytes in text: hexadecimal digits, percent-encoding and query strings (RFC 3986 sections 2.1
 * and 3.4), UTF-8 (the Unicode standard, table 3-7: no overlong forms, no surrogates).
 */
#ifndef BASE_ENCODING_H
#define BASE_ENCODING_H

#include "base/span.h"

/* Writes the 2 * n digits of `bytes`, without a NUL. */
void hex_write(const unsigned char *bytes, size_t n, char *out);

/* True when there is nothing but such digits. */
bool hex_valid(struct span text);

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

/*
 * Looks at the start of `s` (at least one byte). Returns the length of the valid character there (1 to 4), or
 * minus the length of the bad sequence: the longest start of a character that is well formed so far, at least
 * one byte. Replacing each bad sequence by one U+FFFD is what browsers and Python do too.
 */
int utf8_step(struct span s);

/* True when all of `s` is valid. */
bool utf8_valid(struct span s);

#endif
