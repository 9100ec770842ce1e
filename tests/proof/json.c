/* Text in JSON: the blocks of any machine, or with -DSSE2 those of sixteen bytes. */
#ifndef SSE2
#undef __SSE2__
#endif
#include "base/json.c"

#include "proof.h"

static size_t plain_step(struct span rest)
{
    char c = rest.data[0];
    if (c >= 0 && c < 0x80)
        return c >= 0x20 && c != '"' && c != '\\';
    int step = utf8_step(rest);
    return step > 0 ? (size_t)step : 0;
}

#ifdef SSE2
/* The two instructions for which the compiler has no operator. */
typedef char sixteen __attribute__((vector_size(16)));
typedef long long two __attribute__((vector_size(16)));

int __builtin_ia32_pmovmskb128(sixteen block)
{
    int mask = 0;
    for (int i = 0; i < 16; i++)
        mask |= (block[i] < 0) << i;
    return mask;
}

two __builtin_ia32_pandn128(two a, two b)
{
    return ~a & b;
}
#endif

/* What a block says of its bytes is what they are one by one. */
void block(void)
{
    char bytes[BLOCK];
    size_t n = json_plain_block(bytes);
    size_t next = 0;
    assert(n <= BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        if (i != next || i >= n)
            continue;
        size_t step = plain_step((struct span){bytes + i, BLOCK - i});
        assert(step > 0);
        next = i + step;
    }
    assert(next == n);
}

/* The prefix is as long as one found byte by byte, and copied; nothing is written beyond the room. */
void plain(void)
{
    char bytes[4];
    char room[sizeof bytes + JSON_COPY_ROOM];
    struct span text = ANY_TEXT(bytes);
    size_t n = json_copy_plain(text, room);
    size_t expected = 0;
    for (size_t i = 0; i < text.len; i++)
        expected += i == expected ? plain_step(span_skip(text, i)) : 0;
    assert(n == expected && memcmp(room, text.data, n) == 0);
}

static int hex_of(char c)
{
    assert((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The character at the start of the content of a JSON string; the text goes on behind it. */
static int read_character(struct span *rest)
{
    char c = rest->data[0];
    assert(c != '"' && (c < 0 || c >= 0x20));
    size_t len = 1;
    int value = c;
    if (c == '\\') {
        assert(rest->len >= 2);
        char second = rest->data[1];
        static const char from[] = "\"\\bfnrt";
        static const char to[] = "\"\\\b\f\n\r\t";
        if (second == 'u') {
            assert(rest->len >= 6 && rest->data[2] == '0' && rest->data[3] == '0');
            value = hex_of(rest->data[4]) * 16 + hex_of(rest->data[5]);
            len = 6;
        } else {
            const char *at = memchr(from, second, sizeof from - 1);
            assert(at != NULL);
            value = to[at - from];
            len = 2;
        }
    }
    *rest = span_skip(*rest, len);
    return value;
}

/* Each character that is escaped is read as itself. */
void escape(void)
{
    char room[6];
    struct buf out = BUF_IN(room);
    char c = (char)any_up_to(0x7F);
    __CPROVER_assume(c == '"' || c == '\\' || c < 0x20);
    json_write_escape(&out, (unsigned char)c);
    struct span rest = buf_span(&out);
    assert(read_character(&rest) == c && rest.len == 0);
}

/* What is written is UTF-8 without control characters, and the text itself if there is nothing to escape or
 * replace. */
void written(void)
{
    char bytes[2];
    char room[6 * sizeof bytes + JSON_COPY_ROOM];
    struct span text = ANY_TEXT(bytes);
    struct buf out = BUF_IN(room);
    json_write_text(&out, text);
    bool plain = utf8_valid(text);
    for (size_t i = 0; i < text.len; i++)
        plain = plain && (text.data[i] < 0 || plain_step(span_skip(text, i)) == 1);
    for (size_t i = 0; i < out.len; i++)
        assert(out.data[i] < 0 || out.data[i] >= 0x20);
    assert(out.len <= 6 * text.len && utf8_valid(buf_span(&out)));
    assert(plain == span_equal(buf_span(&out), text));
}
