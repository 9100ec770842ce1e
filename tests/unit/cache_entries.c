/* The cache gives back what was put in, drops what it is told to, and stays within its bytes. */
#include "cache/entries.h"

#include "model/link.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"
#include "unit/entries_check.h"

enum { BUDGET = 1 << 20 };

static const struct span LINK = {"https://max.ru/x", 16};

static struct cache_metrics metrics;
static struct entries entries;

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    return entries_init(&entries, BUDGET, &metrics);
}

static int tear_down(void **state)
{
    (void)state;
    entries_check(&entries);
    entries_fini(&entries);
    assert_int_equal(metrics.cache_entries, 0);
    return 0;
}

static void put_body(int64_t id, struct blob *body)
{
    entries_put_card(&entries, LIFETIME_TRACKED, id, SPAN_ABSENT, body);
}

static void put_linked(int64_t id, struct span link, const char *text)
{
    struct blob *body = blob_new(span_of(text));
    assert_non_null(body);
    entries_put_card(&entries, LIFETIME_TRACKED, id, link, body);
    blob_unref(body);
    entries_check(&entries);
}

static void put_card(int64_t id, const char *text)
{
    struct blob *body = blob_new(span_of(text));
    assert_non_null(body);
    put_body(id, body);
    blob_unref(body);
}

static void put_summary(int64_t id)
{
    struct blob *body = blob_new(SPAN("summary"));
    assert_non_null(body);
    entries_put_summary(&entries, LIFETIME_TRACKED, id, body);
    blob_unref(body);
}

static void drop_card(int64_t id)
{
    entries_drop(&entries, ENTRY_CARD, id);
}

static void put_text(int64_t id, size_t len)
{
    char *text = text_repeat('x', len);
    put_card(id, text);
    free(text);
}

static const struct entry *card(int64_t id)
{
    return entries_find(&entries, ENTRY_CARD, id);
}

static void put_page(int64_t number, int64_t first_id, int count)
{
    int64_t ids[PAGE_SIZE];
    const struct page_info info = {number, 9, count, true};
    for (int i = 0; i < count; i++)
        ids[i] = first_id + i;
    struct blob *body = blob_new(SPAN("a page"));
    assert_non_null(body);
    entries_put_page(&entries, LIFETIME_TRACKED, &info, ids, count, body);
    blob_unref(body);
}

static const struct entry *page(int64_t number)
{
    return entries_find(&entries, ENTRY_PAGE, number);
}

/* The card with this link. */
static const struct entry *linked(struct span link)
{
    return entries_find_link(&entries, link);
}

TEST_CASE_WITH(what_was_put_in_is_found_by_kind_and_key, set_up, tear_down)
{
    put_card(7, "seven");
    assert_memory_equal(card(7)->body->data, "seven", 5);
    assert_null(card(8));
    assert_null(entries_find(&entries, ENTRY_SUMMARY, 7));
    put_summary(7);
    assert_memory_equal(card(7)->body->data, "seven", 5);
}

TEST_CASE_WITH(what_is_untracked_is_not_kept, set_up, tear_down)
{
    const struct page_info info = {1, 1, 1, false};
    int64_t id = 7;
    struct blob *body = blob_new(SPAN("untracked"));
    assert_non_null(body);
    put_card(id, "seven");
    entries_put_card(&entries, LIFETIME_NONE, id, LINK, body);
    entries_put_summary(&entries, LIFETIME_NONE, id, body);
    entries_put_page(&entries, LIFETIME_NONE, &info, &id, 1, body);
    entries_set_index_size(&entries, LIFETIME_NONE, 1);
    blob_unref(body);
    assert_memory_equal(card(id)->body->data, "seven",
                        5); /* what was there before is left to invalidations */
    assert_int_equal(metrics.cache_entries, 1);
    assert_null(linked(LINK));
    assert_int_equal(entries_index_size(&entries), -1);
}

TEST_CASE_WITH(the_later_of_two_entries_counts, set_up, tear_down)
{
    put_card(1, "old");
    put_card(1, "new");
    assert_memory_equal(card(1)->body->data, "new", 3);
    assert_int_equal(metrics.cache_entries, 1);
}

