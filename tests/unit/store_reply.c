/*
 * Replies in a pool are those that hiredis makes, whatever comes and however it is cut, and large ones give
 * their memory back.
 */
#include "store/reply.h"

#include <stdlib.h>

#include "base/buf.h"
#include "unit/check.h"

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
    ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    ">2\r\n$10\r\ninvalidate\r\n_\r\n"
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n$4\r\ndeep\r\n";
enum { REPLIES = 23 };

static void assert_same(const redisReply *ours, const redisReply *theirs)
{
    assert_int_equal(ours->type, theirs->type);
    assert_int_equal(ours->integer, theirs->integer);
    assert_memory_equal(&ours->dval, &theirs->dval, sizeof ours->dval);
    assert_int_equal(ours->len, theirs->len);
    assert_int_equal(ours->str == NULL, theirs->str == NULL);
    if (ours->str != NULL)
        assert_memory_equal(ours->str, theirs->str, ours->len + 1);
    assert_string_equal(ours->vtype, theirs->vtype);
    assert_int_equal(ours->elements, theirs->elements);
    for (size_t i = 0; i < ours->elements; i++)
        assert_same(ours->element[i], theirs->element[i]);
}

static redisReader *new_reader(struct reply_pool *pool)
{
    redisReader *reader = redisReaderCreate();
    assert_non_null(reader);
    if (pool != NULL)
        reply_pool_serve(pool, reader);
    return reader;
}

static void feed(redisReader *reader, const char *bytes, size_t n)
{
    assert_int_equal(redisReaderFeed(reader, bytes, n), REDIS_OK);
}

static redisReply *next(redisReader *reader)
{
    void *reply = NULL;
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    return reply;
}

TEST(every_kind_of_reply_is_as_hiredis_makes_it_however_it_is_cut)
{
    size_t size = sizeof EVERYTHING - 1;
    for (size_t slice = 1; slice <= size; slice++) {
        struct reply_pool pool = {0};
        redisReader *ours = new_reader(&pool);
        redisReader *theirs = new_reader(NULL);
        int seen = 0;
        for (size_t at = 0; at < size; at += slice) {
            size_t n = size - at < slice ? size - at : slice;
            feed(ours, EVERYTHING + at, n);
            feed(theirs, EVERYTHING + at, n);
            for (redisReply *reply = NULL; (reply = next(ours)) != NULL; seen++) {
                redisReply *same = next(theirs);
                assert_non_null(same);
                assert_same(reply, same);
                freeReplyObject(same);
                reply_pool_clear(&pool);
            }
        }
        assert_int_equal(seen, REPLIES);
        redisReaderFree(ours);
        redisReaderFree(theirs);
        reply_pool_fini(&pool);
    }
}

