/* Percent-decoding and query parameters; see uri.h. */
#include "base/uri.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Takes one decoded byte off the front of `s`, which is not empty. */
static char take_decoded(struct span *s)
{
    char c = s->data[0];
    if (c == '%' && s->len >= 3) {
        int high = hex_value(s->data[1]);
        int low = hex_value(s->data[2]);
        if (high >= 0 && low >= 0) {
            *s = span_skip(*s, 3);
            return (char)(high * 16 + low);
        }
    }
    *s = span_skip(*s, 1);
    return c;
}

size_t uri_decode(struct span in, char *out)
{
    size_t n = span_find(in, '%');
    if (n > 0)
        memmove(out, in.data, n);
    in = span_skip(in, n);
    while (in.len > 0)
        out[n++] = take_decoded(&in);
    return n;
}

bool uri_escapes_valid(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] != '%')
            continue;
        if (s.len - i < 3 || hex_value(s.data[i + 1]) < 0 || hex_value(s.data[i + 2]) < 0)
            return false;
    }
    return true;
}

static bool decoded_equals(struct span encoded, struct span name)
{
    while (encoded.len > 0 && name.len > 0) {
        if (take_decoded(&encoded) != name.data[0])
            return false;
        name = span_skip(name, 1);
    }
    return encoded.len == 0 && name.len == 0;
}

struct span uri_query_find(struct span query, struct span name)
{
    while (query.len > 0) {
        struct span pair = {query.data, span_find(query, '&')};
        query = span_skip(query, pair.len < query.len ? pair.len + 1 : pair.len);
        size_t equals = span_find(pair, '=');
        if (!decoded_equals((struct span){pair.data, equals}, name))
            continue;
        return equals < pair.len ? span_skip(pair, equals + 1) : (struct span){pair.data + equals, 0};
    }
    return SPAN_ABSENT;
}
