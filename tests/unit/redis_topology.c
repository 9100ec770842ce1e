/* The master that a replica follows and the one that is named, by names that are looked up. */
#include "redis/topology.h"

#include <netdb.h>

#include "redis/discovery.h"
#include "unit/check.h"
#include "unit/fixtures/cache_clock.h"

enum { STALE_LIMIT_MS = 2500, PAST_COMPARISON_MS = 10001 };

static uv_loop_t loop;
static struct topology topology;
static bool dns_is_down;
static struct redis_endpoint endpoint;
static struct redis_metrics metrics;

/* In libc's place: every name has the address 127.0.0.1. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    static struct sockaddr_in address = {.sin_family = AF_INET};
    static struct addrinfo found = {
        .ai_family = AF_INET, .ai_addrlen = sizeof address, .ai_addr = (struct sockaddr *)&address};
    (void)name;
    (void)service;
    (void)req;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *pai = &found;
    return dns_is_down ? EAI_AGAIN : 0;
}

void freeaddrinfo(struct addrinfo *ai)
{
    (void)ai;
}

static void begin(void)
{
    SCOPED_BUF(why);
    static char url[] = "redis+sentinel://127.0.0.1:26379/main?role=replica";
    static char none[] = "";
    const struct redis_options options = {url, none, none, none, none, none, none};
    const struct discovery_options discovery = {
        .endpoint = &endpoint, .metrics = &metrics, .stale_limit_ms = STALE_LIMIT_MS};
    memset(&metrics, 0, sizeof metrics);
    clock_ms = 1000;
    dns_is_down = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(redis_endpoint_init(&endpoint, &options, &why), 0);
    topology_init(&topology, &loop, discovery_protocol_of(&endpoint), &discovery);
    topology.master = (struct redis_address){.host = "master.test", .port = 6379};
}

static void end(void)
{
    topology_close(&topology);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    redis_endpoint_fini(&endpoint);
}

/* Checks the replica, which names its master by this address, after all look-ups that the check begins. */
static const char *check_replica(const char *host)
{
    struct redis_address address = {.port = 6379};
    (void)snprintf(address.host, sizeof address.host, "%s", host);
    (void)topology_check_replica(&topology, &address, clock_ms);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    return topology_check_replica(&topology, &address, clock_ms);
}

/* The answer to an earlier look-up holds until there is another one. */
TEST_CASE(replica_is_kept_while_names_are_not_found)
{
    begin();
    assert_null(check_replica("127.0.0.1"));
    dns_is_down = true;
    for (int i = 0; i < 3; i++) {
        clock_ms += PAST_COMPARISON_MS;
        assert_null(check_replica("127.0.0.1"));
    }
    end();
}

TEST_CASE(replica_of_another_address_is_left)
{
    begin();
    assert_null(check_replica("127.0.0.1"));
    assert_null(check_replica("127.0.0.2")); /* for the grace */
    clock_ms += STALE_LIMIT_MS;
    assert_non_null(check_replica("127.0.0.2"));
    end();
}

TEST_CASE(replica_whose_master_was_never_found_is_refused)
{
    begin();
    dns_is_down = true;
    assert_non_null(check_replica("127.0.0.1"));
    end();
}

/* --- the master in place of the replicas --- */

enum { STAND_IN_MS = 30000, STAND_IN_MAX_MS = 960000 };

static const struct discovery_answer one_replica = {.master = {.host = "master.test", .port = 6379},
                                                    .replica = {{.host = "replica.test", .port = 6379}},
                                                    .replicas = 1};
static const struct discovery_answer no_replica = {.master = {.host = "master.test", .port = 6379}};

/* The replica of the answer cannot be reached, so the master comes into use. */
static void use_master_after_replica(void)
{
    topology_select(&topology, &one_replica);
    assert_string_equal(topology_endpoint(&topology)->host, "replica.test");
    topology_failed(&topology);
    topology_select(&topology, &one_replica);
    assert_string_equal(topology_endpoint(&topology)->host, "master.test");
    topology_ready(&topology);
    topology_answered(&topology);
}

/* The master is kept for that many milliseconds, and then left for the replica. */
static void expect_return_after(uint64_t ms)
{
    clock_ms += ms - 1;
    assert_null(topology_check_answer(&topology, &one_replica, true));
    clock_ms++;
    uint64_t trials = metrics.redis_failovers[REDIS_FAILOVER_REPLICAS];
    assert_non_null(topology_check_answer(&topology, &one_replica, true));
    assert_int_equal(metrics.redis_failovers[REDIS_FAILOVER_REPLICAS], trials + 1);
    assert_int_equal(metrics.redis_failovers[REDIS_FAILOVER_MASTER], 0);
    assert_int_equal(metrics.redis_failovers[REDIS_FAILOVER_SLOT], 0);
}

