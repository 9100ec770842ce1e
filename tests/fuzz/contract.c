/* Validation of bodies; see contract.h. */
#include "fuzz/contract.h"

#include "fuzz/fuzz.h"
#include "support/fields.h"

static bool is_int64(yyjson_val *value)
{
    return yyjson_is_sint(value) || (yyjson_is_uint(value) && yyjson_get_uint(value) <= (uint64_t)INT64_MAX);
}

/* True when `text` has a digit for each 0 of `shape`, and its other characters. */
static bool has_shape(yyjson_val *text, const char *shape)
{
    const char *at = yyjson_get_str(text);
    if (at == NULL || yyjson_get_len(text) != strlen(shape))
        return false;
    for (size_t i = 0; shape[i] != '\0'; i++)
        if (shape[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != shape[i])
            return false;
    return true;
}

static void check_history(yyjson_val *history)
{
    yyjson_obj_iter iter;
    yyjson_val *day = NULL;
    const char *before = "";
    FUZZ_CHECK(yyjson_is_obj(history));
    FUZZ_CHECK(yyjson_obj_size(history) <= 10);
    yyjson_obj_iter_init(history, &iter);
    while ((day = yyjson_obj_iter_next(&iter)) != NULL) {
        FUZZ_CHECK(has_shape(day, "0000-00-00"));
        FUZZ_CHECK(strcmp(before, yyjson_get_str(day)) < 0);
        FUZZ_CHECK(is_int64(yyjson_obj_iter_get_val(day)));
        before = yyjson_get_str(day);
    }
}

static void check_member(yyjson_val *value, enum channel_type type)
{
    if (type == CHANNEL_HISTORY)
        check_history(value);
    else if (type == CHANNEL_TEXT)
        FUZZ_CHECK(yyjson_is_null(value) || yyjson_is_str(value));
    else if (type == CHANNEL_INTEGER)
        FUZZ_CHECK(yyjson_is_null(value) || is_int64(value));
    else if (type == CHANNEL_FLAG)
        FUZZ_CHECK(yyjson_is_null(value) || (yyjson_is_uint(value) && yyjson_get_uint(value) <= 1));
    else
        FUZZ_CHECK(yyjson_is_null(value) || has_shape(value, "0000-00-00T00:00:00"));
}

void contract_check_channel(yyjson_val *channel, bool summary)
{
    yyjson_obj_iter iter;
    FUZZ_CHECK(yyjson_is_obj(channel));
    yyjson_obj_iter_init(channel, &iter);
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        if (summary && !field_table[f].in_summary)
            continue;
        yyjson_val *name = yyjson_obj_iter_next(&iter);
        FUZZ_CHECK(yyjson_equals_str(name, field_table[f].name));
        check_member(yyjson_obj_iter_get_val(name), field_table[f].type);
    }
    FUZZ_CHECK(yyjson_obj_iter_next(&iter) == NULL);
}

static void check_page(yyjson_val *body)
{
    yyjson_val *items = yyjson_obj_get(body, "data");
    yyjson_val *pagination = yyjson_obj_get(body, "pagination");
    FUZZ_CHECK(yyjson_obj_size(body) == 3 && yyjson_obj_size(pagination) == 4);
    FUZZ_CHECK(yyjson_arr_size(items) <= 100);
    FUZZ_CHECK(yyjson_get_sint(yyjson_obj_get(pagination, "page")) >= 1);
    FUZZ_CHECK(yyjson_get_int(yyjson_obj_get(pagination, "per_page")) == 100);
    FUZZ_CHECK(yyjson_get_uint(yyjson_obj_get(pagination, "count")) == yyjson_arr_size(items));
    FUZZ_CHECK(yyjson_is_bool(yyjson_obj_get(pagination, "has_next")));
    yyjson_arr_iter each;
    FUZZ_CHECK(yyjson_arr_iter_init(items, &each));
    for (yyjson_val *item = yyjson_arr_iter_next(&each); item != NULL; item = yyjson_arr_iter_next(&each))
        contract_check_channel(item, true);
}

