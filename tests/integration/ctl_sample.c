/* channelctl sample: plausible channels that load accepts, the same ones each time. */

#include "support/ctl.h"

#include "support/json.h"

#include <stdlib.h>
#include <string.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static char *sample(const char *count)
{
    struct ctl_run run = CTL("sample", count);
    if (run.status != 0)
        fail_msg("sample: %d: %s", run.status, run.err);
    free(run.err);
    return run.out;
}

TEST_CASE(sample_is_the_same_each_time)
{
    AUTOFREE char *first = sample("250");
    AUTOFREE char *again = sample("250");
    assert_int_equal(text_count(first, "\n"), 250);
    assert_string_equal(first, again);
}

TEST_CASE(sample_of_fewer_channels_is_a_prefix)
{
    AUTOFREE char *few = sample("10");
    AUTOFREE char *many = sample("20");
    AUTOFREE char *none = sample("0");
    assert_int_equal(strncmp(many, few, strlen(few)), 0);
    assert_string_equal(none, "");
}

TEST_CASE(sample_can_be_loaded)
{
    AUTOFREE char *text = sample("3000");
    redis_do(&redis, "FLUSHALL");
    AUTO(ctl_run_free) struct ctl_run run = ctl_load(text, "--replace");
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "3000 channels: 3000 changed, 0 refused, 0 removed");
    assert_string_equal(run.err, ""); /* nothing repeated, no link taken */
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 3000);
    ctl_expect_sound();
}

TEST_CASE(load_sample_loads_the_same_channels)
{
    AUTOFREE char *text = sample("3000");
    redis_do(&redis, "FLUSHALL");
    struct ctl_run run = CTL("load", "--sample", "3000", "--replace");
    assert_string_equal(run.err, "");
    ctl_expect(run, 0, "3000 channels: 3000 changed, 0 refused, 0 removed", NULL);
    ctl_expect(ctl_load(text, NULL), 0, "3000 channels: 0 changed, 0 refused", NULL);
}

TEST_CASE(sample_texts_are_varied)
{
    static const char *const parts[] = {"\\n",
                                        "\\\"",
                                        "\\t",
                                        "\\\\",
                                        "\xF0\x9F",
                                        "\xD0\xBD",
                                        "\xD8\xA7",
                                        "\xE3\x80",
                                        "null",
                                        "\"max_channel_id\":-68",
                                        "\"max_channel_id\":1",
                                        "\"is_a_plus_flag\":1"};
    AUTOFREE char *text = sample("1000");
    for (size_t i = 0; i < TEST_COUNT(parts); i++)
        ctl_expect_text(text, parts[i]);
    assert_in_range(strlen(text) / 1000, 700, 1400);
}

TEST_CASE(sample_has_the_fields_of_a_card)
{
    AUTOFREE char *line = sample("1");
    AUTOFREE char *names = json_member_names(line, "");
    AUTOFREE char *days = json_member_names(line, "followers_history");
    assert_string_equal(names,
                        "max_channel_id title description avatar link category category2 followers_cnt_today "
                        "followers_history is_a_plus_flag views_24h views_48h er_24h er_48h updated_at");
    assert_string_equal(days, "2026-11-11 2026-11-12 2026-11-13 2026-11-14 2026-11-15 2026-11-16 2026-11-17 "
                              "2026-11-18 2026-11-19 2026-11-20");
}

TEST_CASE(sample_links_have_the_channel_host)
{
    struct ctl_run run = CTL("sample", "50", "--channel-host=c.example");
    assert_null(strstr(run.out, "max.ru"));
    ctl_expect(run, 0, "\"link\":\"https://c.example/", NULL);
}
