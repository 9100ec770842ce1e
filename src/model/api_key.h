/*
 * The info of an API key in Redis: its name, its time of issue and its expiry. It is one JSON object for each
 * key, {"name":"dashboards","issued":"...","expires":"..."}. A member that is absent or null is not known,
 * and a key without expiry never expires. Members of other names are ignored.
 *
 * A malformed text may have contained an expiry, so its key counts as expired. So does a key whose expiry is
 * malformed or named twice. A malformed name is ignored.
 */
#ifndef MODEL_API_KEY_H
#define MODEL_API_KEY_H

#include "base/buf.h"
#include "base/text.h"

#include <assert.h>

/* Characters of a name, as name_valid permits them; bytes of a stored text. */
enum { API_KEY_NAME_MAX = 64, API_KEY_INFO_MAX = 512 };

struct api_key_name {
    signed char len; /* 0: the key has none; -1: the key is not known */
    char text[API_KEY_NAME_MAX];
};

/* Times are in seconds since 1970, by the wall clock. */
#define API_KEY_NEVER   INT64_MAX /* as an expiry */
#define API_KEY_REFUSED INT64_MIN /* as an expiry: it cannot be read */
#define API_KEY_UNKNOWN INT64_MIN /* as the time of issue */

struct api_key_info {
    int64_t issued, expires;
    struct api_key_name name;
};

#define API_KEY_INFO_NONE ((struct api_key_info){.issued = API_KEY_UNKNOWN, .expires = API_KEY_NEVER})

/* A key is valid up to the second before its expiry. */
static inline bool api_key_is_expired(int64_t expires, int64_t now)
{
    return now >= expires;
}

/* The key is not known. The rest of the name stays as it is: this is done for each request. */
static inline void api_key_name_clear(struct api_key_name *name)
{
    name->len = -1;
}

/* The name is absent when the key is not known, and empty when it has none. */
static inline struct span api_key_name_span(const struct api_key_name *name)
{
    return name->len < 0 ? SPAN_ABSENT : (struct span){name->text, (size_t)name->len};
}

/* `name` is valid, or empty. */
static inline void api_key_name_set(struct api_key_name *out, struct span name)
{
    assert(name.len <= API_KEY_NAME_MAX);
    out->len = (signed char)name.len;
    if (name.len > 0)
        memcpy(out->text, name.data, name.len);
}

/* The malformed parts of a stored text are a set of these. The form: it is not a JSON object, or too long. */
enum api_key_fault {
    API_KEY_FAULT_FORM = 1,
    API_KEY_FAULT_NAME = 2,
    API_KEY_FAULT_ISSUED = 4,
    API_KEY_FAULT_EXPIRES = 8
};

/* Allocates nothing. */
unsigned api_key_info_parse(struct span stored, struct api_key_info *out);

void api_key_info_write(struct buf *out, const struct api_key_info *info);

/* --- Times as they are stored: "2026-11-22T10:00:00Z" --- */

enum { API_KEY_TIME_LEN = 20 };

/* False, with *out unchanged, for any other text, and for a time that does not exist. */
bool api_key_time_parse(struct span text, int64_t *out);

/* Writes a year from 0 to 9999, without a NUL. */
void api_key_time_write(int64_t seconds, char out[API_KEY_TIME_LEN]);

#endif