static void check_success(yyjson_val *body)
{
    yyjson_val *data = yyjson_obj_get(body, "data");
    if (yyjson_is_arr(data)) {
        check_page(body);
        return;
    }
    FUZZ_CHECK(yyjson_obj_size(body) == 2);
    contract_check_channel(data, false);
}

/* The content of a response that is not the OpenAPI document. */
static void check_content(yyjson_val *root, int status)
{
    yyjson_val *success = yyjson_obj_get(root, "success");
    FUZZ_CHECK(yyjson_is_bool(success) && yyjson_get_bool(success) == (status == 200));
    if (status == 200) {
        check_success(root);
    } else {
        FUZZ_CHECK(yyjson_obj_size(root) == 2);
        FUZZ_CHECK(yyjson_get_len(yyjson_obj_get(root, "error")) > 0);
    }
}

void contract_check_body(struct span body, int status)
{
    yyjson_doc *doc = yyjson_read(body.data, body.len, YYJSON_READ_NOFLAG); /* validates UTF-8 too */
    FUZZ_CHECK(doc != NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (yyjson_is_str(yyjson_obj_get(root, "openapi")))
        FUZZ_CHECK(status == 200 && yyjson_is_obj(yyjson_obj_get(root, "paths")));
    else
        check_content(root, status);
    yyjson_doc_free(doc);
}

/* ---- whole responses ---- */

enum { LENGTH_MAX = 1 << 20 };

struct span answer_skip_interim(struct span in)
{
    static const struct span interim = {"HTTP/1.1 100 Continue\r\n\r\n", 25};
    while (span_starts_with(in, interim))
        in = span_skip(in, interim.len);
    return in;
}

struct span answer_field(const struct answer *a, const char *name)
{
    struct span rest = a->head;
    struct span found_value = SPAN_ABSENT;
    while (rest.len > 0) {
        struct span line = fuzz_take(&rest, '\n');
        struct span key = {line.data, span_find(line, ':')};
        if (!span_equal_nocase(key, span_of(name)))
            continue;
        FUZZ_CHECK(found_value.data == NULL);
        found_value = span_trim((struct span){line.data + key.len + 1, line.len - key.len - 2});
    }
    return found_value;
}

/* Every line of the head is "Name: value" without control characters, and ends with CR LF. */
static void check_head(struct span head)
{
    while (head.len > 0) {
        struct span line = fuzz_take(&head, '\n');
        size_t name = span_find(line, ':');
        FUZZ_CHECK(name > 0 && name + 2 < line.len && line.data[line.len - 1] == '\r');
        for (size_t i = 0; i + 1 < line.len; i++)
            FUZZ_CHECK((unsigned char)line.data[i] >= 0x20 && line.data[i] != 0x7F);
    }
}

static size_t content_length(const struct answer *a)
{
    struct span text = answer_field(a, "Content-Length");
    size_t n = 0;
    FUZZ_CHECK((text.data == NULL) == (a->status == 204 || a->status == 304));
    if (text.data == NULL)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        FUZZ_CHECK(text.data[i] >= '0' && text.data[i] <= '9' && n < LENGTH_MAX);
        n = n * 10 + (size_t)(text.data[i] - '0');
    }
    return n;
}

void answer_take(struct span *in, enum http_method method, struct answer *a)
{
    const char *end = memmem(in->data, in->len, "\r\n\r\n", 4);
    FUZZ_CHECK(end != NULL && span_starts_with(*in, SPAN("HTTP/1.1 ")));
    struct span all = {in->data, (size_t)(end - in->data) + 2};
    *in = span_skip(*in, all.len + 2);
    *a = (struct answer){.status = 0, .head = all};
    struct span line = fuzz_take(&a->head, '\n');
    FUZZ_CHECK(line.len > 13 && line.data[12] == ' ');
    for (int i = 9; i < 12; i++)
        a->status = a->status * 10 + (line.data[i] - '0');
    check_head(a->head);
    size_t n = content_length(a);
    a->body = (struct span){in->data, method == METHOD_HEAD ? 0 : n};
    FUZZ_CHECK(a->body.len <= in->len);
    *in = span_skip(*in, a->body.len);
    if (n > 0 && method != METHOD_HEAD)
        contract_check_body(a->body, a->status);
}