TEST_CASE_WITH(what_is_dropped_is_gone, set_up, tear_down)
{
    put_card(3, "three");
    drop_card(3);
    drop_card(3);
    assert_null(card(3));
    assert_int_equal(entries.used, 0);
}

TEST_CASE_WITH(a_body_outlives_its_entry_while_it_is_referenced, set_up, tear_down)
{
    put_card(3, "three");
    struct blob *held = blob_ref(card(3)->body);
    drop_card(3);
    assert_memory_equal(held->data, "three", 5);
    blob_unref(held);
}

TEST_CASE_WITH(a_body_with_a_headroom_holds_its_entry_and_outlives_it, set_up, tear_down)
{
    struct blob *body = blob_new_headroom(SPAN("three"), entries_card_headroom(SPAN_ABSENT));
    put_body(3, body);
    assert_ptr_equal(card(3), blob_block(body));
    assert_ptr_equal(card(3)->body, body);
    size_t one_block = entries.used;
    drop_card(3);
    assert_null(card(3));
    assert_memory_equal(body->data, "three", 5);
    blob_unref(body);
    put_card(3, "three");
    assert_true(entries.used >= one_block);
}

TEST_CASE_WITH(a_headroom_serves_one_entry_only, set_up, tear_down)
{
    struct blob *body = blob_new_headroom(SPAN("shared"), entries_card_headroom(SPAN_ABSENT));
    put_body(1, body);
    put_body(2, body);
    assert_ptr_not_equal(card(2), card(1));
    drop_card(1);
    assert_ptr_equal(card(2)->body, body);
    blob_unref(body);
    assert_memory_equal(card(2)->body->data, "shared", 6);
}

TEST_CASE_WITH(the_bytes_stay_within_the_budget_and_the_oldest_go, set_up, tear_down)
{
    for (int64_t id = 0; id < 5000; id++) {
        put_text(id, 999);
        assert_true(entries.used <= entries.budget);
    }
    assert_null(card(0));
    assert_non_null(card(4999));
    assert_true(metrics.cache_evictions_total > 3000);
    assert_int_equal(metrics.cache_bytes, entries.used);
}

TEST_CASE_WITH(an_entry_larger_than_the_budget_pushes_out_nothing, set_up, tear_down)
{
    put_card(1, "small");
    put_text(2, BUDGET);
    assert_null(card(2));
    assert_non_null(card(1));
}

TEST_CASE_WITH(a_changed_channel_takes_the_body_off_its_page_alone, set_up, tear_down)
{
    put_page(1, 100, 100);
    put_page(2, 200, 50);
    entries_invalidate_page_of(&entries, 150);
    assert_null(page(1)->body);
    assert_int_equal(page(1)->page->member_count, 100);
    assert_int_equal(page(1)->page->member[50], 150);
    assert_non_null(page(2)->body);
    entries_invalidate_page_of(&entries, 250);
    assert_non_null(page(2)->body);
}

TEST_CASE_WITH(a_page_put_again_replaces_its_members, set_up, tear_down)
{
    put_page(1, 100, 100);
    put_page(1, 500, 10);
    entries_invalidate_page_of(&entries, 100);
    assert_non_null(page(1)->body);
    entries_invalidate_page_of(&entries, 509);
    assert_null(page(1)->body);
}

/* Reclaims all there is, no more than so many steps a time; returns how many steps there were. */
static int reclaim(int at_once)
{
    int all = 0;
    while (entries_has_excess(&entries)) {
        int64_t before = (int64_t)metrics.cache_entries;
        int steps = entries_reclaim(&entries, at_once);
        assert_in_range(steps, 1, at_once);
        assert_in_range(before - (int64_t)metrics.cache_entries, 0, at_once);
        all += steps;
    }
    assert_int_equal(entries_reclaim(&entries, at_once), 0);
    return all;
}

