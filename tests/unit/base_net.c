/* IP addresses, networks and listen addresses of both families, and what is none. */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

#include "base/buf.h"
#include "unit/check.h"

static const char *text_of(const struct ip *ip)
{
    static char text[IP_TEXT_MAX + 1];
    text[ip_write(ip, text)] = '\0';
    return text;
}

TEST_CASE(addresses_are_parsed_and_written)
{
    EACH_PAIR (text, expected, {"192.0.2.1", "192.0.2.1"}, {"0.0.0.0", "0.0.0.0"},
               {"255.255.255.255", "255.255.255.255"}, {"::1", "::1"},
               {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"}, {"::ffff:192.0.2.1", "192.0.2.1"},
               {"::ffff:c000:201", "192.0.2.1"},
               {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}) {
        struct ip ip;
        assert_int_equal(ip_parse(span_of(text), &ip), 0);
        assert_string_equal(text_of(&ip), expected);
    }
}

TEST_CASE(invalid_addresses_are_rejected)
{
    struct ip ip = {{7}};
    EACH_TEXT (text, "", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", " ::1", "[::1]",
               ":::", "::1%eth0", "1.2.3.4:80", "g::", "unknown", "_hidden", "1:2:3:4:5:6:7:8:9",
               "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255:aaaaaaaaaaaaaaaaaaaaaaaaa")
        if (ip_parse(span_of(text), &ip) != -EINVAL)
            fail_msg("\"%s\" is taken", text);
    assert_int_equal(ip_parse(SPAN("1.2.3.4\0"), &ip), -EINVAL);
    assert_int_equal(ip.bytes[0], 7); /* untouched */
}

TEST_CASE(socket_address_is_the_same_in_both_families)
{
    struct sockaddr_storage s = {.ss_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &((struct sockaddr_in *)(void *)&s)->sin_addr), 1);
    struct ip v4 = ip_from_sockaddr(&s);
    s = (struct sockaddr_storage){.ss_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.1", &((struct sockaddr_in6 *)(void *)&s)->sin6_addr),
                     1);
    struct ip v6 = ip_from_sockaddr(&s);
    assert_memory_equal(&v4, &v6, sizeof v4);
    assert_string_equal(text_of(&v4), "192.0.2.1");
}

static bool contains(const char *networks, const char *address)
{
    struct ip_networks n;
    struct span which;
    struct ip ip;
    const char *error = ip_networks_parse(span_of(networks), &n, &which);
    if (error != NULL)
        fail_msg("\"%s\": %s", networks, error);
    assert_int_equal(ip_parse(span_of(address), &ip), 0);
    return ip_networks_contain(&n, &ip);
}

