/* The audit: what differs, and when a difference means that an invalidation was lost. */
#include "unit/fixtures/cache_invalidation.h"

#include "cache/body.h"

static int set_up(void **state)
{
    assert_int_equal(invalidation_set_up(state), 0);
    invalidation_connected(&invalidation, clock_ms, true, false);
    return 0;
}

/* The entry that was cached last: each new connection drops it. */
static struct {
    enum entry_kind kind;
    int64_t number;
    const char *title;
    bool has_next;
} cached;

/* Caches a channel as it would be fetched. */
static void put_channel(enum entry_kind kind, int64_t id, const char *title)
{
    char number[32];
    struct channel_row row;
    cached.kind = kind;
    cached.number = id;
    cached.title = title;
    enum channel_shape shape = kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
    (void)snprintf(number, sizeof number, "%lld", (long long)id);
    const struct redis_reply *reply = reply_row(shape, number, title, NULL);
    assert_int_equal(body_parse_row(reply, shape, &row), VALUE_PRESENT);
    assert_int_equal(body_write(&text, &row, shape), 0);
    struct blob *body = blob_new(buf_span(&text));
    if (kind == ENTRY_CARD)
        entries_put_card(&entries, LIFETIME_TRACKED, id, SPAN_ABSENT, body);
    else
        entries_put_summary(&entries, LIFETIME_TRACKED, id, body);
    blob_unref(body);
}

static void put_page(bool has_next)
{
    const int64_t ids[] = {5, 6};
    cached.kind = ENTRY_PAGE;
    cached.has_next = has_next;
    const struct page_info info = {.page = 3, .last = 9, .count = 2, .has_next = has_next};
    struct blob *body = blob_new(SPAN("page"));
    entries_put_page(&entries, LIFETIME_TRACKED, &info, ids, 2, body);
    blob_unref(body);
}

static void put_again(void)
{
    if (cached.kind == ENTRY_PAGE)
        put_page(cached.has_next);
    else
        put_channel(cached.kind, cached.number, cached.title);
}

static void heartbeat(void)
{
    invalidation_heartbeat(&invalidation, clock_ms);
    answer("SCARD", reply_integer(1));
}

static bool is_suspended(void)
{
    return metrics.cache_suspended != 0;
}

static void answer_read(const struct redis_reply *reply)
{
    redis_reply_fn fn = reading.fn;
    assert_non_null(fn);
    reading.fn = NULL;
    fn(reading.arg, reply, REDIS_ORIGIN_STREAM);
}

/* Heartbeats until the audit reads the one entry that there is. */
static struct entry_source read_one(void)
{
    if (entries.table.used == 0)
        put_again();
    for (int i = 0; i < 10 && reading.fn == NULL; i++)
        heartbeat();
    assert_non_null(reading.fn);
    return reading.source;
}

/* A suspicion, if there is one, has become a certainty two heartbeats later; then there is a new connection.
 */
static void expect_suspended(bool suspended)
{
    heartbeat();
    assert_false(is_suspended());
    heartbeat();
    assert_int_equal(is_suspended(), suspended);
    invalidation_lost(&invalidation, UINT64_MAX);
    if (reading.fn != NULL)
        answer_read(NULL);
    invalidation_connected(&invalidation, clock_ms, true, false);
    assert_false(is_suspended());
}

/* The reply to the command differs from the entry that is read, or does not. */
static void expect_read(const struct redis_reply *reply, bool differs)
{
    answer_read(reply);
    expect_suspended(differs);
}

/* The same, with a new reading of the one entry. */
#define expect(reply, differs)           \
    do {                                 \
        (void)read_one();                \
        expect_read((reply), (differs)); \
    } while (0)

static void push(const char *key)
{
    invalidation_push(&invalidation, SPAN("invalidate"), reply_string(key));
    if (fake_redis.count > 0)
        answer("SCARD", reply_integer(1));
}

TEST_CASE_WITH(cards_and_summaries_are_compared_as_they_would_be_served, set_up, invalidation_tear_down)
{
    static const enum entry_kind kinds[] = {ENTRY_CARD, ENTRY_SUMMARY};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        enum channel_shape shape = kinds[i] == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
        put_channel(kinds[i], 7, "seven");
        assert_int_equal(read_one().kind, kinds[i]);
        assert_int_equal(reading.source.number, 7);
        expect_read(reply_row(shape, "7", "seven", NULL), false);
        expect(reply_row(shape, "7", "other", NULL), true);
        expect(reply_row(shape, NULL, NULL, NULL), true);
        expect(reply_words("7 seven"), false); /* no reply to that command */
        expect(reply_of("-ERR no\r\n"), false);
        entries_clear(&entries);
    }
}

TEST_CASE_WITH(a_card_whose_link_alone_has_changed_differs, set_up, invalidation_tear_down)
{
    put_channel(ENTRY_CARD, 7, "seven");
    expect(reply_linked_card("7", "seven", "https://max.ru/x"), true);
}

TEST_CASE_WITH(pages_are_compared_by_their_members, set_up, invalidation_tear_down)
{
    put_page(false);
    assert_int_equal(read_one().kind, ENTRY_PAGE);
    assert_int_equal(reading.source.number, 3);
    expect_read(reply_words("5 6"), false);
    expect(reply_words("5 x 6"), false); /* what is not an id is on no page */
    expect(reply_words("6 5"), true);
    expect(reply_words("5"), true);
    expect(reply_words("5 6 7"), true);
    expect(reply_words(""), true);
    expect(reply_of("*1\r\n:5\r\n"), false);
    put_page(true); /* one more member than fits would have told so */
    expect(reply_words("5 6"), true);
}