TEST_CASE_WITH(dropped_pages_are_dead_at_once_and_freed_in_steps, set_up, tear_down)
{
    enum { PAGES = 10 };
    put_card(1, "one");
    size_t without = entries.used;
    for (int64_t n = 1; n <= PAGES; n++)
        put_page(n, 100 * n, 100);
    entries_drop_pages(&entries);
    assert_true(entries.used > without);
    for (int64_t n = 1; n <= PAGES; n++)
        assert_null(page(n));
    assert_non_null(card(1));
    put_page(3, 100, 100); /* of the new index: it takes the place of a dead one */
    entries_invalidate_page_of(&entries, 999);
    assert_non_null(page(3)->body);
    assert_int_equal(reclaim(2), PAGES - 1);
    assert_null(page(4));
    entries_invalidate_page_of(&entries, 150);
    assert_null(page(3)->body);
    entries_drop_pages(&entries);
    (void)reclaim(1);
    assert_int_equal(entries.used, without);
}

TEST_CASE_WITH(what_was_cleared_is_never_found_and_freed_in_steps, set_up, tear_down)
{
    enum { CARDS = 2000, STEP = 7 };
    size_t without = entries.used;
    for (int64_t id = 0; id < CARDS; id++)
        put_card(id, "old");
    put_linked(5, LINK, "linked");
    assert_non_null(linked(LINK));
    put_page(1, 0, 100);
    entries_drop_pages(&entries);
    put_page(2, 100, 100);
    size_t before = metrics.cache_bytes;
    entries_clear(&entries);
    assert_int_equal(metrics.cache_bytes, before); /* until it is freed */
    assert_null(linked(LINK));
    assert_null(page(2));
    for (int64_t id = 0; id < CARDS; id++) {
        assert_null(card(id));
        if (id % 100 == 0)
            put_card(id, "new");
        if (id % 2 == 0)
            (void)entries_reclaim(&entries, 1);
    }
    assert_true(reclaim(STEP) > CARDS / 3);
    for (int64_t id = 0; id < CARDS; id += 100)
        assert_memory_equal(card(id)->body->data, "new", 3);
    assert_int_equal(metrics.cache_entries, CARDS / 100);
    entries_clear(&entries);
    (void)reclaim(STEP);
    assert_int_equal(entries.used, without);
    assert_int_equal(metrics.cache_entries, 0);
}

TEST_CASE_WITH(what_is_dead_goes_before_anything_is_evicted, set_up, tear_down)
{
    enum { SIZE = 1000, CARDS = BUDGET / SIZE / 2 };
    for (int64_t id = 0; id < CARDS; id++)
        put_text(id, SIZE);
    assert_int_equal(metrics.cache_evictions_total, 0);
    for (int round = 0; round < 3; round++) {
        entries_clear(&entries);
        for (int64_t id = 0; id < CARDS; id++) {
            put_text(id, SIZE);
            assert_true(entries.used <= entries.budget);
        }
    }
    assert_int_equal(metrics.cache_evictions_total, 0);
    assert_non_null(card(0));
}

TEST_CASE_WITH(room_for_a_large_entry_is_made_in_steps, set_up, tear_down)
{
    enum { SMALL = 100, LARGE = BUDGET / 2 };
    int64_t id = 0;
    while (metrics.cache_evictions_total == 0)
        put_text(id++, SMALL);
    uint64_t before = metrics.cache_evictions_total;
    put_text(-1, LARGE);
    assert_int_equal(metrics.cache_evictions_total, before + ENTRIES_ROOM_STEPS);
    assert_non_null(card(-1));
    assert_true(entries.used > entries.budget + LARGE / 2);
    put_text(-2, LARGE); /* too much is owed already */
    assert_null(card(-2));
    assert_true(entries_has_excess(&entries));
    assert_true(reclaim(ENTRIES_ROOM_STEPS) > 0);
    assert_true(entries.used <= entries.budget);
    put_text(-3, SMALL);
    assert_non_null(card(-3));
}

/* --- links --- */

static const struct span OTHER_LINK = {"https://max.ru/y", 16};

