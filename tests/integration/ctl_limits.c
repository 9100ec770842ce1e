/*
 * What channelctl load refuses as a whole, before it writes anything: a --replace that would remove too much,
 * a file with another number of channels than --expect says, an input that there is no room for; and
 * --dry-run, which says so in advance.
 */

#include "support/ctl.h"

#include <stdio.h>
#include <string.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static char *write_channels(int first, int count)
{
    AUTOFREE char *text = ctl_channels(first, count);
    char *path = text_printf("%s/limits.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    return path;
}

/* The same, for a shell that names it. */
static void write_limits_file(int first, int count)
{
    AUTOFREE char *path = write_channels(first, count);
    assert_non_null(path);
}

static void fill(int count)
{
    (void)ctl_empty(NULL);
    AUTOFREE char *path = write_channels(1, count);
    ctl_expect(CTL("load", path), 0, NULL, NULL);
}

/* ---- --max-removed ---- */

/* A catalogue of `before` channels is replaced by `after` of them, the first of which has changed. */
static const struct removal {
    const char *max_removed; /* NULL: not given */
    int before, after;
    const char *limit; /* as the message has it; NULL: allowed */
} REMOVALS[] = {
    {NULL, 100, 80, NULL},
    {NULL, 100, 79, "21 of 100 channels, more than 20%"},
    {NULL, 105, 84, NULL},
    {NULL, 104, 83, "21 of 104 channels, more than 20%"},
    {NULL, 21, 1, NULL},
    {NULL, 22, 1, "21 of 22 channels, more than 20%"},
    {"20%", 104, 83, "21 of 104 channels, more than 20%"},
    {"50%", 100, 50, NULL},
    {"50%", 100, 49, "51 of 100 channels, more than 50%"},
    {"0%", 100, 80, NULL},
    {"0%", 100, 79, "21 of 100 channels, more than 0%"},
    {"100%", 100, 1, NULL},
    {"5", 100, 95, NULL},
    {"5", 100, 94, "6 of 100 channels, more than 5;"},
    {"0", 100, 100, NULL},
    {"0", 100, 99, "1 of 100 channels, more than 0;"},
};

static struct ctl_run replace(const char *path, const char *max_removed)
{
    return max_removed == NULL ? CTL("load", path, "--replace")
                               : CTL("load", path, "--replace", "--max-removed", max_removed);
}

static void expect_refused(struct ctl_run run, const char *why)
{
    assert_string_equal(run.out, "");
    ctl_expect_text(run.err, "channelctl: stopped before anything was loaded\n");
    ctl_expect(run, 1, NULL, why);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader channels:index.next"), 0);
}

static void try_removal(const struct removal *r)
{
    fill(r->before);
    redis_do(&redis, "HSET channels:card:1 title before");
    redis_do(&redis, "CONFIG RESETSTAT");
    AUTOFREE char *path = write_channels(1, r->after);
    struct ctl_run run = replace(path, r->max_removed);
    if (r->limit == NULL) {
        ctl_expect(run, 0, text_temp(", %d removed in ", r->before - r->after), NULL);
        assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), r->after);
        return;
    }
    ctl_expect_text(run.err, "; if this is meant, add --max-removed 100%\n");
    expect_refused(run, text_temp("channelctl: --replace would remove %s", r->limit));
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), r->before);
    CTL_EXPECT_REPLY("before", "HGET channels:card:1 title");
    assert_int_equal(redis_calls(&redis, "hset"), 0);
}

TEST_CASE(replace_removes_no_more_than_permitted)
{
    for (size_t i = 0; i < TEST_COUNT(REMOVALS); i++)
        try_removal(&REMOVALS[i]);
}

/* A file that was cut at the end of a line cannot be told from a short one. */
TEST_CASE(replace_with_an_export_that_ended_early_removes_nothing)
{
    (void)ctl_empty(NULL);
    AUTOFREE char *path = text_printf("%s/all.ndjson", redis.dir.path);
    catalogue_write_file(path, 1000);
    ctl_expect(CTL("load", path), 0, NULL, NULL);
    expect_refused(ctl_shell(text_printf("{ head -3 all.ndjson; exit 1; } | \"$CTL\" load - --replace")),
                   "would remove 997 of 1000 channels");
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 1000);
    ctl_expect_sound();
}

