/* The audit: what differs, and when a difference is a failure. */
#include "cache/audit.h"

#include "cache/body.h"
#include "unit/fake_redis.h"

enum { BUDGET = 1 << 20 };

static const struct span LINK = {"https://max.ru/x", 16};

static struct keyspace keyspace;
static struct cache_metrics metrics;
static struct entries entries;
static struct audit audit;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    text = BUF_INIT;
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    assert_int_equal(entries_init(&entries, BUDGET, &metrics), 0);
    audit_init(&audit, &keyspace, &entries, &metrics);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    audit_fini(&audit);
    entries_fini(&entries);
    buf_fini(&text);
    return 0;
}

/* Caches a channel as it would be fetched. */
static void put_channel(enum entry_kind kind, int64_t id, const char *title)
{
    char number[32];
    struct channel_row row;
    enum channel_shape shape = kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
    (void)snprintf(number, sizeof number, "%lld", (long long)id);
    const redisReply *reply = reply_row(shape, number, title, NULL);
    assert_int_equal(body_parse_row(reply, shape, &row), VALUE_PRESENT);
    assert_int_equal(body_write(&text, &row, shape), 0);
    struct blob *body = blob_new(buf_span(&text));
    entries_put(&entries, kind, entries_key_of(&id), body, 0);
    blob_unref(body);
}

static void put_page(bool has_next)
{
    const int64_t ids[] = {5, 6};
    const struct page_info info = {.page = 3, .last = 9, .count = 2, .has_next = has_next};
    struct blob *body = blob_new(SPAN("page"));
    entries_put_page(&entries, &info, ids, 2, body);
    blob_unref(body);
}

static void expect_idle(int heartbeats)
{
    for (int i = 0; i < heartbeats; i++)
        assert_int_equal(audit_heartbeat(&audit), AUDIT_IDLE);
}

/* Heartbeats until the audit reads the one entry that there is. */
static struct audit_subject read_one(void)
{
    enum audit_action action = AUDIT_IDLE;
    for (int i = 0; i < 10 && action == AUDIT_IDLE; i++)
        action = audit_heartbeat(&audit);
    assert_int_equal(action, AUDIT_READ);
    return audit_subject(&audit);
}

/* The reply to the command differs from the entry that is read, or does not. */
static void expect_read(const redisReply *reply, bool differs)
{
    audit_reply(&audit, reply, true, &text);
    assert_int_equal(audit.entry_heartbeats > 0, differs);
    audit_reset(&audit);
}

/* The same, with a new reading of the one entry. */
static void expect(const redisReply *reply, bool differs)
{
    (void)read_one();
    expect_read(reply, differs);
}

TEST_CASE_WITH(cards_and_summaries_are_compared_as_they_would_be_served, set_up, tear_down)
{
    static const enum entry_kind kinds[] = {ENTRY_CARD, ENTRY_SUMMARY};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        enum channel_shape shape = kinds[i] == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY;
        put_channel(kinds[i], 7, "seven");
        assert_int_equal(read_one().kind, kinds[i]);
        assert_int_equal(audit_subject(&audit).number, 7);
        expect_read(reply_row(shape, "7", "seven", NULL), false);
        expect(reply_row(shape, "7", "other", NULL), true);
        expect(reply_row(shape, NULL, NULL, NULL), true);
        expect(reply_words("7 seven"), false); /* no reply to that command */
        expect(reply_of("-ERR no\r\n"), false);
        entries_clear(&entries);
    }
    const int64_t id = 8;
    entries_put_absent(&entries, ENTRY_CARD, entries_key_of(&id), 0);
    expect(reply_card(NULL, NULL), false);
    expect(reply_card("8", "eight"), true);
}

TEST_CASE_WITH(links_are_compared_by_where_they_lead, set_up, tear_down)
{
    entries_put(&entries, ENTRY_LINK, LINK, NULL, 7);
    assert_int_equal(read_one().kind, ENTRY_LINK);
    assert_span(audit_subject(&audit).link, "https://max.ru/x");
    expect_read(reply_string("7"), false);
    expect(reply_string("8"), true);
    expect(reply_string("x"), true);
    expect(reply_of("_\r\n"), true);
    expect(reply_integer(8), false);
    entries_put_absent(&entries, ENTRY_LINK, LINK, 0);
    expect(reply_of("_\r\n"), false);
    expect(reply_string("x"), false);
    expect(reply_string("7"), true);
}

