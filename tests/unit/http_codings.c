/* Accept-Encoding: the examples of RFC 9110 section 12.5.3, weights of 0, and what is not valid. */
#include "http/codings.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"

enum { I = 1 << CODING_IDENTITY, G = 1 << CODING_GZIP, Z = 1 << CODING_ZSTD };

struct expectation {
    const char *field; /* NULL: absent */
    unsigned acceptable;
    enum coding preferred;
};

static void expect(const struct expectation *e, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct span field = e[i].field == NULL ? SPAN_ABSENT : span_of(e[i].field);
        struct http_codings c = http_accept_encoding(field);
        if (c.acceptable != e[i].acceptable || c.preferred != e[i].preferred)
            fail_msg("Accept-Encoding: %s: acceptable %#x, preferred %d", e[i].field, c.acceptable,
                     (int)c.preferred);
    }
}

#define EXPECT(...)                                             \
    do {                                                        \
        static const struct expectation list[] = {__VA_ARGS__}; \
        expect(list, TEST_COUNT(list));                         \
    } while (0)

TEST_CASE(examples_of_the_rfc)
{
    EXPECT({"compress, gzip", I | G, CODING_GZIP}, {"", I, CODING_IDENTITY}, {"*", I | G | Z, CODING_ZSTD},
           {"compress;q=0.5, gzip;q=1.0", I | G, CODING_GZIP},
           {"gzip;q=1.0, identity; q=0.5, *;q=0", I | G, CODING_GZIP});
}

TEST_CASE(what_clients_send)
{
    EXPECT({NULL, I, CODING_IDENTITY}, {"gzip", I | G, CODING_GZIP}, {"gzip, deflate", I | G, CODING_GZIP},
           {"gzip, deflate, br, zstd", I | G | Z, CODING_ZSTD}, {"deflate, gzip, br", I | G, CODING_GZIP},
           {"identity", I, CODING_IDENTITY}, {"br", I, CODING_IDENTITY}, {"zstd", I | Z, CODING_ZSTD});
}

TEST_CASE(zstd_is_preferred_to_gzip_and_gzip_to_identity_whatever_their_weights)
{
    EXPECT({"gzip;q=0.9, zstd;q=0.8", I | G | Z, CODING_ZSTD},
           {"zstd;q=0.8, gzip;q=0.9", I | G | Z, CODING_ZSTD},
           {"gzip;q=0.5, zstd;q=0.5", I | G | Z, CODING_ZSTD}, {"gzip;q=0.001, zstd;q=0", I | G, CODING_GZIP},
           {"gzip;q=0, zstd;q=0", I, CODING_IDENTITY}, {"gzip;q=0.5, *", I | G | Z, CODING_ZSTD},
           {"gzip, *;q=0.5", I | G | Z, CODING_ZSTD}, {"zstd;q=0, *;q=0.5", I | G, CODING_GZIP},
           {"identity, gzip", I | G, CODING_GZIP}, {"identity;q=1, gzip;q=0.5", I | G, CODING_GZIP});
}

TEST_CASE(identity_can_be_refused)
{
    EXPECT({"identity;q=0", 0, CODING_IDENTITY}, {"*;q=0", 0, CODING_IDENTITY},
           {"gzip, identity;q=0", G, CODING_GZIP}, {"gzip, *;q=0", G, CODING_GZIP},
           {"zstd, identity;q=0.000, *", G | Z, CODING_ZSTD}, {"*;q=0, identity", I, CODING_IDENTITY},
           {"identity;q=0, br", 0, CODING_IDENTITY});
}

TEST_CASE(case_white_space_and_empty_elements_do_not_matter)
{
    EXPECT({"GZIP", I | G, CODING_GZIP}, {"x-gzip", I | G, CODING_GZIP}, {"X-GZip;Q=0.5", I | G, CODING_GZIP},
           {"\tgzip \t;\t q=0.5 ,zstd ; q=0.4 ", I | G | Z, CODING_ZSTD}, {",,gzip,", I | G, CODING_GZIP},
           {", ,", I, CODING_IDENTITY}, {"gzip;q=1", I | G, CODING_GZIP}, {"gzip;q=1.", I | G, CODING_GZIP},
           {"gzip;q=1.000", I | G, CODING_GZIP}, {"gzip;q=0.", I, CODING_IDENTITY});
}

TEST_CASE(the_first_weight_of_a_coding_counts)
{
    EXPECT({"gzip;q=0, gzip", I, CODING_IDENTITY}, {"gzip, gzip;q=0", I | G, CODING_GZIP},
           {"gzip;q=0, x-gzip", I, CODING_IDENTITY}, {"*;q=0, *", 0, CODING_IDENTITY});
}

TEST_CASE(what_is_no_weight_refuses_the_coding)
{
    EACH_TEXT (bad, "gzip;", "gzip;q", "gzip;q=", "gzip;q=-1", "gzip;q=0,5", "gzip;q=1e0", "gzip;q= 1",
               "gzip;q =1", "gzip;q=\"1\"", "gzip;level=9", "gzip;q=1;x=2", "gzip;q=1 zstd", "gzip;;q=1",
               "gzip;q=?", "zstd;q=x, gzip;q=x, gzip") {
        const struct expectation plain = {bad, I, CODING_IDENTITY};
        expect(&plain, 1);
    }
}

TEST_CASE(what_is_no_coding_is_one_that_is_not_served)
{
    EACH_TEXT (bad, "gzip zstd", ";q=1", "g\"zip\"", "gz/ip", "gzip=1", "(gzip)", "\xC3\xA9", "gzip\x01") {
        const struct expectation plain = {bad, I, CODING_IDENTITY};
        expect(&plain, 1);
    }
    EXPECT({"gz/ip, gzip", I | G, CODING_GZIP}, {"*;q=0, @", 0, CODING_IDENTITY});
}

TEST_CASE(a_nul_is_no_token)
{
    struct http_codings c = http_accept_encoding((struct span){"gzip\0", 5});
    assert_int_equal(c.preferred, CODING_IDENTITY);
}

TEST_CASE(a_long_field_is_read_once)
{
    AUTOFREE char *many = text_fill("unknown;q=0.1,", (size_t)64 * 1024);
    AUTOFREE char *field = text_printf("%s,gzip", many);
    many[0] = '\0';
    struct http_codings c = http_accept_encoding(span_of(field));
    assert_true(c.preferred == CODING_GZIP || c.preferred == CODING_IDENTITY);
    AUTOFREE char *commas = text_repeat(',', (size_t)64 * 1024);
    assert_int_equal(http_accept_encoding(span_of(commas)).preferred, CODING_IDENTITY);
}
