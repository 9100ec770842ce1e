/*
 * Writing JSON values (RFC 8259) into a buffer.
 *
 * Text is written as UTF-8: only quotation mark, reverse solidus and control characters are escaped, and each
 * ill-formed sequence becomes U+FFFD. The output is valid JSON for any input.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

/* `text` in quotation marks. */
void json_write_string(struct buf *out, struct span text);

/* True when the text needs no escapes. */
bool json_is_plain(struct span text);

#endif
