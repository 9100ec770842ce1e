/* The PROXY protocol header and X-Forwarded-For. */
#include "http/forwarded.h"

#include <errno.h>
#include <stdlib.h>

#include "unit/check.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4             \
    "\xC0\x00\x02\x07" \
    "\x0A\x00\x00\x01" \
    "\x30\x39"         \
    "\x1F\x90"
#define V6                                       \
    "\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\x01" \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"         \
    "\x30\x39"                                   \
    "\x1F\x90"

static const char *text_of(const struct ip *ip)
{
    static char text[IP_TEXT_MAX + 1];
    text[ip_write(ip, text)] = '\0';
    return text;
}

static struct ip ip_of(const char *text)
{
    struct ip ip;
    assert_int_equal(ip_parse(span_of(text), &ip), 0);
    return ip;
}

TEST_CASE(a_proxy_header_names_the_client)
{
    static const struct {
        struct span bytes;
        const char *client;
    } rows[] = {
        {SPAN(SIGNATURE "\x21\x11\0\x0C" V4), "192.0.2.7"},
        {SPAN(SIGNATURE "\x21\x21\0\x24" V6), "2001:db8::1"},
        {SPAN(SIGNATURE "\x21\x11\0\x10" V4 "\x04\0\x01x"), "192.0.2.7"}, /* with something else behind */
        {SPAN(SIGNATURE "\x20\x11\0\x0C" V4), "10.9.9.9"},                /* the proxy's own check */
        {SPAN(SIGNATURE "\x20\0\0\0"), "10.9.9.9"},
        {SPAN(SIGNATURE "\x21\0\0\0"), "10.9.9.9"}, /* of an unknown family */
        {SPAN(SIGNATURE "\x21\x12\0\x0C" V4), "10.9.9.9"},
        {SPAN(SIGNATURE "\x21\x31\0\x02xx"), "10.9.9.9"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        SCOPED_BUF(input);
        buf_append_span(&input, rows[i].bytes);
        for (size_t n = 1; n < input.len; n++) {
            struct ip client = ip_of("10.9.9.9");
            assert_int_equal(http_proxy_header_read((struct span){input.data, n}, &client), -EAGAIN);
        }
        buf_append_str(&input, "GET /");
        struct ip client = ip_of("10.9.9.9");
        assert_int_equal(http_proxy_header_read(buf_span(&input), &client), rows[i].bytes.len);
        assert_string_equal(text_of(&client), rows[i].client);
    }
}

static int read_header(struct span bytes)
{
    struct ip client = ip_of("10.9.9.9");
    int found = http_proxy_header_read(bytes, &client);
    if (found <= 0)
        assert_string_equal(text_of(&client), "10.9.9.9");
    return found;
}

TEST_CASE(input_without_the_signature_is_not_a_proxy_header)
{
    static const struct span rows[] = {SPAN("GET / HTTP/1.1\r\n"),
                                       SPAN("G"),
                                       SPAN("\r\n\r\nGET /"),
                                       SPAN("\r\n\r\n\r\n"),
                                       SPAN("PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n"),
                                       SPAN("\n"),
                                       SPAN("\r\n\r\n\0\r\nQUIT\r")};
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_int_equal(read_header(rows[i]), 0);
}

TEST_CASE(a_broken_proxy_header_is_invalid)
{
    static const struct span rows[] = {
        SPAN(SIGNATURE "\x21\x11\0\x0B" V4), SPAN(SIGNATURE "\x21\x21\0\x23" V6),
        SPAN(SIGNATURE "\x21\x11\0\0"),      SPAN(SIGNATURE "\x11\x11\0\x0C" V4),
        SPAN(SIGNATURE "\x22\x11\0\x0C" V4), SPAN(SIGNATURE "\x31\x11\0\x0C" V4),
        SPAN(SIGNATURE "\x21\x11\x0F\xF1"),  SPAN(SIGNATURE "\x21\x11\xFF\xFF")};
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_int_equal(read_header(rows[i]), -EINVAL);
    assert_int_equal(read_header(SPAN(SIGNATURE "\x21\x11\x0F\xF0")), -EAGAIN); /* 4096 in all */
}

static void assert_client(const char *forwarded_for, const char *from, const char *client)
{
    struct ip_networks trusted;
    struct span which;
    struct ip sender = ip_of(from);
    assert_null(ip_networks_parse(SPAN("10.0.0.0/8,2001:db8::/32"), &trusted, &which));
    struct span list = forwarded_for == NULL ? SPAN_ABSENT : span_of(forwarded_for);
    struct ip found = http_forwarded_client(list, &sender, &trusted);
    if (strcmp(text_of(&found), client) != 0)
        fail_msg("\"%s\" from %s: %s, not %s", forwarded_for, from, text_of(&found), client);
}

TEST_CASE(x_forwarded_for_is_walked_past_trusted_proxies)
{
    static const char *const rows[][3] = {
        {"192.0.2.1", "203.0.113.1", "203.0.113.1"}, /* said by nobody who is trusted */
        {"192.0.2.1", "10.0.0.1", "192.0.2.1"},
        {"198.51.100.1, 192.0.2.1", "10.0.0.1", "192.0.2.1"}, /* what it claims itself does not count */
        {"192.0.2.1, 10.0.0.2", "10.0.0.1", "192.0.2.1"},
        {"198.51.100.1,192.0.2.1 ,10.0.0.3,\t10.0.0.2", "10.0.0.1", "192.0.2.1"},
        {"10.0.0.3, 10.0.0.2", "10.0.0.1", "10.0.0.3"}, /* all trusted: the farthest */
        {"", "10.0.0.1", "10.0.0.1"},
        {NULL, "10.0.0.1", "10.0.0.1"},
        {"192.0.2.1:4711", "10.0.0.1", "192.0.2.1"},
        {"2a00::1", "10.0.0.1", "2a00::1"},
        {"[2a00::1]", "10.0.0.1", "2a00::1"},
        {"[2a00::1]:4711", "10.0.0.1", "2a00::1"},
        {"2a00::1, 2001:db8::7", "2001:db8::1", "2a00::1"},
        {"::ffff:192.0.2.1, ::ffff:10.0.0.2", "10.0.0.1", "192.0.2.1"},
        {"192.0.2.1, unknown", "10.0.0.1", "10.0.0.1"}, /* nothing is known beyond */
        {"192.0.2.1, ", "10.0.0.1", "10.0.0.1"},
        {"192.0.2.1,, 10.0.0.2", "10.0.0.1", "10.0.0.2"},
        {"[2a00::1", "10.0.0.1", "10.0.0.1"},
        {"[2a00::1]x", "10.0.0.1", "10.0.0.1"},
        {"[", "10.0.0.1", "10.0.0.1"},
        {"192.0.2.1:80:80", "10.0.0.1", "10.0.0.1"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_client(rows[i][0], rows[i][1], rows[i][2]);
}
