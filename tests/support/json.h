#ifndef TEST_SUPPORT_JSON_H
#define TEST_SUPPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* JSON documents. A path is "data.0.title": members and array positions. */

/* Asserts that both have the same values with all members in the same order. */
void json_assert_same(const char *actual, const char *expected);

/* Asserts the value at the path; `expected` is JSON too: "null", "12", "\"text\"", "{}". */
void json_assert_at(const char *document, const char *path, const char *expected);

/* The value at the path as compact JSON, owned; NULL when there is none. Fails the test for broken JSON. */
char *json_at(const char *document, const char *path);

/* The integer at the path; fails the test when there is none. */
int64_t json_integer_at(const char *document, const char *path);

/* Asserts the shape of an error: {"success": false, "error": "<some text>"} and nothing else. */
void json_assert_error(const char *document);

#endif
