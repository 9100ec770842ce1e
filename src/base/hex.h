/* Bytes as lower-case hexadecimal digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include "base/span.h"

/* Writes the 2 * n digits of `bytes`, without a NUL. */
void hex_write(const unsigned char *bytes, size_t n, char *out);

/* True when there is nothing but such digits. */
bool hex_valid(struct span text);

#endif
