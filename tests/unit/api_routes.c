/* Routes: the three paths, with and without their last slash, under any base path; nothing else. */
#include "api/routes.h"

#include "unit/check.h"

static void expect(const char *base, const char *path, enum route route, const char *id)
{
    struct span found = SPAN_ABSENT;
    enum route r = route_match(span_of(base), span_of(path), &found);
    if (r != route)
        fail_msg("%s under %s is %s", path, base, route_name(r));
    if (route == ROUTE_CARD_BY_ID)
        assert_span(found, id);
}

TEST(the_three_paths_are_found_with_and_without_their_last_slash)
{
    static const char *const bases[] = {"/", "/api/", "/a/b-c/v1.0/"};
    static const struct {
        const char *path;
        enum route route;
        const char *id;
    } rows[] = {
        {"channels/", ROUTE_LIST, NULL},
        {"channels", ROUTE_LIST, NULL},
        {"channel/by-link/", ROUTE_CARD_BY_LINK, NULL},
        {"channel/by-link", ROUTE_CARD_BY_LINK, NULL},
        {"channel/by-id/1/", ROUTE_CARD_BY_ID, "1"},
        {"channel/by-id/1", ROUTE_CARD_BY_ID, "1"},
        {"channel/by-id/-9223372036854775808/", ROUTE_CARD_BY_ID, "-9223372036854775808"},
        {"channel/by-id/no number", ROUTE_CARD_BY_ID, "no number"},
        {"channel/by-id/by-link/", ROUTE_CARD_BY_ID, "by-link"},
    };
    for (size_t b = 0; b < TEST_COUNT(bases); b++) {
        for (size_t i = 0; i < TEST_COUNT(rows); i++) {
            char path[128];
            (void)snprintf(path, sizeof path, "%s%s", bases[b], rows[i].path);
            expect(bases[b], path, rows[i].route, rows[i].id);
        }
    }
}

TEST(nothing_else_is_a_route)
{
    static const char *const paths[] = {
        "",
        "/",
        "*",
        "/api",
        "/api/",
        "/api//",
        "/channels/",
        "api/channels/",
        "/API/channels/",
        "/api/Channels/",
        "/api/channels//",
        "/api//channels/",
        "/api/channels/1",
        "/api/channel/",
        "/api/channel",
        "/api/channel/by-id",
        "/api/channel/by-id/",
        "/api/channel/by-id//",
        "/api/channel/by-id/1/2",
        "/api/channel/by-id/1//",
        "/api/channel/by-link//",
        "/api/channel/by-link/x",
        "/api/channel/by-name/x",
        "/api/channelsx",
        "/api/channel/by-idx/1",
        "/apix/channels/",
        "/api/../api/channels/",
        "/api/channels/ ",
    };
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        expect("/api/", paths[i], ROUTE_NONE, NULL);
}

TEST(every_route_has_a_name_of_its_own)
{
    for (int i = ROUTE_NONE; i <= ROUTE_CARD_BY_LINK; i++)
        for (int j = ROUTE_NONE; j < i; j++)
            assert_string_not_equal(route_name((enum route)i), route_name((enum route)j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_paths_are_found_with_and_without_their_last_slash),
        cmocka_unit_test(nothing_else_is_a_route),
        cmocka_unit_test(every_route_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
