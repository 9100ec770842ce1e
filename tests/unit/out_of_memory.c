/*
 * Memory that runs out, where no response shows what is lost: a link that finds no room in its table, and a
 * field of a log line. The simulation and tests/oom have the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/blob.h"
#include "base/log.h"
#include "cache/entries.h"
#include "unit/check.h"

static int countdown; /* the allocation that fails, counted from 1; 0: none */
static bool always;   /* every one fails */
static bool failed;   /* one did */

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

static const struct span LINK = {"https://max.ru/x", 16};

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