/* They are found by id and by link. */
TEST_CASE(replace_counts_channels_that_the_index_lacks)
{
    fill(100);
    redis_do(&redis, "DEL channels:index");
    AUTOFREE char *path = write_channels(1, 3);
    expect_refused(replace(path, NULL), "would remove 97 of 100 channels");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:100"), 1);
}

/* With a line that is refused nothing is removed: the others are added, as ever. */
TEST_CASE(replace_with_a_bad_line_is_not_limited)
{
    fill(100);
    ctl_expect(ctl_load("broken\n{\"max_channel_id\":1000}\n", "--replace"), 1,
               "1 channel: 1 changed, 1 refused, 0 removed in ",
               "nothing was replaced or removed, because lines were refused");
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 101);
}

TEST_CASE_WITH(limits_must_be_valid, ctl_empty, NULL)
{
    static const char *const invalid[][2] = {{"--max-removed", "-1"},   {"--max-removed", "101%"},
                                             {"--max-removed", "%"},    {"--max-removed", "1.5"},
                                             {"--max-removed", "-1%"},  {"--max-removed", ""},
                                             {"--expect", "0"},         {"--expect", "-1"},
                                             {"--expect", "thousands"}, {"--expect", ""}};
    AUTOFREE char *path = write_channels(1, 3);
    for (size_t i = 0; i < TEST_COUNT(invalid); i++)
        ctl_expect(CTL("load", path, "--replace", invalid[i][0], invalid[i][1]), 2, "", invalid[i][0]);
    ctl_expect(CTL("load", path, "--max-removed", "5"), 2, "", "--max-removed needs --replace");
    ctl_expect(CTL("load", path, "--replace", "--max-removed", "100%"), 0, NULL, NULL);
}

/* ---- --expect ---- */

TEST_CASE_WITH(load_refuses_another_number_of_channels_than_expected, ctl_empty, NULL)
{
    static const char text[] = CTL_CHANNEL(1) CTL_CHANNEL(2) CTL_CHANNEL(1);
    expect_refused(ctl_load(text, "--expect=3"), "the file has 2 channels, and not 3 as --expect says\n");
    expect_refused(ctl_load(text, "--expect=1"), "the file has 2 channels, and not 1 as --expect says\n");
    expect_refused(ctl_load(CTL_CHANNEL(1), "--expect=2"),
                   "the file has 1 channel, and not 2 as --expect says\n");
    expect_refused(ctl_load("", "--expect=1"), "the file has 0 channels, and not 1 as --expect says\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
    ctl_expect_load(text, "--expect=2", 0);
    ctl_expect_index("1 2");
}

/* ---- Samples ---- */

static void load_samples(const char *count)
{
    ctl_expect(CTL("load", "--sample", count), 0, NULL, NULL);
}

static void expect_replaceable(bool replaceable)
{
    struct ctl_run run = ctl_load(CTL_CHANNEL(7), "--replace");
    if (replaceable)
        ctl_expect(run, 0, NULL, NULL);
    else
        expect_refused(run, "--replace would remove ");
}

TEST_CASE_WITH(samples_may_be_replaced_whole, ctl_empty, NULL)
{
    load_samples("100");
    ctl_expect_sound();
    expect_replaceable(true);
    ctl_expect_index("7");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 2); /* the mark is gone with them */
    load_samples("100");                                  /* beside a channel that is none */
    expect_replaceable(false);
    ctl_expect(CTL("load", "--sample", "90", "--replace"), 0, NULL, NULL);
    expect_replaceable(true);
}

TEST_CASE_WITH(samples_loaded_twice_are_still_samples, ctl_empty, NULL)
{
    load_samples("100");
    load_samples("30");
    load_samples("120");
    expect_replaceable(true);
    load_samples("30");
    redis_do(&redis, "FLUSHALL");
    AUTOFREE char *path = text_printf("%s/samples.ndjson", redis.dir.path);
    catalogue_write_file(path, 100);
    ctl_expect(CTL("load", path), 0, NULL, NULL); /* nobody has said that these are samples */
    expect_replaceable(false);
}

