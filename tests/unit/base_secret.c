/* Secrets are told apart wherever they differ, and a process that keeps them cannot be dumped. */
#include "base/secret.h"

#include <sys/prctl.h>

#include "unit/check.h"

enum { LENGTHS = 40 };

TEST(secrets_are_equal_when_all_their_bytes_are)
{
    const char text[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEF";
    char copy[sizeof text];
    memcpy(copy, text, sizeof text);
    for (size_t n = 0; n <= LENGTHS; n++)
        assert_true(secret_equal((struct span){text, n}, (struct span){copy, n}));
}

TEST(secrets_that_differ_in_one_bit_anywhere_are_not_equal)
{
    char a[LENGTHS] = {0};
    char b[LENGTHS] = {0};
    for (size_t n = 1; n <= LENGTHS; n++) {
        for (size_t bit = 0; bit < 8 * n; bit++) {
            b[bit / 8] ^= (char)(1 << bit % 8);
            assert_false(secret_equal((struct span){a, n}, (struct span){b, n}));
            b[bit / 8] = 0;
        }
    }
}

TEST(secrets_of_different_length_are_not_equal)
{
    assert_false(secret_equal(SPAN("secret"), SPAN("secre")));
    assert_false(secret_equal(SPAN(""), SPAN("s")));
    assert_true(secret_equal(SPAN(""), SPAN("")));
}

TEST(dumps_are_forbidden_and_allowed_again)
{
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
    secret_forbid_dumps();
    assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
    secret_allow_dumps();
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_equal_when_all_their_bytes_are),
        cmocka_unit_test(secrets_that_differ_in_one_bit_anywhere_are_not_equal),
        cmocka_unit_test(secrets_of_different_length_are_not_equal),
        cmocka_unit_test(dumps_are_forbidden_and_allowed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