TEST_CASE_WITH(a_card_is_found_by_its_own_link, set_up, tear_down)
{
    put_summary(7);
    assert_null(linked(LINK));
    put_linked(7, LINK, "seven");
    put_linked(8, OTHER_LINK, "eight");
    put_card(9, "without link");
    assert_ptr_equal(linked(LINK), card(7));
    assert_ptr_equal(linked(OTHER_LINK), card(8));
    assert_null(linked(SPAN("https://max.ru/")));
    assert_null(linked(SPAN("https://max.ru/xy")));
    assert_null(linked(SPAN_ABSENT));
    assert_int_equal(entries.links.used, 2);
    drop_card(7);
    assert_null(linked(LINK));
    assert_ptr_equal(linked(OTHER_LINK), card(8));
    assert_int_equal(entries.links.used, 1);
}

TEST_CASE_WITH(a_link_changes_with_its_card, set_up, tear_down)
{
    put_linked(7, LINK, "old");
    put_linked(8, OTHER_LINK, "old");
    put_linked(7, OTHER_LINK, "new"); /* the two have exchanged them, and one has been read again */
    assert_null(linked(LINK));
    put_linked(8, LINK, "new");
    assert_ptr_equal(linked(LINK), card(8));
    assert_ptr_equal(linked(OTHER_LINK), card(7));
    put_linked(7, SPAN_ABSENT, "none");
    assert_null(linked(OTHER_LINK));
    assert_non_null(card(7));
    assert_int_equal(entries.links.used, 1);
}

TEST_CASE_WITH(of_two_cards_with_a_link_the_last_is_found, set_up, tear_down)
{
    put_linked(7, LINK, "seven");
    put_linked(8, LINK, "eight");
    assert_ptr_equal(linked(LINK), card(8));
    put_linked(7, LINK, "again");
    assert_ptr_equal(linked(LINK), card(7));
    drop_card(8);
    assert_ptr_equal(linked(LINK), card(7));
    put_linked(8, LINK, "eight");
    drop_card(8);
    assert_null(linked(LINK)); /* it is to be read again, which adds the other */
    assert_non_null(card(7));
    put_linked(7, LINK, "seven");
    assert_ptr_equal(linked(LINK), card(7));
}

TEST_CASE_WITH(cards_with_one_link_do_not_fill_the_table_of_links, set_up, tear_down)
{
    enum { CARDS = 2 * TABLE_SEGMENT_SLOTS };
    for (int64_t id = 0; id < CARDS; id++) {
        struct blob *body = blob_new(SPAN("x"));
        assert_non_null(body);
        entries_put_card(&entries, LIFETIME_TRACKED, id, LINK, body);
        blob_unref(body);
    }
    assert_int_equal(entries.links.used, 1);
    assert_int_equal(entries.links.segment_count, 1);
    put_linked(-1, OTHER_LINK, "other");
    assert_ptr_equal(linked(OTHER_LINK), card(-1));
}

TEST_CASE_WITH(a_link_that_is_too_long_is_not_kept, set_up, tear_down)
{
    AUTOFREE char *text = text_repeat('x', LINK_MAX + 1);
    const struct span longest = {text, LINK_MAX};
    const struct span longer = {text, LINK_MAX + 1};
    put_linked(7, longest, "seven");
    put_linked(8, longer, "eight");
    assert_int_equal(card(7)->link_len, LINK_MAX);
    assert_ptr_equal(linked(longest), card(7));
    assert_null(linked(longer));
    assert_int_equal(card(8)->link_len, 0);
    assert_int_equal(entries_card_headroom(longer), entries_card_headroom(SPAN_ABSENT));
}

