#ifndef TEST_SUPPORT_TEXT_H
#define TEST_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Small helpers for text. Everything returned is owned by the caller (free); out of memory aborts. */

/* sprintf into fresh memory. */
char *text_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* n times c, NUL-terminated. */
char *text_repeat(char c, size_t n);

/* The text again and again, up to `size` bytes. */
char *text_fill(const char *text, size_t size);

/* a followed by b; frees a. */
char *text_append(char *a, const char *b);

/* The whole file as text, "" when it cannot be read. */
char *text_read_file(const char *path);

/* Writes the text to the file; false when that fails. */
bool text_write_file(const char *path, const char *text);

/* Every byte but [A-Za-z0-9-._~] as %XX. */
char *text_percent_encode(const char *text);

/* How often needle occurs in text, without overlaps. */
size_t text_count(const char *text, const char *needle);

#endif
