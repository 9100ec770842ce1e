/*
 * From stored values to JSON: any values result in a body of the contract's shape, and valid ones appear in
 * it unchanged.
 *
 * An input is a row of NAME=VALUE, each with the byte 0x1F behind it. What names no field is left out.
 */
#include "base/json.h"
#include "base/text.h"
#include "fuzz/contract.h"
#include "fuzz/fuzz.h"
#include "support/fields.h"

enum { VALUE_END = 0x1F };

static void read_row(struct span input, struct channel_row *row)
{
    while (input.len > 0) {
        struct span value = fuzz_take(&input, VALUE_END);
        struct span name = fuzz_take(&value, '=');
        for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++)
            if (span_equal(name, channel_field_name(f)))
                row->value[f] = value;
    }
}

/* The stored days, sorted and truncated in another way than history.c does it. */
struct plain_days {
    size_t count;
    struct {
        char date[11];
        int64_t number;
    } day[64];
};

static int compare_days(const void *a, const void *b)
{
    return memcmp(a, b, 10);
}

/* False when this simple parser cannot hold it, or it is not a history. */
static bool read_plainly(struct span stored, struct plain_days *days)
{
    yyjson_doc *doc = yyjson_read(stored.data, stored.len, YYJSON_READ_NOFLAG);
    yyjson_obj_iter iter;
    yyjson_val *key = NULL;
    bool fits = yyjson_obj_iter_init(yyjson_doc_get_root(doc), &iter);
    *days = (struct plain_days){.count = 0};
    while (fits && (key = yyjson_obj_iter_next(&iter)) != NULL) {
        size_t at = 0;
        while (at < days->count && !yyjson_equals_str(key, days->day[at].date))
            at++;
        days->count += at == days->count;
        fits = yyjson_get_len(key) == 10 && days->count <= 63;
        if (!fits)
            break;
        memcpy(days->day[at].date, yyjson_get_str(key), 11);
        days->day[at].number = yyjson_get_sint(yyjson_obj_iter_get_val(key));
    }
    yyjson_doc_free(doc);
    qsort(days->day, days->count, sizeof days->day[0], compare_days);
    return fits;
}

static void check_history_value(yyjson_val *shown, struct span stored)
{
    struct plain_days days;
    if (!read_plainly(stored, &days))
        return;
    size_t first = days.count > 10 ? days.count - 10 : 0;
    FUZZ_CHECK(yyjson_obj_size(shown) == days.count - first);
    for (size_t i = first; i < days.count; i++)
        FUZZ_CHECK(yyjson_get_sint(yyjson_obj_get(shown, days.day[i].date)) == days.day[i].number);
}

static void check_value(yyjson_val *shown, enum channel_type type, struct span stored, bool invalid)
{
    bool empty = yyjson_is_null(shown) || (type == CHANNEL_HISTORY && yyjson_obj_size(shown) == 0);
    struct span text = {yyjson_get_str(shown), yyjson_get_len(shown)};
    int64_t number = 0;
    if (stored.data == NULL || invalid) {
        FUZZ_CHECK(empty && (stored.data != NULL || !invalid));
        return;
    }
    if (type == CHANNEL_TEXT)
        FUZZ_CHECK(!utf8_valid(stored) || span_equal(text, stored));
    else if (type == CHANNEL_INTEGER || type == CHANNEL_FLAG)
        FUZZ_CHECK(parse_int64(stored, &number) == 0 && yyjson_get_sint(shown) == number);
    else if (type == CHANNEL_DATETIME)
        FUZZ_CHECK(span_equal(text, stored));
    else
        check_history_value(shown, stored);
}

static void check_shape(const struct channel_row *row, enum channel_shape shape)
{
    struct buf out = BUF_INIT;
    unsigned invalid = channel_write(&out, row, shape);
    FUZZ_CHECK(buf_error(&out) == 0);
    yyjson_doc *doc = yyjson_read(out.data, out.len, YYJSON_READ_NOFLAG);
    FUZZ_CHECK(doc != NULL);
    yyjson_val *channel = yyjson_doc_get_root(doc);
    contract_check_channel(channel, shape == CHANNEL_SUMMARY);
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        bool bad = (invalid & 1U << f) != 0;
        if (shape == CHANNEL_CARD || field_table[f].in_summary)
            check_value(yyjson_obj_get(channel, field_table[f].name), field_table[f].type, row->value[f],
                        bad);
        else
            FUZZ_CHECK(!bad);
    }
    yyjson_doc_free(doc);
    buf_fini(&out);
}

/* White space before it changes nothing, and an invalid one leaves nothing behind. */
static void check_history_text(struct span stored)
{
    struct buf spaced = BUF_INIT;
    struct buf direct = BUF_INIT;
    struct buf parsed = BUF_INIT;
    buf_append_char(&spaced, ' ');
    buf_append_span(&spaced, stored);
    int one = history_write(&direct, stored);
    int other = history_write(&parsed, buf_span(&spaced));
    FUZZ_CHECK(one == other && span_equal(buf_span(&direct), buf_span(&parsed)));
    FUZZ_CHECK(one == 0 || direct.len == 0);
    buf_fini(&spaced);
    buf_fini(&direct);
    buf_fini(&parsed);
}

static void check_page(const struct channel_row *row)
{
    struct buf out = BUF_INIT;
    const struct page_info info = {.page = 1, .last = 1, .count = 2};
    buf_append_str(&out, DOCUMENT_BEGIN_PAGE);
    (void)channel_write(&out, row, CHANNEL_SUMMARY);
    buf_append_char(&out, ',');
    (void)channel_write(&out, row, CHANNEL_SUMMARY);
    document_end_page(&out, &info);
    contract_check_body(buf_span(&out), 200);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct channel_row row = {{{NULL, 0}}};
    read_row(fuzz_input(data, size), &row);
    check_shape(&row, CHANNEL_CARD);
    check_shape(&row, CHANNEL_SUMMARY);
    if (row.value[CHANNEL_FIELD_followers_history].data != NULL)
        check_history_text(row.value[CHANNEL_FIELD_followers_history]);
    check_page(&row);
    return 0;
}