/* Without a headroom they are those of the entry's own block, and else of the body's. */
TEST_CASE_WITH(the_bytes_of_a_link_count, set_up, tear_down)
{
    AUTOFREE char *text = text_repeat('x', LINK_MAX);
    const struct span link = {text, LINK_MAX};
    put_card(7, "seven");
    size_t without = entries.used;
    put_linked(7, link, "seven");
    assert_in_range(entries.used, without + LINK_MAX - 16, without + LINK_MAX + 16);
    struct blob *body = blob_new_headroom(SPAN("seven"), entries_card_headroom(link));
    assert_non_null(body);
    entries_put_card(&entries, LIFETIME_TRACKED, 7, link, body);
    assert_true(card(7)->in_headroom);
    assert_ptr_equal(linked(link), card(7));
    assert_in_range(entries.used, without + LINK_MAX - 32, without + LINK_MAX + 32);
    blob_unref(body);
    size_t used = entries.used;
    for (int64_t id = 100; id < 2100; id++) /* the table of links grows */
        put_linked(id, (struct span){(const char *)&id, sizeof id}, "");
    assert_true(entries.links.segment_count > 1);
    for (int64_t id = 100; id < 2100; id++)
        drop_card(id);
    assert_true(entries.used > used); /* it is not made smaller */
}

/* As a link: its bytes. */
static struct span link_of(const int64_t *id)
{
    return (struct span){(const char *)id, sizeof *id};
}

TEST_CASE_WITH(an_evicted_card_is_not_found_by_its_link, set_up, tear_down)
{
    enum { CARDS = 5000, SIZE = 999 };
    AUTOFREE char *text = text_repeat('x', SIZE);
    size_t found = 0;
    for (int64_t id = 0; id < CARDS; id++) {
        struct blob *body = blob_new(span_of(text));
        entries_put_card(&entries, LIFETIME_TRACKED, id, link_of(&id), body);
        blob_unref(body);
    }
    assert_true(metrics.cache_evictions_total > CARDS / 2);
    for (int64_t id = 0; id < CARDS; id++) {
        assert_ptr_equal(linked(link_of(&id)), card(id));
        found += card(id) != NULL;
    }
    assert_int_equal(found, entries.links.used);
}

/* One that is found by link alone is in use all the same. */
TEST_CASE_WITH(a_card_that_is_found_by_its_link_is_not_evicted, set_up, tear_down)
{
    put_linked(-1, LINK, "here");
    for (int64_t id = 0; id < 5000; id++) {
        assert_non_null(linked(LINK));
        put_text(id, 999);
    }
    assert_true(metrics.cache_evictions_total > 0);
}

/* --- coded bodies --- */

enum { PLAIN_SIZE = 4000, CODED_SIZE = 1000 };

static struct blob *new_tagged(size_t len, size_t headroom)
{
    AUTOFREE char *text = text_repeat('x', len);
    struct blob *body = blob_new_headroom(span_of(text), headroom);
    assert_non_null(body);
    return body;
}

static void put_tagged(int64_t id)
{
    struct blob *body = new_tagged(PLAIN_SIZE, entries_card_headroom(SPAN_ABSENT));
    put_body(id, body);
    blob_unref(body);
}

static void put_tagged_page(int64_t number, int64_t first_id)
{
    const struct page_info info = {number, 9, 2, true};
    const int64_t ids[] = {first_id, first_id + 1};
    struct blob *body = new_tagged(PLAIN_SIZE, 0);
    entries_put_page(&entries, LIFETIME_TRACKED, &info, ids, 2, body);
    blob_unref(body);
}

static bool put_coded(enum entry_kind kind, int64_t number, const struct blob *plain, enum coding coding,
                      size_t len)
{
    AUTOFREE char *text = text_repeat('z', len);
    struct blob *coded = blob_new_coded(span_of(text), coding, plain);
    assert_non_null(coded);
    bool kept = entries_put_coded(&entries, kind, number, plain, coded);
    blob_unref(coded);
    entries_check(&entries);
    return kept;
}

