/*
 * Writing JSON values (RFC 8259) into a buffer.
 *
 * Text is written as UTF-8: only quotation mark, reverse solidus and control characters are escaped, and each
 * byte sequence that is not UTF-8 becomes U+FFFD. So whatever bytes come in, valid JSON goes out.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

/* `text` in quotation marks. */
void json_write_string(struct buf *out, struct span text);

/* True when the text is its own JSON but for the quotation marks. */
bool json_is_plain(struct span text);

/* The characters of a JSON string without the quotation marks. */
void json_write_escaped(struct buf *out, struct span text);

#endif
