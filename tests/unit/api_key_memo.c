/* Remembered digests are those of the keys, whatever came before. */
#include "api/key_memo.h"

#include "unit/check.h"

static struct key_memo memo;

static void expect_digest(struct span key)
{
    struct digest found;
    struct digest expected;
    assert_int_equal(key_memo_digest(&memo, key, &found), 0);
    assert_int_equal(digest_sha256(key, &expected), 0);
    assert_memory_equal(found.bytes, expected.bytes, DIGEST_LEN);
}

TEST(a_key_has_its_digest_the_first_time_and_every_time)
{
    for (int i = 0; i < 3; i++)
        expect_digest(SPAN("ck_one"));
}

TEST(keys_that_share_a_place_do_not_share_a_digest)
{
    char key[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 * KEY_MEMO_SLOTS; i++) {
            int n = snprintf(key, sizeof key, "key-%d", i);
            expect_digest((struct span){key, (size_t)n});
        }
    }
}

TEST(a_key_is_told_from_its_beginnings_and_its_ends)
{
    expect_digest(SPAN("abcdefghijkl"));
    expect_digest(SPAN("bcdefghijkl"));
    expect_digest(SPAN("abcdefghijkl"));
    expect_digest(SPAN("xbcdefghijkl"));
    expect_digest(SPAN("a"));
}

TEST(keys_of_any_length_have_their_digest)
{
    char key[KEY_MEMO_MAX + 2];
    memset(key, 'k', sizeof key);
    for (size_t n = 1; n <= sizeof key; n++)
        expect_digest((struct span){key, n});
}

TEST(no_key_is_left_at_the_end)
{
    static const struct key_memo empty;
    expect_digest(SPAN("ck_secret"));
    key_memo_fini(&memo);
    assert_memory_equal(&memo, &empty, sizeof memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_digest_the_first_time_and_every_time),
        cmocka_unit_test(keys_that_share_a_place_do_not_share_a_digest),
        cmocka_unit_test(a_key_is_told_from_its_beginnings_and_its_ends),
        cmocka_unit_test(keys_of_any_length_have_their_digest),
        cmocka_unit_test(no_key_is_left_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