/* Any other load, and a loader that does not know the mark. */
TEST_CASE_WITH(samples_beside_other_channels_are_protected, ctl_empty, NULL)
{
    load_samples("100");
    ctl_expect_load(CTL_CHANNEL(5), NULL, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:samples"), 0);
    expect_replaceable(false);
    redis_do(&redis, "FLUSHALL");
    load_samples("100");
    redis_do(&redis, "HSET channels:card:5 max_channel_id 5");
    redis_do(&redis, "ZADD channels:index 1000 5");
    expect_replaceable(false);
    ctl_expect(CTL("load", "--sample", "100"), 0, NULL, NULL); /* does not make it a sample */
    expect_replaceable(false);
}

/* It has left channels beside them. */
TEST_CASE_WITH(samples_may_be_replaced_after_a_load_that_failed, ctl_empty, NULL)
{
    struct ctl_held held;
    load_samples("260"); /* more than 20% of both */
    ctl_start_held(&held, "--replace");
    redis_do(&redis, "DEL channels:index.next");
    ctl_release_held(&held);
    ctl_expect(ctl_finish_held(&held), 1, NULL, "another load has changed the next index");
    AUTOFREE char *path = write_channels(1, CTL_HELD_CHANNELS);
    ctl_expect(replace(path, NULL), 0, ", 260 removed in ", NULL);
}

/* ---- --dry-run ---- */

static void expect_nothing_written(void)
{
    static const char *const writes[] = {"set",  "hset",   "del",     "unlink",
                                         "zadd", "rename", "persist", "multi"};
    for (size_t i = 0; i < TEST_COUNT(writes); i++)
        assert_int_equal(redis_calls(&redis, writes[i]), 0);
}

static struct ctl_run dry_run(const char *text, const char *flag)
{
    AUTOFREE char *path = text_printf("%s/dry.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    redis_do(&redis, "CONFIG RESETSTAT");
    struct ctl_run run = CTL("load", path, "--dry-run", flag);
    expect_nothing_written();
    return run;
}

TEST_CASE_WITH(dry_run_says_what_a_load_would_do, ctl_empty, NULL)
{
    static const char text[] =
        CTL_LINKED(1, "a") CTL_CHANNEL(2) CTL_LINKED(5, "c") CTL_CHANNEL(6) CTL_CHANNEL(6);
    ctl_expect_load(CTL_LINKED(1, "a") CTL_LINKED(2, "b") CTL_CHANNEL(3) CTL_CHANNEL(4), NULL, 0);
    redis_do(&redis, "SET channels:loader maintenance"); /* needs no lock */
    ctl_expect(dry_run(text, NULL), 0,
               "would add 2 channels, change 1 and remove 0 (1 unchanged, 0 refused)\n", "");
    ctl_expect(dry_run(text, "--replace"), 0,
               "would add 2 channels, change 1 and remove 2 (1 unchanged, 0 refused)\n", "");
    ctl_expect_index("1 2 3 4");
    redis_do(&redis, "DEL channels:loader");
    ctl_expect(ctl_load(text, "--replace"), 0, "4 channels: 3 changed, 0 refused, 2 removed in ", NULL);
}

TEST_CASE_WITH(dry_run_says_what_would_be_refused, ctl_empty, NULL)
{
    static const char text[] = CTL_CHANNEL(1) CTL_CHANNEL(7) "broken\n";
    ctl_expect_load(CTL_CHANNEL(1) CTL_CHANNEL(2), NULL, 0);
    redis_do(&redis, "SET channels:card:7 text");
    struct ctl_run run = dry_run(text, "--replace");
    ctl_expect_text(run.err, "dry.ndjson:2: channels:card:7 in Redis is not a hash");
    ctl_expect_text(run.err, "dry.ndjson:3: not a JSON object");
    ctl_expect(run, 1, "would add 0 channels, change 0 and remove 0 (1 unchanged, 2 refused)\n",
               "nothing would be replaced or removed, because lines were refused");
    ctl_expect(dry_run("", NULL), 1, "", "the file has no channels\nchannelctl: the load would be refused\n");
    ctl_expect(dry_run(CTL_CHANNEL(1), "--expect=2"), 1, "", "channelctl: the load would be refused\n");
    fill(100);
    ctl_expect(dry_run(CTL_CHANNEL(1), "--replace"), 1, "change 1 and remove 99 (0 unchanged, 0 refused)\n",
               "--replace would remove 99 of 100 channels, more than 20%");
    redis_do(&redis, "DEL channels:index");
    redis_do(&redis, "SET channels:index text");
    ctl_expect(dry_run(CTL_CHANNEL(1), NULL), 1, "", "channels:index is not a sorted set");
}

TEST_CASE_WITH(dry_run_checks_a_file_without_redis, ctl_empty, NULL)
{
    struct redis absent = {.dir = redis.dir};
    AUTOFREE char *good = write_channels(1, 3);
    AUTOFREE char *bad = text_printf("%s/bad.ndjson", redis.dir.path);
    assert_true(text_write_file(bad, CTL_LINKED(1, "a") CTL_LINKED(2, "a")));
    (void)snprintf(absent.url, sizeof absent.url, "redis://127.0.0.1:1");
    ctl_expect(ctl_run_at(&absent, (const char *const[]){"load", good, "--dry-run", NULL}), 0,
               "3 channels, 0 refused; not compared with Redis\n",
               "Redis at 127.0.0.1:1/0: Connection refused");
    ctl_expect(ctl_run_at(&absent, (const char *const[]){"load", bad, "--dry-run", NULL}), 1,
               "2 channels, 1 refused; not compared with Redis\n",
               "bad.ndjson:2: link: https://max.ru/a is the link of channel 1 in an earlier line");
}

/* A Redis that refuses the user is there. */
TEST_CASE_WITH(dry_run_fails_with_a_wrong_password, ctl_empty, NULL)
{
    struct redis wrong = {.dir = redis.dir};
    AUTOFREE char *path = write_channels(1, 3);
    (void)snprintf(wrong.url, sizeof wrong.url, "redis://nobody:secret@127.0.0.1:%d", redis.port);
    ctl_expect(ctl_run_at(&wrong, (const char *const[]){"load", path, "--dry-run", NULL}), 1, "",
               "WRONGPASS");
}

/* ---- The copy of an input that cannot be read twice ---- */

TEST_CASE_WITH(load_copies_a_pipe_and_leaves_nothing, ctl_empty, NULL)
{
    write_limits_file(1, 1000);
    ctl_expect(ctl_shell(text_printf("mkdir -p copies && cat limits.ndjson limits.ndjson | "
                                     "TMPDIR=$PWD/copies \"$CTL\" load - && ls -A copies")),
               0, "1000 channels: 1000 changed, 0 refused in ", "1000 lines repeated a channel");
    ctl_expect(ctl_shell(text_printf("ls -A copies | wc -l")), 0, "0\n", NULL);
    ctl_expect_sound();
}

/* The limit of the size of a file stands for a disk that is full. */
TEST_CASE_WITH(load_without_room_for_the_copy_writes_nothing, ctl_empty, NULL)
{
    write_limits_file(1, 10000);
    expect_refused(ctl_shell(text_printf("ulimit -f 200; cat limits.ndjson | TMPDIR=$PWD \"$CTL\" load -")),
                   "channelctl: cannot copy the input to ");
    expect_refused(ctl_shell(text_printf("cat limits.ndjson | TMPDIR=$PWD/nowhere \"$CTL\" load -")),
                   "/nowhere: No such file or directory\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

TEST_CASE_WITH(load_reads_a_regular_file_in_its_place, ctl_empty, NULL)
{
    write_limits_file(1, 5);
    ctl_expect(ctl_shell(text_printf("TMPDIR=$PWD/nowhere \"$CTL\" load - <limits.ndjson")), 0,
               "5 channels: 5 changed", NULL);
    redis_do(&redis, "FLUSHALL");
    ctl_expect(
        ctl_shell(text_printf("{ read -r first; TMPDIR=$PWD/nowhere \"$CTL\" load -; } <limits.ndjson")), 0,
        "4 channels: 4 changed", NULL);
    ctl_expect_index("2 3 4 5");
    ctl_expect_sound();
}
