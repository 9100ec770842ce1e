/*
 * Replies are those that hiredis makes, whatever comes and however it is cut. One that is too large is
 * skipped, in bounded memory, and those behind it are as ever. Pushes come element by element.
 */
#include "redis/resp.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "unit/check.h"
#include "unit/reply.h"

static const char EVERYTHING[] =
    "$5\r\nhello\r\n"
    "$0\r\n\r\n"
    "$-1\r\n"
    "*-1\r\n"
    "_\r\n"
    ":-42\r\n"
    "+OK\r\n"
    "-ERR no\r\n"
    "#t\r\n"
    "#f\r\n"
    ",1.25\r\n"
    ",-inf\r\n"
    "(123456789012345678901234567890\r\n"
    "=8\r\ntxt:text\r\n"
    "=4\r\nmkd:\r\n"
    "*0\r\n"
    "%0\r\n"
    "*3\r\n$1\r\na\r\n$-1\r\n:7\r\n"
    "%2\r\n+k\r\n*2\r\n:1\r\n:2\r\n+l\r\n~1\r\n#t\r\n"
    "~2\r\n$1\r\nx\r\n$2\r\nyz\r\n"
    "*1\r\n>1\r\n+inner\r\n"
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n$4\r\ndeep\r\n";
enum { REPLIES = 22, KEPT = 2 * RESP_KEPT /* items and input */ };

static void assert_same(const struct redis_reply *ours, const redisReply *theirs)
{
    assert_int_equal(ours->type, theirs->type);
    assert_int_equal(ours->integer, theirs->integer);
    assert_memory_equal(&ours->number, &theirs->dval, sizeof ours->number);
    assert_int_equal(ours->len, theirs->len);
    assert_int_equal(ours->str == NULL, theirs->str == NULL);
    if (ours->str != NULL)
        assert_memory_equal(ours->str, theirs->str, ours->len + 1);
    assert_int_equal(ours->elements, theirs->elements);
    const struct redis_reply *element = reply_first(ours);
    for (size_t i = 0; i < ours->elements; i++, element = reply_next(element))
        assert_same(element, theirs->element[i]);
}

static struct resp_parser parser;

/* Bytes that the parser has allocated for replies. */
static size_t memory(void)
{
    return parser.capacity * sizeof *parser.item + parser.input.cap;
}

static void begin(void)
{
    resp_init(&parser);
}

static void end(void)
{
    resp_fini(&parser);
}

/* The next reply in what was fed before and *input, or NULL where there is no complete one. */
static const struct redis_reply *next(struct span *input)
{
    const struct redis_reply *reply = NULL;
    switch (reply_feed(&parser, input, &reply)) {
    case RESP_INCOMPLETE:
        return NULL;
    case RESP_REPLY:
        return reply;
    default:
        fail_msg("%s", parser.error == NULL ? "a push" : parser.error);
    }
    return NULL;
}

static const char *next_line(struct span *input)
{
    const struct redis_reply *reply = next(input);
    return reply == NULL || reply->str == NULL ? "" : reply->str;
}

/* What comes of `text` is not looked at; false when it is an error. */
static bool parses(struct span text)
{
    const struct redis_reply *reply = NULL;
    enum resp_result result = reply_feed(&parser, &text, &reply);
    while (result != RESP_ERROR && result != RESP_INCOMPLETE)
        result = resp_parse(&parser, &reply);
    return result != RESP_ERROR;
}

TEST_CASE(reply_equals_that_of_hiredis_in_pieces_of_any_size)
{
    size_t size = sizeof EVERYTHING - 1;
    for (size_t slice = 1; slice <= size; slice++) {
        redisReader *theirs = redisReaderCreate();
        int seen = 0;
        begin();
        for (size_t at = 0; at < size; at += slice) {
            struct span piece = {EVERYTHING + at, size - at < slice ? size - at : slice};
            assert_int_equal(redisReaderFeed(theirs, piece.data, piece.len), REDIS_OK);
            for (const struct redis_reply *reply = NULL; (reply = next(&piece)) != NULL; seen++) {
                void *same = NULL;
                assert_int_equal(redisReaderGetReply(theirs, &same), REDIS_OK);
                assert_non_null(same);
                assert_same(reply, same);
                freeReplyObject(same);
            }
        }
        assert_int_equal(seen, REPLIES);
        assert_int_equal(resp_arriving(&parser), 0);
        redisReaderFree(theirs);
        end();
    }
}

