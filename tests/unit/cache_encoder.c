/* Coding beside the loop: once it is wanted again, one body at a time, and never for what has changed. */
#include "cache/encoder.h"

#include <stdlib.h>

#include "base/clock.h"
#include "support/text.h"
#include "unit/check.h"
#include "unit/entries_check.h"

enum { BUDGET = 8 << 20, PAGE_BYTES = 60000 };

static struct cache_metrics metrics;
static struct entries entries;
static struct encoder encoder;
static uv_loop_t loop;
static struct wait_group closing;
static int closed;

static void on_closed(void *arg)
{
    (void)arg;
    closed++;
}

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    closed = 0;
    closing = (struct wait_group){0};
    entries_init(&entries, BUDGET, &metrics);
    if (uv_loop_init(&loop) != 0)
        return -1;
    encoder_init(&encoder, &loop, &entries, &metrics);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    encoder_close(&encoder, &closing);
    wait_group_close(&closing, free, NULL, on_closed, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(closed, 1);
    entries_check(&entries);
    entries_fini(&entries);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void put_card(int64_t id, size_t len)
{
    AUTOFREE char *text = text_repeat('x', len);
    struct blob *body = blob_new_headroom(span_of(text), entries_card_headroom(SPAN_ABSENT));
    assert_non_null(body);
    entries_put_card(&entries, LIFETIME_TRACKED, id, SPAN_ABSENT, body);
    blob_unref(body);
}

static const struct entry *card(int64_t id)
{
    return entries_find(&entries, ENTRY_CARD, id);
}

/* The coding of the body that a hit gets. */
static enum coding hit(int64_t id, enum coding wanted)
{
    struct blob *body = encoder_body(&encoder, card(id), wanted);
    enum coding coding = (enum coding)body->coding;
    assert_true(coding == CODING_IDENTITY ? body == card(id)->body : body->len < card(id)->body->len);
    blob_unref(body);
    return coding;
}

static void await_idle(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* nothing but the work keeps it running */
    assert_false(encoder.busy);
    encoder.pause_until_ns = 0;
}

TEST_CASE_WITH(the_second_hit_begins_and_later_ones_are_coded, set_up, tear_down)
{
    put_card(1, PAGE_BYTES);
    for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
        assert_int_equal(hit(1, coding), CODING_IDENTITY);
        assert_false(encoder.busy);
        assert_int_equal(hit(1, coding), CODING_IDENTITY);
        assert_true(encoder.busy);
        await_idle();
        for (int i = 0; i < 3; i++)
            assert_int_equal(hit(1, coding), coding);
        assert_false(encoder.busy);
        assert_int_equal(metrics.cache_coded_total, coding);
    }
}

TEST_CASE_WITH(what_changes_meanwhile_stays_plain, set_up, tear_down)
{
    put_card(1, PAGE_BYTES);
    for (int i = 0; i < 2; i++)
        (void)hit(1, CODING_GZIP);
    assert_true(encoder.busy);
    put_card(1, PAGE_BYTES);
    await_idle();
    assert_int_equal(hit(1, CODING_GZIP), CODING_IDENTITY);
    (void)hit(1, CODING_GZIP);
    assert_true(encoder.busy);
    const int64_t id = 1;
    entries_drop(&entries, ENTRY_CARD, id);
    await_idle();
    assert_null(card(1));
    assert_int_equal(metrics.cache_coded_total, 0);
    assert_int_equal(metrics.cache_coded_bytes, 0);
}

TEST_CASE_WITH(one_body_at_a_time_and_a_pause_after_it, set_up, tear_down)
{
    enum { CARDS = 50 };
    for (int64_t id = 0; id < CARDS; id++)
        put_card(id, PAGE_BYTES);
    for (int round = 0; round < 3; round++)
        for (int64_t id = 0; id < CARDS; id++)
            assert_int_equal(hit(id, CODING_ZSTD), CODING_IDENTITY);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(metrics.cache_coded_total, 1);
    assert_true(encoder.taken_ns > 0);
    assert_true(encoder.pause_until_ns + encoder.taken_ns >=
                clock_now_ns()); /* it may have passed just now */
    encoder.pause_until_ns = UINT64_MAX;
    for (int64_t id = 0; id < CARDS; id++)
        (void)hit(id, CODING_ZSTD);
    assert_false(encoder.busy);
    for (int64_t id = 0; id < CARDS; id++) {
        encoder.pause_until_ns = 0;
        (void)hit(id, CODING_ZSTD);
        await_idle();
    }
    assert_int_equal(metrics.cache_coded_total, CARDS);
}

