/* The Link header of list pages: where it leads, and that it never carries the key. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

FIXTURE(305, NULL)

/* The target of the link with that relation, owned; NULL when there is none. */
static char *target_of(const struct http_response *response, const char *relation)
{
    const char *header = http_header(response, "Link");
    char *needle = text_printf("rel=\"%s\"", relation);
    const char *found = header != NULL ? strstr(header, needle) : NULL;
    const char *opening = found;
    free(needle);
    if (found == NULL)
        return NULL;
    while (opening > header && *opening != '<')
        opening--;
    const char *closing = strchr(opening, '>');
    assert_non_null(closing);
    return text_printf("%.*s", (int)(closing - opening - 1), opening + 1);
}

/* Asserts that the relation leads to the page, or is missing (page 0); follows it if it leads somewhere. */
static void assert_leads_to(struct fixture *fixture, const char *path, const char *relation, int page)
{
    struct http_response response;
    fixture_get(fixture, path, &response);
    char *target = target_of(&response, relation);
    http_response_free(&response);
    if (page == 0) {
        assert_null(target);
        return;
    }
    if (target == NULL) {
        fail_msg("%s has no link to %s", path, relation);
        return;
    }
    char *expected = text_printf("/api/channels/?page=%d", page);
    assert_string_equal(target, expected);
    http_get(fixture->server.port, target, FIXTURE_AUTH, &response);
    assert_int_equal(json_integer_at(response.body, "pagination.page"), page);
    http_response_free(&response);
    free(expected);
    free(target);
}

TEST_CASE(first_page_leads_to_next_and_last)
{
    assert_leads_to(*state, "channels/", "first", 1);
    assert_leads_to(*state, "channels/", "prev", 0);
    assert_leads_to(*state, "channels/", "next", 2);
    assert_leads_to(*state, "channels/", "last", 4);
}

TEST_CASE(middle_page_leads_everywhere)
{
    assert_leads_to(*state, "channels/?page=3", "first", 1);
    assert_leads_to(*state, "channels/?page=3", "prev", 2);
    assert_leads_to(*state, "channels/?page=3", "next", 4);
    assert_leads_to(*state, "channels/?page=3", "last", 4);
}

TEST_CASE(last_page_has_no_next)
{
    assert_leads_to(*state, "channels/?page=4", "first", 1);
    assert_leads_to(*state, "channels/?page=4", "prev", 3);
    assert_leads_to(*state, "channels/?page=4", "next", 0);
    assert_leads_to(*state, "channels/?page=4", "last", 4);
}

TEST_CASE(page_beyond_the_last_has_no_next)
{
    assert_leads_to(*state, "channels/?page=9", "next", 0);
    assert_leads_to(*state, "channels/?page=9", "first", 1);
}

TEST_CASE(key_is_never_in_a_link)
{
    struct fixture *fixture = *state;
    struct http_response response;
    http_get(fixture->server.port, "/api/channels/?api_key=" FIXTURE_KEY "&page=2&x=1", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_non_null(http_header(&response, "Link"));
    for (size_t i = 0; i < response.header_count; i++) {
        assert_null(strstr(response.headers[i].value, FIXTURE_KEY));
        assert_null(strstr(response.headers[i].value, "api_key"));
    }
    http_response_free(&response);
}

TEST_CASE(cards_have_no_links)
{
    struct http_response response;
    fixture_get(*state, "channel/by-id/0/", &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Link"));
    http_response_free(&response);
}
