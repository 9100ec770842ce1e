#ifndef TEST_SUPPORT_TEXT_H
#define TEST_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Small helpers for text. Everything returned is owned by the caller (free); out of memory aborts. */

/*
 * AUTO(http_close) struct http_conn conn: the function is called with its address when its scope is left, the
 * latest declaration first. It is not called when an assertion fails, as a jump leaves the test then.
 * AUTOFREE char *path = text_printf(...): the same with free().
 */
#define AUTO(end) __attribute__((cleanup(end)))
#define AUTOFREE  AUTO(text_free)

/* For AUTOFREE alone: frees *text, a pointer to characters. */
void text_free(void *text);

/* sprintf into fresh memory. */
char *text_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for use within an expression: borrowed, freed when the program ends. Any thread. */
const char *text_temp(const char *format, ...) __attribute__((format(printf, 1, 2)));

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
