/* Reading request targets; see target.h. */
#include "http/target.h"

#include "base/encoding.h"
#include "http/host.h"

#include <errno.h>

enum byte_class { FORBIDDEN = 1, PERCENT = 2 };

/* What no target may hold: control bytes, space, and the number sign of a fragment. */
static const unsigned char CLASS[256] = {
    [0x00 ... 0x20] = FORBIDDEN, ['#'] = FORBIDDEN, [0x7F] = FORBIDDEN, ['%'] = PERCENT};

/* True when all bytes are from '&' to '~', where CLASS has nothing: any other sets a high bit in one of the
 * terms. */
static bool is_plain(uint64_t word)
{
    const uint64_t each = 0x0101010101010101;
    return ((word | (word - each * '&') | (word + each)) & each * 0x80) == 0;
}

static unsigned classes_of_bytes(struct span s)
{
    unsigned seen = 0;
    for (size_t i = 0; i < s.len; i++)
        seen |= CLASS[(unsigned char)s.data[i]];
    return seen;
}

static unsigned classes_in(struct span s)
{
    unsigned seen = 0;
    for (; s.len >= sizeof(uint64_t); s = span_skip(s, sizeof(uint64_t)))
        if (!is_plain(span_word(s.data)))
            seen |= classes_of_bytes((struct span){s.data, sizeof(uint64_t)});
    return seen | classes_of_bytes(s);
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7F;
}

static bool has_control(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (is_control(s.data[i]))
            return true;
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

/*
 * Where the path begins in absolute form: behind the authority, which takes the place of Host and so must be
 * as good as one (RFC 9110 sections 4.2.1 and 4.2.4). 0 in all other forms.
 */
static int find_path(struct span target, size_t *start)
{
    size_t at = target.data[0] == '/' ? 0 : scheme_length(target);
    *start = at;
    if (at == 0)
        return 0;
    while (at < target.len && target.data[at] != '/' && target.data[at] != '?')
        at++;
    struct span authority = {target.data + *start, at - *start};
    *start = at;
    return http_host_valid(authority) ? 0 : -EINVAL;
}

int http_target_split(char *target, size_t len, struct span *path, struct span *query)
{
    static const struct span root = {"/", 1};
    struct span all = {target, len};
    unsigned seen = classes_in(all);
    if (len == 0 || (seen & FORBIDDEN) != 0)
        return -EINVAL;
    size_t params = span_find(all, '?');
    size_t start = 0;
    if (find_path(all, &start) != 0)
        return -EINVAL;
    *query = params < len ? span_skip(all, params + 1) : SPAN_ABSENT;
    *path = (struct span){target + start, params - start};
    if ((seen & PERCENT) != 0) {
        if (!uri_escapes_valid(*path))
            return -EINVAL;
        path->len = uri_decode(*path, target + start);
        if (has_control(*path))
            return -EINVAL;
    }
    if (path->len == 0)
        *path = root;
    return 0;
}