TEST_CASE(master_is_left_for_the_replicas_ever_more_rarely)
{
    begin();
    for (uint64_t ms = STAND_IN_MS; ms < STAND_IN_MAX_MS; ms *= 2) {
        use_master_after_replica();
        expect_return_after(ms);
    }
    for (int i = 0; i < 3; i++) {
        use_master_after_replica();
        expect_return_after(STAND_IN_MAX_MS);
    }
    end();
}

TEST_CASE(replica_in_use_ends_the_trials_in_vain)
{
    begin();
    use_master_after_replica();
    expect_return_after(STAND_IN_MS);
    topology_select(&topology, &one_replica);
    topology_ready(&topology);
    topology_answered(&topology);
    use_master_after_replica();
    expect_return_after(STAND_IN_MS);
    end();
}

/* It is lost again before it has answered. */
TEST_CASE(replica_that_only_comes_into_use_does_not_end_the_trials_in_vain)
{
    begin();
    use_master_after_replica();
    expect_return_after(STAND_IN_MS);
    topology_select(&topology, &one_replica);
    topology_ready(&topology);
    use_master_after_replica();
    expect_return_after(UINT64_C(2) * STAND_IN_MS);
    end();
}

TEST_CASE(master_without_replicas_is_kept)
{
    begin();
    topology_select(&topology, &no_replica);
    topology_ready(&topology);
    clock_ms += STAND_IN_MAX_MS;
    assert_null(topology_check_answer(&topology, &no_replica, true));
    assert_non_null(topology_check_answer(&topology, &one_replica, true));
    end();
}

/* --- a server that is lost before it has answered a heartbeat --- */

static const char *select_of(const struct discovery_answer *answer)
{
    topology_select(&topology, answer);
    return topology_endpoint(&topology)->host;
}

static const struct discovery_answer two_replicas = {
    .master = {.host = "master.test", .port = 6379},
    .replica = {{.host = "replica.test", .port = 6379}, {.host = "other.test", .port = 6379}},
    .replicas = 2};

static const char *other_than(const char *replica)
{
    return strcmp(replica, "replica.test") == 0 ? "other.test" : "replica.test";
}

/* The name of the one that is selected, which outlives the selection. */
static const char *select_of_two(void)
{
    return other_than(other_than(select_of(&two_replicas)));
}

static void lose_at_once(void)
{
    topology_ready(&topology);
    topology_lost_early(&topology);
}

TEST_CASE(server_that_was_lost_at_once_gives_way_to_another)
{
    begin();
    const char *first = select_of_two();
    lose_at_once();
    assert_string_equal(select_of(&two_replicas), other_than(first));
    topology_ready(&topology);
    topology_answered(&topology);
    assert_string_equal(select_of(&two_replicas), first);
    end();
}

TEST_CASE(master_stands_in_when_all_replicas_are_lost_at_once)
{
    begin();
    const char *first = select_of_two();
    lose_at_once();
    assert_string_equal(select_of(&two_replicas), other_than(first));
    lose_at_once();
    assert_string_equal(select_of(&two_replicas), "master.test");
    lose_at_once();
    assert_string_equal(select_of(&two_replicas), first);
    end();
}

/* Of two servers that are asked in turn, one names nothing but a master that is gone. */
TEST_CASE(all_of_an_answer_are_tried_although_another_answer_has_failed)
{
    static const struct discovery_answer outdated = {.master = {.host = "gone.test", .port = 6379}};
    begin();
    const char *first = select_of_two();
    topology_failed(&topology);
    assert_string_equal(select_of(&two_replicas), other_than(first));
    topology_failed(&topology);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(select_of(&outdated), "gone.test");
        topology_failed(&topology);
    }
    assert_string_equal(select_of(&two_replicas), "master.test");
    end();
}

/* The Sentinel that leads the failover names the new master before it has struck it off the replicas. */
TEST_CASE(master_that_is_still_listed_as_a_replica_is_tried_as_a_master)
{
    struct discovery_answer answer = one_replica;
    answer.replica[0] = answer.master;
    begin();
    topology_select(&topology, &answer);
    assert_int_equal(topology_wanted_role(&topology), REDIS_ROLE_REPLICA);
    topology_failed(&topology);
    topology_select(&topology, &answer);
    assert_int_equal(topology_wanted_role(&topology), REDIS_ROLE_MASTER);
    end();
}

/* The servers report it as down in the meantime. */
TEST_CASE(replica_is_preferred_to_the_master_when_another_one_was_lost_at_once)
{
    begin();
    bool other_is_left = strcmp(select_of_two(), "replica.test") == 0;
    struct discovery_answer rest = one_replica;
    rest.replica[0] = two_replicas.replica[other_is_left];
    lose_at_once();
    assert_string_equal(select_of(&rest), rest.replica[0].host);
    end();
}

TEST_CASE(server_that_was_lost_at_once_is_used_where_there_is_no_other)
{
    begin();
    assert_string_equal(select_of(&one_replica), "replica.test");
    lose_at_once();
    assert_string_equal(select_of(&one_replica), "master.test");
    topology_failed(&topology);
    assert_string_equal(select_of(&no_replica), "master.test");
    end();
}
