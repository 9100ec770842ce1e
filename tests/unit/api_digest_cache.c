/* Remembered digests are those of the keys, whatever came before. */
#include "api/digest_cache.h"

#include "unit/check.h"

static struct digest_cache memo;

static void expect_digest(struct span key)
{
    struct digest found;
    struct digest pending;
    digest_cache_get(&memo, key, &found);
    digest_sha256(key, &pending);
    assert_memory_equal(found.bytes, pending.bytes, DIGEST_LEN);
}

static bool is_kept(struct span key)
{
    for (size_t i = 0; i < DIGEST_CACHE_SLOTS; i++) {
        const struct digest_cache_entry *e = &memo.slot[i];
        if (span_equal((struct span){e->key, e->len}, key))
            return true;
    }
    return false;
}

static void keep(struct span key)
{
    struct digest digest;
    digest_cache_get(&memo, key, &digest);
    digest_cache_put(&memo, &digest);
}

TEST(a_key_has_its_digest_the_first_time_and_every_time)
{
    expect_digest(SPAN("ck_one"));
    keep(SPAN("ck_one"));
    assert_true(is_kept(SPAN("ck_one")));
    expect_digest(SPAN("ck_one"));
}

TEST(keys_that_share_a_place_do_not_share_a_digest)
{
    char key[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 * DIGEST_CACHE_SLOTS; i++) {
            int n = snprintf(key, sizeof key, "key-%d", i);
            expect_digest((struct span){key, (size_t)n});
            keep((struct span){key, (size_t)n});
        }
    }
}

TEST(a_key_is_told_from_its_beginnings_and_its_ends)
{
    keep(SPAN("abcdefghijkl"));
    keep(SPAN("bcdefghijkl"));
    expect_digest(SPAN("abcdefghijkl"));
    expect_digest(SPAN("xbcdefghijkl"));
    expect_digest(SPAN("a"));
}

TEST(keys_of_any_length_have_their_digest)
{
    char key[DIGEST_CACHE_KEY_MAX + 2];
    memset(key, 'k', sizeof key);
    for (size_t n = 1; n <= sizeof key; n++) {
        expect_digest((struct span){key, n});
        keep((struct span){key, n});
        expect_digest((struct span){key, n});
    }
}

TEST(wrong_keys_take_no_place_and_push_none_out)
{
    char key[32];
    keep(SPAN("ck_valid"));
    for (int i = 0; i < 16 * DIGEST_CACHE_SLOTS; i++) {
        int n = snprintf(key, sizeof key, "wrong-%d", i);
        expect_digest((struct span){key, (size_t)n});
        assert_false(is_kept((struct span){key, (size_t)n}));
    }
    assert_true(is_kept(SPAN("ck_valid")));
}

TEST(a_key_is_kept_only_by_its_own_digest)
{
    struct digest first;
    struct digest second;
    digest_cache_get(&memo, SPAN("ck_first"), &first);
    digest_cache_get(&memo, SPAN("ck_second"), &second);
    digest_cache_put(&memo, &first);
    assert_false(is_kept(SPAN("ck_first")));
    assert_false(is_kept(SPAN("ck_second")));
    digest_cache_put(&memo, &second);
    assert_true(is_kept(SPAN("ck_second")));
}

TEST(no_key_is_left_at_the_end)
{
    static const struct digest_cache empty;
    keep(SPAN("ck_secret"));
    expect_digest(SPAN("ck_other"));
    digest_cache_fini(&memo);
    assert_memory_equal(&memo, &empty, sizeof memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_digest_the_first_time_and_every_time),
        cmocka_unit_test(keys_that_share_a_place_do_not_share_a_digest),
        cmocka_unit_test(a_key_is_told_from_its_beginnings_and_its_ends),
        cmocka_unit_test(keys_of_any_length_have_their_digest),
        cmocka_unit_test(wrong_keys_take_no_place_and_push_none_out),
        cmocka_unit_test(a_key_is_kept_only_by_its_own_digest),
        cmocka_unit_test(no_key_is_left_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
