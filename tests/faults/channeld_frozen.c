/*
 * channeld itself is stopped (SIGSTOP: a frozen container, a paused virtual machine) while the data changes,
 * and gets requests the moment it goes on. Its cache may serve what is up to one lease old, nothing older.
 */

#include "faults/fanout.h"

static const char card[] = "channel/by-id/1/";
static const char OTHER_KEY[] = "another-key";

/* Half of the requests are in the sockets already, the others are sent as soon as it goes on. */
TEST_CASE_WITH(nothing_older_than_the_lease_is_served_after_a_stop, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct redis *redis = &bed->fixture.redis;
    struct fanout before;
    struct fanout after;
    struct fanout revoked;
    char digest[65];
    catalogue_issue_key(redis, OTHER_KEY);
    catalogue_digest(OTHER_KEY, digest);
    fanout_open(&before, bed);
    fanout_open(&after, bed);
    fanout_open(&revoked, bed);
    revoked.headers = "X-Api-Key: another-key\r\n";
    fanout_ask(&before, card, 200, catalogue_version_card(1, 1));
    fanout_ask(&revoked, card, 200, catalogue_version_card(1, 1));
    testbed_freeze(bed);
    testbed_write(redis, 2);
    redis_do(redis, "SREM channels:api_keys %s", digest);
    fanout_send(&before, card);
    fanout_send(&revoked, card);
    testbed_sleep(TESTBED_LEASE_MS + 100);
    testbed_thaw(bed);
    fanout_ask(&after, card, 200, catalogue_version_card(1, 2));
    fanout_expect(&before, 200, catalogue_version_card(1, 2));
    fanout_expect(&revoked, 401, NULL);
    fanout_ask(&revoked, card, 401, NULL);
    fanout_close(&before);
    fanout_close(&after);
    fanout_close(&revoked);
}