TEST_CASE_WITH(bodies_out_of_bounds_stay_plain, set_up, tear_down)
{
    put_card(1, ENCODER_MIN_BYTES - 1);
    put_card(2, ENCODER_MAX_BYTES + 1);
    put_card(3, ENCODER_MIN_BYTES);
    for (int64_t id = 1; id <= 3; id++)
        for (int i = 0; i < 3; i++) {
            (void)hit(id, CODING_GZIP);
            await_idle();
        }
    assert_int_equal(hit(1, CODING_GZIP), CODING_IDENTITY);
    assert_int_equal(hit(2, CODING_GZIP), CODING_IDENTITY);
    assert_int_equal(hit(3, CODING_GZIP), CODING_GZIP);
}

TEST_CASE_WITH(a_body_without_tag_stays_plain, set_up, tear_down)
{
    AUTOFREE char *text = text_repeat('x', ENCODER_MIN_BYTES);
    const int64_t id = 1;
    struct blob *body = blob_new(span_of(text));
    assert_non_null(body);
    entries_put_card(&entries, LIFETIME_TRACKED, id, SPAN_ABSENT, body);
    blob_unref(body);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hit(id, CODING_GZIP), CODING_IDENTITY);
        assert_false(encoder.busy);
    }
}

TEST_CASE_WITH(a_body_that_does_not_become_shorter_is_tried_once, set_up, tear_down)
{
    static char noise[PAGE_BYTES];
    const int64_t id = 1;
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)check_random(&seed);
    struct blob *body =
        blob_new_headroom((struct span){noise, sizeof noise}, entries_card_headroom(SPAN_ABSENT));
    entries_put_card(&entries, LIFETIME_TRACKED, id, SPAN_ABSENT, body);
    blob_unref(body);
    (void)hit(id, CODING_GZIP);
    (void)hit(id, CODING_GZIP);
    assert_true(encoder.busy);
    await_idle();
    for (int i = 0; i < 3; i++)
        assert_int_equal(hit(id, CODING_GZIP), CODING_IDENTITY);
    assert_false(encoder.busy);
}

/* The loop, the entries and the encoder end cleanly with a body under way: see tear_down(). */
TEST_CASE_WITH(closing_waits_for_the_body_under_way, set_up, tear_down)
{
    put_card(1, ENCODER_MAX_BYTES);
    for (int i = 0; i < 2; i++)
        (void)hit(1, CODING_GZIP);
    assert_true(encoder.busy);
}

enum { POOL_THREADS = 4 }; /* of libuv */

static uv_sem_t gate;

static void wait_at_gate(uv_work_t *work)
{
    (void)work;
    uv_sem_wait(&gate);
}

static void open_gate(uv_timer_t *timer)
{
    for (int i = 0; i < POOL_THREADS; i++)
        uv_sem_post(&gate);
    uv_close((uv_handle_t *)timer, NULL);
}

/* All threads of the pool are busy until tear_down() has closed the encoder. */
TEST_CASE_WITH(closing_cancels_what_no_thread_has_begun, set_up, tear_down)
{
    static uv_work_t blocker[POOL_THREADS];
    static uv_timer_t timer;
    assert_int_equal(uv_sem_init(&gate, 0), 0);
    for (int i = 0; i < POOL_THREADS; i++)
        assert_int_equal(uv_queue_work(&loop, &blocker[i], wait_at_gate, NULL), 0);
    assert_int_equal(uv_timer_init(&loop, &timer), 0);
    assert_int_equal(uv_timer_start(&timer, open_gate, 0, 0), 0);
    put_card(1, ENCODER_MAX_BYTES);
    for (int i = 0; i < 2; i++)
        (void)hit(1, CODING_GZIP);
    assert_true(encoder.busy);
}
