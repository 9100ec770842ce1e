/*
 * Memory that runs out: each allocation of each call fails in turn, and every time the call says so, leaks
 * nothing and leaves something that works.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <yyjson.h>

#include "api/response.h"
#include "base/blob.h"
#include "base/log.h"
#include "base/settings.h"
#include "cache/entries.h"
#include "cache/invalidation.h"
#include "http/server.h"
#include "model/channel.h"
#include "model/link.h"
#include "redis/endpoint.h"
#include "unit/check.h"

static int countdown; /* the allocation that fails, counted from 1; 0: none */
static bool always;   /* every one fails */
static bool failed;   /* one did */

char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t max);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t max);

static bool fails_now(void)
{
    if (!always && (countdown == 0 || --countdown > 0))
        return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

#include "support/failing_malloc.h"
#include "unit/entries_check.h"

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t max)
{
    return fails_now() ? NULL : __real_strndup(text, max);
}

/* Runs `attempt` with the first, the second, ... allocation failing, until one run needs no more of them. */
static void with_each_failure(void attempt(bool *out_of_memory))
{
    enum { ENOUGH = 1000 };
    for (int n = 1; n < ENOUGH; n++) {
        bool out_of_memory = false;
        failed = false;
        countdown = n;
        attempt(&out_of_memory);
        countdown = 0;
        assert_int_equal(out_of_memory, failed);
        if (!failed) {
            assert_true(n > 1);
            return;
        }
    }
    fail_msg("no end of allocations");
}

