/*
 * Encodings of bytes in text: hexadecimal digits, percent-encoding and query strings (RFC 3986 sections 2.1
 * and 3.4), UTF-8 (the Unicode standard, table 3-7: no overlong forms, no surrogates).
 */
#ifndef BASE_ENCODING_H
#define BASE_ENCODING_H

#include "base/span.h"

/* Writes the 2 * n digits of `bytes`, without a NUL. */
void hex_write(const unsigned char *bytes, size_t n, char *out);

/* True when `text` has only lower-case hexadecimal digits. */
bool hex_valid(struct span text);

/*
 * Decodes each %XX once into `out`, which has room for `in.len` bytes and may be the memory of `in`. Plus
 * signs, and percent signs without two hexadecimal digits behind them, are copied. Returns the decoded
 * length.
 */
size_t uri_decode(struct span in, char *out);

/* True when every percent sign of `s` is followed by two hexadecimal digits. */
bool uri_escapes_valid(struct span s);

/*
 * The value of the first parameter called `name` in a query string (`a=1&b=2`, without the question mark),
 * still encoded and borrowed from `query`; names are compared after decoding. A parameter without `=` has an
 * empty value; the span is absent when no parameter has that name.
 */
struct span uri_query_find(struct span query, struct span name);

/*
 * Returns the length of the valid character at the start of `s` (at least one byte), 1 to 4, or minus the
 * length of the ill-formed sequence there: the longest prefix of a character, at least one byte. Browsers and
 * Python replace the same sequences by one U+FFFD each.
 */
int utf8_step(struct span s);

/* True when all of `s` is valid. */
bool utf8_valid(struct span s);

#endif
