/* Connections that end, or fall silent, after every byte of an answer. */

#include "faults/cuts.h"

static void resets(void **state)
{
    cuts_run(*state, &(struct cuts){"line: reset at every byte of a card", CUTS_CARD, PROXY_RESET, 1});
    cuts_run(*state, &(struct cuts){"line: reset at every byte of a link", CUTS_LINK, PROXY_RESET, 1});
    cuts_run(*state, &(struct cuts){"line: reset within a page", CUTS_PAGE, PROXY_RESET, 61});
}

static void ends(void **state)
{
    cuts_run(*state, &(struct cuts){"line: end at every byte of a card", CUTS_CARD, PROXY_FINISH, 1});
    cuts_run(*state, &(struct cuts){"line: end within a page", CUTS_PAGE, PROXY_FINISH, 67});
}

static void holes(void **state)
{
    cuts_run(*state, &(struct cuts){"line: hole within a card", CUTS_CARD, PROXY_SWALLOW, 13});
    cuts_run(*state, &(struct cuts){"line: hole within a page", CUTS_PAGE, PROXY_SWALLOW, 1500});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(resets, cuts_begin, stage_teardown),
        cmocka_unit_test_setup_teardown(ends, cuts_begin, stage_teardown),
        cmocka_unit_test_setup_teardown(holes, cuts_begin, stage_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