TEST_CASE_WITH(one_read_is_under_way_at_a_time, set_up, invalidation_tear_down)
{
    put_channel(ENTRY_CARD, 7, "seven");
    (void)read_one();
    for (int i = 0; i < 10; i++)
        heartbeat();   /* on_read would notice another */
    answer_read(NULL); /* lost */
    (void)read_one();
    invalidation_push(&invalidation, SPAN("invalidate"), reply_string("test:index"));
    answer_read(reply_card("7", "other")); /* not to be relied on while an invalidation is pending */
    answer("SCARD", reply_integer(1));
    expect_suspended(false);
    const int64_t id = 7;
    (void)read_one();
    entries_drop(&entries, ENTRY_CARD, id); /* meanwhile */
    expect_read(reply_card("7", "other"), false);
}

TEST_CASE_WITH(a_read_that_cannot_be_sent_is_sent_with_another_heartbeat, set_up, invalidation_tear_down)
{
    put_channel(ENTRY_CARD, 7, "seven");
    reading.refused = true;
    for (int i = 0; i < 10; i++)
        heartbeat();
    reading.refused = false;
    assert_int_equal(read_one().number, 7);
    answer_read(NULL);
}

/* A card differs from Redis. */
static void suspect_card(void)
{
    put_channel(ENTRY_CARD, 7, "seven");
    (void)read_one();
    answer_read(reply_card("7", "other"));
}

TEST_CASE_WITH(a_difference_is_a_failure_at_the_second_heartbeat, set_up, invalidation_tear_down)
{
    suspect_card();
    heartbeat();
    assert_int_equal(metrics.cache_audit_failures_total, 0);
    assert_null(reading.fn); /* nothing else is read meanwhile */
    look_away();
    heartbeat();
    assert_int_equal(metrics.cache_audit_failures_total, 1);
    assert_string_equal(changes(), "drop 1");
    heartbeat(); /* once */
    assert_int_equal(metrics.cache_audit_failures_total, 1);
}

TEST_CASE_WITH(an_invalidation_of_the_key_explains_its_difference, set_up, invalidation_tear_down)
{
    for (int heartbeats = 0; heartbeats < 2; heartbeats++) {
        suspect_card();
        for (int i = 0; i < heartbeats; i++)
            heartbeat();
        push("test:card:7");
        expect_suspended(false);
        entries_clear(&entries);
    }
    assert_int_equal(metrics.cache_audit_failures_total, 0);
}

TEST_CASE_WITH(invalidations_of_other_keys_do_not_explain_a_difference, set_up, invalidation_tear_down)
{
    suspect_card();
    push("test:card:8");
    push("test:link:https://max.ru/x");
    push("test:index");
    push("test:api_keys");
    expect_suspended(true);
}

TEST_CASE_WITH(an_invalidation_of_a_card_explains_its_summary, set_up, invalidation_tear_down)
{
    for (int id = 7; id <= 8; id++) {
        put_channel(ENTRY_SUMMARY, 7, "seven");
        (void)read_one();
        answer_read(reply_summary("7", "other"));
        push(id == 7 ? "test:card:7" : "test:card:8");
        expect_suspended(id != 7);
    }
}

TEST_CASE_WITH(an_invalidation_of_the_index_explains_a_page, set_up, invalidation_tear_down)
{
    static const char *const keys[] = {"test:link:https://max.ru/x", "test:card:7", "test:index"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        put_page(false);
        (void)read_one();
        answer_read(reply_words("5"));
        push(keys[i]);
        expect_suspended(i != 2);
    }
}

/* A key is confirmed, and Redis says that it is none; or the other way round. */
static void contradict_keys(bool is_absent)
{
    const struct digest d = digest_of(1);
    if (is_absent) {
        api_keys_note_absent(&api_keys, &d);
        assert_int_equal(api_keys_confirm(&api_keys, &d, LIFETIME_TRACKED, &API_KEY_INFO_NONE), 0);
    } else {
        assert_int_equal(api_keys_confirm(&api_keys, &d, LIFETIME_TRACKED, &API_KEY_INFO_NONE), 0);
        api_keys_deny(&api_keys, &d);
    }
}

TEST_CASE_WITH(keys_are_compared_too, set_up, invalidation_tear_down)
{
    for (int is_absent = 0; is_absent < 2; is_absent++) {
        contradict_keys(is_absent != 0);
        heartbeat();
        push("test:card:0"); /* which explains nothing */
        assert_false(is_suspended());
        heartbeat();
        assert_true(is_suspended());
        invalidation_lost(&invalidation, UINT64_MAX);
        invalidation_connected(&invalidation, clock_ms, true, false);
        api_keys_invalidate(&api_keys); /* as the key reader does */
    }
}

TEST_CASE_WITH(an_invalidation_of_the_keys_explains_a_difference, set_up, invalidation_tear_down)
{
    contradict_keys(false);
    heartbeat();
    push("test:api_keys");
    api_keys_invalidate(&api_keys);
    expect_suspended(false);
}

TEST_CASE_WITH(everything_that_has_changed_explains_everything, set_up, invalidation_tear_down)
{
    contradict_keys(false);
    suspect_card();
    invalidation_push(&invalidation, SPAN("invalidate"), reply_of("_\r\n"));
    answer("SCARD", reply_integer(3));
    api_keys_invalidate(&api_keys);
    expect_suspended(false);
}
