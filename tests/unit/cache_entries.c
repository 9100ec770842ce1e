/* The bytes of the cache stay within its size, whatever is put in, and what is dead is freed in steps. */
#include "cache/entries.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"
#include "unit/entries_check.h"

enum { BUDGET = 1 << 20 };

static struct cache_metrics metrics;
static struct entries entries;

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    entries_init(&entries, BUDGET, &metrics);
    return 0;
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

static void put_card(int64_t id, const char *text)
{
    struct blob *body = blob_new(span_of(text));
    assert_non_null(body);
    put_body(id, body);
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

static void put_page_of(int64_t number, int64_t first_id, int count, struct blob *body)
{
    struct page_member members[PAGE_SIZE];
    const struct page_info info = {number, 9, count, true};
    for (int i = 0; i < count; i++)
        members[i] = (struct page_member){.id = first_id + i};
    struct entry *e = entries_new_page(&entries, number, members, count);
    assert_non_null(e);
    entries_put_page(&entries, LIFETIME_TRACKED, e, &info, body);
}

static void put_page(int64_t number, int64_t first_id, int count)
{
    struct blob *body = blob_new(SPAN("a page"));
    assert_non_null(body);
    put_page_of(number, first_id, count, body);
    blob_unref(body);
}

static const struct entry *page(int64_t number)
{
    return entries_find(&entries, ENTRY_PAGE, number);
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

/* Reclaims all there is, no more than so much a time; returns how many steps there were. */
static int reclaim(void)
{
    int all = 0;
    for (;;) {
        int64_t before = (int64_t)metrics.cache_entries;
        int steps = entries_reclaim(&entries, ENTRIES_ROOM_STEPS);
        assert_in_range(steps, 0, ENTRIES_ROOM_STEPS);
        assert_int_equal(before - (int64_t)metrics.cache_entries, steps);
        all += steps;
        if (steps < ENTRIES_ROOM_STEPS)
            return all;
    }
}

TEST_CASE_WITH(what_was_cleared_is_never_found_and_freed_in_steps, set_up, tear_down)
{
    enum { CARDS = 2000, NEW = 3 };
    size_t without = entries.used;
    for (int64_t id = 0; id < CARDS; id++)
        put_card(id, "old");
    put_page(1, 0, 100);
    entries_drop_lists(&entries);
    put_page(2, 100, 100);
    size_t before = metrics.cache_bytes;
    entries_clear(&entries);
    assert_int_equal(metrics.cache_bytes, before); /* until it is freed */
    assert_null(page(2));
    for (int64_t id = 0; id < CARDS; id++)
        assert_null(card(id));
    for (int64_t id = 0; id < NEW; id++)
        put_card(id, "new");
    assert_int_equal(reclaim(), CARDS + 2 - NEW * ENTRIES_ROOM_STEPS);
    for (int64_t id = 0; id < CARDS; id++)
        assert_int_equal(card(id) != NULL, id < NEW);
    assert_memory_equal(card(0)->body->data, "new", 3);
    assert_int_equal(metrics.cache_entries, NEW);
    entries_clear(&entries);
    (void)reclaim();
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
    assert_true(reclaim() > 0);
    assert_true(entries.used <= entries.budget);
    put_text(-3, SMALL);
    assert_non_null(card(-3));
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
    struct blob *body = new_tagged(PLAIN_SIZE, 0);
    put_page_of(number, first_id, 2, body);
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
    (void)reclaim();
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
