/* Percent-encoding and query strings. */
#include "base/text.h"
#include "proof.h"

/* The result is as long as the text without two bytes for each escape, and the same in place. */
void decode(void)
{
    char bytes[7];
    char out[sizeof bytes];
    char copy[sizeof bytes];
    struct span text = ANY_TEXT(bytes);
    char *at = out + (sizeof out - text.len);
    size_t n = uri_decode(text, at);
    assert(n <= text.len && (text.len - n) % 2 == 0);
    assert(span_find(text, '%') < text.len || span_equal(text, (struct span){at, n}));
    memcpy(copy, bytes, sizeof copy);
    char *in = copy + (sizeof copy - text.len);
    assert(uri_decode((struct span){in, text.len}, in) == n);
    assert(memcmp(in, at, n) == 0);
}

static char any_digit(unsigned value)
{
    return nondet_bool() ? "0123456789abcdef"[value] : "0123456789ABCDEF"[value];
}

/* Any text, of which a client has encoded at least the percent signs. */
void encoded(void)
{
    char bytes[5];
    char text[3 * sizeof bytes];
    char out[sizeof text];
    struct span original = ANY_TEXT(bytes);
    size_t n = 0;
    for (size_t i = 0; i < original.len; i++) {
        char c = original.data[i];
        if (c != '%' && nondet_bool()) {
            text[n++] = c;
            continue;
        }
        text[n++] = '%';
        text[n++] = any_digit((c >> 4) & 15);
        text[n++] = any_digit(c & 15);
    }
    assert(uri_escapes_valid((struct span){text, n}));
    assert(uri_decode((struct span){text, n}, out) == original.len);
    assert(memcmp(out, bytes + (sizeof bytes - original.len), original.len) == 0);
}

/* A value ends where its parameter does, and its name is the one before it. */
void query(void)
{
    char bytes[6];
    struct span text = ANY_TEXT(bytes);
    struct span value = uri_query_find(text, SPAN("id"));
    if (value.data == NULL)
        return;
    const char *end = text.data + text.len;
    assert(is_within(value, text) && span_find(value, '&') == value.len);
    assert(value.data + value.len == end || value.data[value.len] == '&');
    assert(value.len == 0 || (value.data > text.data && value.data[-1] == '='));
    const char *name = value.data;
    while (name > text.data && name[-1] != '&')
        name--;
    struct span pair = {name, (size_t)(value.data - name)};
    if (pair.len > 0 && pair.data[pair.len - 1] == '=')
        pair.len--;
    char decoded[sizeof bytes];
    assert(span_find(pair, '=') == pair.len);
    assert(span_equal((struct span){decoded, uri_decode(pair, decoded)}, SPAN("id")));
}
