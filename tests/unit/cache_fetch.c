/* What a fetch asks Redis for, what it makes of the replies, and who shares it. */
#include "cache/fetch.h"

#include "base/log.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/text.h"
#include "unit/entries_check.h"
#include "unit/fixtures/cache_parts.h"

enum { BUDGET = 1 << 20, RESULTS = 16, DELAY_LIMIT_MS = 50, DISTANT_MS = 500 };

static struct list request;        /* of most tests, the only one */
static int ended;                  /* fetches */
static bool lost;                  /* the last of them */
static struct cache_result result; /* of the last of them, without its body and name */
static bool is_named;
static char body[4096];

static void on_ended(void *arg, struct list *requests, const struct cache_query *q,
                     const struct cache_result *fetched)
{
    (void)arg;
    (void)q;
    ended++;
    lost = fetched == NULL;
    body[0] = '\0';
    result = (struct cache_result){0};
    if (!lost) {
        result = *fetched;
        if (result.body != NULL)
            (void)snprintf(body, sizeof body, "%.*s", (int)result.body->len, result.body->data);
        is_named = result.key_name != NULL;
        result.body = NULL;
        result.key_name = NULL;
    }
    while (!list_empty(requests))
        list_remove(requests->next);
}

static void on_checked(void *arg, enum catalogue_state state)
{
    (void)arg;
    invalidation_checked(&invalidation, state);
    fetches_confirm(&fetches, state);
}

/* The check under way finds the API keys, and not their number: so they are not read. */
static void answer_check(void)
{
    answer("SCARD test:api_keys", reply_of("-WRONGTYPE is no set\r\n"));
}

static int set_up(void **state)
{
    (void)state;
    ended = 0;
    lost = false;
    body[0] = '\0';
    list_init(&request);
    cache_parts_init(BUDGET, 0, on_checked);
    parts.ended = on_ended;
    assert_int_equal(key_reader_init(&key_reader, &parts), 0);
    assert_int_equal(fetches_init(&fetches, &parts, DELAY_LIMIT_MS), 0);
    catalogue_check(&catalogue);
    answer_check();
    invalidation_connected(&invalidation, clock_ms, true, false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(fake_redis.count, 0);
    entries_check(&entries);
    fetches_fini(&fetches);
    key_reader_fini(&key_reader);
    cache_parts_fini();
    return 0;
}

/* Begins a fetch that one request waits for. */
static struct fetch *begin_query(struct cache_query q, bool needs_auth, struct page_builder *known)
{
    memset(&q.key, 'k', sizeof q.key);
    list_init(&request);
    struct fetch *f = fetch_begin(&fetches, &q, needs_auth, known, &request);
    assert_non_null(f);
    return f;
}

static struct fetch *begin_card(int64_t id)
{
    return begin_query((struct cache_query){.type = QUERY_CARD, .number = id}, false, NULL);
}

static const struct span LINK = {"https://max.ru/x", 16};

static struct fetch *begin_link(void)
{
    return begin_query((struct cache_query){.type = QUERY_CARD_BY_LINK, .link = LINK}, false, NULL);
}

static struct fetch *begin_page(int64_t number)
{
    return begin_query((struct cache_query){.type = QUERY_PAGE, .number = number}, false, NULL);
}

static struct fetch *find(enum cache_query_type type, int64_t number, struct span link)
{
    return fetches_find(&fetches, &(struct cache_query){.type = type, .number = number, .link = link});
}

/* Fetches card 7; the reply is evaluated when the command has been sent. */
#define fetch_card(reply, expected)                  \
    do {                                             \
        (void)begin_card(7);                         \
        answer("HMGET test:card:7 ", reply);         \
        assert_int_equal(result.status, (expected)); \
    } while (0)

static const struct entry *entry(enum entry_kind kind, int64_t number)
{
    return entries_peek(&entries, kind, number);
}

static void push(const char *key)
{
    const struct redis_reply *reply = key == NULL ? reply_of("_\r\n") : reply_string(key);
    invalidation_push(&invalidation, SPAN("invalidate"), reply);
}

/* The next command reads all fields of the shape. */
static void assert_hmget(int64_t id, enum channel_shape shape)
{
    SCOPED_BUF(expected);
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    buf_printf(&expected, "HMGET test:card:%lld", (long long)id);
    for (size_t i = 0; i < count; i++) {
        struct span name = channel_field_name(fields[i]);
        buf_printf(&expected, " %.*s", (int)name.len, name.data);
    }
    assert_string_equal(fake_redis_next(), buf_c_str(&expected));
}

/* --- cards --- */

TEST_CASE_WITH(a_card_is_one_command_and_is_cached, set_up, tear_down)
{
    struct fetch *f = begin_card(7);
    assert_hmget(7, CHANNEL_CARD);
    assert_ptr_equal(find(QUERY_CARD, 7, SPAN_ABSENT), f);
    assert_null(find(QUERY_CARD, 8, SPAN_ABSENT));
    assert_null(find(QUERY_PAGE, 7, SPAN_ABSENT));
    fake_redis_answer(reply_card("7", "seven"));
    assert_int_equal(ended, 1);
    assert_false(lost);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "{\"success\":true,\"data\":{\"max_channel_id\":7,\"title\":\"seven\""));
    assert_non_null(entry(ENTRY_CARD, 7));
    assert_memory_equal(entry(ENTRY_CARD, 7)->body->data, body, strlen(body));
    assert_true(entry(ENTRY_CARD, 7)->in_headroom);
    assert_int_equal(metrics.redis_commands_total, 1);
    assert_null(find(QUERY_CARD, 7, SPAN_ABSENT));
}