/* A set of many members, and a text of a megabyte. */
TEST(a_large_reply_is_whole_and_gives_its_memory_back)
{
    enum { MEMBERS = 100000, LONG = 1 << 20 };
    struct reply_pool pool = {0};
    redisReader *reader = new_reader(&pool);
    struct buf in = BUF_INIT;
    buf_printf(&in, "~%d\r\n", MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        buf_printf(&in, "$6\r\n%06d\r\n", i);
    buf_printf(&in, "$%d\r\n%*s\r\n+after\r\n", LONG, LONG, "x");
    feed(reader, in.data, in.len);
    const redisReply *reply = next(reader);
    assert_int_equal(reply->elements, MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        char expected[16];
        (void)snprintf(expected, sizeof expected, "%06d", i);
        assert_string_equal(reply->element[i]->str, expected);
    }
    reply_pool_clear(&pool);
    assert_in_range(pool.left, 0, REPLY_CHUNK);
    reply = next(reader);
    assert_int_equal(reply->len, LONG);
    assert_int_equal(strlen(reply->str), LONG);
    reply_pool_clear(&pool);
    assert_in_range(pool.left, 0, REPLY_CHUNK);
    assert_string_equal(next(reader)->str, "after");
    redisReaderFree(reader);
    reply_pool_fini(&pool);
    buf_fini(&in);
}

/* What was begun belongs to the pool, not to the reader: neither leaks nor is freed twice. */
TEST(a_reply_that_never_ends_costs_nothing)
{
    static const char *const starts[] = {"*3\r\n$1\r\na\r\n", "*2\r\n:1\r\n?", "%1\r\n+k\r\n:1x\r\n",
                                         "$5\r\nhel"};
    for (size_t i = 0; i < TEST_COUNT(starts); i++) {
        struct reply_pool pool = {0};
        void *reply = NULL;
        redisReader *reader = new_reader(&pool);
        feed(reader, starts[i], strlen(starts[i]));
        (void)redisReaderGetReply(reader, &reply);
        assert_null(reply);
        redisReaderFree(reader);
        reply_pool_fini(&pool);
    }
}

TEST(an_array_beyond_all_memory_is_an_error)
{
    struct reply_pool pool = {0};
    void *reply = NULL;
    redisReader *reader = new_reader(&pool);
    reader->maxelements = 0; /* no limit of its own */
    feed(reader, "*4611686018427387903\r\n", 22);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
    assert_int_equal(reader->err, REDIS_ERR_OOM);
    redisReaderFree(reader);
    reply_pool_fini(&pool);
}

/* The reader is fed `bytes`, and says whether the reply is too large. */
static bool is_too_large(redisReader *reader, const struct reply_pool *pool, const char *bytes, size_t n)
{
    void *reply = NULL;
    feed(reader, bytes, n);
    bool broken = redisReaderGetReply(reader, &reply) != REDIS_OK;
    assert_null(reply);
    bool exceeded = reply_pool_exceeded(pool, reader);
    assert_true(exceeded || !broken);
    return exceeded;
}

TEST(what_is_announced_is_not_allocated)
{
    struct reply_pool pool = {0};
    void *reply = NULL;
    redisReader *reader = new_reader(&pool);
    feed(reader, "*1048577\r\n", 10);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
    assert_int_equal(pool.size, 0);
    redisReaderFree(reader);

    reader = new_reader(&pool);
    int arrays = 0;
    while (!is_too_large(reader, &pool, "*1048576\r\n", 10))
        assert_true(++arrays < 9); /* of 8 MiB each */
    assert_in_range(pool.size, 1, REPLY_BYTES_MAX);
    redisReaderFree(reader);
    reply_pool_fini(&pool);
}

TEST(a_text_that_is_announced_as_too_long_is_not_waited_for)
{
    static const struct {
        const char *start;
        bool too_large;
    } texts[] = {{"$67108864\r\n", false},           {"$67108865\r\n", true},
                 {"*2\r\n=67108865\r\n", true},      {"$67108865", true},
                 {"$9223372036854775807\r\n", true}, {"%1\r\n$9223372036854775806\r\n", true}};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct reply_pool pool = {0};
        redisReader *reader = new_reader(&pool);
        const char *start = texts[i].start;
        assert_int_equal(is_too_large(reader, &pool, start, strlen(start)), texts[i].too_large);
        redisReaderFree(reader);
        reply_pool_fini(&pool);
    }
}

TEST(what_does_not_end_is_not_waited_for)
{
    enum { PIECE = 1 << 14 };
    static const struct {
        const char *start, *piece;
        size_t most;
    } kinds[] = {{"$67108864\r\n", "", REPLY_BYTES_MAX},
                 {"+", "", REPLY_LINE_MAX},
                 {"*2\r\n-ERR ", "", REPLY_LINE_MAX},
                 {"*1000000\r\n", ":1\r\n", REPLY_BYTES_MAX}};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        struct reply_pool pool = {0};
        redisReader *reader = new_reader(&pool);
        struct buf piece = BUF_INIT;
        size_t held = 0;
        while (piece.len < PIECE)
            buf_append_str(&piece, kinds[i].piece[0] == '\0' ? "x" : kinds[i].piece);
        assert_false(is_too_large(reader, &pool, kinds[i].start, strlen(kinds[i].start)));
        while (!is_too_large(reader, &pool, piece.data, piece.len))
            held = pool.size + reader->len - reader->pos;
        assert_in_range(held, kinds[i].most / 2, kinds[i].most + REPLY_CHUNK);
        redisReaderFree(reader);
        reply_pool_fini(&pool);
        buf_fini(&piece);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_reply_is_as_hiredis_makes_it_however_it_is_cut),
        cmocka_unit_test(a_large_reply_is_whole_and_gives_its_memory_back),
        cmocka_unit_test(a_reply_that_never_ends_costs_nothing),
        cmocka_unit_test(an_array_beyond_all_memory_is_an_error),
        cmocka_unit_test(what_is_announced_is_not_allocated),
        cmocka_unit_test(a_text_that_is_announced_as_too_long_is_not_waited_for),
        cmocka_unit_test(what_does_not_end_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
