/*
 * The parser of Redis' replies. The first byte of an input determines the pieces in which the rest is parsed;
 * the results must be the same as those of parsing it at once, in bounded memory. Where no limit is exceeded
 * and there is no push, hiredis must parse the same.
 */
#include "redis/resp.h"

#include <hiredis/hiredis.h>

#include "fuzz/fuzz.h"

enum { BYTES_MAX = 32 * 1024, HELD_MAX = 2 * BYTES_MAX, PIECE_MAX = 64 };

struct parsed {
    struct buf seen; /* all results, one after the other */
    bool plain;      /* no limit was exceeded, nothing was pushed, no number was other than an integer */
    bool failed;
    size_t replies;
};

static void note_item(struct buf *out, int type, long long integer, struct span text, size_t elements)
{
    buf_printf(out, "%d %lld %zu %zu ", type, integer, text.len, elements);
    if (text.data != NULL)
        buf_append_span(out, text);
    buf_append_char(out, '\n');
}

static void note(struct buf *out, const struct redis_reply *reply)
{
    const struct redis_reply *end = reply_next(reply);
    for (; reply < end; reply++) {
        FUZZ_CHECK(reply->str == NULL || reply->str[reply->len] == '\0');
        note_item(out, (int)reply->type, reply->integer, (struct span){reply->str, reply->len},
                  reply->elements);
    }
}

static void note_theirs(struct buf *out, const redisReply *reply)
{
    note_item(out, reply->type, reply->integer, (struct span){reply->str, reply->len}, reply->elements);
    for (size_t i = 0; i < reply->elements; i++)
        note_theirs(out, reply->element[i]);
}

/* hiredis validates the text of these, which no command of channeld returns. */
static bool has_other_numbers(const struct redis_reply *reply)
{
    const struct redis_reply *end = reply_next(reply);
    for (; reply < end; reply++)
        if (reply->type == REPLY_DOUBLE || reply->type == REPLY_BIGNUM)
            return true;
    return false;
}

static bool take_results(struct resp_parser *p, struct span input, struct parsed *out)
{
    char *room = resp_reserve(p, input.len);
    FUZZ_CHECK(room != NULL);
    memcpy(room, input.data, input.len);
    resp_received(p, input.len);
    for (;;) {
        const struct redis_reply *reply = NULL;
        enum resp_result result = resp_parse(p, &reply);
        FUZZ_CHECK(p->size <= BYTES_MAX && p->capacity * sizeof *p->item <= HELD_MAX);
        FUZZ_CHECK(p->start <= p->parsed && p->parsed <= p->input.len);
        FUZZ_CHECK(result != RESP_INCOMPLETE || p->input.len - p->start <= BYTES_MAX + RESP_LINE_MAX);
        if (result == RESP_ERROR || result == RESP_INCOMPLETE) {
            FUZZ_CHECK(result == RESP_INCOMPLETE || p->error != NULL);
            out->failed = result == RESP_ERROR;
            return !out->failed;
        }
        if (result != RESP_REPLY)
            buf_append_str(&out->seen, "push ");
        note(&out->seen, reply);
        out->replies++;
        out->plain =
            out->plain && result == RESP_REPLY && !resp_is_oversize(reply) && !has_other_numbers(reply);
    }
}

static struct parsed parse(struct span input, size_t piece)
{
    struct parsed out = {.plain = true};
    struct resp_parser p;
    resp_init(&p);
    p.bytes_max = BYTES_MAX;
    while (input.len > 0) {
        struct span part = {input.data, input.len < piece ? input.len : piece};
        if (!take_results(&p, part, &out))
            break;
        input = span_skip(input, part.len);
    }
    resp_fini(&p);
    FUZZ_CHECK(buf_error(&out.seen) == 0);
    return out;
}

/* hiredis accepts more than the parser does, so it parses as many replies as were found. */
static void compare_with_hiredis(struct span input, const struct parsed *ours)
{
    struct buf theirs = BUF_INIT;
    redisReader *reader = redisReaderCreate();
    FUZZ_CHECK(reader != NULL && redisReaderFeed(reader, input.data, input.len) == REDIS_OK);
    for (size_t i = 0; i < ours->replies; i++) {
        void *reply = NULL;
        FUZZ_CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);
        note_theirs(&theirs, reply);
        freeReplyObject(reply);
    }
    FUZZ_CHECK(span_equal(buf_span(&theirs), buf_span(&ours->seen)));
    redisReaderFree(reader);
    buf_fini(&theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = fuzz_input(data, size);
    if (input.len == 0)
        return 0;
    size_t piece = (unsigned char)input.data[0] % PIECE_MAX + 1;
    input = span_skip(input, 1);
    struct parsed whole = parse(input, SIZE_MAX);
    struct parsed pieces = parse(input, piece);
    FUZZ_CHECK(whole.failed == pieces.failed && whole.replies == pieces.replies);
    FUZZ_CHECK(span_equal(buf_span(&whole.seen), buf_span(&pieces.seen)));
    if (whole.plain && whole.replies > 0 && span_find(input, '>') == input.len)
        compare_with_hiredis(input, &whole);
    buf_fini(&whole.seen);
    buf_fini(&pieces.seen);
    return 0;
}
