/* The card of a channel by its identifier. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 40 };

FIXTURE(CHANNELS, NULL)

TEST_CASE(every_card_is_what_was_loaded)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = text_printf("channel/by-id/%" PRId64 "/", catalogue_id(n));
        char *card = catalogue_card(n);
        fixture_expect_card(*state, path, card);
        free(card);
        free(path);
    }
}

TEST_CASE(ids_cover_the_whole_range)
{
    assert_int_equal(fixture_status(*state, "channel/by-id/9223372036854775807/"), 200);
    assert_int_equal(fixture_status(*state, "channel/by-id/-9223372036854775808/"), 200);
    assert_int_equal(fixture_status(*state, "channel/by-id/-1/"), 200);
    assert_int_equal(fixture_status(*state, "channel/by-id/0/"), 200);
}

TEST_CASE(what_is_no_integer_is_a_bad_request)
{
    static const char *const ids[] = {
        "abc",
        "1.5",
        "1e3",
        "0x10",
        "-",
        "--1",
        "1-",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
        "1%20",
        "%20",
        "1%00",
        "by-id",
        "\xC3\xA9",
        "1,2",
    };
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        char *path = text_printf("channel/by-id/%s/", ids[i]);
        int status = fixture_status(*state, path);
        if (status != 400)
            fail_msg("%s: %d", path, status);
        free(path);
    }
}

TEST_CASE(unknown_ids_are_not_found)
{
    static const char *const ids[] = {"42", "-42", "9223372036854775806", "-9223372036854775807"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        char *path = text_printf("channel/by-id/%s/", ids[i]);
        assert_int_equal(fixture_status(*state, path), 404);
        free(path);
    }
}

/* Error texts never echo what the client sent. */
TEST_CASE(errors_do_not_echo_the_request)
{
    struct http_response response;
    fixture_get(*state, "channel/by-id/echo-this-not/", &response);
    assert_int_equal(response.status, 400);
    assert_int_equal(text_count(response.body, "echo-this-not"), 0);
    http_response_free(&response);
}

struct update {
    struct fixture *fixture;
    const char *title;
};

static bool shows_title(void *arg)
{
    struct update *update = arg;
    char *body = fixture_body(update->fixture, "channel/by-id/-1/");
    char *title = json_at(body, "data.title");
    bool shown = strcmp(title, update->title) == 0;
    free(title);
    free(body);
    return shown;
}

TEST_CASE(updates_show_at_once)
{
    struct fixture *fixture = *state;
    struct update update = {.fixture = fixture, .title = "\"new\""};
    redis_do(&fixture->redis, "HSET channels:card:-1 title new");
    assert_true(wait_until(shows_title, &update, 500));
    update.title = "\"newer\"";
    redis_do(&fixture->redis, "HSET channels:card:-1 title newer");
    assert_true(wait_until(shows_title, &update, 500));
}
