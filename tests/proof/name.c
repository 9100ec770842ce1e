/* Names, and hexadecimal digits. */
#include "base/text.h"
#include "proof.h"

static bool is_of_name(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.' || c == '-';
}

void name(void)
{
    char bytes[12];
    struct span text = ANY_TEXT(bytes);
    size_t max = any_up_to(sizeof bytes);
    bool valid = text.len > 0 && text.len <= max;
    for (size_t i = 0; i < text.len; i++)
        valid = valid && is_of_name(text.data[i]);
    assert(name_valid(text, max) == valid);
}

/* Bytes are written in digits that are valid, and mean them. */
void hex(void)
{
    unsigned char bytes[8];
    char digits[2 * sizeof bytes];
    hex_write(bytes, sizeof bytes, digits);
    assert(hex_valid((struct span){digits, sizeof digits}));
    size_t at = any_up_to(sizeof bytes - 1);
    int value = 0;
    for (size_t i = 2 * at; i < 2 * at + 2; i++)
        value = value * 16 + (digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10);
    assert(value == bytes[at]);
}