TEST_CASE_WITH(an_invalid_reply_fails_the_fetch_and_nothing_is_cached, set_up, tear_down)
{
    static const char *const replies[] = {"+OK\r\n", "*1\r\n$1\r\n1\r\n", "_\r\n", "-ERR no\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        fetch_card(reply_of(replies[i]), CACHE_UNAVAILABLE);
        assert_null(entry(ENTRY_CARD, 7));
    }
    assert_int_equal(ended, 4);
    assert_int_equal(metrics.redis_error_replies_total, 1);
    fetch_card(&resp_oversize, CACHE_UNAVAILABLE);
}

TEST_CASE_WITH(values_that_do_not_parse_are_counted, set_up, tear_down)
{
    fetch_card(reply_row(CHANNEL_CARD, "seven", "x", "now"), CACHE_FOUND);
    assert_int_equal(metrics.invalid_values_total, 2);
}

TEST_CASE_WITH(the_newest_update_that_is_not_of_the_future_is_told, set_up, tear_down)
{
    static const char *const updates[] = {"2026-01-02T00:00:00", "2026-01-01T00:00:00", "2999-01-01T00:00:00",
                                          "2026-01-02T00:00:0x"};
    (void)begin_card(7);
    answer("HMGET", reply_row(CHANNEL_CARD, "7", "x", "1969-12-31T23:59:59"));
    assert_int_equal(metrics.catalogue_updated_timestamp_seconds, 0);
    for (size_t i = 0; i < TEST_COUNT(updates); i++) {
        (void)begin_card(7);
        answer("HMGET", reply_row(CHANNEL_CARD, "7", "x", updates[i]));
        assert_int_equal(metrics.catalogue_updated_timestamp_seconds, 1767312000);
    }
}

TEST_CASE_WITH(without_tracking_nothing_is_cached, set_up, tear_down)
{
    invalidation_lost(&invalidation, 0);
    invalidation_connected(&invalidation, clock_ms, false, false);
    fetch_card(reply_card("7", "seven"), CACHE_FOUND);
    (void)begin_page(1);
    answer("ZCARD", reply_integer(1));
    answer("ZRANGE", reply_words("7"));
    answer("HMGET", reply_summary("7", "seven"));
    assert_int_equal(result.status, CACHE_FOUND);
    assert_int_equal(metrics.cache_entries, 0);
    assert_int_equal(entries_index_size(&entries), -1);
}

TEST_CASE_WITH(without_tracking_a_read_is_shared_for_the_ttl, set_up, tear_down)
{
    enum { TTL_MS = 5 };
    validity.limits.ttl_ms = TTL_MS;
    invalidation_lost(&invalidation, 0);
    invalidation_connected(&invalidation, clock_ms, false, false);
    struct fetch *f = begin_card(7);
    clock_ms += TTL_MS - 1;
    assert_ptr_equal(find(QUERY_CARD, 7, SPAN_ABSENT), f);
    clock_ms++;
    assert_null(find(QUERY_CARD, 7, SPAN_ABSENT));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    assert_int_equal(result.status, CACHE_FOUND);
}

