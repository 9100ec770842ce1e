/* Connections that end, or fall silent, in the middle of an answer. At every byte: line_cuts_all.c. */

#include "faults/cuts.h"

static void resets(void **state)
{
    cuts_run(*state, &(struct cuts){"line: reset within a card", CUTS_CARD, PROXY_RESET, 19});
    cuts_run(*state, &(struct cuts){"line: reset within a link and its card", CUTS_LINK, PROXY_RESET, 23});
    cuts_run(*state, &(struct cuts){"line: reset within a page", CUTS_PAGE, PROXY_RESET, 2311});
}

static void ends(void **state)
{
    cuts_run(*state, &(struct cuts){"line: end within a card", CUTS_CARD, PROXY_FINISH, 17});
    cuts_run(*state, &(struct cuts){"line: end within a page", CUTS_PAGE, PROXY_FINISH, 2309});
}

static void holes(void **state)
{
    cuts_run(*state, &(struct cuts){"line: hole within a card", CUTS_CARD, PROXY_SWALLOW, 250});
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
