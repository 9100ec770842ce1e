/* Cases and their checks; see cases.h. */
#include "simulation/cases.h"

#include "redis/session.h"
#include "simulation/cluster.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/net.h"
#include "simulation/oracle.h"
#include "simulation/scenario.h"
#include "simulation/sentinel.h"
#include "simulation/trace.h"

#include <string.h>

enum {
    ALL = CASE_WORKERS_MAX,
    REPLICAS = 2,  /* scenario.server[1] and [2] */
    SENTINELS = 3, /* behind the data servers */
    FIRST_SENTINEL = 1 + REPLICAS,
    NODES = 5,
    DROPS_AFTER_MS = 1500,
    SAMPLE_MS = 100
};

static uv_loop_t *loop_in_use;
static const struct redis_metrics *all; /* of all workers */

/* --- helpers --- */

static void run_for_ms(uint64_t ms)
{
    (void)loop_run_until(loop_in_use, now_ns() + ms * MS);
}

static void await_connected(unsigned workers, uint64_t within_ms)
{
    for (uint64_t ms = 0; ms < within_ms && all->redis_connected < workers; ms += SAMPLE_MS)
        run_for_ms(SAMPLE_MS);
    if (all->redis_connected < workers)
        trace_fail("workers are not connected in time");
}

static void expect_no_errors(unsigned before)
{
    if (oracle_answers[CACHE_SOURCE_NONE] != before)
        trace_fail("requests failed");
}

static unsigned attempts_at(const struct redis *r)
{
    return r->listener.attempts;
}