TEST_CASE_WITH(coded_bodies_count_with_their_entry_and_go_with_it, set_up, tear_down)
{
    size_t empty = entries.used;
    put_tagged(1);
    size_t plain = entries.used;
    assert_null(entry_coded_body(card(1), CODING_GZIP));
    assert_true(put_coded(ENTRY_CARD, 1, card(1)->body, CODING_GZIP, CODED_SIZE));
    assert_true(put_coded(ENTRY_CARD, 1, card(1)->body, CODING_ZSTD, CODED_SIZE));
    for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
        const struct blob *coded = entry_coded_body(card(1), coding);
        assert_int_equal(coded == NULL ? CODING_IDENTITY : coded->coding, coding);
    }
    assert_in_range(metrics.cache_coded_bytes, 2 * CODED_SIZE, 2 * CODED_SIZE + 300);
    assert_int_equal(entries.used, plain + metrics.cache_coded_bytes);
    assert_int_equal(metrics.cache_bytes, entries.used);
    struct blob *held = entry_coded_body(card(1), CODING_GZIP);
    if (held == NULL)
        return;
    (void)blob_ref(held);
    drop_card(1);
    assert_int_equal(entries.used, empty);
    assert_int_equal(metrics.cache_coded_bytes, 0);
    assert_memory_equal(held->data, "zzz", 3);
    blob_unref(held);
}

TEST_CASE_WITH(a_changed_channel_takes_the_coded_bodies_off_its_page, set_up, tear_down)
{
    put_tagged_page(1, 100);
    put_tagged_page(2, 200);
    assert_true(put_coded(ENTRY_PAGE, 1, page(1)->body, CODING_ZSTD, CODED_SIZE));
    assert_true(put_coded(ENTRY_PAGE, 2, page(2)->body, CODING_ZSTD, CODED_SIZE));
    struct blob *plain = blob_ref(page(1)->body);
    entries_invalidate_page_of(&entries, 100);
    entries_check(&entries);
    assert_null(entry_coded_body(page(1), CODING_ZSTD));
    assert_non_null(entry_coded_body(page(2), CODING_ZSTD));
    assert_false(
        put_coded(ENTRY_PAGE, 1, plain, CODING_ZSTD, CODED_SIZE)); /* it was made of the dropped one */
    entries_drop_pages(&entries);
    assert_false(put_coded(ENTRY_PAGE, 2, plain, CODING_GZIP, CODED_SIZE));
    (void)reclaim(1);
    assert_int_equal(metrics.cache_coded_bytes, 0);
    blob_unref(plain);
}

TEST_CASE_WITH(a_coded_body_of_what_was_dropped_or_replaced_is_not_kept, set_up, tear_down)
{
    put_tagged(1);
    struct blob *old = blob_ref(card(1)->body);
    put_tagged(1); /* the same bytes, read again */
    assert_false(put_coded(ENTRY_CARD, 1, old, CODING_GZIP, CODED_SIZE));
    assert_null(entry_coded_body(card(1), CODING_GZIP));
    drop_card(1);
    assert_false(put_coded(ENTRY_CARD, 1, old, CODING_GZIP, CODED_SIZE));
    put_body(1, old);
    entries_clear(&entries);
    assert_false(put_coded(ENTRY_CARD, 1, old, CODING_GZIP, CODED_SIZE));
    blob_unref(old);
}

TEST_CASE_WITH(a_coding_is_made_once_when_it_is_wanted_again, set_up, tear_down)
{
    put_tagged(1);
    put_summary(2);
    put_tagged_page(3, 100);
    for (int i = 0; i < 3; i++)
        assert_false(entries_want_coded(&entries, ENTRY_CARD, 1, CODING_GZIP, false));
    assert_true(entries_want_coded(&entries, ENTRY_CARD, 1, CODING_GZIP, true));
    assert_false(entries_want_coded(&entries, ENTRY_CARD, 1, CODING_GZIP, true));
    assert_false(entries_want_coded(&entries, ENTRY_CARD, 1, CODING_ZSTD, true));
    assert_true(entries_want_coded(&entries, ENTRY_CARD, 1, CODING_ZSTD, true));
    for (int i = 0; i < 3; i++) {
        assert_false(entries_want_coded(&entries, ENTRY_SUMMARY, 2, CODING_GZIP, true));
        assert_false(entries_want_coded(&entries, ENTRY_CARD, 4, CODING_GZIP, true));
        assert_int_equal(entries_want_coded(&entries, ENTRY_PAGE, 3, CODING_GZIP, true), i == 1);
    }
    entries_invalidate_page_of(&entries, 100);
    assert_false(entries_want_coded(&entries, ENTRY_PAGE, 3, CODING_GZIP, true));
    put_tagged_page(3, 100);
    assert_false(entries_want_coded(&entries, ENTRY_PAGE, 3, CODING_GZIP, true)); /* it counts anew */
    assert_true(entries_want_coded(&entries, ENTRY_PAGE, 3, CODING_GZIP, true));
}

