/* Commands as Redis reads them: byte for byte what hiredis would send. */
#include "redis/resp.h"

#include <hiredis/hiredis.h>

#include "unit/check.h"

static void assert_as_hiredis(const struct buf *ours, int argc, const char **argv, const size_t *lengths)
{
    char *theirs = NULL;
    long long len = redisFormatCommandArgv(&theirs, argc, argv, lengths);
    assert_int_equal(buf_error(ours), 0);
    assert_int_equal(ours->len, len);
    assert_memory_equal(ours->data, theirs, ours->len);
    redisFreeCommand(theirs);
}

TEST_CASE(words_of_any_length_and_content)
{
    static char word[100001];
    for (size_t len = 0; len < sizeof word; len = len * 3 + 1) {
        struct buf out = BUF_INIT;
        const char *argv[] = {"ECHO", word, ""};
        const size_t lengths[] = {4, len, 0};
        memset(word, '\r', len);
        command_write(&out, 3, argv, lengths);
        assert_as_hiredis(&out, 3, argv, lengths);
        buf_fini(&out);
    }
}

TEST_CASE(words_that_end_with_a_nul)
{
    struct buf out = BUF_INIT;
    const char *argv[] = {"CLIENT", "TRACKING", "ON"};
    command_write(&out, 3, argv, NULL);
    assert_as_hiredis(&out, 3, argv, NULL);
    buf_fini(&out);
}