/* --- links --- */

static const char OTHER_LINK[] = "https://max.ru/y";

/* The link leads to this channel. */
static void answer_link(const char *id)
{
    answer("UNTRACKED GET test:link:https://max.ru/x", reply_string(id));
}

/* The card of the channel that was named, and its own link. */
static void answer_card(const char *id, const char *link)
{
    char command[64];
    (void)snprintf(command, sizeof command, "HMGET test:card:%s ", id);
    answer(command, reply_linked_card(id, id, link));
}

/* Another look: both at once. */
static void answer_again(const char *id, const char *link, const char *leads_to)
{
    answer_card(id, link);
    answer_link(leads_to);
}

TEST_CASE_WITH(a_malformed_link_is_counted_and_another_reply_fails_the_fetch, set_up, tear_down)
{
    (void)begin_link();
    answer_link("seven");
    assert_null(find(QUERY_CARD_BY_LINK, 0, LINK));
    answer_check();
    assert_int_equal(result.status, CACHE_NOT_FOUND);
    assert_int_equal(metrics.invalid_values_total, 1);
    (void)begin_link();
    answer("UNTRACKED GET", reply_integer(7));
    assert_int_equal(result.status, CACHE_UNAVAILABLE);
    assert_int_equal(metrics.cache_entries, 0);
}

/* It exists all the time, so it is no 404. */
TEST_CASE_WITH(a_link_that_moves_all_the_time_is_an_error_in_the_end, set_up, tear_down)
{
    int moves = 0;
    (void)begin_link();
    answer_link("0");
    answer_card("0", OTHER_LINK);
    for (; fake_redis.count > 0; moves++) {
        char id[16];
        char next[16];
        (void)snprintf(id, sizeof id, "%d", moves);
        (void)snprintf(next, sizeof next, "%d", moves + 1);
        answer_again(id, OTHER_LINK, next);
        answer_card(next, OTHER_LINK);
    }
    assert_int_equal(moves, 8);
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_UNAVAILABLE);
}

TEST_CASE_WITH(after_a_move_a_link_is_read_as_often_as_before_it, set_up, tear_down)
{
    (void)begin_link();
    answer_link("1");
    answer_card("1", OTHER_LINK);
    answer_again("1", OTHER_LINK, "2");
    answer_card("2", OTHER_LINK);
    answer_again("2", OTHER_LINK, "2");
    answer_again("2", LINK.data, "2");
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
}

/* The reads of a link that does not agree with its card: GET, HMGET, then twice HMGET and GET at once. */
static const struct redis_reply *reply_to_read(int i)
{
    return i == 0 || i == 3 || i == 5 ? reply_string("7") : reply_linked_card("7", "x", OTHER_LINK);
}

TEST_CASE_WITH(a_link_fails_with_any_of_its_reads, set_up, tear_down)
{
    for (int good = 0; good < 6; good++) {
        ended = 0;
        (void)begin_link();
        for (int i = 0; i < good; i++)
            fake_redis_answer(reply_to_read(i));
        fake_redis_answer(reply_of("-ERR no\r\n"));
        while (fake_redis.count > 0)
            fake_redis_answer(reply_to_read(3));
        assert_int_equal(ended, 1);
        assert_int_equal(result.status, CACHE_UNAVAILABLE);
    }
}

/* None of its reads but the first `sent` can be sent. */
TEST_CASE_WITH(a_link_ends_with_any_read_that_cannot_be_sent, set_up, tear_down)
{
    for (int sent = 1; sent < 6; sent++) {
        ended = 0;
        (void)begin_link();
        for (int i = 0; fake_redis.count > 0; i++) {
            fake_redis.sends_left = i == 0 ? sent - 1 : fake_redis.sends_left;
            fake_redis_answer(reply_to_read(i));
        }
        fake_redis.sends_left = -1;
        assert_int_equal(ended, 1);
    }
}

/* What is logged of the fetch. */
static const char *logged_of(void begin_and_answer(void))
{
    static char logged[4096];
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(log_start(fd, LOG_INFO), 0);
    begin_and_answer();
    log_stop();
    ssize_t n = pread(fd, logged, sizeof logged - 1, 0);
    assert_true(n >= 0);
    logged[n] = '\0';
    close(fd);
    assert_int_equal(result.status, CACHE_UNAVAILABLE);
    return logged;
}

