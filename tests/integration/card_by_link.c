/* The card of a channel by its public link: which ways of writing a link lead to the channel, and which do
 * not. */

#include <stdlib.h>

#include "support/fixture.h"

static int start(void **state)
{
    struct fixture *fixture = fixture_new(20, NULL);
    catalogue_put(&fixture->redis,
                  "{\"max_channel_id\":777,\"title\":\"t\",\"link\":\"https://max.ru/\xD0\xBF\xD1\x80 %41\"}",
                  1000);
    *state = fixture;
    return 0;
}

TEST_GROUP(start, fixture_teardown)

/* The status for the link, percent-encoded as one parameter. */
static int status_of(struct fixture *fixture, const char *link)
{
    char *encoded = text_percent_encode(link);
    char *path = text_printf("channel/by-link/?link=%s", encoded);
    int status = fixture_status(fixture, path);
    free(path);
    free(encoded);
    return status;
}

static void assert_status(struct fixture *fixture, const char *link, int status)
{
    int actual = status_of(fixture, link);
    if (actual != status)
        fail_msg("%s: %d, expected %d", link, actual, status);
}

TEST_CASE(every_card_is_found_by_its_link_on_both_hosts)
{
    for (size_t n = 0; n < 20; n++) {
        char *card = catalogue_card(n);
        char *stored = text_printf("channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fsample_%zu", n);
        char *web = text_printf("channel/by-link/?link=https://web.max.ru/sample_%zu", n);
        fixture_expect_card(*state, stored, card);
        fixture_expect_card(*state, web, card);
        free(web);
        free(stored);
        free(card);
    }
}

TEST_CASE(other_ways_of_writing_a_link_find_the_channel)
{
    static const char *const links[] = {
        "https://max.ru/sample_5",
        "http://max.ru/sample_5",
        "HTTPS://max.ru/sample_5",
        "hTTp://Max.RU/sample_5",
        "https://WEB.max.ru/sample_5",
        "https://max.ru:443/sample_5",
        "http://max.ru:80/sample_5",
        "https://web.max.ru:443/sample_5",
        "https://max.ru/sample_5/",
        "https://max.ru/sample_5///",
        "https://max.ru/sample_5?utm_source=x&y=z",
        "https://max.ru/sample_5/?utm_source=x",
        "https://max.ru/sample_5#about",
        "https://max.ru/sample_5/#about",
        "https://max.ru/sample_5?a=b/#about?c",
    };
    for (size_t i = 0; i < TEST_COUNT(links); i++)
        assert_status(*state, links[i], 200);
}

TEST_CASE(what_is_no_link_of_ours_finds_nothing)
{
    static const char *const links[] = {
        "https://example.com/sample_5",
        "https://max.ru.example.com/sample_5",
        "https://notmax.ru/sample_5",
        "https://www.max.ru/sample_5",
        "https://max.ru:8443/sample_5",
        "https://max.ru:80/sample_5",
        "http://max.ru:443/sample_5",
        "https://user@max.ru/sample_5",
        "https://user:password@max.ru/sample_5",
        "https://max.ru@example.com/sample_5",
        "ftp://max.ru/sample_5",
        "max.ru/sample_5",
        "//max.ru/sample_5",
        "https:/max.ru/sample_5",
        "https://max.ru",
        "https://max.ru/",
        "https://max.ru/?sample_5",
        "https:///sample_5",
        "sample_5",
        "x",
    };
    for (size_t i = 0; i < TEST_COUNT(links); i++)
        assert_status(*state, links[i], 404);
}

TEST_CASE(slug_is_compared_as_it_is)
{
    assert_status(*state, "https://max.ru/SAMPLE_5", 404);
    assert_status(*state, "https://max.ru/sample_", 404);
    assert_status(*state, "https://max.ru/sample_5/x", 404);
    assert_status(*state, "https://max.ru//sample_5", 404);
    assert_status(*state, "https://max.ru/ sample_5", 404);
}

TEST_CASE(link_is_percent_decoded_once)
{
    assert_int_equal(fixture_status(*state, "channel/by-link/?link=https://max.ru/%73ample_5"), 200);
    assert_int_equal(fixture_status(*state, "channel/by-link/?link=https://max.ru/%2573ample_5"), 404);
    assert_status(*state, "https://max.ru/\xD0\xBF\xD1\x80 %41", 200);
    assert_status(*state, "https://max.ru/\xD0\xBF\xD1\x80 A", 404);
}

TEST_CASE(missing_or_empty_link_is_a_bad_request)
{
    assert_int_equal(fixture_status(*state, "channel/by-link/"), 400);
    assert_int_equal(fixture_status(*state, "channel/by-link/?"), 400);
    assert_int_equal(fixture_status(*state, "channel/by-link/?link="), 400);
    assert_int_equal(fixture_status(*state, "channel/by-link/?link"), 400);
    assert_int_equal(fixture_status(*state, "channel/by-link/?other=https://max.ru/sample_5"), 400);
}

TEST_CASE(unknown_slug_is_not_found)
{
    assert_status(*state, "https://max.ru/nobody_has_this", 404);
    assert_status(*state, "https://web.max.ru/nobody_has_this", 404);
}

TEST_CASE(link_key_without_a_card_is_not_found)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "SET channels:link:https://max.ru/orphan 555555");
    assert_status(fixture, "https://max.ru/orphan", 404);
}

TEST_CASE(hosts_can_be_changed)
{
    static const char *const env[] = {"CHANNELD_CHANNEL_HOST=t.example", "CHANNELD_WEB_HOST=web.t.example",
                                      NULL};
    struct fixture *fixture = fixture_new(1, env);
    catalogue_put(&fixture->redis,
                  "{\"max_channel_id\":8,\"title\":\"t\",\"link\":\"https://t.example/slug\"}", 8);
    assert_status(fixture, "https://t.example/slug", 200);
    assert_status(fixture, "http://WEB.T.example/slug", 200);
    assert_status(fixture, "https://max.ru/sample_0", 404);
    fixture_free(fixture);
}