TEST_CASE_WITH(pages_are_compared_by_their_members, set_up, tear_down)
{
    put_page(false);
    assert_int_equal(read_one().kind, ENTRY_PAGE);
    assert_int_equal(audit_subject(&audit).number, 3);
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

TEST_CASE_WITH(results_of_keys_are_not_read, set_up, tear_down)
{
    entries_put(&entries, ENTRY_AUTH, SPAN("key"), NULL, 0);
    expect_idle(10);
}

TEST_CASE_WITH(one_read_is_under_way_at_a_time, set_up, tear_down)
{
    put_channel(ENTRY_CARD, 7, "seven");
    (void)read_one();
    expect_idle(10);
    audit_reply(&audit, NULL, true, &text); /* lost */
    (void)read_one();
    audit_reply(&audit, reply_card("7", "other"), false, &text); /* not to be relied on */
    assert_int_equal(audit.entry_heartbeats, 0);
    const int64_t id = 7;
    (void)read_one();
    entries_drop(&entries, ENTRY_CARD, entries_key_of(&id)); /* meanwhile */
    expect_read(reply_card("7", "other"), false);
}

/* A card differs from Redis. */
static void suspect_card(void)
{
    put_channel(ENTRY_CARD, 7, "seven");
    (void)read_one();
    audit_reply(&audit, reply_card("7", "other"), true, &text);
}

TEST_CASE_WITH(a_difference_is_a_failure_at_the_second_heartbeat, set_up, tear_down)
{
    suspect_card();
    assert_int_equal(audit_heartbeat(&audit), AUDIT_IDLE);
    assert_int_equal(metrics.cache_audit_failures_total, 0);
    assert_int_equal(audit_heartbeat(&audit), AUDIT_FAILED);
    assert_int_equal(metrics.cache_audit_failures_total, 1);
}

TEST_CASE_WITH(an_invalidation_of_the_key_explains_its_difference, set_up, tear_down)
{
    for (int heartbeats = 0; heartbeats < 2; heartbeats++) {
        suspect_card();
        expect_idle(heartbeats);
        audit_invalidated(&audit, ENTRY_CARD, 8, SPAN_ABSENT); /* others do not */
        audit_invalidated(&audit, ENTRY_LINK, 0, LINK);
        audit_invalidated(&audit, ENTRY_PAGE, 0, SPAN_ABSENT);
        audit_invalidated(&audit, ENTRY_AUTH, 0, SPAN_ABSENT);
        assert_true(audit.entry_heartbeats > 0);
        audit_invalidated(&audit, ENTRY_CARD, 7, SPAN_ABSENT);
        for (int i = 0; i < 5; i++)
            assert_int_not_equal(audit_heartbeat(&audit), AUDIT_FAILED);
        entries_clear(&entries);
        if (audit.under_way)
            audit_reply(&audit, NULL, true, &text);
    }
    assert_int_equal(metrics.cache_audit_failures_total, 0);
}

TEST_CASE_WITH(an_invalidation_of_a_card_explains_its_summary, set_up, tear_down)
{
    put_channel(ENTRY_SUMMARY, 7, "seven");
    (void)read_one();
    audit_reply(&audit, reply_summary("7", "other"), true, &text);
    assert_true(audit.entry_heartbeats > 0);
    audit_invalidated(&audit, ENTRY_CARD, 7, SPAN_ABSENT);
    assert_int_equal(audit.entry_heartbeats, 0);
}

TEST_CASE_WITH(invalidations_of_links_and_of_the_index_explain_theirs, set_up, tear_down)
{
    entries_put(&entries, ENTRY_LINK, LINK, NULL, 7);
    (void)read_one();
    audit_reply(&audit, reply_string("8"), true, &text);
    audit_invalidated(&audit, ENTRY_LINK, 0, SPAN("https://max.ru/y"));
    assert_true(audit.entry_heartbeats > 0);
    audit_invalidated(&audit, ENTRY_LINK, 0, LINK);
    assert_int_equal(audit.entry_heartbeats, 0);
    entries_drop(&entries, ENTRY_LINK, LINK);
    put_page(false);
    (void)read_one();
    audit_reply(&audit, reply_words("5"), true, &text);
    audit_invalidated(&audit, ENTRY_LINK, 0, LINK);
    assert_true(audit.entry_heartbeats > 0);
    audit_invalidated(&audit, ENTRY_PAGE, 0, SPAN_ABSENT);
    assert_int_equal(audit.entry_heartbeats, 0);
}

TEST_CASE_WITH(the_number_of_keys_is_compared_too, set_up, tear_down)
{
    audit_key_count(&audit, 3, -1); /* none is held */
    audit_key_count(&audit, 3, 3);
    expect_idle(2);
    audit_key_count(&audit, 4, 3);
    assert_int_equal(audit_heartbeat(&audit), AUDIT_IDLE);
    audit_key_count(&audit, 4, 3); /* which is no new suspicion */
    audit_invalidated(&audit, ENTRY_CARD, 0, SPAN_ABSENT);
    assert_int_equal(audit_heartbeat(&audit), AUDIT_FAILED);
    audit_reset(&audit);
    audit_key_count(&audit, 4, 3);
    audit_invalidated(&audit, ENTRY_AUTH, 0, SPAN_ABSENT);
    expect_idle(5);
}

TEST_CASE_WITH(everything_that_has_changed_explains_everything, set_up, tear_down)
{
    suspect_card();
    audit_key_count(&audit, 4, 3);
    audit_reset(&audit);
    for (int i = 0; i < 5; i++)
        assert_int_not_equal(audit_heartbeat(&audit), AUDIT_FAILED);
}