static void read_oversize_link(void)
{
    (void)begin_link();
    answer("UNTRACKED GET", &resp_oversize);
}

static void read_oversize_card_of_a_link(void)
{
    (void)begin_link();
    answer_link("7");
    answer("HMGET", &resp_oversize);
}

TEST_CASE_WITH(an_oversize_reply_is_logged_with_its_key, set_up, tear_down)
{
    const char *logged = logged_of(read_oversize_link);
    assert_non_null(strstr(logged, "\"test:link:https://max.ru/x\""));
    assert_null(strstr(logged, "test:card:"));
    logged = logged_of(read_oversize_card_of_a_link);
    assert_non_null(strstr(logged, "\"test:card:7\""));
    assert_null(strstr(logged, "test:link:"));
}

/* --- pages --- */

static const struct entry *page(int64_t number)
{
    return entry(ENTRY_PAGE, number);
}

static void answer_index(int64_t size, const char *ids)
{
    answer("ZCARD test:index", reply_integer(size));
    answer("ZRANGE test:index", reply_words(ids));
}

TEST_CASE_WITH(a_page_is_its_index_and_then_the_missing_summaries, set_up, tear_down)
{
    struct blob *two = blob_new(SPAN("{\"two\":2}"));
    const int64_t id = 2;
    entries_put_summary(&entries, LIFETIME_TRACKED, id, two);
    blob_unref(two);
    (void)begin_page(2);
    assert_string_equal(fake_redis_next(), "ZCARD test:index");
    fake_redis_answer(reply_integer(103));
    assert_string_equal(fake_redis_next(), "ZRANGE test:index 100 200");
    fake_redis_answer(reply_words("1 2 3"));
    assert_hmget(1, CHANNEL_SUMMARY);
    fake_redis_answer(reply_summary("1", "one"));
    answer("HMGET test:card:3 ", reply_summary("3", "three"));
    assert_int_equal(result.status, CACHE_FOUND);
    assert_int_equal(result.last_page, 2);
    const char *one = strstr(body, "\"title\":\"one\"");
    const char *three = strstr(body, "\"title\":\"three\"");
    assert_non_null(one);
    assert_non_null(three);
    assert_true(one < strstr(body, ",{\"two\":2},") && strstr(body, ",{\"two\":2},") < three);
    assert_non_null(
        strstr(body, "\"pagination\":{\"page\":2,\"per_page\":100,\"count\":3,\"has_next\":false}"));
    assert_memory_equal(page(2)->body->data, body, strlen(body));
    assert_int_equal(page(2)->page->member_count, 3);
    assert_non_null(entry(ENTRY_SUMMARY, 1));
    assert_non_null(entry(ENTRY_SUMMARY, 3));
    assert_int_equal(entries_index_size(&entries), 103);
    assert_int_equal(fetches.page_members.used, 0);
}

/* Its members go between the two reads of the index. */
TEST_CASE_WITH(an_empty_page_within_the_index_is_read_again_once, set_up, tear_down)
{
    (void)begin_page(1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ended, 0);
        answer_index(3, "");
        answer_check();
    }
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "\"count\":0,"));
}

TEST_CASE_WITH(a_page_with_a_missing_member_is_read_again_once, set_up, tear_down)
{
    (void)begin_page(1);
    for (int i = 0; i < 2; i++) {
        answer_index(3, "1 2 x");
        if (i == 0) /* the second time it is cached */
            answer("HMGET test:card:1 ", reply_summary("1", "one"));
        answer("HMGET test:card:2 ", reply_summary(NULL, NULL));
        assert_int_equal(ended, 0);
        assert_int_equal(metrics.dangling_index_entries_total, 0);
        answer_check();
    }
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "\"count\":1,"));
    assert_int_equal(metrics.dangling_index_entries_total, 2);
    assert_int_equal(page(1)->page->member_count, 2); /* it depends on the missing one too */
    entries_invalidate_page_of(&entries, 2);
    assert_null(page(1)->body);
}

