/* channelctl verify: a sound catalogue passes, and each kind of damage is found and named. */

#include "integration/ctl.h"

static struct redis redis;

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

static int fill(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_put_samples(&redis, 2500);
    return 0;
}

static struct ctl_run verify(void)
{
    static const char *const args[] = {"verify", NULL};
    return ctl_run(&redis, args);
}

static void sound_catalogue_passes(void **state)
{
    (void)state;
    struct ctl_run run = verify();
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "2500 channels, no problem\n");
    ctl_run_free(&run);
}

static void empty_catalogue_passes(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    struct ctl_run run = verify();
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "0 channels, no problem\n");
    ctl_run_free(&run);
}

/* One command, and what verify says of it. */
static const char *const damages[][2] = {
    {"DEL channels:card:1", "index: 1 has no card"},
    {"ZADD channels:index 5 01", "index: is no 64-bit integer: 01"},
    {"ZADD channels:index 5 9223372036854775808", "index: is no 64-bit integer: 9223372036854775808"},
    {"ZREM channels:index 1", "card 1: is not in the index"},
    {"HSET channels:card:555 max_channel_id 555", "card 555: is not in the index"},
    {"HSET channels:card:1 max_channel_id 2", "card 1: max_channel_id: is not the card's id"},
    {"HDEL channels:card:1 max_channel_id", "card 1: max_channel_id: is not the card's id"},
    {"HSET channels:card:1 max_channel_id x", "card 1: max_channel_id: cannot be read: x"},
    {"HSET channels:card:1 views_24h many", "card 1: views_24h: cannot be read: many"},
    {"HSET channels:card:1 views_24h 1.0", "card 1: views_24h: cannot be read: 1.0"},
    {"HSET channels:card:1 updated_at 2026-02-30T00:00:00", "card 1: updated_at: cannot be read"},
    {"HSET channels:card:1 followers_history {\"2026-11-20\":\"1\"}",
     "card 1: followers_history: cannot be read"},
    {"HSET channels:card:1 followers_history \x1B[2J", "card 1: followers_history: cannot be read: ?[2J"},
    {"DEL channels:link:https://max.ru/sample_4",
     "card 1: link: its key does not name the card: https://max.ru/sample_4"},
    {"SET channels:link:https://max.ru/sample_4 2", "card 1: link: its key does not name the card"},
    {"HSET channels:card:1 link https://web.max.ru/x", "card 1: link: not https://max.ru/<slug>"},
    {"SET channels:link:https://max.ru/stray 999",
     "link https://max.ru/stray: names 999, whose card is gone"},
    {"SET channels:link:https://max.ru/stray 1",
     "link https://max.ru/stray: names 1, whose card is gone or has another"},
    {"SET channels:link:https://max.ru/stray x", "link https://max.ru/stray: does not hold an id"},
    {"LPUSH channels:link:https://max.ru/stray x", "link https://max.ru/stray: does not hold an id"},
};

static void run_words(const char *command)
{
    const char *args[8] = {NULL};
    size_t count = 0;
    char *rest = NULL;
    char *words = text_printf("%s", command);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        args[count++] = word;
    redis_do_argv(&redis, count, args, NULL);
    free(words);
}

/* Sample 4 is the channel 1. */
static void each_damage_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(damages); i++) {
        redis_do(&redis, "FLUSHALL");
        catalogue_put_samples(&redis, 6);
        run_words(damages[i][0]);
        struct ctl_run run = verify();
        if (run.status != 1)
            fail_msg("not found: %s", damages[i][0]);
        ctl_expect_text(run.out, damages[i][1]);
        ctl_run_free(&run);
    }
}

static void card_of_another_type_is_named(void **state)
{
    (void)state;
    redis_do(&redis, "DEL channels:card:1");
    redis_do(&redis, "SET channels:card:1 text");
    struct ctl_run run = verify();
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.out, "card 1: is not a hash");
    ctl_run_free(&run);
}

static void only_the_first_problems_are_printed(void **state)
{
    (void)state;
    redis_do(&redis, "DEL channels:index");
    struct ctl_run run = verify();
    assert_int_equal(run.status, 1);
    assert_int_equal(text_count(run.out, ": is not in the index\n"), 20);
    ctl_expect_text(run.out, "and 2480 more\n0 channels, 2500 problems\n");
    ctl_run_free(&run);
}

static void index_of_another_type_is_a_failure(void **state)
{
    (void)state;
    redis_do(&redis, "DEL channels:index");
    redis_do(&redis, "SET channels:index text");
    struct ctl_run run = verify();
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "WRONGTYPE");
    ctl_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sound_catalogue_passes, fill),
        cmocka_unit_test_setup(empty_catalogue_passes, fill),
        cmocka_unit_test(each_damage_is_named),
        cmocka_unit_test_setup(card_of_another_type_is_named, fill),
        cmocka_unit_test_setup(only_the_first_problems_are_printed, fill),
        cmocka_unit_test_setup(index_of_another_type_is_a_failure, fill),
    };
    return cmocka_run_group_tests(tests, start, end);
}