TEST_CASE_WITH(coded_bodies_stay_within_the_budget, set_up, tear_down)
{
    enum { CARDS = 1000 };
    for (int64_t id = 0; id < CARDS; id++) {
        put_tagged(id);
        if (card(id) != NULL)
            (void)put_coded(ENTRY_CARD, id, card(id)->body, CODING_GZIP, CODED_SIZE);
        assert_true(entries.used <= entries.budget);
    }
    assert_true(metrics.cache_evictions_total > 0);
    assert_true(metrics.cache_coded_bytes > 0);
}

TEST_CASE_WITH(in_a_full_cache_pages_are_coded_and_cards_are_not, set_up, tear_down)
{
    int64_t id = 0;
    put_tagged_page(1, 100000);
    while (metrics.cache_evictions_total == 0) {
        (void)page(1); /* it stays */
        put_tagged(++id);
    }
    for (int i = 0; i < 3; i++) {
        assert_false(entries_want_coded(&entries, ENTRY_CARD, id, CODING_GZIP, true));
        assert_int_equal(entries_want_coded(&entries, ENTRY_PAGE, 1, CODING_GZIP, true), i == 1);
    }
    for (int n = 0; n < 3; n++)
        drop_card(id - 1 - n);
    assert_true(entries_want_coded(&entries, ENTRY_CARD, id, CODING_GZIP, true));
}

TEST_CASE_WITH(a_coded_body_of_a_summary_is_not_kept, set_up, tear_down)
{
    struct blob *body = new_tagged(PLAIN_SIZE, 0);
    entries_put_summary(&entries, LIFETIME_TRACKED, 1, body);
    assert_false(put_coded(ENTRY_SUMMARY, 1, body, CODING_GZIP, CODED_SIZE));
    blob_unref(body);
}

/* The large entry has taken more than it made room for. */
TEST_CASE_WITH(no_coded_body_is_kept_while_much_is_to_be_reclaimed, set_up, tear_down)
{
    enum { LARGE = BUDGET / 2 };
    int64_t id = 0;
    while (metrics.cache_evictions_total == 0)
        put_text(id++, CODED_SIZE);
    struct blob *large = new_tagged(LARGE, 0);
    put_body(-1, large);
    assert_false(put_coded(ENTRY_CARD, -1, large, CODING_GZIP, CODED_SIZE));
    while (reclaim(ENTRIES_ROOM_STEPS) > 0)
        continue;
    assert_true(put_coded(ENTRY_CARD, -1, large, CODING_GZIP, CODED_SIZE));
    blob_unref(large);
}

TEST_CASE_WITH(a_coded_body_that_does_not_fit_beside_the_plain_one_is_not_kept, set_up, tear_down)
{
    struct blob *large = new_tagged(BUDGET * 3 / 4, 0);
    put_body(1, large);
    assert_non_null(card(1));
    assert_false(put_coded(ENTRY_CARD, 1, large, CODING_GZIP, BUDGET / 2));
    assert_ptr_equal(card(1)->body, large);
    assert_true(put_coded(ENTRY_CARD, 1, large, CODING_GZIP, BUDGET / 8));
    blob_unref(large);
}

TEST_CASE_WITH(without_a_budget_nothing_is_kept, set_up, tear_down)
{
    struct entries none;
    int64_t id = 1;
    struct blob *body = blob_new(SPAN("x"));
    assert_int_equal(entries_init(&none, 0, &metrics), 0);
    entries_put_card(&none, LIFETIME_TRACKED, id, LINK, body);
    assert_null(entries_find_link(&none, LINK));
    assert_null(entries_find(&none, ENTRY_CARD, id));
    entries_invalidate_page_of(&none, 1);
    entries_clear(&none);
    entries_fini(&none);
    blob_unref(body);
}