/* Whatever is missing: a simple sum of these would be 0. */
TEST_CASE_WITH(a_page_with_any_missing_members_waits_for_a_check, set_up, tear_down)
{
    (void)begin_page(1);
    for (int i = 0; i < 2; i++) {
        answer_index(2, "x -16");
        answer("HMGET test:card:-16 ", reply_summary(NULL, NULL));
        assert_int_equal(ended, 0);
        answer_check();
    }
    assert_int_equal(ended, 1);
}

/* The catalogue goes between the index and a card, and is back after the second read of the key. */
TEST_CASE_WITH(without_tracking_a_key_that_goes_while_a_page_is_read_is_read_again, set_up, tear_down)
{
    static const int is_member[] = {1, 0, 1};
    invalidation_lost(&invalidation, 0);
    invalidation_connected(&invalidation, clock_ms, false, false);
    (void)begin_query((struct cache_query){.type = QUERY_PAGE, .number = 1}, true, NULL);
    for (int i = 0; i < 3; i++) {
        answer("HGET test:api_key_info ", reply_of("_\r\n"));
        answer("SISMEMBER test:api_keys ", reply_integer(is_member[i]));
        answer_index(is_member[i], is_member[i] == 0 ? "" : "2");
        if (is_member[i] != 0)
            answer("HMGET test:card:2 ", i == 0 ? reply_summary(NULL, NULL) : reply_summary("2", "two"));
        assert_int_equal(ended, i == 2);
        if (i < 2)
            answer_check();
    }
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "two"));
}

/* Answers the info of a key; the keys are invalidated before its membership is answered. */
static void answer_invalidated_key(void)
{
    answer("HGET test:api_key_info ", reply_of("_\r\n"));
    push("test:api_key_info");
    answer("SISMEMBER test:api_keys ", reply_integer(1));
}

/* Without its info the key would have neither name nor expiry. */
TEST_CASE_WITH(a_key_whose_info_was_invalidated_before_its_membership_came_is_read_again, set_up, tear_down)
{
    (void)begin_query((struct cache_query){.type = QUERY_CARD, .number = 7}, true, NULL);
    answer_invalidated_key();
    assert_int_equal(ended, 0);
    answer_check();
    answer("HGET test:api_key_info ", reply_of("$14\r\n{\"name\":\"own\"}\r\n"));
    answer("SISMEMBER test:api_keys ", reply_integer(1));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "seven"));
}

/* Such a reply has no order with the invalidations, but may be from before this one. */
TEST_CASE_WITH(so_is_a_key_whose_membership_came_from_another_node, set_up, tear_down)
{
    (void)begin_query((struct cache_query){.type = QUERY_AUTH_ONLY}, true, NULL);
    answer("HGET test:api_key_info ", reply_of("_\r\n"));
    push("test:api_key_info");
    fake_redis_at(0)->origin = REDIS_ORIGIN_OUTSIDE;
    answer("SISMEMBER test:api_keys ", reply_integer(1));
    answer_check();
    assert_int_equal(ended, 0);
    answer("HGET test:api_key_info ", reply_of("$14\r\n{\"name\":\"own\"}\r\n"));
    answer("SISMEMBER test:api_keys ", reply_integer(1));
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
}

/* A tracking table that is too small invalidates the keys all the time. */
TEST_CASE_WITH(a_key_that_is_invalidated_at_each_read_is_read_nine_times, set_up, tear_down)
{
    (void)begin_query((struct cache_query){.type = QUERY_AUTH_ONLY}, true, NULL);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(ended, 0);
        answer_invalidated_key();
        if (catalogue_is_being_checked(&catalogue))
            answer_check();
    }
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
}

TEST_CASE_WITH(a_failed_request_names_a_valid_key_only, set_up, tear_down)
{
    static const char *const infos[] = {"_\r\n", "-ERR\r\n"};
    for (size_t i = 0; i < TEST_COUNT(infos); i++) {
        (void)begin_query((struct cache_query){.type = QUERY_CARD, .number = 7}, true, NULL);
        answer("HGET test:api_key_info ", reply_of(infos[i]));
        answer("SISMEMBER test:api_keys ", reply_integer(1));
        if (fake_redis.count > 0)
            answer("HMGET test:card:7 ", reply_of("-WRONGTYPE Operation against a key\r\n"));
        assert_int_equal(result.status, CACHE_UNAVAILABLE);
        assert_int_equal(is_named, i == 0);
    }
}

