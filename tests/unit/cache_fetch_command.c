/* Commands as Redis reads them: byte for byte what hiredis would send. */
#include "redis/resp.h"

#include <hiredis/hiredis.h>

#include "cache/fetch_command.h"
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

TEST(words_of_any_length_and_content)
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

TEST(words_that_end_with_a_nul)
{
    struct buf out = BUF_INIT;
    const char *argv[] = {"CLIENT", "TRACKING", "ON"};
    command_write(&out, 3, argv, NULL);
    assert_as_hiredis(&out, 3, argv, NULL);
    buf_fini(&out);
}

static struct keyspace keys;
static struct fetch_commands commands;

static int start(void **state)
{
    (void)state;
    return keyspace_init(&keys, SPAN("test:")) != 0 || fetch_commands_init(&commands, &keys) != 0;
}

static int end(void **state)
{
    (void)state;
    fetch_commands_fini(&commands);
    return 0;
}

TEST(the_fields_of_both_shapes_are_asked_for)
{
    for (int shape = CHANNEL_SUMMARY; shape <= CHANNEL_CARD; shape++) {
        static const char *const ids[] = {"test:card:1", "test:card:-9223372036854775808"};
        for (size_t i = 0; i < TEST_COUNT(ids); i++) {
            const char *argv[2 + CHANNEL_FIELD_COUNT] = {"HMGET", ids[i]};
            size_t lengths[2 + CHANNEL_FIELD_COUNT] = {5, strlen(ids[i])};
            size_t count = 0;
            struct buf out = BUF_INIT;
            struct buf key = BUF_INIT;
            const enum channel_field *fields = channel_shape_fields((enum channel_shape)shape, &count);
            for (size_t f = 0; f < count; f++) {
                argv[2 + f] = channel_field_name(fields[f]).data;
                lengths[2 + f] = channel_field_name(fields[f]).len;
            }
            buf_append_str(&key, ids[i]);
            fetch_command_hmget(&commands, &out, (enum channel_shape)shape, &key);
            assert_as_hiredis(&out, (int)(2 + count), argv, lengths);
            buf_fini(&key);
            buf_fini(&out);
        }
    }
}

TEST(a_key_is_asked_for_by_its_digest)
{
    struct digest key;
    struct buf out = BUF_INIT;
    char hex[DIGEST_HEX_LEN];
    digest_sha256(SPAN("key"), &key);
    digest_hex(&key, hex);
    fetch_command_sismember(&commands, &out, &key);
    assert_as_hiredis(&out, 3, (const char *[]){"SISMEMBER", "test:api_keys", hex},
                      (const size_t[]){9, 13, sizeof hex});
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_any_length_and_content),
        cmocka_unit_test(words_that_end_with_a_nul),
        cmocka_unit_test(the_fields_of_both_shapes_are_asked_for),
        cmocka_unit_test(a_key_is_asked_for_by_its_digest),
    };
    return cmocka_run_group_tests(tests, start, end);
}
