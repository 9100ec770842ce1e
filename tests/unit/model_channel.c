/* Channels as JSON: the members and their order are those of docs/openapi.json, and one bad value spoils only
 * itself. */
#include "model/channel.h"

#include <yyjson.h>

#include "support/json.h"
#include "support/text.h"
#include "unit/check.h"

/* What full_row() stores in a field, or the JSON of that; another value for each field. */
static const char *sample_of(enum channel_field f, bool json)
{
    static char text[2][CHANNEL_FIELD_COUNT][64];
    char *out = text[json][f];
    enum { SIZE = sizeof text[0][0] };
    int n = 10 + (int)f;
    switch (channel_field_type(f)) {
    case CHANNEL_TEXT:
        (void)snprintf(out, SIZE, json ? "\"\\\"новость\\\" %d\"" : "\"новость\" %d", n);
        break;
    case CHANNEL_INTEGER:
        (void)snprintf(out, SIZE, "%d", n);
        break;
    case CHANNEL_FLAG:
        (void)snprintf(out, SIZE, "1");
        break;
    case CHANNEL_DATETIME:
        (void)snprintf(out, SIZE, json ? "\"2026-11-21T10:06:%d\"" : "2026-11-21T10:06:%d", n);
        break;
    case CHANNEL_HISTORY:
        (void)snprintf(
            out, SIZE,
            json ? "{\"2026-11-20\":%d,\"2026-11-21\":2}" : "{\"2026-11-21\": 2, \"2026-11-20\": %d}", n);
        break;
    }
    return out;
}

static struct channel_row full_row(void)
{
    struct channel_row row = {{{NULL, 0}}};
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++)
        row.value[f] = span_of(sample_of(f, false));
    return row;
}

TEST_CASE(faults_are_counts_that_contradict_each_other_or_days_that_repeat)
{
    static const struct {
        enum channel_field field;
        const char *value, *fault;
    } rows[] = {
        {CHANNEL_FIELD_followers_cnt_today, "-1", "is below 0"},
        {CHANNEL_FIELD_followers_cnt_today, "0", NULL},
        {CHANNEL_FIELD_views_24h, "-9223372036854775808", "is below 0"},
        {CHANNEL_FIELD_views_48h, "9", "is less than views_24h"},
        {CHANNEL_FIELD_views_48h, "10", NULL},
        {CHANNEL_FIELD_views_48h, "-0", NULL},
        {CHANNEL_FIELD_er_48h, "-1", NULL},
        {CHANNEL_FIELD_max_channel_id, "-1", NULL},
        {CHANNEL_FIELD_followers_history, "{}", NULL},
        {CHANNEL_FIELD_followers_history, "{\"2026-11-20\":0}", NULL},
        {CHANNEL_FIELD_followers_history, "{\"2026-11-20\":-1}", "has a count below 0"},
        {CHANNEL_FIELD_followers_history, "{\"2026-11-20\":1,\"2026-11-20\":1}", "has a day twice"},
        {CHANNEL_FIELD_followers_history, "{\"2026-11-20\":1,\"2026-11-19\":1}", NULL},
        {CHANNEL_FIELD_followers_history, "{\"2026-11-20\":1,\"2026-11-19\":1,\"2026-11-20\":1}",
         "has a day twice"},
        {CHANNEL_FIELD_followers_history, "not json", NULL},
        {CHANNEL_FIELD_followers_history, "[1]", NULL},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct channel_row row = full_row();
        row.value[CHANNEL_FIELD_views_24h] = SPAN("10");
        row.value[rows[i].field] = span_of(rows[i].value);
        const char *fault = channel_find_fault(&row, rows[i].field);
        assert_string_equal(fault != NULL ? fault : "none", rows[i].fault != NULL ? rows[i].fault : "none");
    }
}

/* --- the fields, in their order --- */

static void append_api_type(struct buf *out, const char *schema)
{
    buf_append_str(out, strstr(schema, "FollowersHistory") != NULL ? "history"
                        : strstr(schema, "LocalDateTime") != NULL  ? "datetime"
                        : strstr(schema, "[0,1,null]") != NULL     ? "flag"
                        : strstr(schema, "\"integer\"") != NULL    ? "integer"
                                                                   : "text");
}