static const char EXPIRED[] = "$34\r\n{\"expires\":\"2021-01-01T00:00:00Z\"}\r\n";

/* Nothing but the key is read, whatever its data is. */
TEST_CASE_WITH(an_invalid_key_is_read_alone, set_up, tear_down)
{
    static const char *const infos[] = {"_\r\n", EXPIRED};
    wall_s = 2000000000;
    for (size_t i = 0; i < TEST_COUNT(infos); i++)
        for (int type = QUERY_AUTH_ONLY; type <= QUERY_PAGE; type++) {
            const struct span link = type == QUERY_CARD_BY_LINK ? LINK : SPAN_ABSENT;
            const struct cache_query q = {.type = (enum cache_query_type)type, .number = 1, .link = link};
            (void)begin_query(q, true, NULL);
            answer("HGET test:api_key_info ", reply_of(infos[i]));
            answer("SISMEMBER test:api_keys ", reply_integer(i == 1));
            answer_check();
            assert_int_equal(result.status, CACHE_KEY_INVALID);
        }
    wall_s = 0;
}

/* The data is in the batch of a key that was valid when it was last checked, and does not count if it is not
 * any more. */
TEST_CASE_WITH(a_key_that_was_valid_costs_one_round_trip, set_up, tear_down)
{
    const struct cache_query q = {.type = QUERY_CARD, .number = 7};
    for (int i = 0; i < 2; i++) {
        (void)begin_query(q, true, NULL);
        assert_int_equal(fetches.commands_due, i == 0 ? 2 : 3);
        answer("HGET test:api_key_info ", reply_of("_\r\n"));
        answer("SISMEMBER test:api_keys ", reply_integer(1));
        answer("HMGET test:card:7 ", reply_card("7", "seven"));
        assert_int_equal(result.status, CACHE_FOUND);
    }
    (void)begin_query(q, true, NULL);
    answer("HGET test:api_key_info ", reply_of("_\r\n"));
    answer("SISMEMBER test:api_keys ", reply_integer(0));
    answer("HMGET test:card:7 ", reply_of("-WRONGTYPE Operation against a key\r\n"));
    answer_check();
    assert_int_equal(result.status, CACHE_KEY_INVALID);
    assert_int_equal(metrics.redis_error_replies_total, 0);
    (void)begin_query(q, true, NULL);
    assert_int_equal(fetches.commands_due, 2); /* it is known to be invalid */
    for (int i = 0; i < 2; i++)
        fake_redis_answer(NULL);
}

/* Its replies have no order with those of this connection: the data is read again when both have come. */
TEST_CASE_WITH(data_that_comes_before_the_key_does_not_count, set_up, tear_down)
{
    struct digest key;
    memset(&key, 'k', sizeof key);
    for (int member = 0; member < 2; member++) {
        assert_int_equal(api_keys_confirm(&api_keys, &key, LIFETIME_NONE, &API_KEY_INFO_NONE), 0);
        (void)begin_query((struct cache_query){.type = QUERY_CARD, .number = 7}, true, NULL);
        struct fake_redis_sent info = fake_redis_remove(0);
        struct fake_redis_sent membership = fake_redis_remove(0);
        info.origin = membership.origin = REDIS_ORIGIN_OUTSIDE;
        answer("HMGET test:card:7 ", reply_of("-WRONGTYPE Operation against a key\r\n"));
        fake_redis_call(&membership, reply_integer(member));
        fake_redis_call(&info, reply_of("$14\r\n{\"name\":\"own\"}\r\n"));
        assert_int_equal(metrics.redis_error_replies_total, 0);
        if (member == 1) {
            answer("HMGET test:card:7 ", reply_card("7", "seven"));
            assert_int_equal(result.status, CACHE_FOUND);
            break;
        }
        for (int i = 0; i < 2 && ended == 0; i++) { /* what another node says is read twice */
            answer_check();
            if (ended > 0)
                break;
            answer("HGET test:api_key_info ", reply_of("_\r\n"));
            answer("SISMEMBER test:api_keys ", reply_integer(0));
        }
        assert_int_equal(result.status, CACHE_KEY_INVALID);
    }
}

