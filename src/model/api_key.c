/* The info of API keys; see api_key.h. */
#include "model/api_key.h"

#include "model/channel.h"

#include <yyjson.h>

/* Enough for API_KEY_INFO_MAX bytes: yyjson needs 16 bytes for each value. A text with very many values does
 * not fit, and counts as malformed. */
enum { ARENA_SIZE = 8 * 1024 };

/* --- times --- */

bool api_key_time_parse(struct span text, int64_t *out)
{
    struct span local = {text.data, DATETIME_LEN};
    if (text.len != API_KEY_TIME_LEN || text.data[DATETIME_LEN] != 'Z' || !datetime_valid(local))
        return false;
    *out = datetime_to_unix(local);
    return true;
}

void api_key_time_write(int64_t seconds, char out[API_KEY_TIME_LEN])
{
    utc_write(seconds, out);
    out[UTC_LEN] = 'Z';
}

/* --- the text --- */

static struct span api_key_text_of(yyjson_val *value)
{
    return yyjson_is_str(value) ? (struct span){yyjson_get_str(value), yyjson_get_len(value)} : SPAN_ABSENT;
}

/* Reads a member, which is named by its fault. */
static bool api_key_read_member(unsigned member, struct span text, struct api_key_info *out)
{
    if (member != API_KEY_FAULT_NAME)
        return api_key_time_parse(text, member == API_KEY_FAULT_ISSUED ? &out->issued : &out->expires);
    bool valid = name_valid(text, API_KEY_NAME_MAX);
    if (valid)
        api_key_name_set(&out->name, text);
    return valid;
}

static unsigned api_key_read_object(yyjson_val *object, struct api_key_info *out)
{
    unsigned faults = yyjson_is_obj(object) ? 0 : API_KEY_FAULT_FORM;
    unsigned seen = 0; /* members, each as its fault */
    yyjson_obj_iter iter = yyjson_obj_iter_with(object);
    yyjson_val *key = NULL;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);
        struct span name = api_key_text_of(key);
        unsigned member = span_equal(name, SPAN("name"))      ? API_KEY_FAULT_NAME
                          : span_equal(name, SPAN("issued"))  ? API_KEY_FAULT_ISSUED
                          : span_equal(name, SPAN("expires")) ? API_KEY_FAULT_EXPIRES
                                                              : 0;
        bool repeated = (seen & member) != 0;
        if (repeated || (member != 0 && !yyjson_is_null(value) &&
                         !api_key_read_member(member, api_key_text_of(value), out)))
            faults |= member;
        seen |= member;
    }
    return faults;
}

unsigned api_key_info_parse(struct span stored, struct api_key_info *out)
{
    char arena[ARENA_SIZE];
    yyjson_alc pool;
    unsigned faults = API_KEY_FAULT_FORM;
    *out = API_KEY_INFO_NONE;
    if (stored.len <= API_KEY_INFO_MAX) {
        (void)yyjson_alc_pool_init(&pool, arena, sizeof arena); /* the arena has room for a pool */
        char *text = (char *)(uintptr_t)stored.data; /* not written to: YYJSON_READ_INSITU is not set */
        yyjson_doc *doc = yyjson_read_opts(text, stored.len, YYJSON_READ_NOFLAG, &pool, NULL);
        faults = api_key_read_object(yyjson_doc_get_root(doc), out); /* no object without a document */
    }
    if ((faults & (API_KEY_FAULT_FORM | API_KEY_FAULT_EXPIRES)) != 0)
        out->expires = API_KEY_REFUSED;
    if ((faults & API_KEY_FAULT_NAME) != 0)
        out->name.len = 0;
    if ((faults & API_KEY_FAULT_ISSUED) != 0)
        out->issued = API_KEY_UNKNOWN;
    return faults;
}

static void api_key_write_time(struct buf *out, const char *name, int64_t seconds)
{
    char time[API_KEY_TIME_LEN];
    api_key_time_write(seconds, time);
    buf_printf(out, ",\"%s\":\"%.*s\"", name, API_KEY_TIME_LEN, time);
}

/* Neither names nor times have characters that JSON escapes. */
void api_key_info_write(struct buf *out, const struct api_key_info *info)
{
    size_t start = out->len;
    if (info->name.len > 0)
        buf_printf(out, ",\"name\":\"%.*s\"", info->name.len, info->name.text);
    if (info->issued != API_KEY_UNKNOWN)
        api_key_write_time(out, "issued", info->issued);
    if (info->expires != API_KEY_NEVER)
        api_key_write_time(out, "expires", info->expires);
    buf_append_str(out, out->len == start ? "{}" : "}");
    if (buf_error(out) == 0)
        out->data[start] = '{'; /* in place of the first comma */
}