/* The replica that the only worker reads. */
static struct redis *replica_in_use(void)
{
    for (struct redis *r = scenario.server + 1; r <= scenario.server + REPLICAS; r++)
        for (const struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
            if (c->conn != NULL)
                return r;
    trace_fail("no replica is in use");
}

static void nothing(void)
{
}

/* --- replicas --- */

/* The healthy replica is next, not the one that hangs. */
static void run_hung_replica(void)
{
    await_connected(1, 5000);
    run_for_ms(3000);
    struct redis *hung = replica_in_use();
    unsigned before = attempts_at(hung);
    scenario_disturb(10 * SECOND);
    redis_hang(hung, 60 * SECOND);
    run_for_ms(20000);
    if (attempts_at(hung) > before)
        trace_fail("a replica that hangs was tried before a healthy one");
}

static void on_drop_again(void *arg, uint64_t number);
static void drop_soon(struct redis *r);

static void on_drop(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    redis_restart(r, true);
    r->faults.behind_ping = drop_soon;
}

/* Behind the PING of the handshake. */
static void drop_soon(struct redis *r)
{
    events_add_in(DROPS_AFTER_MS * (uint64_t)MS, on_drop, r, 0);
}

/* It answers a heartbeat, so each connection to it seems good. */
static void run_flapping_replica(void)
{
    await_connected(1, 5000);
    struct redis *flapping = replica_in_use();
    unsigned before = attempts_at(flapping);
    scenario_disturb(60 * SECOND);
    drop_soon(flapping);
    run_for_ms(30000);
    if (attempts_at(flapping) > before + 2)
        trace_fail("a replica that drops each connection is chosen for ever");
}

static void begin_unreachable_replicas(void)
{
    sentinel_see_no_fault();
    for (struct redis *r = scenario.server + 1; r <= scenario.server + REPLICAS; r++)
        r->listener.state = NET_IGNORES;
}

/* Sentinels reach the replicas, and the process does not. */
static void run_trials(void)
{
    await_connected(1, 20000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    uint64_t connects = all->redis_connects_total;
    run_for_ms(120000);
    expect_no_errors(errors);
    if (all->redis_connects_total != connects || all->redis_connected != 1)
        trace_fail("a good master was left to try replicas");
}

static void run_start_without_replicas(void)
{
    await_connected(1, 3000);
}

static void run_trials_of_a_fleet(void)
{
    await_connected(ALL, 20000);
    for (uint64_t ms = 0; ms < 120000; ms += SAMPLE_MS) {
        run_for_ms(SAMPLE_MS);
        if (all->redis_connected < ALL / 2)
            trace_fail("most workers of a fleet left a good master together");
    }
}

static void begin_names_that_fail_once(void)
{
    sentinel_announce_names();
    net_fail_name("data1.test", 1);
    net_fail_name("data2.test", 1);
}

static void run_names_that_fail_once(void)
{
    run_for_ms(10000);
    if (all->redis_role[REDIS_ROLE_REPLICA] != 1)
        trace_fail("replicas whose names were not found once are not used");
}

/* --- fleets --- */

static void expect_shared(const struct redis *first, unsigned count, const unsigned before[])
{
    unsigned asked = 0;
    for (unsigned i = 0; i < count; i++)
        asked += attempts_at(&first[i]) > before[i];
    if (asked < 2)
        trace_fail("all workers of a fleet ask the same server");
}

static void run_fleet_of_sentinels(void)
{
    static const unsigned none[SENTINELS];
    await_connected(ALL, 5000);
    run_for_ms(3000);
    expect_shared(&scenario.server[FIRST_SENTINEL], SENTINELS, none);
}

/* Those that are not the one in use, which is not asked. */
static void run_fleet_of_nodes(void)
{
    static const unsigned none[NODES];
    await_connected(ALL, 5000);
    run_for_ms(10000);
    expect_shared(&scenario.server[1], NODES - 1, none);
}

/* The first one that answers is lost. Where few workers ask it, they are shared already. */
static void run_sentinel_lost(void)
{
    unsigned before[SENTINELS];
    struct redis *sentinels = &scenario.server[FIRST_SENTINEL];
    await_connected(ALL, 5000);
    run_for_ms(3000);
    for (unsigned i = 0; i < SENTINELS; i++)
        before[i] = attempts_at(&sentinels[i]);
    if (before[0] <= ALL / 2)
        return;
    sentinels[0].listener.state = NET_REFUSES;
    redis_restart(&sentinels[0], true);
    run_for_ms(10000);
    expect_shared(&sentinels[1], SENTINELS - 1, &before[1]);
}

/* --- names --- */

enum { THREE_LOOK_UPS_MS = 4 * REDIS_CONNECTION_LOOK_UP_MS, ROTATION_MS = 300000 };

/* A copy, with a writer of its own from then on. */
static void begin_second_server(void)
{
    struct redis *second = scenario_add_server("second", 2);
    replica_join(second, scenario.master);
    replica_promote(second);
}

/* The old server lives. No request fails, and the old connection is not lost. */
static void run_name_that_moves(void)
{
    await_connected(1, 5000);
    run_for_ms(10000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    uint64_t losses = all->redis_disconnects_total; /* with attempts */
    net_set_name("redis.test", (const uint8_t[]){2}, 1);
    scenario_delay_answers(THREE_LOOK_UPS_MS * (uint64_t)MS);
    scenario_disturb(THREE_LOOK_UPS_MS * (uint64_t)MS);
    run_for_ms(THREE_LOOK_UPS_MS);
    expect_no_errors(errors);
    if (attempts_at(&scenario.server[1]) != 1 || all->redis_connects_total != 2)
        trace_fail("a name that has moved is not followed");
    if (all->redis_disconnects_total != losses)
        trace_fail("the old connection was lost");
}

/* Each answer has two of four addresses. */
static void begin_name_that_rotates(void)
{
    net_set_name("redis.test", (const uint8_t[]){1, 2, 3, 4}, 4);
    net_rotate_name("redis.test", 2);
}

static void run_name_that_rotates(void)
{
    await_connected(1, 30000);
    uint64_t connects = all->redis_connects_total;
    run_for_ms(ROTATION_MS);
    if (all->redis_connects_total != connects || all->redis_connected != 1)
        trace_fail("a name that rotates was taken for one that moves");
}

/* --- a name that leads elsewhere for a while --- */

/* Look-ups have 7.5 to 12.5 seconds between them: two, mostly, and not a third; and one. */
enum { TWO_LOOK_UPS_MS = 22000, ONE_LOOK_UP_MS = 13000 };

static void begin_name_that_flaps(void)
{
    begin_second_server();
    net_hasten_names(10 * (uint64_t)MS);
}

/* The connection begins anew in between, and so does the count of answers in a row. */
static void run_name_that_flaps(void)
{
    await_connected(1, 5000);
    net_set_name("redis.test", (const uint8_t[]){2}, 1);
    run_for_ms(TWO_LOOK_UPS_MS);
    net_set_name("redis.test", (const uint8_t[]){1}, 1);
    scenario_disturb(0);
    redis_restart(&scenario.server[0], true);
    run_for_ms(SAMPLE_MS);
    await_connected(1, 5000);
    net_set_name("redis.test", (const uint8_t[]){2}, 1);
    run_for_ms(ONE_LOOK_UP_MS);
    net_set_name("redis.test", (const uint8_t[]){1}, 1);
    run_for_ms(ONE_LOOK_UP_MS);
    if (attempts_at(&scenario.server[1]) > 0)
        trace_fail("a name counts as moved that did not lead elsewhere three times in a row");
}

/* --- Redis cannot be connected to --- */

enum { MINUTE_MS = 60000, FLEET_SAMPLE_MS = 20, STAYED_MS = REDIS_SESSION_STAYED_MS + 1000 };

static void hasten_names(void)
{
    net_hasten_names(10 * (uint64_t)MS);
}

/* Nothing but the pauses tells the workers of a fleet apart. */
static void begin_fleet_of_attempts(void)
{
    net_hasten_names(1);
}

static void stop_listening(enum net_listening state, uint64_t ms)
{
    struct redis *r = &scenario.server[0];
    scenario_disturb(ms * MS);
    r->listener.state = state;
    redis_restart(r, true);
}

static void listen_again(uint64_t within_ms)
{
    scenario.server[0].listener.state = NET_LISTENS;
    await_connected((unsigned)all->redis_connected + 1, within_ms);
}

static void expect_attempts(unsigned before, unsigned least, unsigned most)
{
    unsigned made = attempts_at(&scenario.server[0]) - before;
    if (made < least || made > most)
        trace_fail("more or fewer attempts than planned: %u, and not %u to %u", made, least, most);
}

/* The pauses get longer, from 50 ms to a second, of which half is random; and begin anew after a connection
 * that stays. */
static void run_redis_that_refuses(void)
{
    await_connected(1, 5000);
    for (int times = 0; times < 2; times++) {
        unsigned before = attempts_at(&scenario.server[0]);
        stop_listening(NET_REFUSES, MINUTE_MS);
        run_for_ms(1700);
        expect_attempts(before, 5, 7);
        run_for_ms(MINUTE_MS - 1700);
        expect_attempts(before, 60, 124);
        listen_again(1500);
        run_for_ms(STAYED_MS);
    }
}

/* Attempts take 2, 4, and then 8 s. */
static void run_redis_that_is_silent(void)
{
    await_connected(1, 5000);
    for (int times = 0; times < 2; times++) {
        unsigned before = attempts_at(&scenario.server[0]);
        stop_listening(times == 0 ? NET_IGNORES : NET_SILENT, MINUTE_MS);
        run_for_ms(7000);
        expect_attempts(before, 3, 3);
        run_for_ms(MINUTE_MS - 7000);
        expect_attempts(before, 8, 9);
        if (times == 1) /* or what it has accepted is never answered */
            redis_restart(&scenario.server[0], true);
        listen_again(9500);
        run_for_ms(STAYED_MS);
    }
}

/* Each connection is good, and dropped. */
static void drop_at_once(struct redis *r)
{
    events_add_in(50 * (uint64_t)MS, on_drop_again, r, 0);
}

static void on_drop_again(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    redis_restart(r, true);
    r->faults.behind_ping = drop_at_once;
}

static void run_redis_that_drops(void)
{
    await_connected(1, 5000);
    scenario_disturb(2 * (uint64_t)MINUTE_MS * MS);
    drop_at_once(&scenario.server[0]);
    run_for_ms(10000);
    unsigned before = attempts_at(&scenario.server[0]);
    run_for_ms(MINUTE_MS);
    if (attempts_at(&scenario.server[0]) > before + 124)
        trace_fail("a server that drops each connection is connected to too often");
}

/* The workers do not come together, except by chance. */
static void run_fleet_of_attempts(void)
{
    enum { BY_CHANCE = 2 };
    unsigned together = 0;
    await_connected(ALL, 10000);
    stop_listening(NET_REFUSES, MINUTE_MS);
    run_for_ms(10000);
    for (uint64_t ms = 0; ms < MINUTE_MS; ms += FLEET_SAMPLE_MS) {
        unsigned before = attempts_at(&scenario.server[0]);
        run_for_ms(FLEET_SAMPLE_MS);
        together += attempts_at(&scenario.server[0]) - before > ALL / 2;
        if (together > BY_CHANCE)
            trace_fail("most workers of a fleet connect at the same time");
    }
}

/* No server can be used for some time, and then one of them. */
static void run_one_that_returns(void)
{
    await_connected(1, 5000);
    scenario_disturb(MINUTE_MS * (uint64_t)MS);
    for (struct redis *r = scenario.server; r <= scenario.server + REPLICAS; r++) {
        r->listener.state = NET_REFUSES;
        redis_restart(r, true);
    }
    run_for_ms(20000);
    scenario.server[scenario_choose(1 + REPLICAS)].listener.state = NET_LISTENS;
    await_connected(1, 15000);
}

/* --- replies that are large or slow --- */

enum { CARD_BYTES = 200 * 1024, RECOVERED_MS = 20000 };

static void set_card(int64_t value)
{
    struct change c = {0};
    change_add(&c, OBJECT_CARD, value);
    if (!redis_submit(scenario.master, &c))
        trace_fail("too many changes wait");
}

static void change_card(void)
{
    static int64_t version = 1000;
    set_card(card_value(++version, 0));
}

static void begin_large_card(void)
{
    net_widen();
    net_hasten_names(10 * (uint64_t)MS);
    scenario.server[0].tls = false; /* of which a record is read as a whole */
    scenario.settings.writes_every_ms = 1000 * MINUTE_MS;
}

/* A card is read again, at this pace. */
static void send_large_card(size_t bytes_per_second)
{
    scenario.server[0].faults.date_bytes = CARD_BYTES;
    net_set_rate(&scenario.server[0].listener, bytes_per_second);
    change_card();
}

/* It takes 4 s, in which more of it comes all the time. */
static void run_slow_reply(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_delay_answers(10 * SECOND);
    send_large_card(CARD_BYTES / 4);
    run_for_ms(6000);
    net_set_rate(&scenario.server[0].listener, 0);
    run_for_ms(2000);
    if (all->redis_disconnects_total != lost)
        trace_fail("a connection was lost although a reply went on");
}

/* It would take four minutes. Ten heartbeats end it, and it is not sent again and again. */
static void run_endless_reply(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_disturb(30 * SECOND);
    send_large_card(CARD_BYTES / 256);
    run_for_ms(9000);
    if (all->redis_disconnects_total != lost)
        trace_fail("a connection was lost although a reply went on");
    run_for_ms(6000);
    if (all->redis_disconnects_total == lost)
        trace_fail("a reply that does not end is waited for");
    net_set_rate(&scenario.server[0].listener, 0);
    await_connected(1, 10000);
}

static void begin_too_large_card(void)
{
    begin_large_card();
    scenario.faults = 1U << FAULT_broken; /* the oracle knows what may fail then */
}

/* Only requests for the card itself fail. Pages leave it out, and the connection stays. */
static void run_too_large_card(void)
{
    await_connected(1, 5000);
    run_for_ms(RECOVERED_MS);
    uint64_t lost = all->redis_disconnects_total;
    set_card(TOO_LARGE);
    run_for_ms(5000);
    change_card();
    run_for_ms(2000);
    if (all->redis_disconnects_total != lost)
        trace_fail("a connection was lost because of a reply that is too large");
}

/* --- the host "?" --- */

static void begin_unnamed_node(void)
{
    cluster_stay();
    cluster_announce_names();
}

static void run_unnamed_node(void)
{
    await_connected(1, 20000);
    run_for_ms(5000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    uint64_t connects = all->redis_connects_total;
    cluster_remove_name(0); /* of the owner */
    run_for_ms(20000);
    expect_no_errors(errors);
    if (all->redis_connects_total != connects || all->redis_connected != 1)
        trace_fail("a good connection was left when a host name disappeared");
    scenario_disturb(0); /* and it is found again */
    redis_restart(&scenario.server[0], true);
    run_for_ms(SAMPLE_MS / 2);
    await_connected(1, 10000);
}

/* --- all of them --- */

static const struct simulated_case cases[] = {
    {"hung-replica", &topology_sentinel_replica, 1, true, sentinel_see_no_fault, run_hung_replica},
    {"flapping-replica", &topology_sentinel_replica, 1, true, sentinel_see_no_fault, run_flapping_replica},
    {"unreachable-replicas", &topology_sentinel_replica, 1, true, begin_unreachable_replicas, run_trials},
    {"start-without-replicas", &topology_sentinel_replica, 1, false, begin_unreachable_replicas,
     run_start_without_replicas},
    {"trials-of-a-fleet", &topology_sentinel_replica, ALL, false, begin_unreachable_replicas,
     run_trials_of_a_fleet},
    {"names-that-fail-once", &topology_sentinel_replica, 1, false, begin_names_that_fail_once,
     run_names_that_fail_once},
    {"fleet-of-sentinels", &topology_sentinel, ALL, false, nothing, run_fleet_of_sentinels},
    {"fleet-of-nodes", &topology_cluster, ALL, false, cluster_stay, run_fleet_of_nodes},
    {"sentinel-lost", &topology_sentinel, ALL, false, nothing, run_sentinel_lost},
    {"name-that-moves", &topology_plain, 1, true, begin_second_server, run_name_that_moves},
    {"name-that-rotates", &topology_plain, 1, true, begin_name_that_rotates, run_name_that_rotates},
    {"name-that-flaps", &topology_plain, 1, true, begin_name_that_flaps, run_name_that_flaps},
    {"redis-that-refuses", &topology_plain, 1, false, hasten_names, run_redis_that_refuses},
    {"redis-that-is-silent", &topology_plain, 1, false, hasten_names, run_redis_that_is_silent},
    {"redis-that-drops", &topology_plain, 1, false, hasten_names, run_redis_that_drops},
    {"fleet-of-attempts", &topology_plain, ALL, false, begin_fleet_of_attempts, run_fleet_of_attempts},
    {"one-that-returns", &topology_sentinel_replica, 1, false, sentinel_see_no_fault, run_one_that_returns},
    {"slow-reply", &topology_plain, 1, true, begin_large_card, run_slow_reply},
    {"endless-reply", &topology_plain, 1, true, begin_large_card, run_endless_reply},
    {"too-large-card", &topology_plain, 1, true, begin_too_large_card, run_too_large_card},
    {"unnamed-node", &topology_cluster, 1, true, begin_unnamed_node, run_unnamed_node},
};

const char *cases_name(unsigned number)
{
    return number < sizeof cases / sizeof cases[0] ? cases[number].name : NULL;
}

const struct topology *cases_topology(unsigned number)
{
    return cases[number].topology;
}

const struct simulated_case *cases_begin(unsigned number)
{
    const struct simulated_case *k = &cases[number];
    scenario.settings = (struct scenario_settings){.cache_size = 1 << 20,
                                                   .request_timeout_ms = 2000,
                                                   .writes_every_ms = 500,
                                                   .requests_every_ms = 50,
                                                   .faults_every_ms = 3600000};
    k->begin();
    return k;
}

void cases_run(const struct simulated_case *k, uv_loop_t *loop, const struct redis_metrics *metrics)
{
    loop_in_use = loop;
    all = metrics;
    k->run();
}
