/* UTF-8 validation by the table of well-formed byte sequences; see utf8.h. */
#include "base/utf8.h"

#include <stdint.h>

struct lead {
    int length;        /* bytes in the character, 0 when no character starts so */
    uint8_t low, high; /* bounds of the second byte */
};

static struct lead lead_of(uint8_t b)
{
    if (b < 0x80)
        return (struct lead){1, 0, 0};
    if (b < 0xC2)
        return (struct lead){0, 0, 0};
    if (b < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (b < 0xF0)
        return (struct lead){3, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF};
    if (b < 0xF5)
        return (struct lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

int utf8_step(struct span s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    struct lead lead = lead_of(p[0]);
    if (lead.length <= 1)
        return lead.length == 1 ? 1 : -1;
    if (s.len < 2 || p[1] < lead.low || p[1] > lead.high)
        return -1;
    for (int i = 2; i < lead.length; i++)
        if ((size_t)i >= s.len || (p[i] & 0xC0) != 0x80)
            return -i;
    return lead.length;
}

bool utf8_valid(struct span s)
{
    while (s.len > 0) {
        int step = utf8_step(s);
        if (step < 0)
            return false;
        s = span_skip(s, (size_t)step);
    }
    return true;
}
