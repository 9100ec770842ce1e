/* Reading request targets; see target.h. */
#include "http/target.h"

#include "base/uri.h"

#include <errno.h>

static bool has_control(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c < 0x20 || c == 0x7F)
            return true;
    }
    return false;
}

static size_t scheme_length(struct span target)
{
    static const struct span schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        struct span start = {target.data, schemes[i].len};
        if (target.len >= start.len && span_equal_nocase(start, schemes[i]))
            return start.len;
    }
    return 0;
}

int http_target_split(char *target, size_t len, struct span *path, struct span *query)
{
    static const struct span root = {"/", 1};
    struct span all = {target, len};
    if (len == 0 || has_control(all) || span_find(all, '#') < len || span_find(all, ' ') < len)
        return -EINVAL;
    size_t skip = scheme_length(all);
    if (skip > 0) {
        while (skip < len && target[skip] != '/' && target[skip] != '?')
            skip++;
    }
    size_t path_len = span_find(span_skip(all, skip), '?');
    size_t question = skip + path_len;
    *query = question < len ? span_skip(all, question + 1) : SPAN_ABSENT;
    struct span raw = {target + skip, path_len};
    if (!uri_escapes_valid(raw))
        return -EINVAL;
    *path = (struct span){target + skip, uri_decode(raw, target + skip)};
    if (path->len == 0)
        *path = root;
    return has_control(*path) ? -EINVAL : 0;
}
