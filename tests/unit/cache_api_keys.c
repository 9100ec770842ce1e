/* The ring knows exactly the digests it was given. */
#include "cache/api_keys.h"

#include <errno.h>

#include "unit/check.h"

enum { KEYS = 1000 };

static char hex[KEYS][DIGEST_HEX_LEN];
static redisReply member[KEYS];
static redisReply *members[KEYS];
static struct api_keys ring;

static struct digest digest_of_number(int i)
{
    struct digest d;
    digest_sha256((struct span){(const char *)&i, sizeof i}, &d);
    return d;
}

static redisReply set_of(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct digest d = digest_of_number((int)i);
        digest_hex(&d, hex[i]);
        member[i] = (redisReply){.type = REDIS_REPLY_STRING, .str = hex[i], .len = DIGEST_HEX_LEN};
        members[i] = &member[i];
    }
    return (redisReply){.type = REDIS_REPLY_SET, .elements = count, .element = members};
}

static int load(const redisReply *set, uint64_t *unreadable)
{
    *unreadable = 0;
    int err = api_keys_begin(&ring, set->type == REDIS_REPLY_SET ? set->elements : 0);
    if (err == 0)
        err = api_keys_add(&ring, set, unreadable);
    if (err == 0)
        api_keys_seal(&ring);
    return err;
}

static enum auth_result verdict_of_number(int i)
{
    struct digest d = digest_of_number(i);
    return api_keys_check(&ring, &d);
}

TEST(before_it_is_loaded_every_verdict_is_unknown)
{
    api_keys_init(&ring);
    assert_int_equal(verdict_of_number(1), AUTH_RESULT_UNKNOWN);
    api_keys_fini(&ring);
}

TEST(every_member_is_valid_and_nothing_else)
{
    const redisReply set = set_of(KEYS);
    uint64_t unreadable = 1;
    assert_int_equal(load(&set, &unreadable), 0);
    assert_int_equal(unreadable, 0);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(verdict_of_number(i), AUTH_RESULT_VALID);
    for (int i = KEYS; i < 3 * KEYS; i++)
        assert_int_equal(verdict_of_number(i), AUTH_RESULT_INVALID);
    api_keys_fini(&ring);
}

/* A million comparisons instead of a few thousand, were they to lie side by side; with as many as are held it
 * would be minutes. */
TEST(members_that_are_much_alike_are_spread)
{
    redisReply set = set_of(KEYS);
    uint64_t unreadable = 0;
    int longest = 0;
    int run = 0;
    for (int i = 0; i < KEYS; i++) {
        char text[DIGEST_HEX_LEN + 1];
        (void)snprintf(text, sizeof text, "%064x", i);
        memcpy(hex[i], text, DIGEST_HEX_LEN);
    }
    api_keys_init(&ring);
    assert_int_equal(load(&set, &unreadable), 0);
    for (size_t at = 0; at < ring.capacity; at++) {
        run = ring.taken[at] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_in_range(longest, 1, KEYS / 10);
    api_keys_fini(&ring);
}

TEST(a_set_that_is_too_large_is_not_held)
{
    redisReply set = set_of(1);
    uint64_t unreadable = 0;
    set.elements = API_KEYS_MAX + 1;
    assert_int_equal(load(&set, &unreadable), -E2BIG);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_UNKNOWN);
}

/* One of the digests comes twice, as SSCAN may give them. */
TEST(a_set_in_portions_is_unknown_until_it_is_sealed)
{
    enum { PORTION = 100 };
    redisReply portion = set_of(KEYS);
    uint64_t unreadable = 0;
    assert_int_equal(api_keys_begin(&ring, KEYS), 0);
    for (int i = 0; i < KEYS; i += PORTION) {
        portion.elements = i + PORTION < KEYS ? PORTION + 1 : PORTION;
        portion.element = &members[i];
        assert_int_equal(api_keys_add(&ring, &portion, &unreadable), 0);
        assert_int_equal(verdict_of_number(0), AUTH_RESULT_UNKNOWN);
    }
    api_keys_seal(&ring);
    for (int i = 0; i < 2 * KEYS; i++)
        assert_int_equal(verdict_of_number(i), i < KEYS ? AUTH_RESULT_VALID : AUTH_RESULT_INVALID);
    api_keys_fini(&ring);
}

TEST(more_than_was_announced_is_not_held)
{
    const redisReply set = set_of(KEYS);
    uint64_t unreadable = 0;
    assert_int_equal(api_keys_begin(&ring, KEYS - 1), 0);
    assert_int_equal(api_keys_add(&ring, &set, &unreadable), -E2BIG);
    assert_int_equal(api_keys_begin(&ring, API_KEYS_MAX + 1), -E2BIG);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_UNKNOWN);
}

TEST(an_empty_set_refuses_everything)
{
    const redisReply set = set_of(0);
    uint64_t unreadable = 0;
    assert_int_equal(load(&set, &unreadable), 0);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_INVALID);
    api_keys_fini(&ring);
}

TEST(loading_again_forgets_what_was_there)
{
    redisReply set = set_of(KEYS);
    uint64_t unreadable = 0;
    assert_int_equal(load(&set, &unreadable), 0);
    set.elements = 1;
    assert_int_equal(load(&set, &unreadable), 0);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_VALID);
    assert_int_equal(verdict_of_number(1), AUTH_RESULT_INVALID);
    api_keys_clear(&ring);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_UNKNOWN);
}

TEST(members_that_are_no_digests_are_counted_and_skipped)
{
    const redisReply set = set_of(3);
    uint64_t unreadable = 0;
    member[0].len--;
    member[1].str[5] = 'G';
    assert_int_equal(load(&set, &unreadable), 0);
    assert_int_equal(unreadable, 2);
    assert_int_equal(verdict_of_number(2), AUTH_RESULT_VALID);
    api_keys_fini(&ring);
}

TEST(an_error_reply_leaves_nothing_known)
{
    const redisReply set = set_of(KEYS);
    const redisReply error = {.type = REDIS_REPLY_ERROR};
    uint64_t unreadable = 0;
    assert_int_equal(load(&set, &unreadable), 0);
    assert_int_not_equal(load(&error, &unreadable), 0);
    assert_int_equal(verdict_of_number(0), AUTH_RESULT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_it_is_loaded_every_verdict_is_unknown),
        cmocka_unit_test(every_member_is_valid_and_nothing_else),
        cmocka_unit_test(members_that_are_much_alike_are_spread),
        cmocka_unit_test(a_set_that_is_too_large_is_not_held),
        cmocka_unit_test(a_set_in_portions_is_unknown_until_it_is_sealed),
        cmocka_unit_test(more_than_was_announced_is_not_held),
        cmocka_unit_test(an_empty_set_refuses_everything),
        cmocka_unit_test(loading_again_forgets_what_was_there),
        cmocka_unit_test(members_that_are_no_digests_are_counted_and_skipped),
        cmocka_unit_test(an_error_reply_leaves_nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