/* A set of many members, and a text of a megabyte. */
TEST_CASE(large_reply_is_complete_and_its_memory_released)
{
    enum { MEMBERS = 100000, LONG = 1 << 20 };
    struct buf text = BUF_INIT;
    begin();
    buf_printf(&text, "~%d\r\n", MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        buf_printf(&text, "$6\r\n%06d\r\n", i);
    buf_printf(&text, "$%d\r\n%*s\r\n+after\r\n", LONG, LONG, "x");
    struct span input = buf_span(&text);
    const struct redis_reply *reply = next(&input);
    assert_non_null(reply);
    assert_int_equal(reply->elements, MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        char pending[16];
        (void)snprintf(pending, sizeof pending, "%06d", i);
        assert_span(reply_text(&reply[1 + i]), pending);
    }
    reply = next(&input);
    assert_non_null(reply);
    assert_int_equal(reply->len, LONG);
    assert_int_equal(reply->str[LONG - 1], 'x');
    assert_string_equal(next_line(&input), "after");
    assert_null(next(&input));
    assert_null(next(&input));
    assert_in_range(memory(), 1, KEPT);
    end();
    buf_fini(&text);
}

TEST_CASE(incomplete_reply_is_freed)
{
    static const char *const starts[] = {"*3\r\n$1\r\na\r\n", "*2\r\n:1\r\n", "%1\r\n+k\r\n:1", "$5\r\nhel",
                                         ">2\r\n$1\r\na\r\n$4\r\nb"};
    for (size_t i = 0; i < TEST_COUNT(starts); i++) {
        begin();
        assert_true(parses(span_of(starts[i])));
        assert_int_equal(resp_arriving(&parser), 1);
        end();
    }
}

TEST_CASE(invalid_resp_is_a_lasting_error)
{
    static const char *const wrong[] = {"?\r\n",
                                        "\r\n",
                                        "+a\n",
                                        "+a\rb\r\n",
                                        ":1x\r\n",
                                        ":\r\n",
                                        ":+1\r\n",
                                        "$1x\r\n",
                                        "$-2\r\n",
                                        "=-1\r\n",
                                        "*-2\r\n",
                                        "%-1\r\n",
                                        ">-1\r\n",
                                        "*1\r\n?\r\n",
                                        "$1\r\nabc\r\n",
                                        "$1\r\na\rb",
                                        "_x\r\n",
                                        "#x\r\n",
                                        "#\r\n",
                                        "=3\r\nabc\r\n",
                                        "=4\r\nabcd\r\n",
                                        "|1\r\n+a\r\n+b\r\n",
                                        "$?\r\n",
                                        "*?\r\n",
                                        "$9223372036854775808\r\n",
                                        ">3\r\n+a\r\n*9223372036854775807\r\n*9223372036854775807\r\n",
                                        ">3\r\n+a\r\n*4611686018427387900\r\n*99999\r\n",
                                        "\n",
                                        "$05\r\nhello\r\n",
                                        "$5\rxhello\r\n",
                                        "$3\r\nabc\rxyz"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        begin();
        if (parses(span_of(wrong[i])))
            fail_msg("taken: %s", wrong[i]);
        assert_non_null(parser.error);
        assert_false(parses(SPAN("+OK\r\n")));
        end();
    }
}

TEST_CASE(endless_line_is_an_error)
{
    static const char *const starts[] = {"+", "*2\r\n-ERR ", "$", ">1\r\n+"};
    static char piece[1 << 12];
    memset(piece, '1', sizeof piece);
    for (size_t i = 0; i < TEST_COUNT(starts); i++) {
        size_t held = 0;
        begin();
        assert_true(parses(span_of(starts[i])));
        while (parses((struct span){piece, sizeof piece}))
            held += sizeof piece;
        assert_in_range(held, RESP_LINE_MAX - sizeof piece, RESP_LINE_MAX);
        assert_string_equal(parser.error, "a line that does not end");
        end();
    }
}

/* --- replies that are too large --- */

/* `text`, cut in pieces, is one reply that is too large; a small one behind it is read as ever. */
static void check_oversize(struct span text, size_t slice)
{
    struct span after = SPAN("+after\r\n");
    const struct redis_reply *reply = NULL;
    while (text.len > 0) {
        struct span piece = {text.data, text.len < slice ? text.len : slice};
        assert_null(reply);
        reply = next(&piece);
        text = span_skip(text, text.len < slice ? text.len : slice);
        assert_true(reply != NULL || resp_arriving(&parser) == 1);
    }
    assert_ptr_equal(reply, &resp_oversize);
    assert_in_range(memory(), 0, 2 * parser.bytes_max);
    assert_string_equal(next_line(&after), "after");
    assert_in_range(memory(), 0, KEPT);
}

/* The limits are low, so that each part of a reply can be the one that is too much. */
TEST_CASE(oversize_reply_is_skipped_in_pieces_of_any_size)
{
    enum { BYTES = 20000, FILL = 30000 };
    static const struct {
        const char *start;
        char fill; /* this often, FILL times in all */
        const char *rest;
    } rows[] = {
        {"$30000\r\n", 'x', "\r\n"},
        {"=30000\r\n", 'x', "\r\n"},
        {"*3\r\n$1\r\na\r\n$30000\r\n", '\n', "\r\n$1\r\nc\r\n"},
        {"%2\r\n+a\r\n~2\r\n#t\r\n$30000\r\n", '\r', "\r\n_\r\n*2\r\n*0\r\n*1\r\n,1.5\r\n"},
        {"*9\r\n+1\r\n:2\r\n_\r\n%1\r\n+4\r\n$30000\r\n", '*', "\r\n$-1\r\n*-1\r\n#t\r\n(8\r\n*0\r\n"},
        {"*2\r\n*9\r\n+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n+6\r\n+7\r\n+8\r\n$30000\r\n", ' ', "\r\n+b\r\n"},
        {"%5\r\n+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n+6\r\n+7\r\n+8\r\n+9\r\n$30000\r\n", 0, "\r\n"},
        {"*3\r\n+a\r\n+", 'a', "\r\n:5\r\n"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct buf text = BUF_INIT;
        buf_append_str(&text, rows[i].start);
        for (int n = 0; n < FILL; n++)
            buf_append_char(&text, rows[i].fill);
        buf_append_str(&text, rows[i].rest);
        for (size_t slice = 1; slice <= text.len; slice += slice < 100 ? 1 : slice) {
            begin();
            parser.bytes_max = BYTES;
            check_oversize(buf_span(&text), slice);
            end();
        }
        buf_fini(&text);
    }
}

/* Many that are small are too much together, too, as are levels within levels. */
TEST_CASE(reply_size_is_bounded_in_sum)
{
    enum { MANY = 2000, DEEP = 10000 };
    struct buf text = BUF_INIT;
    buf_printf(&text, "*%d\r\n", MANY);
    for (int i = 0; i < MANY; i++)
        buf_append_str(&text, "*1\r\n$5\r\nhello\r\n");
    begin();
    parser.bytes_max = 100000;
    check_oversize(buf_span(&text), 1000);
    end();
    buf_clear(&text);
    for (int i = 0; i < DEEP; i++)
        buf_append_str(&text, "*2\r\n:1\r\n");
    buf_append_str(&text, ":2\r\n");
    begin();
    parser.bytes_max = 100000;
    check_oversize(buf_span(&text), 1000);
    end();
    buf_fini(&text);
}

TEST_CASE(announced_lengths_are_not_allocated)
{
    static const char *const rows[] = {"$67108865\r\n",
                                       "=67108865\r\n",
                                       "*1048577\r\n",
                                       "%524289\r\n",
                                       "$9223372036854775807\r\n",
                                       "*1000000000000\r\n",
                                       "*2\r\n:1\r\n~1000000000000\r\n"};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        begin();
        assert_true(parses(span_of(rows[i])));
        assert_int_equal(resp_arriving(&parser), 1);
        assert_in_range(memory(), 0, KEPT);
        end();
    }
}

/* --- pushes --- */

static const char PUSHES[] = ">2\r\n$10\r\ninvalidate\r\n*3\r\n$1\r\na\r\n$-1\r\n$2\r\nbc\r\n"
                             ">2\r\n$10\r\ninvalidate\r\n_\r\n"
                             "+between\r\n"
                             ">2\r\n$10\r\ninvalidate\r\n*0\r\n"
                             ">1\r\n$5\r\nalone\r\n"
                             ">0\r\n"
                             ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n"
                             ">2\r\n$5\r\nouter\r\n>1\r\n+inner\r\n"
                             ">2\r\n:2\r\n#t\r\n"
                             ":7\r\n";
static const char ITEMS[] = "> invalidate *3 a nil bc > invalidate nil between > invalidate *0 > alone > "
                            "> message c *2 k *2 1 2 > outer *1 inner > 2 1 7 ";

static void append_value(struct buf *out, const struct redis_reply *reply)
{
    if (reply->type == REPLY_NIL)
        buf_append_str(out, "nil ");
    else if (reply->type == REPLY_ARRAY || reply->type == REPLY_MAP || reply->type == REPLY_PUSH)
        buf_printf(out, "*%zu ", reply->elements);
    else if (reply->str != NULL)
        buf_printf(out, "%.*s ", (int)reply->len, reply->str);
    else
        buf_printf(out, "%lld ", (long long)reply->integer);
}

TEST_CASE(pushes_in_pieces_of_any_size)
{
    size_t size = sizeof PUSHES - 1;
    for (size_t slice = 1; slice <= size; slice++) {
        struct buf seen = BUF_INIT;
        begin();
        for (size_t at = 0; at < size; at += slice) {
            struct span piece = {PUSHES + at, size - at < slice ? size - at : slice};
            const struct redis_reply *reply = NULL;
            enum resp_result result = RESP_INCOMPLETE;
            while ((result = reply_feed(&parser, &piece, &reply)) != RESP_INCOMPLETE) {
                assert_int_not_equal(result, RESP_ERROR);
                const struct redis_reply *item = reply;
                if (result == RESP_PUSH) {
                    buf_append_str(&seen, "> ");
                    item++;
                }
                for (; item < reply_next(reply); item++)
                    append_value(&seen, item);
            }
        }
        assert_string_equal(buf_c_str(&seen), ITEMS);
        buf_fini(&seen);
        end();
    }
}

TEST_CASE(push_is_bounded_as_a_reply)
{
    enum { KEYS = 3000 };
    struct buf text = BUF_INIT;
    buf_printf(&text, ">2\r\n$10\r\ninvalidate\r\n*%d\r\n", KEYS);
    for (int i = 0; i < KEYS; i++)
        buf_printf(&text, "$38\r\nchannels:card:%024d\r\n", i);
    begin();
    parser.bytes_max = 100000;
    struct span input = buf_span(&text);
    const struct redis_reply *reply = NULL;
    assert_int_equal(reply_feed(&parser, &input, &reply), RESP_PUSH);
    assert_ptr_equal(reply, &resp_oversize);
    assert_in_range(memory(), 0, 2 * text.len);
    input = SPAN(":1\r\n");
    assert_int_equal(reply_feed(&parser, &input, &reply), RESP_REPLY);
    assert_int_equal(reply->integer, 1);
    buf_fini(&text);
    end();
}

/* --- commands: byte for byte what hiredis would send --- */

static void assert_as_hiredis(const struct buf *ours, int argc, const char **argv, const size_t *lengths)
{
    char *theirs = NULL;
    long long len = redisFormatCommandArgv(&theirs, argc, argv, lengths);
    assert_int_equal(buf_error(ours), 0);
    assert_int_equal(ours->len, len);
    assert_memory_equal(ours->data, theirs, ours->len);
    redisFreeCommand(theirs);
}

TEST_CASE(command_words_have_any_length_and_content)
{
    static char word[100001];
    for (size_t len = 0; len < sizeof word; len = len * 3 + 1) {
        struct buf out = BUF_INIT;
        const char *argv[] = {"ECHO", word, ""};
        const size_t lengths[] = {4, len, 0};
        memset(word, '\r', len);
        command_begin(&out, 3);
        for (int i = 0; i < 3; i++)
            command_add(&out, (struct span){argv[i], lengths[i]});
        assert_as_hiredis(&out, 3, argv, lengths);
        buf_fini(&out);
    }
    struct buf out = BUF_INIT;
    const char *texts[] = {"CLIENT", "TRACKING", "ON"}; /* end with a NUL */
    command_write(&out, 3, texts);
    assert_as_hiredis(&out, 3, texts, NULL);
    buf_fini(&out);
}
