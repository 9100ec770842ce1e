/* Parsing of responses; see answer.h. */
#include "fuzz/answer.h"

#include "fuzz/contract.h"
#include "fuzz/fuzz.h"

enum { LENGTH_MAX = 1 << 20 };

struct span answer_skip_interim(struct span in)
{
    static const struct span interim = {"HTTP/1.1 100 Continue\r\n\r\n", 25};
    while (span_starts_with(in, interim))
        in = span_skip(in, interim.len);
    return in;
}

struct span answer_field(const struct answer *a, const char *name)
{
    struct span rest = a->head;
    struct span found_value = SPAN_ABSENT;
    while (rest.len > 0) {
        struct span line = fuzz_take(&rest, '\n');
        struct span key = {line.data, span_find(line, ':')};
        if (!span_equal_nocase(key, span_of(name)))
            continue;
        FUZZ_CHECK(found_value.data == NULL);
        found_value = span_trim((struct span){line.data + key.len + 1, line.len - key.len - 2});
    }
    return found_value;
}

/* Every line of the head is "Name: value" without control characters, and ends with CR LF. */
static void check_head(struct span head)
{
    while (head.len > 0) {
        struct span line = fuzz_take(&head, '\n');
        size_t name = span_find(line, ':');
        FUZZ_CHECK(name > 0 && name + 2 < line.len && line.data[line.len - 1] == '\r');
        for (size_t i = 0; i + 1 < line.len; i++)
            FUZZ_CHECK((unsigned char)line.data[i] >= 0x20 && line.data[i] != 0x7F);
    }
}

static size_t content_length(const struct answer *a)
{
    struct span text = answer_field(a, "Content-Length");
    size_t n = 0;
    FUZZ_CHECK((text.data == NULL) == (a->status == 204 || a->status == 304));
    if (text.data == NULL)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        FUZZ_CHECK(text.data[i] >= '0' && text.data[i] <= '9' && n < LENGTH_MAX);
        n = n * 10 + (size_t)(text.data[i] - '0');
    }
    return n;
}

void answer_take(struct span *in, enum http_method method, struct answer *a)
{
    const char *end = memmem(in->data, in->len, "\r\n\r\n", 4);
    FUZZ_CHECK(end != NULL && span_starts_with(*in, SPAN("HTTP/1.1 ")));
    struct span all = {in->data, (size_t)(end - in->data) + 2};
    *in = span_skip(*in, all.len + 2);
    *a = (struct answer){.status = 0, .head = all};
    struct span line = fuzz_take(&a->head, '\n');
    FUZZ_CHECK(line.len > 13 && line.data[12] == ' ');
    for (int i = 9; i < 12; i++)
        a->status = a->status * 10 + (line.data[i] - '0');
    check_head(a->head);
    size_t n = content_length(a);
    a->body = (struct span){in->data, method == METHOD_HEAD ? 0 : n};
    FUZZ_CHECK(a->body.len <= in->len);
    *in = span_skip(*in, a->body.len);
    if (n > 0 && method != METHOD_HEAD)
        contract_check_body(a->body, a->status);
}

bool answer_is_whole(struct span in, enum http_method method)
{
    static const struct span name = {"Content-Length: ", 16};
    const char *end = memmem(in.data, in.len, "\r\n\r\n", 4);
    if (end == NULL)
        return false;
    const char *length = memmem(in.data, (size_t)(end - in.data), name.data, name.len);
    size_t body = 0;
    for (const char *p = length == NULL ? end : length + name.len; p < end && *p >= '0' && *p <= '9'; p++)
        body = body * 10 + (size_t)(*p - '0');
    return in.len >= (size_t)(end - in.data) + 4 + (method == METHOD_HEAD ? 0 : body);
}