/* The members of the schema, and their types, by docs/openapi.json. */
static void append_documented(struct buf *out, const char *schema)
{
    AUTOFREE char *document = text_read_file(OPENAPI_DOCUMENT);
    for (int i = 0;; i++) {
        AUTOFREE char *name = json_at(document, text_temp("components.schemas.%s.required.%d", schema, i));
        if (name == NULL)
            return;
        name[strlen(name) - 1] = '\0'; /* its quotes */
        AUTOFREE char *type =
            json_at(document, text_temp("components.schemas.%s.properties.%s", schema, name + 1));
        assert_non_null(type);
        buf_printf(out, " %s:", name + 1);
        append_api_type(out, type);
    }
}

static void append_implemented(struct buf *out, enum channel_shape shape)
{
    static const char *const types[] = {"text", "integer", "flag", "datetime", "history"};
    for (unsigned rest = channel_shape_fields(shape); rest != 0; rest &= rest - 1) {
        enum channel_field f = (enum channel_field)__builtin_ctz(rest);
        struct span name = channel_field_name(f);
        buf_printf(out, " %.*s:%s", (int)name.len, name.data, types[channel_field_type(f)]);
    }
}

TEST_CASE(the_fields_are_those_of_the_documented_api)
{
    static const char *const schemas[] = {[CHANNEL_CARD] = "Channel", [CHANNEL_SUMMARY] = "ChannelSummary"};
    for (enum channel_shape shape = CHANNEL_SUMMARY; shape <= CHANNEL_CARD; shape++) {
        SCOPED_BUF(documented);
        SCOPED_BUF(implemented);
        append_documented(&documented, schemas[shape]);
        append_implemented(&implemented, shape);
        if (!span_equal(buf_span(&documented), buf_span(&implemented)))
            fail_msg(
                "a new field has to be added to the schema %s of docs/openapi.json, to \"properties\" and, "
                "in "
                "the same place of the order, to \"required\".\nmodel/channel.h: %s\nopenapi.json:    %s",
                schemas[shape], buf_c_str(&implemented), buf_c_str(&documented));
    }
}

/* Writes the shape, all of it present or absent, and compares each byte. */
static void assert_written(enum channel_shape shape, bool present)
{
    struct channel_row row = present ? full_row() : (struct channel_row){{{NULL, 0}}};
    SCOPED_BUF(out);
    SCOPED_BUF(expected);
    for (unsigned rest = channel_shape_fields(shape); rest != 0; rest &= rest - 1) {
        enum channel_field f = (enum channel_field)__builtin_ctz(rest);
        struct span name = channel_field_name(f);
        const char *absent = channel_field_type(f) == CHANNEL_HISTORY ? "{}" : "null";
        buf_printf(&expected, "%s\"%.*s\":%s", expected.len == 0 ? "{" : ",", (int)name.len, name.data,
                   present ? sample_of(f, true) : absent);
    }
    buf_append_char(&expected, '}');
    assert_int_equal(channel_write(&out, &row, shape), 0);
    assert_buf(&out, buf_c_str(&expected));
}

TEST_CASE(the_members_of_a_shape_are_written_in_order)
{
    assert_written(CHANNEL_CARD, true);
    assert_written(CHANNEL_SUMMARY, true);
}

TEST_CASE(absent_fields_are_null_and_an_absent_history_is_empty)
{
    assert_written(CHANNEL_CARD, false);
    assert_written(CHANNEL_SUMMARY, false);
}

/* Writes a full card but for one field; that field alone must be reported and come as `expected`. */
static void assert_field(enum channel_field field, struct span stored, const char *expected, bool readable)
{
    struct channel_row row = full_row();
    SCOPED_BUF(out);
    struct span name = channel_field_name(field);
    char path[32];
    (void)snprintf(path, sizeof path, "%.*s", (int)name.len, name.data);
    row.value[field] = stored;
    unsigned invalid = channel_write(&out, &row, CHANNEL_CARD);
    if (invalid != (readable ? 0 : 1U << field))
        fail_msg("%s = \"%.*s\": invalid is %x", path, (int)stored.len, stored.data, invalid);
    json_assert_at(buf_c_str(&out), path, expected);
    yyjson_doc *doc = yyjson_read(out.data, out.len, YYJSON_READ_NOFLAG);
    assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(doc)), CHANNEL_FIELD_COUNT);
    yyjson_doc_free(doc);
}

/* A loop over the fields of the type. */
#define EACH_FIELD(f, type)                                                     \
    for (enum channel_field f = next_field(0, type); (f) < CHANNEL_FIELD_COUNT; \
         (f) = next_field((f) + 1, type))

static enum channel_field next_field(unsigned from, enum channel_type type)
{
    while (from < CHANNEL_FIELD_COUNT && channel_field_type((enum channel_field)from) != type)
        from++;
    return (enum channel_field)from;
}

