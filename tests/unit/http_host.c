/* Host: names, addresses and ports that are valid, and everything else. */
#include "http/host.h"

#include <stdlib.h>

#include "unit/check.h"

/* Looked at in a copy of exactly its size. */
static bool valid(struct span host)
{
    char *copy = malloc(host.len + (host.len == 0));
    assert_non_null(copy);
    memcpy(copy, host.data, host.len);
    bool result = http_host_valid((struct span){copy, host.len});
    free(copy);
    return result;
}

TEST(names_addresses_and_ports_are_valid)
{
    static const char *const hosts[] = {
        "a",
        "example.org",
        "EXAMPLE.org.",
        "a-b_c~d.1",
        "127.0.0.1",
        "a:80",
        "a:",
        "a:0",
        "a:65535",
        "[::1]",
        "[::1]:8080",
        "[::]:",
        "[::ffff:1.2.3.4]:1",
        "xn--e1afmkfd",
        "%D0%B6",
        "!$&'()*+,;=",
        "[v1.fe80]",
    };
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        if (!valid(span_of(hosts[i])))
            fail_msg("\"%s\" is refused", hosts[i]);
}

TEST(everything_else_is_not)
{
    static const char *const hosts[] = {
        "",     ":",     ":80",    "a b",      "a/",           "a?",         "a#",       "u@a",
        "a:b",  "a:80:", "a:-1",   "a:+1",     "a: 80",        "::1",        "a:123456", "[",
        "[]",   "[::1",  "[::1]x", "[::1]:x",  "[::1]80",      "[::1%eth0]", "[a b]",    "a]",
        "a\\b", "\"a\"", "<a>",    "a^",       "a|b",          "\xD0\xB6",   "a\tb",     "%",
        "%4",   "%zz",   "a%",     "http://a", "[::1]:123456",
    };
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        if (valid(span_of(hosts[i])))
            fail_msg("\"%s\" is taken", hosts[i]);
    assert_false(valid(SPAN("a\0b")));
    assert_false(valid(SPAN("\0")));
    assert_false(valid(SPAN("a:8\0")));
    assert_false(valid(SPAN("[::1\0]")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_addresses_and_ports_are_valid),
        cmocka_unit_test(everything_else_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
