/*
 * Links that try to be taken for others: whatever is done with escapes, hosts, separators and Redis' own
 * special characters, a link finds the channel that it names by the rules, or none.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 3 };

struct row {
    const char *query; /* as it is sent */
    int status;
};

FIXTURE(CHANNELS, NULL)

static void check(struct fixture *fixture, const struct row *rows, size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        char *path = text_printf("channel/by-link/?%s", rows[i].query);
        int status = fixture_status(fixture, path);
        if (status != rows[i].status) {
            print_error("%s: %d, expected %d\n", path, status, rows[i].status);
            wrong++;
        }
        free(path);
    }
    assert_int_equal(wrong, 0);
}

TEST_CASE(escapes_are_decoded_once_and_strictly)
{
    static const struct row rows[] = {
        {"link=https%3A%2F%2Fmax.ru%2Fsample_1", 200},
        {"link=https%3a%2f%2Fmax.ru%2fsample_1", 200},
        {"link=https://max.ru/sample%5f1", 200},
        {"link=https://max.ru:%34%343/sample_1", 200},
        {"link=https://max.ru/sample%255f1", 404},
        {"link=https%253A%252F%252Fmax.ru%252Fsample_1", 404},
        {"link=https://max.ru/sample_1%00", 404},
        {"link=https://max.ru%00/sample_1", 404},
        {"link=https://max.ru%00.evil.example/sample_1", 404},
        {"link=%00https://max.ru/sample_1", 404},
        {"link=%00", 404},
        {"link=https://max.ru/sample_1%", 404},
        {"link=https://max.ru/sample_1%4", 404},
        {"link=https://max.ru/sample_1%zz", 404},
        {"link=https://max.ru/sample%u005f1", 404},
        {"link=https://max.ru/sample%c1%9f1", 404}, /* overlong: an underscore in two bytes */
        {"link=https://max.ru%c0%afsample_1", 404},
        {"link=https://max.ru%ff/sample_1", 404},
        {"link=https://max.ru/sample_1%0a", 404},
        {"link=%0ahttps://max.ru/sample_1", 404},
        {"link=%20https://max.ru/sample_1", 404},
        {"link=+https://max.ru/sample_1", 404},
    };
    check(*state, rows, TEST_COUNT(rows));
}

TEST_CASE(hosts_are_not_mistaken)
{
    static const struct row rows[] = {
        {"link=https://max.ru./sample_1", 404},
        {"link=https://max.ru%2eevil.example/sample_1", 404},
        {"link=https://max.ru%40evil.example/sample_1", 404},
        {"link=https://evil.example%40max.ru/sample_1", 404},
        {"link=https://evil.example%5c@max.ru/sample_1", 404},
        {"link=https://max.ru%5c@evil.example/sample_1", 404},
        {"link=https:%5c%5cmax.ru%5csample_1", 404},
        {"link=https:/%5cmax.ru/sample_1", 404},
        {"link=https:///max.ru/sample_1", 404},
        {"link=https://max.ru%3fsample_1", 404},
        {"link=https://[::1]/sample_1", 404},
        {"link=https://[max.ru]/sample_1", 404},
        {"link=https://max.ru:/sample_1",
         200}, /* an empty port is the default one (RFC 3986 section 6.2.3) */
        {"link=https://max.ru:0443/sample_1", 404},
        {"link=https://max.ru:443x/sample_1", 404},
        {"link=https://max.ru:443:443/sample_1", 404},
        {"link=https://max.ru:-443/sample_1", 404},
        {"link=https://max.ru:%20443/sample_1", 404},
        {"link=https://max.ru:4294967739/sample_1", 404},
        {"link=https://xn--max-5cd.ru/sample_1", 404},
        {"link=https://%EF%BD%8Dax.ru/sample_1", 404},  /* fullwidth m */
        {"link=https://max%E3%80%82ru/sample_1", 404},  /* ideographic full stop */
        {"link=https://m%D0%B0x.ru/sample_1", 404},     /* Cyrillic a */
        {"link=https://max.ru%E2%80%8B/sample_1", 404}, /* zero width space */
        {"link=javascript://max.ru/sample_1", 404},
        {"link=https%E2%88%B6//max.ru/sample_1", 404},
    };
    check(*state, rows, TEST_COUNT(rows));
}

TEST_CASE(slugs_are_not_normalised)
{
    static const struct row rows[] = {
        {"link=https://max.ru/./sample_1", 404},
        {"link=https://max.ru/x/../sample_1", 404},
        {"link=https://max.ru/%2e%2e/sample_1", 404},
        {"link=https://max.ru/sample_1/.", 404},
        {"link=https://max.ru/sample_1;a=b", 404},
        {"link=https://max.ru/sample_1%5c", 404},
        {"link=https://max.ru/sample_*", 404},
        {"link=https://max.ru/sample_%3f", 404},
        {"link=https://max.ru/sample_[1]", 404},
        {"link=https://max.ru/sample_%5b1%5d", 404},
        {"link=https://max.ru/%7bsample_1%7d", 404},
        {"link=https://max.ru/sample_1%0d%0aDEL%20channels:index%0d%0a", 404},
        {"link=https://max.ru/%0d%0a*1%0d%0a$8%0d%0aFLUSHALL%0d%0a", 404},
        {"link=https://max.ru/../channels:index", 404},
    };
    struct fixture *fixture = *state;
    check(fixture, rows, TEST_COUNT(rows));
    assert_int_equal(redis_integer(&fixture->redis, "ZCARD channels:index"), CHANNELS);
}

TEST_CASE(parameters_are_not_mixed_up)
{
    static const struct row rows[] = {
        {"link=https://max.ru/sample_1&link=https://evil.example/x", 200},
        {"link=https://evil.example/x&link=https://max.ru/sample_1", 404},
        {"link=&link=https://max.ru/sample_1", 400},
        {"%6cink=https://max.ru/sample_1", 200},
        {"LINK=https://max.ru/sample_1", 400},
        {"link%00=https://max.ru/sample_1", 400},
        {"link[]=https://max.ru/sample_1", 400},
        {"link;=https://max.ru/sample_1", 400},
        {"x=y;link=https://max.ru/sample_1", 400},
        {"?link=https://max.ru/sample_1", 400},
        {"link=https://max.ru/sample_1%26x=y", 404},
        {"link==https://max.ru/sample_1", 404},
    };
    check(*state, rows, TEST_COUNT(rows));
}

TEST_CASE(long_links_find_nothing)
{
    static const size_t lengths[] = {100, 4000, 15000};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        char *slug = text_repeat('s', lengths[i]);
        char *path = text_printf("channel/by-link/?link=https://max.ru/%s", slug);
        assert_int_equal(fixture_status(*state, path), 404);
        free(path);
        free(slug);
    }
}
