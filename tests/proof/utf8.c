/* UTF-8, against its definition by scalar values (the Unicode standard, D92). */
#include "base/text.h"
#include "proof.h"

/* The scalar value of a sequence of that length, or one that is invalid. */
static unsigned scalar_of(const char *text, int len)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned value = len == 1 ? text[0] & 0xFF : text[0] & 0xFF & (0xFF >> (len + 1));
    for (int i = 1; i < len; i++)
        value = (text[i] & 0xC0) == 0x80 ? value << 6 | (text[i] & 0x3F) : UINT32_MAX >> 6;
    return value < least[len] ? UINT32_MAX : value;
}

static bool is_scalar(unsigned value)
{
    return value < 0xD800 || (value > 0xDFFF && value <= 0x10FFFF);
}

void step(void)
{
    char bytes[5];
    struct span text = ANY_TEXT(bytes);
    __CPROVER_assume(text.len > 0);
    int n = utf8_step(text);
    assert(n >= -3 && n <= 4 && n != 0);
    assert(n <= (int)text.len && -n <= (int)text.len);
    assert(n < 0 || is_scalar(scalar_of(text.data, n)));
}

static int put_scalar(unsigned value, char out[4])
{
    int n = value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
    static const int mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, value >>= 6)
        ((unsigned char *)out)[i] = (unsigned char)(0x80 | (value & 0x3F));
    ((unsigned char *)out)[0] = (unsigned char)(mark[n] | (int)value);
    return n;
}

/* Each character is accepted, whatever follows it, and a part of it is one ill-formed sequence. */
void character(void)
{
    char bytes[8];
    unsigned value = (unsigned)any_up_to(0x10FFFF);
    __CPROVER_assume(is_scalar(value));
    int n = put_scalar(value, bytes);
    assert(utf8_step((struct span){bytes, (size_t)n + any_up_to(4)}) == n);
    size_t cut = any_up_to((size_t)n - 1);
    assert(cut == 0 || utf8_step((struct span){bytes, cut}) == -(int)cut);
}

/* A text is valid if and only if it is one character after the other. */
void text(void)
{
    char bytes[8];
    struct span rest = ANY_TEXT(bytes);
    bool valid = utf8_valid(rest);
    while (rest.len > 0 && utf8_step(rest) > 0)
        rest = span_skip(rest, (size_t)utf8_step(rest));
    assert(valid == (rest.len == 0));
}