TEST_CASE(network_contains_the_addresses_of_its_prefix)
{
    static const struct {
        const char *networks, *in, *out;
    } rows[] = {{"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
                {"10.0.0.0/8", "10.0.0.0", "9.255.255.255"},
                {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
                {"192.0.2.1", "192.0.2.1", "192.0.2.0"},
                {"192.0.2.1/32", "192.0.2.1", "192.0.2.2"},
                {"0.0.0.0/0", "203.0.113.9", "2001:db8::1"},
                {"::/0", "203.0.113.9", NULL},
                {"2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"},
                {"::1", "::1", "::2"},
                {"::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"},
                {" 10.0.0.0/8 ,\t2001:db8::/32", "2001:db8:ffff::1", "192.0.2.1"},
                {"10.0.0.0/8,192.168.0.0/16", "192.168.255.1", "192.169.0.0"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_true(contains(rows[i].networks, rows[i].in));
        if (rows[i].out != NULL)
            assert_false(contains(rows[i].networks, rows[i].out));
    }
    assert_false(contains("", "127.0.0.1"));
}

TEST_CASE(invalid_network_is_named)
{
    EACH_PAIR (text, expected, {"10.0.0.1/8", "10.0.0.1/8"}, {"10.0.0.0/33", "10.0.0.0/33"},
               {"10.0.0.0/-1", "10.0.0.0/-1"}, {"10.0.0.0/08", "10.0.0.0/08"}, {"10.0.0.0/", "10.0.0.0/"},
               {"::/129", "::/129"}, {"2001:db8::1/64", "2001:db8::1/64"},
               {"127.0.0.1,proxy.example", "proxy.example"}, {"10/8", "10/8"}, {",", ""},
               {"127.0.0.1,,::1", ""}, {"10.0.0.0/8,", ""}, {"127.0.0.1 ::1", "127.0.0.1 ::1"}) {
        struct ip_networks n;
        struct span which = SPAN_ABSENT;
        if (ip_networks_parse(span_of(text), &n, &which) == NULL)
            fail_msg("\"%s\" is taken", text);
        assert_span(which, expected);
    }
}

TEST_CASE(networks_have_a_maximum)
{
    SCOPED_BUF(list);
    struct ip_networks n;
    struct span which;
    for (int i = 0; i < IP_NETWORKS_MAX; i++)
        buf_printf(&list, "%s10.0.0.%d", i == 0 ? "" : ",", i);
    assert_null(ip_networks_parse(buf_span(&list), &n, &which));
    assert_int_equal(n.count, IP_NETWORKS_MAX);
    buf_append_str(&list, ",10.1.0.0");
    assert_non_null(ip_networks_parse(buf_span(&list), &n, &which));
}

static int family_of(const struct addr *a)
{
    struct sockaddr_storage where;
    (void)addr_to_sockaddr(a, &where);
    return where.ss_family;
}

static void assert_addr(const char *text, int family, const char *host, unsigned port)
{
    struct addr a;
    struct sockaddr_storage storage;
    char shown[INET6_ADDRSTRLEN] = "";
    char service[8] = "";
    assert_int_equal(addr_parse(span_of(text), &a), 0);
    socklen_t len = addr_to_sockaddr(&a, &storage);
    assert_int_equal(storage.ss_family, family);
    assert_int_equal(getnameinfo((struct sockaddr *)&storage, len, shown, sizeof shown, service,
                                 sizeof service, NI_NUMERICHOST | NI_NUMERICSERV),
                     0);
    assert_string_equal(shown, host);
    assert_int_equal(atoi(service), port); /* NOLINT(cert-err34-c): of getnameinfo */
}

static void assert_written(const char *text, const char *expected)
{
    struct addr a;
    char written[ADDR_TEXT_MAX];
    assert_int_equal(addr_parse(span_of(text), &a), 0);
    addr_write(&a, written);
    assert_string_equal(written, expected);
}

TEST_CASE(listen_addresses_are_written_as_they_are_given)
{
    EACH_TEXT (text, "127.0.0.1:8080", "0.0.0.0:1", "[::]:8080", "[2001:db8::7]:65535", ":8080")
        assert_written(text, text);
    assert_written("[0:0::1]:80", "[::1]:80");
}

TEST_CASE(listen_ipv4_addresses_are_parsed)
{
    assert_addr("127.0.0.1:8080", AF_INET, "127.0.0.1", 8080);
    assert_addr("0.0.0.0:8080", AF_INET, "0.0.0.0", 8080);
    assert_addr("255.255.255.255:1", AF_INET, "255.255.255.255", 1);
}

TEST_CASE(listen_ipv6_addresses_need_brackets)
{
    assert_addr("[::1]:8080", AF_INET6, "::1", 8080);
    assert_addr("[::]:80", AF_INET6, "::", 80);
    assert_addr("[2001:db8::7]:443", AF_INET6, "2001:db8::7", 443);
    assert_addr("[::ffff:10.0.0.1]:443", AF_INET, "10.0.0.1", 443);
    assert_addr("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:1", AF_INET6,
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1);
}

TEST_CASE(listen_without_host_is_every_address)
{
    struct addr a;
    assert_addr(":8080", AF_INET6, "::", 8080);
    assert_int_equal(addr_parse(SPAN(":8080"), &a), 0);
    assert_true(a.any_family);
    assert_int_equal(addr_parse(SPAN("[::]:8080"), &a), 0);
    assert_false(a.any_family);
    a = addr_any_v4(&a);
    assert_int_equal(family_of(&a), AF_INET);
    assert_int_equal(a.port, 8080);
}

TEST_CASE(listen_ports_go_from_0_to_65535)
{
    assert_addr("127.0.0.1:0", AF_INET, "127.0.0.1", 0);
    assert_addr("127.0.0.1:65535", AF_INET, "127.0.0.1", 65535);
    assert_addr("[::1]:65535", AF_INET6, "::1", 65535);
}

TEST_CASE(listen_invalid_addresses_are_rejected)
{
    EACH_TEXT (text, "", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
               "127.0.0.1:080", "127.0.0.1:80 ", " 127.0.0.1:80", "127.0.0.1:http", ":", "127.0.0:80",
               "256.0.0.1:80", "127.0.0.1.1:80", "localhost:80", "::1", "::1:8080", "[::1]", "[::1]8080",
               "[::1:80", "::1]:80", "[]:80", "[127.0.0.1]:80", "[::g]:80", "[fe80::1%lo]:1", "127.0.0.1:8:8",
               "[[::1]]:80", "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555]:1",
               "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.25555]:1") {
        struct addr a;
        if (addr_parse(span_of(text), &a) != -EINVAL)
            fail_msg("\"%s\" was accepted", text);
    }
}
