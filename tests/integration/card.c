/*
 * What channelctl loads from a file is, field by field, what the API returns: each card by its identifier and
 * by its link, and each summary in the list.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 305 };

static int start(void **state)
{
    struct fixture *fixture = fixture_new(0, NULL);
    struct process process;
    AUTOFREE char *path = text_printf("%s/cards.ndjson", fixture->redis.dir.path);
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=%s", fixture->redis.url);
    const char *const args[] = {"load", path, NULL};
    const char *const env[] = {url, NULL};
    *state = fixture;
    catalogue_write_file(path, CHANNELS);
    if (server_run_tool(&process, &fixture->redis.dir, "CHANNELCTL_BIN", args, env) != 0)
        fail_msg("channelctl load: %s", process_stderr(&process));
    return 0;
}

TEST_GROUP(start, fixture_teardown)

TEST_CASE(every_card_by_id_and_by_link_is_what_was_loaded)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        AUTOFREE char *stored = text_printf("channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fsample_%zu", n);
        AUTOFREE char *web = text_printf("channel/by-link/?link=https://web.max.ru/sample_%zu", n);
        AUTOFREE char *card = catalogue_card(n);
        fixture_expect_sample(*state, n);
        fixture_expect_card(*state, stored, card);
        fixture_expect_card(*state, web, card);
    }
}

TEST_CASE(pages_have_every_summary_once_in_the_order_of_the_file)
{
    for (size_t page = 0; page * 100 < CHANNELS; page++) {
        AUTOFREE char *body = fixture_body(*state, text_temp("channels/?page=%zu", page + 1));
        AUTOFREE char *expected = text_printf("[");
        for (size_t n = page * 100; n < page * 100 + 100 && n < CHANNELS; n++) {
            AUTOFREE char *card = catalogue_card(n);
            AUTOFREE char *summary = catalogue_shown(card, true);
            expected = text_append(text_append(expected, n % 100 > 0 ? "," : ""), summary);
        }
        expected = text_append(expected, "]");
        json_assert_at(body, "data", expected);
    }
}
