/* Comparisons of JSON by their compact form: it keeps the order of members. */

#include "support/json.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "support/test.h"
#include "support/text.h"

static yyjson_doc *json_parse(const char *text)
{
    yyjson_doc *document = yyjson_read(text, strlen(text), YYJSON_READ_NOFLAG);
    if (document == NULL)
        fail_msg("not JSON: %s", text);
    return document;
}

static char *json_compact(yyjson_val *value)
{
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, NULL);
    if (text == NULL)
        abort();
    return text;
}

static yyjson_val *json_step(yyjson_val *value, const char *name, size_t length)
{
    if (yyjson_is_arr(value))
        return yyjson_arr_get(value, strtoul(name, NULL, 10));
    return yyjson_obj_getn(value, name, length);
}

static yyjson_val *json_find(yyjson_doc *document, const char *path)
{
    yyjson_val *value = yyjson_doc_get_root(document);
    while (*path != '\0' && value != NULL) {
        size_t length = strcspn(path, ".");
        value = json_step(value, path, length);
        path += length + (path[length] == '.');
    }
    return value;
}

char *json_at(const char *document, const char *path)
{
    yyjson_doc *parsed = json_parse(document);
    yyjson_val *value = json_find(parsed, path);
    char *text = value != NULL ? json_compact(value) : NULL;
    yyjson_doc_free(parsed);
    return text;
}

void json_assert_same(const char *actual, const char *expected)
{
    AUTOFREE char *left = json_at(actual, "");
    AUTOFREE char *right = json_at(expected, "");
    assert_string_equal(left, right);
}

void json_assert_at(const char *document, const char *path, const char *expected)
{
    AUTOFREE char *value = json_at(document, path);
    if (value == NULL)
        fail_msg("nothing at %s in %s", path, document);
    json_assert_same(value, expected);
}

int64_t json_integer_at(const char *document, const char *path)
{
    yyjson_doc *parsed = json_parse(document);
    yyjson_val *value = json_find(parsed, path);
    if (!yyjson_is_int(value))
        fail_msg("no integer at %s in %s", path, document);
    int64_t number = yyjson_get_sint(value);
    yyjson_doc_free(parsed);
    return number;
}

/* The member names of the object at the path ("" is the document), joined by spaces, owned. */
static char *json_member_names(const char *document, const char *path)
{
    yyjson_doc *parsed = json_parse(document);
    yyjson_val *object = json_find(parsed, path);
    yyjson_obj_iter iterator = yyjson_obj_iter_with(object);
    char *names = text_repeat('x', 0);
    for (yyjson_val *key = yyjson_obj_iter_next(&iterator); key != NULL;
         key = yyjson_obj_iter_next(&iterator)) {
        if (names[0] != '\0')
            names = text_append(names, " ");
        names = text_append(names, yyjson_get_str(key));
    }
    yyjson_doc_free(parsed);
    return names;
}

void json_assert_error(const char *document)
{
    AUTOFREE char *names = json_member_names(document, "");
    AUTOFREE char *text = json_at(document, "error");
    json_assert_at(document, "success", "false");
    assert_string_equal(names, "success error");
    assert_int_equal(text[0], '"');
    assert_true(strlen(text) > 2);
}