TEST_CASE(bad_values_of_every_integer_become_null)
{
    EACH_FIELD (f, CHANNEL_INTEGER) {
        EACH_TEXT (text, "", "abc", "1.5", "1e3", "+1", "-0", "007", " 1", "1 ", "1\n", "0x10", "NaN", "null",
                   "true", "-", "9223372036854775808", "-9223372036854775809")
            assert_field(f, span_of(text), "null", false);
        assert_field(f, SPAN("1\0"), "null", false);
    }
}

TEST_CASE(extremes_of_every_integer_are_written_as_stored)
{
    EACH_FIELD (f, CHANNEL_INTEGER) {
        EACH_TEXT (text, "0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993") {
            assert_field(f, span_of(text), text, true);
            struct channel_row row = {{{NULL, 0}}};
            SCOPED_BUF(out);
            row.value[f] = span_of(text);
            assert_int_equal(channel_write(&out, &row, CHANNEL_CARD), 0);
            assert_non_null(strstr(buf_c_str(&out), text)); /* digit by digit, not by way of a double */
        }
    }
}

TEST_CASE(flag_is_0_or_1)
{
    EACH_TEXT (text, "", "2", "-1", "10", "00", "01", "1 ", " 1", "+1", "-0", "0.0", "true", "\xFF",
               "9223372036854775807")
        assert_field(CHANNEL_FIELD_is_a_plus_flag, span_of(text), "null", false);
    assert_field(CHANNEL_FIELD_is_a_plus_flag, (struct span){"1\0", 2}, "null", false);
    assert_field(CHANNEL_FIELD_is_a_plus_flag, SPAN("0"), "0", true);
    assert_field(CHANNEL_FIELD_is_a_plus_flag, SPAN("1"), "1", true);
}

TEST_CASE(bad_dates_become_null)
{
    EACH_TEXT (text, "", "2026-11-21", "2026-11-21 10:06:06", "2026-11-21T10:06:06Z", "2026-02-30T10:06:06",
               "2026-11-21T24:00:00", "1790000000", "null")
        assert_field(CHANNEL_FIELD_updated_at, span_of(text), "null", false);
    assert_field(CHANNEL_FIELD_updated_at, SPAN("2024-02-29T23:59:59"), "\"2024-02-29T23:59:59\"", true);
}

TEST_CASE(bad_histories_become_empty)
{
    EACH_TEXT (text, "", "null", "[]", "{\"2026-11-21\":1.5}", "{\"2026-11-31\":1}",
               "{\"2026-11-21\":9223372036854775808}", "{\"2026-11-21\":1")
        assert_field(CHANNEL_FIELD_followers_history, span_of(text), "{}", false);
    assert_field(CHANNEL_FIELD_followers_history, SPAN("{}"), "{}", true);
}

TEST_CASE(text_fields_accept_any_text)
{
    EACH_FIELD (f, CHANNEL_TEXT) {
        assert_field(f, SPAN(""), "\"\"", true);
        assert_field(f, SPAN("null"), "\"null\"", true);
        assert_field(f, SPAN("12"), "\"12\"", true);
        assert_field(f, SPAN("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"", true);
        assert_field(f, SPAN("频道 📣"), "\"频道 📣\"", true);
        assert_field(f, SPAN("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"", true);
    }
}

TEST_CASE(several_bad_values_are_reported_together)
{
    struct channel_row row = full_row();
    SCOPED_BUF(out);
    row.value[CHANNEL_FIELD_max_channel_id] = SPAN("x");
    row.value[CHANNEL_FIELD_er_48h] = SPAN("x");
    row.value[CHANNEL_FIELD_updated_at] = SPAN("x");
    unsigned summary = 1U << CHANNEL_FIELD_max_channel_id | 1U << CHANNEL_FIELD_updated_at;
    assert_int_equal(channel_write(&out, &row, CHANNEL_CARD), summary | 1U << CHANNEL_FIELD_er_48h);
    assert_int_equal(channel_write(&out, &row, CHANNEL_SUMMARY), summary); /* not what it does not show */
}

TEST_CASE(row_is_empty_when_no_field_of_the_summary_is_there)
{
    struct channel_row row = {{{NULL, 0}}};
    assert_true(channel_row_is_empty(&row));
    row.value[CHANNEL_FIELD_er_48h] = SPAN("");
    assert_true(channel_row_is_empty(&row));
    row.value[CHANNEL_FIELD_title] = SPAN("");
    assert_false(channel_row_is_empty(&row));
}
