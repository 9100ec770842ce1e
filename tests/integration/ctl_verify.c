/* channelctl verify where memory or another server is needed; all else is in channelctl/verify.cases. */

#include "support/ctl.h"
#include "support/footprint.h"

#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static int fill(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "a key");
    catalogue_put_samples(&redis, 2500);
    return 0;
}

/* Of a card's ten fields, 70 MB together. */
static void put_large_fields(int id)
{
    redis_do(&redis, "EVAL %s 1 channels:card:%d",
             "local value = string.rep('x', 7000000) "
             "for field in string.gmatch('title description avatar link category category2 followers_history "
             "views_24h views_48h updated_at', '%S+') do redis.call('HSET', KEYS[1], field, value) end",
             id);
}

/* They are not read: two of them would be 140 MB. */
TEST_CASE_WITH(verify_names_cards_that_are_too_large_unread, fill, NULL)
{
    enum { SIZE = 70 * 1000 * 1000, COUNT = 2 };
    redis_do(&redis, "HSET channels:card:1 title x");
    for (int id = 5001; id <= 5000 + COUNT; id++) {
        redis_do(&redis, "HSET channels:card:%d max_channel_id %d", id, id);
        redis_do(&redis, "ZADD channels:index %d %d", id, id);
        put_large_fields(id);
    }
    long own = footprint_of(getpid()).resident_kib * 1024; /* the peak of a child is not below that */
    struct ctl_run run = CTL("verify");
    assert_int_equal(text_count(run.out, " bytes of memory, channeld reads at most 64 MiB ("), COUNT);
    ctl_expect(run, 1, "2502 channels, 1 API key, 2 problems\n", NULL);
    assert_in_range(run.peak, 1, own + SIZE);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:5001"), 1);
}

/* Of the key "a key". */
#define KEY_DIGITS "8fa3aab2"
#define KEY_DIGEST KEY_DIGITS "faa9b79e0a0398da5b5abd0780142442a5be80b9a64608d718cb1fcd"

static void expect_output(int status, const char *out)
{
    struct ctl_run run = CTL("verify");
    assert_string_equal(run.out, out);
    assert_string_equal(run.err, "");
    ctl_expect(run, status, NULL, NULL);
}

TEST_CASE(verify_finds_ttls_of_infos)
{
    static char *redis_8; /* for as long as the server */
    redis_8 = redis_other_program("redis8-server");
    redis_stop(&redis);
    redis_start_program(&redis, redis_8, NULL); /* it has TTLs of hash fields */
    catalogue_issue_key(&redis, "a key");
    ctl_expect_load("{\"max_channel_id\":1}\n{\"max_channel_id\":2}\n", NULL, 0);
    redis_do(&redis, "HSET channels:api_key_info %s {}", KEY_DIGEST);
    redis_do(&redis, "HPEXPIRE channels:api_key_info 1000000 FIELDS 1 %s", KEY_DIGEST);
    expect_output(1, "api_key_info: " KEY_DIGITS
                     "...: has a TTL: after it the key has neither name nor expiry (redis-cli "
                     "HPERSIST)\n"
                     "2 channels, 1 API key, 1 problem\n");
    redis_do(&redis, "ACL SETUSER default -hpexpiretime");
    expect_output(1, "api_key_info: " KEY_DIGITS
                     "...: it is not known whether it has a TTL (permit +hpexpiretime)\n"
                     "2 channels, 1 API key, 1 problem\n");
    redis_do(&redis, "DEL channels:api_key_info");
    ctl_expect_sound();
    redis_stop(&redis);
    (void)ctl_setup(NULL);
}
