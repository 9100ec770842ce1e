/* Writing text as JSON (RFC 8259): only quotation mark, reverse solidus and control characters are escaped,
 * and each ill-formed sequence becomes U+FFFD. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

/* `text` as the characters of a string, without quotation marks. */
void json_write_text(struct buf *out, struct span text);

/* `text` in quotation marks. */
static inline void json_write_string(struct buf *out, struct span text)
{
    buf_append_char(out, '"');
    json_write_text(out, text);
    buf_append_char(out, '"');
}

/*
 * Copies the longest prefix of `s` that needs no escapes, and returns its length. There must be room for
 * JSON_COPY_ROOM bytes more than `s`; the bytes written after the prefix have no meaning.
 */
enum { JSON_COPY_ROOM = 16 };
size_t json_copy_plain(struct span s, char *out);

#endif
