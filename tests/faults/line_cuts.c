/* Connections that end, or fall silent, in the middle of an answer. At every byte: line_cuts_all.c. */

#include "faults/cuts.h"

TEST_CASE_WITH(resets, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: reset within a card", CUTS_CARD, PROXY_RESET, 19});
    cuts_run(*state, &(struct cuts){"line: reset within a link and its card", CUTS_LINK, PROXY_RESET, 23});
    cuts_run(*state, &(struct cuts){"line: reset within a page", CUTS_PAGE, PROXY_RESET, 2311});
}

TEST_CASE_WITH(ends, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: end within a card", CUTS_CARD, PROXY_FINISH, 17});
    cuts_run(*state, &(struct cuts){"line: end within a page", CUTS_PAGE, PROXY_FINISH, 2309});
}

TEST_CASE_WITH(holes, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: hole within a card", CUTS_CARD, PROXY_DROP, 250});
}
