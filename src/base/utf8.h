/* UTF-8 as the Unicode standard defines it (chapter 3, table 3-7): no overlong forms, no surrogates. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/span.h"

/*
 * Looks at the start of `s` (at least one byte). Returns the length of the valid character there (1 to 4), or
 * minus the length of the bad sequence: the longest start of a character that is well formed so far, at least
 * one byte. Replacing each bad sequence by one U+FFFD is what browsers and Python do too.
 */
int utf8_step(struct span s);

/* True when all of `s` is valid. */
bool utf8_valid(struct span s);

#endif
