/*
 * The info of an API key, made of any object that yyjson may return: its members have any type and text. The
 * limit of a name is lower. Whether a time exists, and which one it is, is arbitrary: channel.c proves it.
 */
#include "model/api_key.h"
#define API_KEY_NAME_MAX 3
#include "model/api_key.c"

#include "proof.h"

enum { MEMBERS_MAX = 2, VALUES_MAX = 1 + 2 * MEMBERS_MAX };

static char texts[VALUES_MAX][API_KEY_TIME_LEN];
static yyjson_val values[VALUES_MAX];
static yyjson_doc doc;

bool yyjson_alc_pool_init(yyjson_alc *alc, void *bytes, size_t size)
{
    (void)alc, (void)bytes, (void)size;
    return true;
}

bool datetime_valid(struct span text)
{
    assert(text.len == DATETIME_LEN && __CPROVER_r_ok(text.data, text.len));
    return nondet_bool();
}

int64_t datetime_to_unix(struct span text)
{
    (void)text;
    int64_t seconds = nondet_int64();
    __CPROVER_assume(seconds >= -62167219200 && seconds <= 253402300799);
    return seconds;
}

static void set_text(yyjson_val *value, const char *text, size_t len)
{
    value->uni.str = text;
    value->tag = (uint64_t)len << YYJSON_TAG_BIT | YYJSON_TYPE_STR;
}

static void set_key(yyjson_val *value)
{
    switch (any_up_to(3)) {
    case 0:
        set_text(value, "name", 4);
        break;
    case 1:
        set_text(value, "issued", 6);
        break;
    case 2:
        set_text(value, "expires", 7);
        break;
    default:
        set_text(value, "other", 5);
        break;
    }
}

static void set_value(yyjson_val *value, const char *text)
{
    size_t type = any_up_to(3);
    set_text(value, text, type == 0 ? API_KEY_TIME_LEN : any_up_to(API_KEY_NAME_MAX + 1));
    if (type > 1)
        value->tag = type == 2 ? YYJSON_TYPE_NULL : YYJSON_TYPE_NUM;
}

yyjson_doc *yyjson_read_opts(char *text, size_t len, yyjson_read_flag flags, const yyjson_alc *alc,
                             yyjson_read_err *err)
{
    (void)text, (void)len, (void)flags, (void)alc, (void)err;
    size_t members = any_up_to(MEMBERS_MAX);
    __CPROVER_havoc_object(texts);
    values[0].tag = (uint64_t)members << YYJSON_TAG_BIT | YYJSON_TYPE_OBJ;
    values[0].uni.ofs = sizeof(yyjson_val) * (1 + 2 * members);
    if (nondet_bool())
        values[0].tag = YYJSON_TYPE_NULL;
    for (size_t i = 1; i < VALUES_MAX; i += 2) {
        set_key(&values[i]);
        set_value(&values[i + 1], texts[i]);
    }
    doc.root = values;
    return nondet_bool() ? &doc : NULL;
}

/* The members that name an expiry. */
static size_t count_expiries(void)
{
    size_t count = 0;
    for (size_t i = 0; unsafe_yyjson_is_obj(values) && i < unsafe_yyjson_get_len(values); i++) {
        yyjson_val *key = &values[1 + 2 * i];
        struct span name = {key->uni.str, unsafe_yyjson_get_len(key)};
        count += span_equal(name, SPAN("expires")) && !unsafe_yyjson_is_null(key + 1);
    }
    return count;
}

/* What cannot be read is refused, as is what is named twice: only a key that names no expiry has none. */
void info(void)
{
    char bytes[1];
    struct api_key_info out;
    unsigned faults = api_key_info_parse(ANY_TEXT(bytes), &out);
    bool refused = (faults & (API_KEY_FAULT_FORM | API_KEY_FAULT_EXPIRES)) != 0;
    assert(refused == (out.expires == API_KEY_REFUSED));
    assert(out.name.len == 0 || name_valid(api_key_name_span(&out.name), API_KEY_NAME_MAX));
    assert(out.name.len == 0 || (faults & API_KEY_FAULT_NAME) == 0);
    assert((faults & API_KEY_FAULT_ISSUED) == 0 || out.issued == API_KEY_UNKNOWN);
    assert(refused || count_expiries() == (out.expires == API_KEY_NEVER ? 0 : 1));
}