TEST_CASE_WITH(a_broken_card_costs_itself_and_not_its_page, set_up, tear_down)
{
    (void)begin_page(1);
    answer_index(3, "1 2 3");
    answer("HMGET test:card:1 ", reply_of("-WRONGTYPE Operation against a key\r\n"));
    answer("HMGET test:card:2 ", &resp_oversize);
    answer("HMGET test:card:3 ", reply_summary("3", "three"));
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_non_null(strstr(body, "\"count\":1,"));
    assert_int_equal(metrics.dangling_index_entries_total, 2);
}

/* Nobody tells of its repair. */
TEST_CASE_WITH(a_page_with_a_broken_card_of_another_node_is_not_cached, set_up, tear_down)
{
    (void)begin_page(1);
    answer_index(2, "1 2");
    fake_redis_at(0)->origin = REDIS_ORIGIN_OUTSIDE;
    answer("HMGET test:card:1 ", reply_of("-WRONGTYPE Operation against a key\r\n"));
    answer("HMGET test:card:2 ", reply_summary("2", "two"));
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_FOUND);
    assert_null(page(1));
}

TEST_CASE_WITH(invalid_replies_of_the_index_fail_the_page, set_up, tear_down)
{
    static const char *const replies[][2] = {
        {"$1\r\n1\r\n", "*1\r\n$1\r\n1\r\n"}, {":1\r\n", "$1\r\n1\r\n"}, {":1\r\n", "*1\r\n:1\r\n"}};
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        (void)begin_page(1);
        answer("ZCARD", reply_of(replies[i][0]));
        answer("ZRANGE", reply_of(replies[i][1]));
        assert_int_equal(result.status, CACHE_UNAVAILABLE);
    }
    assert_int_equal(ended, 3);
    assert_int_equal(metrics.cache_entries, 0);
}

/* --- the window --- */

/* Cards from 100 on, until there is no room; returns how many commands are in flight. Their requests have
 * left. */
static unsigned fill_window(void)
{
    int64_t id = 100;
    while (fetches_have_room(&fetches)) {
        (void)begin_card(id++);
        list_remove(&request);
    }
    return fetches.commands_due;
}

static void answer_all_after(uint64_t ms)
{
    clock_ms += ms;
    while (fake_redis.count > 0)
        fake_redis_answer(reply_card("1", "a"));
    assert_int_equal(fetches.commands_due, 0);
}

TEST_CASE_WITH(the_window_narrows_where_replies_are_late_and_widens_where_they_are_not, set_up, tear_down)
{
    unsigned narrow = 0;
    fetches_connected(&fetches);
    (void)begin_card(1);
    answer_all_after(0);
    unsigned first = fill_window();
    answer_all_after(DELAY_LIMIT_MS + 1);
    assert_int_equal(fill_window(), first / 2); /* all that were late were sent in one round trip */
    answer_all_after(DELAY_LIMIT_MS);
    assert_true(fill_window() > first / 2);
    for (int i = 0; i < 10; i++) {
        answer_all_after(DELAY_LIMIT_MS + 1);
        narrow = fill_window();
    }
    assert_in_range(narrow, 1, first / 4);
    answer_all_after(1);
    fetches_connected(&fetches);
    assert_int_equal(fill_window(), first);
    answer_all_after(1);
}

/* As many clients as wait for one page of summaries: none of them has to wait for another one. */
TEST_CASE_WITH(a_page_is_one_read_for_the_window, set_up, tear_down)
{
    enum { CLIENTS = 100, MEMBERS = 3 };
    struct list requests[CLIENTS];
    fetches_connected(&fetches);
    for (int i = 0; i < CLIENTS; i++) {
        struct cache_query q = {.type = QUERY_PAGE, .number = 1 + i};
        list_init(&requests[i]);
        assert_true(fetches_have_room(&fetches));
        assert_non_null(fetch_begin(&fetches, &q, false, NULL, &requests[i]));
        assert_int_equal(fetches.commands_due, 1 + i);
    }
    for (int i = 0; i < CLIENTS; i++)
        answer_index((int64_t)PAGE_SIZE * CLIENTS,
                     text_temp("%d %d %d", MEMBERS * i, MEMBERS * i + 1, MEMBERS * i + 2));
    assert_int_equal(fetches.commands_due, CLIENTS);
    assert_true(fetches_have_room(&fetches));
    while (fake_redis.count > 0)
        fake_redis_answer(reply_summary("1", "one"));
    assert_int_equal(ended, CLIENTS);
    assert_int_equal(fetches.commands_due, 0);
}

