/*
 * The memory of channelctl with a large catalogue: it grows by what docs/schema.md states for each line
 * that is loaded, and not at all for those that are verified or removed.
 */
#include "support/ctl.h"
#include "support/footprint.h"

#include <stdio.h>

TEST_GROUP(ctl_setup, ctl_teardown)

enum {
    FEW = 1000,
    MANY = 50000,
    BYTES_PER_LINE = 64, /* of a load */
    SLACK = 768 << 10,   /* what the allocator and the page cache of the program add by chance */
};

/* Runs channelctl, which must succeed; returns the bytes of memory that it took. */
static long peak_of(const char *const *args)
{
    struct ctl_run run = ctl_run(args);
    long peak = run.peak;
    (void)fprintf(stderr, "%s: %ld KiB\n", args[0], peak / 1024);
    ctl_expect(run, 0, NULL, NULL);
    return peak;
}

#define PEAK_OF(...) peak_of((const char *const[]){__VA_ARGS__, NULL})

static void expect_growth(long few, long many, long bytes_each)
{
    if (footprint_is_meaningful())
        assert_in_range(many, 1, few + bytes_each * (MANY - FEW) + SLACK);
}

SLOW_TEST_WITH(load_takes_a_bounded_number_of_bytes_per_channel, ctl_empty, NULL)
{
    long few = PEAK_OF("load", "--sample", "1000", "--replace");
    long many = PEAK_OF("load", "--sample", "50000", "--replace");
    expect_growth(few, many, BYTES_PER_LINE);
}

/* Fifty lines of each channel, of which the last one counts. */
SLOW_TEST_WITH(load_takes_a_bounded_number_of_bytes_per_line, ctl_empty, NULL)
{
    AUTOFREE char *path = text_printf("%s/lines.ndjson", redis.dir.path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < MANY; i++)
        (void)fprintf(file, "{\"max_channel_id\":%d,\"views_24h\":%d}\n", i % FEW, i);
    (void)fclose(file);
    long few = PEAK_OF("load", "--sample", "1000");
    long many = PEAK_OF("load", path);
    expect_growth(few, many, BYTES_PER_LINE);
}

/* What the file lacks is found by scanning Redis, not by remembering what it has. */
SLOW_TEST_WITH(removing_takes_no_memory_per_channel, ctl_empty, NULL)
{
    long few = PEAK_OF("load", "--sample", "1000", "--replace");
    (void)PEAK_OF("load", "--sample", "50000");
    long removing = PEAK_OF("load", "--sample", "1000", "--replace");
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), FEW);
    expect_growth(few, removing, 0);
}

SLOW_TEST_WITH(verify_takes_no_memory_per_channel, ctl_empty, NULL)
{
    catalogue_issue_key(&redis, "a key");
    (void)PEAK_OF("load", "--sample", "1000");
    long few = PEAK_OF("verify");
    (void)PEAK_OF("load", "--sample", "50000");
    long many = PEAK_OF("verify");
    expect_growth(few, many, 0);
}
