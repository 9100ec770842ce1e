/* Connections that end, or fall silent, after every byte of an answer. */

#include "faults/cuts.h"

TEST_CASE_WITH(resets, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: reset at every byte of a card", CUTS_CARD, PROXY_RESET, 1});
    cuts_run(*state, &(struct cuts){"line: reset at every byte of a link", CUTS_LINK, PROXY_RESET, 1});
    cuts_run(*state, &(struct cuts){"line: reset within a page", CUTS_PAGE, PROXY_RESET, 61});
}

TEST_CASE_WITH(ends, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: end at every byte of a card", CUTS_CARD, PROXY_FINISH, 1});
    cuts_run(*state, &(struct cuts){"line: end within a page", CUTS_PAGE, PROXY_FINISH, 67});
}

TEST_CASE_WITH(holes, cuts_begin, stage_teardown)
{
    cuts_run(*state, &(struct cuts){"line: hole within a card", CUTS_CARD, PROXY_DROP, 13});
    cuts_run(*state, &(struct cuts){"line: hole within a page", CUTS_PAGE, PROXY_DROP, 1500});
}