TEST_CASE_WITH(a_distant_redis_is_not_a_busy_one, set_up, tear_down)
{
    fetches_connected(&fetches);
    unsigned window = fill_window();
    for (int i = 0; i < 10; i++) {
        unsigned before = window;
        answer_all_after(DISTANT_MS);
        window = fill_window();
        assert_true(window > before);
    }
    answer_all_after(0);
}

TEST_CASE_WITH(a_late_reply_of_another_node_does_not_narrow_the_window, set_up, tear_down)
{
    fetches_connected(&fetches);
    (void)begin_card(1);
    answer_all_after(0);
    unsigned first = fetches.window;
    (void)begin_card(2);
    fake_redis_at(0)->origin = REDIS_ORIGIN_OUTSIDE;
    answer_all_after(DELAY_LIMIT_MS + 1);
    assert_int_equal(fetches.window, first);
}

TEST_CASE_WITH(the_window_does_not_widen_where_it_is_not_filled, set_up, tear_down)
{
    fetches_connected(&fetches);
    unsigned first = fetches.window;
    for (int i = 0; i < 10; i++) {
        (void)begin_card(i);
        answer_all_after(1);
    }
    assert_int_equal(fetches.window, first);
}

TEST_CASE_WITH(a_lost_connection_leaves_no_command_in_flight, set_up, tear_down)
{
    (void)begin_query((struct cache_query){.type = QUERY_CARD, .number = 7}, true, NULL);
    assert_int_equal(fetches.commands_due, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ended, 0);
        fake_redis_answer(NULL);
    }
    assert_int_equal(ended, 1);
    assert_int_equal(fetches.commands_due, 0);
}

TEST_CASE_WITH(a_fetch_that_nobody_waits_for_is_ended_by_its_last_reply, set_up, tear_down)
{
    (void)begin_page(1);
    answer("ZCARD", reply_integer(1));
    list_remove(&request);
    answer("ZRANGE", reply_words("1"));
    assert_int_equal(ended, 1);
    assert_null(page(1)); /* half done */
    (void)begin_card(8);
    answer("HMGET", reply_card(NULL, NULL));
    list_remove(&request);
    assert_int_equal(ended, 1);
    answer_check(); /* it waited for the check; others may wait for its end */
    assert_int_equal(ended, 2);
}

/* They change faster than a card can be read. */
TEST_CASE_WITH(keys_that_always_change_do_not_keep_a_request_waiting, set_up, tear_down)
{
    int reads = 0;
    (void)begin_card(7);
    for (; ended == 0; reads++) {
        push("test:api_keys");
        answer("HMGET", reply_card(NULL, NULL));
        answer_check();
    }
    assert_in_range(reads, 3, 10);
    assert_int_equal(result.status, CACHE_NOT_FOUND);
}

TEST_CASE_WITH(what_cannot_be_sent_fails_after_the_replies_to_what_was, set_up, tear_down)
{
    struct cache_query q = {.type = QUERY_CARD, .number = 7};
    fake_redis.sends_left = 0;
    assert_null(fetch_begin(&fetches, &q, false, NULL, &request));
    assert_null(find(QUERY_CARD, 7, SPAN_ABSENT));
    fake_redis.sends_left = 3;
    (void)begin_page(1);
    answer_index(2, "1 2");
    answer("HMGET test:card:1 ", reply_summary("1", "one"));
    assert_int_equal(ended, 1);
    assert_int_equal(result.status, CACHE_UNAVAILABLE);
    assert_null(page(1));
}

TEST_CASE_WITH(the_audit_reads_any_entry, set_up, tear_down)
{
    struct entry_source source = {ENTRY_CARD, 7};
    for (int kind = ENTRY_CARD; kind <= ENTRY_PAGE; kind++) {
        source.kind = (enum entry_kind)kind;
        assert_int_equal(fetches_read_entry(&fetches, &source, NULL, NULL), 0);
        if (kind == ENTRY_PAGE)
            assert_string_equal(fake_redis_next(), "ZRANGE test:index 600 700");
        else
            assert_hmget(7, kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY);
        fake_redis_init();
    }
    assert_int_equal(metrics.redis_commands_total, 0);
}
