/* Counting HTTP answers; see answers.h. */
#include "answers.h"

#include "net.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of Content-Length; the head ends with an empty line. */
static uint64_t content_length(const char *head, const char *end)
{
    static const char name[] = "\ncontent-length:";
    const char *at = head;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if ((at[1] | 0x20) == 'c' && strncasecmp(at, name, sizeof name - 1) == 0)
            return strtoull(at + sizeof name - 1, NULL, 10);
        at++;
    }
    die("an answer without Content-Length: %.*s", (int)(end - head), head);
}

static unsigned begin_body(struct answer_reader *r, struct answer_totals *t, const char *head, size_t len)
{
    if (len < sizeof "HTTP/1.1 200\r\n\r\n" - 1 || memcmp(head, "HTTP/1.", 7) != 0)
        die("not HTTP: %.*s", (int)len, head);
    if (memcmp(head + 9, "200", 3) != 0)
        t->errors++;
    r->body_left = content_length(head, head + len);
    t->body_bytes += r->body_left;
    return r->body_left == 0;
}

/* Takes the head from the pieces kept so far and the new bytes; returns how many of these belong to it. */
static size_t read_split_head(struct answer_reader *r, struct answer_totals *t, const char *data, size_t len,
                              unsigned *ended)
{
    size_t taken = len < ANSWER_HEAD_MAX - r->head_len ? len : ANSWER_HEAD_MAX - r->head_len;
    memcpy(r->head + r->head_len, data, taken);
    size_t before = r->head_len;
    r->head_len += taken;
    const char *end = memmem(r->head, r->head_len, "\r\n\r\n", 4);
    if (end == NULL) {
        if (r->head_len == ANSWER_HEAD_MAX)
            die("a head of more than %d bytes", ANSWER_HEAD_MAX);
        return taken;
    }
    size_t head_len = (size_t)(end + 4 - r->head);
    *ended += begin_body(r, t, r->head, head_len);
    r->head_len = 0;
    return head_len - before;
}

unsigned answers_read(struct answer_reader *r, struct answer_totals *t, const char *data, size_t len)
{
    const char *end = data + len;
    unsigned ended = 0;
    while (data < end) {
        size_t rest = (size_t)(end - data);
        if (r->body_left > 0) {
            size_t skipped = rest < r->body_left ? rest : (size_t)r->body_left;
            r->body_left -= skipped;
            data += skipped;
            ended += r->body_left == 0;
            continue;
        }
        const char *head_end = r->head_len > 0 ? NULL : memmem(data, rest, "\r\n\r\n", 4);
        if (head_end != NULL) {
            ended += begin_body(r, t, data, (size_t)(head_end + 4 - data));
            data = head_end + 4;
        } else {
            data += read_split_head(r, t, data, rest, &ended);
        }
    }
    t->whole += ended;
    return ended;
}
