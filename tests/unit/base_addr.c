/* Listen addresses: numeric hosts of both families, and a port with both its ends. */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "unit/check.h"

static void assert_addr(const char *text, int family, const char *host, unsigned port)
{
    struct addr a;
    char shown[INET6_ADDRSTRLEN] = "";
    assert_int_equal(addr_parse(span_of(text), &a), 0);
    assert_int_equal(a.storage.ss_family, family);
    assert_int_equal(addr_port(&a), port);
    const void *raw = NULL;
    if (family == AF_INET) {
        assert_int_equal(addr_len(&a), sizeof(struct sockaddr_in));
        raw = &((const struct sockaddr_in *)(const void *)addr_sockaddr(&a))->sin_addr;
    } else {
        assert_int_equal(addr_len(&a), sizeof(struct sockaddr_in6));
        raw = &((const struct sockaddr_in6 *)(const void *)addr_sockaddr(&a))->sin6_addr;
    }
    assert_non_null(inet_ntop(family, raw, shown, sizeof shown));
    assert_string_equal(shown, host);
}

TEST(version_4_addresses_are_read)
{
    assert_addr("127.0.0.1:8080", AF_INET, "127.0.0.1", 8080);
    assert_addr("0.0.0.0:8080", AF_INET, "0.0.0.0", 8080);
    assert_addr("255.255.255.255:1", AF_INET, "255.255.255.255", 1);
}

TEST(version_6_addresses_stand_in_brackets)
{
    assert_addr("[::1]:8080", AF_INET6, "::1", 8080);
    assert_addr("[::]:80", AF_INET6, "::", 80);
    assert_addr("[2001:db8::7]:443", AF_INET6, "2001:db8::7", 443);
    assert_addr("[::ffff:10.0.0.1]:443", AF_INET6, "::ffff:10.0.0.1", 443);
    assert_addr("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:1", AF_INET6,
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1);
}

TEST(no_host_means_every_address)
{
    struct addr a;
    assert_addr(":8080", AF_INET6, "::", 8080);
    assert_int_equal(addr_parse(SPAN(":8080"), &a), 0);
    assert_true(a.any_family);
    assert_int_equal(addr_parse(SPAN("[::]:8080"), &a), 0);
    assert_false(a.any_family);
    a = addr_any_v4(8080);
    assert_int_equal(a.storage.ss_family, AF_INET);
    assert_int_equal(addr_port(&a), 8080);
}

TEST(ports_go_from_0_to_65535)
{
    assert_addr("127.0.0.1:0", AF_INET, "127.0.0.1", 0);
    assert_addr("127.0.0.1:65535", AF_INET, "127.0.0.1", 65535);
    assert_addr("[::1]:65535", AF_INET6, "::1", 65535);
}

TEST(what_is_no_address_is_refused)
{
    static const char *const texts[] = {"",
                                        "8080",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:-1",
                                        "127.0.0.1:+1",
                                        "127.0.0.1:080",
                                        "127.0.0.1:80 ",
                                        " 127.0.0.1:80",
                                        "127.0.0.1:http",
                                        ":",
                                        "127.0.0:80",
                                        "256.0.0.1:80",
                                        "127.0.0.1.1:80",
                                        "localhost:80",
                                        "::1",
                                        "::1:8080",
                                        "[::1]",
                                        "[::1]8080",
                                        "[::1:80",
                                        "::1]:80",
                                        "[]:80",
                                        "[127.0.0.1]:80",
                                        "[::g]:80",
                                        "[fe80::1%lo]:1",
                                        "127.0.0.1:8:8",
                                        "[[::1]]:80",
                                        "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555]:1",
                                        "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.25555]:1"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct addr a;
        if (addr_parse(span_of(texts[i]), &a) != -EINVAL)
            fail_msg("\"%s\" was accepted", texts[i]);
    }
}

TEST(only_the_given_bytes_are_read)
{
    struct addr a;
    assert_int_equal(addr_parse((struct span){"127.0.0.1:8080", 12}, &a), 0);
    assert_int_equal(addr_port(&a), 80);
    assert_int_equal(addr_parse(SPAN_ABSENT, &a), -EINVAL);
}

TEST(the_kernel_takes_what_was_read)
{
    struct addr a;
    assert_int_equal(addr_parse(SPAN("127.0.0.1:0"), &a), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, addr_sockaddr(&a), addr_len(&a)), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_4_addresses_are_read),
        cmocka_unit_test(version_6_addresses_stand_in_brackets),
        cmocka_unit_test(no_host_means_every_address),
        cmocka_unit_test(ports_go_from_0_to_65535),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(only_the_given_bytes_are_read),
        cmocka_unit_test(the_kernel_takes_what_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
