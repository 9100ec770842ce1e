/* What channelctl loads from a file is, field by field, what the API returns. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 305 };

static void load(struct fixture *fixture)
{
    struct process process;
    char *path = text_printf("%s/cards.ndjson", fixture->redis.dir.path);
    char *url = text_printf("CHANNELD_REDIS_URL=%s", fixture->redis.url);
    const char *const args[] = {"load", path, NULL};
    const char *const env[] = {url, NULL};
    catalogue_write_file(path, CHANNELS);
    int status = server_run_tool(&process, &fixture->redis.dir, "CHANNELCTL_BIN", args, env);
    char *errors = process_stderr(&process);
    if (status != 0)
        fail_msg("channelctl load: %d %s", status, errors);
    free(errors);
    free(url);
    free(path);
}

static int start(void **state)
{
    struct fixture *fixture = fixture_new(0, NULL);
    *state = fixture;
    load(fixture);
    return 0;
}

TEST_GROUP(start, fixture_teardown)

TEST_CASE(every_card_by_id_equals_its_line)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
        char *card = catalogue_card(n);
        fixture_expect_card(*state, path, card);
        free(card);
        free(path);
    }
}

TEST_CASE(every_card_by_link_equals_its_line_on_both_hosts)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        char *stored = text_printf("channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fsample_%zu", n);
        char *web = text_printf("channel/by-link/?link=https%%3A%%2F%%2Fweb.max.ru%%2Fsample_%zu", n);
        char *card = catalogue_card(n);
        fixture_expect_card(*state, stored, card);
        fixture_expect_card(*state, web, card);
        free(card);
        free(web);
        free(stored);
    }
}

/* All summaries of all pages, one after the other, as the text of the answers. Owned. */
static char *all_pages(struct fixture *fixture)
{
    static const int counts[] = {100, 100, 100, 5};
    char *all = text_repeat(' ', 0);
    for (size_t page = 0; page < TEST_COUNT(counts); page++) {
        char *path = text_printf("channels/?page=%zu", page + 1);
        char *body = fixture_body(fixture, path);
        assert_int_equal(json_integer_at(body, "pagination.count"), counts[page]);
        all = text_append(all, body);
        free(body);
        free(path);
    }
    return all;
}

TEST_CASE(every_summary_is_in_the_list_once)
{
    char *all = all_pages(*state);
    for (size_t n = 0; n < CHANNELS; n++) {
        char *card = catalogue_card(n);
        char *summary = catalogue_summary(card);
        char *id = text_printf("\"max_channel_id\":%lld,", (long long)catalogue_id(n));
        char *found = strstr(all, id);
        assert_int_equal(text_count(all, id), 1);
        assert_non_null(found);
        char *item = text_printf("%.*s", (int)(strchr(found, '}') + 1 - found) + 1, found - 1);
        json_assert_same(item, summary);
        free(item);
        free(id);
        free(summary);
        free(card);
    }
    free(all);
}
