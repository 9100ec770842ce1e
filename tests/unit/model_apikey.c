/* API keys: their shape, and that no two are alike. */
#include "model/apikey.h"

#include <stdlib.h>

#include "unit/check.h"

enum { KEYS = 2000 };

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, APIKEY_LEN);
}

TEST_CASE(key_has_the_documented_shape)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int i = 0; i < KEYS; i++) {
        char key[APIKEY_LEN + 2];
        memset(key, '!', sizeof key);
        key[APIKEY_LEN + 1] = '\0';
        assert_int_equal(apikey_generate(key), 0);
        assert_memory_equal(key, "ck_", 3);
        assert_int_equal(strspn(key + 3, digits), APIKEY_LEN - 3);
        assert_int_equal(key[APIKEY_LEN], '!'); /* not a byte more */
        /* 256 bits end 4 bits into the last digit: its low two bits are zero. */
        assert_int_equal((strchr(digits, key[APIKEY_LEN - 1]) - digits) & 3, 0);
    }
}

TEST_CASE(key_is_not_a_digest)
{
    char key[APIKEY_LEN];
    assert_int_equal(apikey_generate(key), 0);
    assert_false(digest_is_hex((struct span){key, sizeof key}));
}

TEST_CASE(keys_are_distinct_and_use_every_digit_everywhere)
{
    char(*keys)[APIKEY_LEN] = calloc(KEYS, sizeof *keys);
    assert_non_null(keys);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(apikey_generate(keys[i]), 0);
    for (int at = 3; at < APIKEY_LEN - 1; at++) {
        bool seen[256] = {false};
        int distinct = 0;
        for (int i = 0; i < KEYS; i++) {
            unsigned char c = (unsigned char)keys[i][at];
            distinct += !seen[c];
            seen[c] = true;
        }
        assert_int_equal(distinct, 64); /* a miss has a chance below 1 in 10^10 */
    }
    qsort(keys, KEYS, sizeof *keys, compare);
    for (int i = 1; i < KEYS; i++)
        assert_int_not_equal(compare(keys[i - 1], keys[i]), 0);
    free(keys);
}