/* A test whose body is such an attempt, and sets *out_of_memory. */
#define EACH_FAILURE(name)                           \
    static void attempt_##name(bool *out_of_memory); \
    TEST_CASE(name)                                  \
    {                                                \
        with_each_failure(attempt_##name);           \
    }                                                \
    static void attempt_##name(bool *out_of_memory)

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

EACH_FAILURE(http_server_is_not_made)
{
    uv_loop_t loop;
    struct http_metrics metrics = {0};
    struct loop_lag lag = {0};
    struct http_server_options options = {.metrics = &metrics, .loop_lag = &lag};
    struct http_server *server = NULL;
    bool closed = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    int err = http_balancer_new(1, 1, &options.balancer);
    if (err == 0)
        err = http_server_new(&loop, &options, &server);
    *out_of_memory = err == -ENOMEM;
    if (err == 0)
        http_server_close(server, on_closed, &closed);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(closed, err == 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    http_balancer_free(options.balancer);
}

EACH_FAILURE(buffer_is_in_error)
{
    struct buf b = BUF_INIT;
    for (int i = 0; i < 500; i++)
        buf_printf(&b, "%d ", i);
    *out_of_memory = buf_error(&b) == -ENOMEM;
    assert_true(*out_of_memory == (buf_c_str(&b) == NULL));
    buf_fini(&b);
}

EACH_FAILURE(body_is_null)
{
    struct blob *b = blob_new(SPAN("error"));
    struct blob *tagged = blob_new_headroom(SPAN("body"), 0);
    *out_of_memory = b == NULL || tagged == NULL;
    blob_unref(b);
    blob_unref(tagged);
}

/* A history that must be parsed, and needs the heap. */
static const char *long_history(void)
{
    static char text[32 * 1024];
    size_t used = 0;
    for (int i = 0; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%04d-01-01\":%d", i == 0 ? "{ " : ",",
                                 1000 + i, i);
    (void)snprintf(text + used, sizeof text - used, "}");
    return text;
}

EACH_FAILURE(history_is_in_error_not_invalid)
{
    struct buf out = BUF_INIT;
    assert_int_equal(history_write(&out, span_of(long_history())), 0); /* the value is good */
    *out_of_memory = buf_error(&out) == -ENOMEM;
    buf_fini(&out);
}

EACH_FAILURE(fault_of_a_history_is_in_error_not_found)
{
    struct channel_row row = {{{NULL, 0}}};
    struct buf scratch = BUF_INIT;
    row.value[CHANNEL_FIELD_followers_history] = span_of(long_history());
    assert_null(channel_find_fault(&row, CHANNEL_FIELD_followers_history, &scratch));
    *out_of_memory = buf_error(&scratch) == -ENOMEM;
    buf_fini(&scratch);
}

EACH_FAILURE(channel_is_in_error_not_incomplete)
{
    struct channel_row row = {{{NULL, 0}}};
    struct buf out = BUF_INIT;
    row.value[CHANNEL_FIELD_title] = SPAN("title");
    row.value[CHANNEL_FIELD_followers_history] = span_of(long_history());
    assert_int_equal(channel_write(&out, &row, CHANNEL_CARD), 0);
    *out_of_memory = buf_error(&out) == -ENOMEM;
    buf_fini(&out);
}

EACH_FAILURE(link_is_in_error)
{
    const struct link_hosts hosts = {{"max.ru", 6}, {"web.max.ru", 10}};
    struct buf out = BUF_INIT;
    assert_int_equal(link_normalise(&hosts, SPAN("https://web.max.ru/news"), &out), 0);
    *out_of_memory = buf_error(&out) == -ENOMEM;
    assert_true(link_is_stored_shape(&hosts, SPAN("https://max.ru/news")));
    buf_fini(&out);
}

EACH_FAILURE(names_of_keys_are_complete_or_out_of_memory)
{
    struct keyspace keyspace;
    struct invalidation invalidation;
    struct validity validity = {0};
    const struct cache_parts parts = {.keyspace = &keyspace};
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    *out_of_memory = invalidation_init(&invalidation, &parts, &validity) == -ENOMEM;
    invalidation_fini(&invalidation);
}

EACH_FAILURE(bodies_of_the_api_are_complete_or_out_of_memory)
{
    struct api_bodies bodies;
    int err = api_bodies_init(&bodies, SPAN("/api"));
    assert_true(err == 0 || (err == -ENOMEM && failed));
    for (int i = 0; i < API_ERROR_COUNT && err == 0; i++)
        assert_non_null(bodies.error[i].body);
    for (int i = 0; i < CODINGS && err == 0; i++)
        assert_non_null(bodies.openapi[i]);
    api_bodies_fini(&bodies);
    *out_of_memory = failed; /* a buffer that cannot be shrunk to its body is none */
}

static struct redis_options plain_options(char *url)
{
    static char empty[] = "";
    static char password[] = "s3cret";
    static char user[] = "watcher";
    return (struct redis_options){url, password, empty, empty, empty, user, password};
}

EACH_FAILURE(redis_address_is_out_of_memory_not_wrong)
{
    static const char *const urls[] = {
        "redis://db", "rediss://user:password@[::1]:1/2", "unix://:password@/run/s",
        "redis+sentinel://u:p@a,b:1/mymaster/2?role=replica", "redis+cluster://u:p@a,b:1/?role=replica"};
    for (size_t i = 0; i < TEST_COUNT(urls); i++) {
        struct redis_endpoint t;
        struct buf why = BUF_INIT;
        char url[64];
        (void)snprintf(url, sizeof url, "%s", urls[i]);
        struct redis_options options = plain_options(url);
        int err = redis_endpoint_init(&t, &options, &why);
        if (err != 0)
            assert_int_equal(err, -ENOMEM);
        *out_of_memory = *out_of_memory || err == -ENOMEM;
        redis_endpoint_fini(&t);
        buf_fini(&why);
    }
}

struct values {
    struct redis_options redis;
    int64_t workers;
};

EACH_FAILURE(settings_are_out_of_memory_not_wrong)
{
    static const struct setting table[] = {
        REDIS_SETTINGS(struct values, redis),
        {"workers", SETTING_COUNT, offsetof(struct values, workers), "4", 1, 64, true, "Threads", NULL}};
    const struct settings all = {table, TEST_COUNT(table), "CHANNELD_"};
    char words[][32] = {"channeld", "--redis-password-file", "/dev/null", "--redis-url=redis://db", "word"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], NULL};
    char *rest[5] = {NULL};
    struct values v = {.workers = 0};
    struct buf error = BUF_INIT;
    unsigned char sources[TEST_COUNT(table)];
    const char *files[TEST_COUNT(table)];
    struct settings_args args = {.argc = 5, .argv = argv, .rest = rest, .sources = sources, .files = files};
    int result = settings_read(&all, &v, &args, &error);
    if (result == 1)
        result = settings_read_files(&all, &v, &args, &error);
    *out_of_memory = result == -ENOMEM;
    if (!*out_of_memory)
        assert_int_equal(result, 0);
    assert_int_equal(error.len, 0);
    settings_fini(&all, &v);
    buf_fini(&error);
}

EACH_FAILURE(settings_that_are_read_again_are_out_of_memory_not_wrong)
{
    static const struct setting table[] = {REDIS_SETTINGS(struct values, redis)};
    const struct settings all = {table, TEST_COUNT(table), "CHANNELD_"};
    static const unsigned char sources[TEST_COUNT(table)] = {SETTING_FLAG_FILE};
    static const char *const files[TEST_COUNT(table)] = {"/etc/hostname"};
    char url[] = "redis://db";
    struct values last = {.redis = plain_options(url)};
    struct values v = {.workers = 0};
    struct buf error = BUF_INIT;
    int result = settings_read_again(&all, &last, sources, files, &v, &error);
    *out_of_memory = result == -ENOMEM;
    if (!*out_of_memory)
        assert_int_equal(result, 0);
    assert_int_equal(error.len, 0);
    settings_fini(&all, &v);
    buf_fini(&error);
}

EACH_FAILURE(config_is_out_of_memory_and_takes_the_endpoint)
{
    char url[] = "redis://user:password@db";
    struct redis_options options = plain_options(url);
    struct redis_endpoint endpoint;
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    int err = redis_endpoint_init(&endpoint, &options, &error);
    if (err == 0)
        err = redis_config_new(&endpoint, &options, 1, &config, &error, &setting);
    else
        redis_endpoint_fini(&endpoint);
    *out_of_memory = err == -ENOMEM;
    if (!*out_of_memory)
        assert_int_equal(err, 0);
    redis_config_unref(config);
    buf_fini(&error);
}

static const struct span LINK = {"https://max.ru/x", 16};

EACH_FAILURE(card_is_kept_with_its_link_or_not_at_all)
{
    const int64_t id = 7;
    struct cache_metrics metrics = {0};
    struct entries es;
    struct blob *body = NULL;
    int err = entries_init(&es, 1 << 20, &metrics);
    if (err == 0)
        body = blob_new(SPAN("seven"));
    if (body != NULL) {
        entries_put_card(&es, LIFETIME_TRACKED, id, LINK, body);
        entries_check(&es);
    }
    const struct entry *kept = body == NULL ? NULL : entries_find(&es, ENTRY_CARD, id);
    if (body != NULL)
        assert_ptr_equal(entries_find_link(&es, LINK), kept);
    *out_of_memory = kept == NULL;
    countdown = 0; /* clearing a table may fail to make its directory smaller, and need not */
    blob_unref(body);
    entries_fini(&es);
}

/* As a link: its bytes. */
static struct span link_of(const int64_t *id)
{
    return (struct span){(const char *)id, sizeof *id};
}

/* Entries in the headrooms of their bodies take no memory of their own: only the tables cannot grow. */
TEST_CASE(card_whose_link_finds_no_room_is_found_by_its_id)
{
    enum { OTHERS = TABLE_SEGMENT_SLOTS * 7 / 8, CARDS = TABLE_SEGMENT_SLOTS + 10 };
    static struct blob *bodies[CARDS];
    struct cache_metrics metrics = {0};
    struct entries es;
    assert_int_equal(entries_init(&es, 16 << 20, &metrics), 0);
    for (int64_t id = 0; id < OTHERS; id++) /* the table of all entries has more than one segment */
        entries_put_summary(&es, LIFETIME_TRACKED, id, NULL);
    for (int64_t id = 0; id < CARDS; id++)
        bodies[id] = blob_new_headroom(SPAN("x"), entries_card_headroom(link_of(&id)));
    always = true;
    for (int64_t id = 0; id < CARDS; id++)
        entries_put_card(&es, LIFETIME_TRACKED, id, link_of(&id), bodies[id]);
    always = false;
    entries_check(&es);
    assert_int_equal(es.links.segment_count, 1);
    assert_int_equal(es.links.used, TABLE_SEGMENT_SLOTS - 1);
    for (int64_t id = 0; id < CARDS; id++) {
        const struct entry *card = entries_find(&es, ENTRY_CARD, id);
        assert_non_null(card);
        assert_ptr_equal(entries_find_link(&es, link_of(&id)), id < TABLE_SEGMENT_SLOTS - 1 ? card : NULL);
    }
    const int64_t last = CARDS - 1;
    entries_put_card(&es, LIFETIME_TRACKED, last, LINK, bodies[last]); /* there is memory again */
    assert_ptr_equal(entries_find_link(&es, LINK), entries_find(&es, ENTRY_CARD, last));
    entries_check(&es);
    for (int i = 0; i < CARDS; i++)
        blob_unref(bodies[i]);
    entries_fini(&es);
    assert_int_equal(metrics.cache_entries, 0);
}

/* One line with that value through the log; `fail_at` counts from the start of the line. Returns its fields.
 */
static size_t log_one(struct span value, int fail_at)
{
    int fds[2];
    struct log_line line;
    char chunk[LOG_LINE_MAX];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(log_start(fds[1], LOG_INFO), 0);
    failed = false;
    countdown = fail_at;
    assert_true(log_begin(&line, LOG_INFO, "message"));
    log_str(&line, "name", value);
    log_end(&line);
    countdown = 0;
    log_stop();
    close(fds[1]);
    ssize_t n = read(fds[0], chunk, sizeof chunk);
    assert_true(n > 0);
    close(fds[0]);
    yyjson_doc *doc = yyjson_read(chunk, (size_t)n, YYJSON_READ_NOFLAG);
    assert_non_null(doc);
    size_t fields = yyjson_obj_size(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return fields;
}

TEST_CASE(log_line_lacks_a_field_and_stays_json)
{
    for (int n = 1; n < 10; n++) {
        size_t fields = log_one(SPAN("a \"value\""), n);
        assert_int_equal(fields, failed ? 3 : 4);
    }
}

TEST_CASE(log_line_of_plain_texts_does_not_allocate)
{
    assert_int_equal(log_one(SPAN("value"), 1), 4);
    assert_false(failed);
}
