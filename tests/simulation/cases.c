/* Cases and their checks; see cases.h. */
#include "simulation/cases.h"

#include "redis/session.h"
#include "simulation/clients.h"
#include "simulation/cluster.h"
#include "simulation/connects.h"
#include "simulation/costs.h"
#include "simulation/events.h"
#include "simulation/log.h"
#include "simulation/loop.h"
#include "simulation/memory.h"
#include "simulation/net.h"
#include "simulation/oracle.h"
#include "simulation/process.h"
#include "simulation/scenario.h"
#include "simulation/sentinel.h"
#include "simulation/settings.h"
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
static const struct redis_metrics *of_worker;
static struct redis_metrics sum;
static const struct redis_metrics *const all = &sum; /* of all workers */
static const struct cache_metrics *caches;

/* --- helpers --- */

static void run_for_ms(uint64_t ms)
{
    (void)loop_run_until(loop_in_use, now_ns() + ms * MS);
    uint64_t *total = (void *)&sum;
    for (size_t i = 0; i < sizeof sum / sizeof *total; i++) {
        total[i] = 0;
        for (int worker = 0; worker < CASE_WORKERS_MAX; worker++)
            total[i] += ((const uint64_t *)&of_worker[worker])[i];
    }
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

/* At this server and those behind it. */
static unsigned attempts_at_all(const struct redis *first, unsigned count)
{
    unsigned made = 0;
    for (const struct redis *r = first; r < first + count; r++)
        made += attempts_at(r);
    return made;
}

static void expect_not_lost(uint64_t before)
{
    if (all->redis_disconnects_total != before)
        trace_fail("a good connection was lost");
}

/* A fault of this server ends the connection in use; another one is made in time. */
static void restart(struct redis *r, uint64_t within_ms)
{
    scenario_disturb(within_ms * MS);
    redis_restart(r, true);
    run_for_ms(SAMPLE_MS / 2);
    await_connected(1, within_ms);
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

/* Only pauses take time, or tell the workers of a fleet apart. */
static void names_at_once(void)
{
    net_hasten_names(1);
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

/* How long a replica may be reported as down. */
static void begin_with_grace(void)
{
    scenario.settings.stale_limit_ms = scenario.settings.stale_keys_limit_ms = 30000;
}

/* The process reaches it, for as long as it may follow a master that is none any more. */
static void run_replica_reported_as_down(void)
{
    await_connected(1, 5000);
    run_for_ms(3000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    const struct redis *down = replica_in_use();
    sentinel_report_down(down); /* for a moment, as while a Sentinel starts */
    run_for_ms(3000);
    sentinel_report_down(NULL);
    run_for_ms(8000);
    if (replica_in_use() != down)
        trace_fail("a replica that was reported as down for a moment is left");
    sentinel_report_down(down);
    scenario_delay_answers(10 * SECOND);
    run_for_ms(10000);
    expect_no_errors(errors);
    if (replica_in_use() == down)
        trace_fail("a replica that is reported as down is kept");
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

/* They are tried beside the master from time to time. */
static void run_replicas_that_return(void)
{
    enum { FOUR_TRIALS_MS = 4 * REDIS_SESSION_TRIAL_MS };
    await_connected(1, 20000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    for (struct redis *r = scenario.server + 1; r <= scenario.server + REPLICAS; r++)
        r->listener.state = NET_LISTENS;
    scenario_disturb(FOUR_TRIALS_MS * (uint64_t)MS);
    run_for_ms(FOUR_TRIALS_MS);
    expect_no_errors(errors);
    if (all->redis_role[REDIS_ROLE_REPLICA] != 1)
        trace_fail("replicas that can be used again are not used");
}

static void begin_replicas_that_load(void)
{
    sentinel_see_no_fault();
    for (struct redis *r = scenario.server + 1; r <= scenario.server + REPLICAS; r++)
        r->faults.error = "LOADING Redis is loading the dataset in memory";
}

/* What they said before they refused is not that of the master. */
static void run_replicas_that_load(void)
{
    await_connected(1, 5000);
    for (int i = 0; i < 100; i++) {
        run_for_ms(1000);
        if (all->redis_role[REDIS_ROLE_MASTER] != 1 || all->redis_replica_lag_seconds != 0)
            trace_fail("the master that stands in is not what the metrics show");
    }
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
    replica_announce_names();
    net_fail_name("data1.test", 1);
    net_fail_name("data2.test", 1);
}

static void run_names_that_fail_once(void)
{
    run_for_ms(3 * (uint64_t)REDIS_SESSION_TRIAL_MS); /* the master stands in meanwhile */
    if (all->redis_role[REDIS_ROLE_REPLICA] != 1)
        trace_fail("replicas whose names were not found once are not used");
}

/* Sentinels name the master, and replicas its address: they are not known to follow it. */
static void run_masters_named_differently(void)
{
    await_connected(1, 5000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    for (int i = 0; i < 100; i++) {
        run_for_ms(1000);
        if (all->redis_role[REDIS_ROLE_MASTER] != 1 || all->redis_stand_ins != 1)
            trace_fail("a replica is used that names another master than Sentinels do");
    }
    expect_no_errors(errors);
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

/* All of them, for a minute, while Redis is there: this costs nothing. */
static void lose_sentinels(enum net_listening state, unsigned least, unsigned most)
{
    struct redis *sentinels = &scenario.server[FIRST_SENTINEL];
    await_connected(1, 5000);
    run_for_ms(3000);
    unsigned before = attempts_at_all(sentinels, SENTINELS);
    uint64_t lost = all->redis_disconnects_total;
    for (unsigned i = 0; i < SENTINELS; i++) {
        sentinels[i].listener.state = state;
        redis_restart(&sentinels[i], true);
    }
    run_for_ms(60000);
    unsigned made = attempts_at_all(sentinels, SENTINELS) - before;
    for (unsigned i = 0; i < SENTINELS; i++) {
        sentinels[i].listener.state = NET_LISTENS;
        redis_restart(&sentinels[i], true);
    }
    if (made < least || made > most)
        trace_fail("Sentinels are tried more or less often than planned: %u", made);
    run_for_ms(4000);
    expect_not_lost(lost);
    if (all->sentinels_connected != 1)
        trace_fail("Sentinels that are there again are not used");
}

/* Each once a second. */
static void run_sentinels_that_refuse(void)
{
    lose_sentinels(NET_REFUSES, SENTINELS * 40, SENTINELS * 62);
}

/* Each in turn for 0.5 s, then 1 s, then 2 s, and a second between the rounds. */
static void run_sentinels_that_are_silent(void)
{
    lose_sentinels(NET_SILENT, 24, 36);
}

/* The only one, and Redis does not answer any more. */
static void begin_one_sentinel(void)
{
    scenario.url = "redis+sentinel://s1.test/mymaster";
}

static void run_one_sentinel_lost_with_redis(void)
{
    struct redis *sentinel = &scenario.server[FIRST_SENTINEL];
    await_connected(1, 5000);
    scenario_disturb(60 * SECOND);
    scenario.master->listener.state = NET_SILENT;
    redis_restart(scenario.master, true);
    run_for_ms(1000);
    sentinel->listener.state = NET_REFUSES;
    redis_restart(sentinel, true);
    run_for_ms(20000);
    scenario.master->listener.state = sentinel->listener.state = NET_LISTENS;
    redis_restart(scenario.master, true);
    await_connected(1, 5000);
}

/* The next query finds it, a second later at most. */
static void run_failover_of_the_master(void)
{
    await_connected(1, 5000);
    run_for_ms(5000);
    sentinel_fail_over();
    run_for_ms(1000 + 2 * (uint64_t)SAMPLE_MS);
    if (attempts_at(&scenario.server[1]) != 1)
        trace_fail("a failover is not followed at once");
    await_connected(1, 1000);
    if (all->redis_failovers_total[REDIS_FAILOVER_MASTER] != 1)
        trace_fail("a failover is not counted");
}

/* The node of the URL is lost: the others, which it has named, are queried. */
static void begin_one_node_of_the_url(void)
{
    cluster_stay();
    scenario.url = "redis+cluster://node4.test";
}

static void run_one_node_of_the_url(void)
{
    await_connected(1, 20000);
    run_for_ms(20000);
    uint64_t lost = all->redis_disconnects_total;
    struct redis *named = &scenario.server[NODES - 1];
    unsigned before = attempts_at_all(scenario.server, NODES - 1);
    named->listener.state = NET_REFUSES;
    redis_restart(named, true);
    run_for_ms(30000);
    expect_not_lost(lost);
    if (attempts_at_all(scenario.server, NODES - 1) == before || all->cluster_nodes_connected != 1)
        trace_fail("nodes that another one has named are not queried");
}

/* From then on the owner of the slot is asked itself, and the others are tried again every few seconds. */
static void run_nodes_that_refuse(void)
{
    enum { SECONDS = 60, EVERY_S = 5 };
    await_connected(1, 20000);
    run_for_ms(5000);
    uint64_t lost = all->redis_disconnects_total;
    for (struct redis *r = scenario.server; r < scenario.server + NODES; r++)
        if (r != scenario.master) {
            r->listener.state = NET_REFUSES;
            redis_restart(r, true);
        }
    run_for_ms(20000);
    unsigned before = attempts_at_all(scenario.server, NODES);
    run_for_ms(SECONDS * (uint64_t)1000);
    unsigned made = attempts_at_all(scenario.server, NODES) - before;
    expect_not_lost(lost);
    if (made < SECONDS / EVERY_S || made > (NODES + 1) * SECONDS / EVERY_S)
        trace_fail("nodes are tried more or less often than planned: %u", made);
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
    unsigned losses = oracle_losses; /* an attempt may fail, since an answer about a name may take long */
    net_set_name("redis.test", (const uint8_t[]){2}, 1);
    scenario_delay_answers(THREE_LOOK_UPS_MS * (uint64_t)MS);
    scenario_disturb(THREE_LOOK_UPS_MS * (uint64_t)MS);
    run_for_ms(THREE_LOOK_UPS_MS);
    expect_no_errors(errors);
    if (attempts_at(&scenario.server[1]) != 1 || all->redis_connects_total != 2)
        trace_fail("a name that has moved is not followed");
    if (oracle_losses != losses)
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

/* As where name servers are down: longer than a query to a Sentinel. */
static void begin_names_that_take_long(void)
{
    net_delay_names(20 * SECOND);
}

static void run_names_that_take_long(void)
{
    await_connected(1, 60000);
}

/* --- two addresses --- */

/* A copy with a writer of its own is at the first address. */
static void begin_two_addresses(void)
{
    begin_second_server();
    net_hasten_names(10 * (uint64_t)MS);
    net_set_name("redis.test", (const uint8_t[]){2, 1}, 2);
}

static void await_attempt(const struct redis *r, unsigned before, unsigned within_ms)
{
    for (unsigned ms = 0; attempts_at(r) == before; ms++) {
        run_for_ms(1);
        if (ms > within_ms)
            trace_fail("the next address of a name is not tried at once");
    }
}

/* The first one refuses. */
static void expect_no_pause(void)
{
    enum { PAUSE_MS = 100, LESS_THAN_A_PAUSE_MS = 24 };
    unsigned first = attempts_at(&scenario.server[1]);
    unsigned second = attempts_at(&scenario.server[0]);
    redis_restart(&scenario.server[1], true);
    await_attempt(&scenario.server[1], first, PAUSE_MS);
    await_attempt(&scenario.server[0], second, LESS_THAN_A_PAUSE_MS);
}

static void run_two_addresses(void)
{
    static const struct {
        enum net_listening state;
        const char *error;
        uint64_t within_ms;
    } rows[] = {{NET_REFUSES, NULL, 300},
                {NET_LISTENS, "LOADING Redis is loading the dataset in memory", 300},
                {NET_IGNORES, NULL, 2500},
                {NET_SILENT, NULL, 2500}};
    struct redis *first = &scenario.server[1];
    await_connected(1, 5000);
    if (attempts_at(&scenario.server[0]) > 0)
        trace_fail("the first address of a name is not the first that is tried");
    run_for_ms(REDIS_SESSION_STAYED_MS + 1000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        first->listener.state = rows[i].state;
        first->faults.error = rows[i].error;
        scenario_disturb(rows[i].within_ms * MS);
        if (rows[i].state == NET_REFUSES)
            expect_no_pause();
        restart(first, rows[i].within_ms);
        run_for_ms(REDIS_SESSION_STAYED_MS + 1000);
        first->listener.state = NET_LISTENS;
        first->faults.error = NULL;
        redis_restart(first, true); /* what was accepted in silence */
        restart(&scenario.server[0], 300);
        run_for_ms(REDIS_SESSION_STAYED_MS + 1000);
    }
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
    for (int i = 0; i < 4; i++) {
        net_set_name("redis.test", (const uint8_t[]){2}, 1);
        run_for_ms(ONE_LOOK_UP_MS);
        net_set_name("redis.test", (const uint8_t[]){1}, 1);
        run_for_ms(ONE_LOOK_UP_MS);
    }
    if (attempts_at(&scenario.server[1]) > 0)
        trace_fail("a name counts as moved that did not lead elsewhere three times in a row");
}

/* --- Redis cannot be connected to --- */

enum { MINUTE_MS = 60000, FLEET_SAMPLE_MS = 20, STAYED_MS = REDIS_SESSION_STAYED_MS + 1000 };

static void hasten_names(void)
{
    net_hasten_names(10 * (uint64_t)MS);
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

/* Two attempts take 2 s, two take 4 s, and then they take 8 s. */
static void run_redis_that_is_silent(void)
{
    await_connected(1, 5000);
    for (int times = 0; times < 2; times++) {
        unsigned before = attempts_at(&scenario.server[0]);
        stop_listening(times == 0 ? NET_IGNORES : NET_SILENT, MINUTE_MS);
        run_for_ms(7000);
        expect_attempts(before, 3, 3);
        run_for_ms(MINUTE_MS - 7000);
        expect_attempts(before, 8, 10);
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

/* The second address serves; the first answers each handshake. */
static void run_first_address_that_drops(void)
{
    struct redis *first = &scenario.server[1];
    await_connected(1, 5000);
    unsigned before = attempts_at(first);
    scenario_disturb(30 * SECOND);
    drop_at_once(first);
    run_for_ms(30000);
    if (attempts_at(first) > before + 2 || all->redis_connected != 1)
        trace_fail("an address that drops each connection is preferred to another");
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
    scenario_delay_answers(15 * SECOND); /* the card may be read twice */
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
    log_count("\"key\":\"{sim}:card:1\"");
    set_card(TOO_LARGE);
    run_for_ms(5000);
    if (log_counted() != 1)
        trace_fail("a card that is too large is not logged once with its key");
    change_card();
    run_for_ms(2000);
    if (all->redis_disconnects_total != lost)
        trace_fail("a connection was lost because of a reply that is too large");
}

/* --- pushes --- */

enum { PUSHED = 8000, PUSHED_BYTES = PUSHED * 20 };

/* As slow-reply and endless-reply. The commands behind the push wait for it. */
static void run_slow_push(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_delay_answers(15 * SECOND);
    net_set_rate(&scenario.server[0].listener, PUSHED_BYTES / 4);
    redis_push_large(&scenario.server[0], PUSHED);
    run_for_ms(6000);
    net_set_rate(&scenario.server[0].listener, 0);
    run_for_ms(4000);
    expect_not_lost(lost);
}

static void run_endless_push(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_disturb(40 * SECOND);
    net_set_rate(&scenario.server[0].listener, PUSHED_BYTES / 256);
    redis_push_large(&scenario.server[0], PUSHED);
    run_for_ms(7000);
    expect_not_lost(lost);
    run_for_ms(8000);
    if (all->redis_disconnects_total == lost)
        trace_fail("a push that does not end is waited for");
    net_set_rate(&scenario.server[0].listener, 0);
    await_connected(1, 10000);
}

/* Commands do not arrive, and pushes do. */
static void run_lost_commands(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_disturb(5 * SECOND);
    redis_ignore(&scenario.server[0]);
    for (int i = 0; i < 40; i++) {
        redis_flood(&scenario.server[0], 1);
        run_for_ms(SAMPLE_MS);
    }
    if (all->redis_disconnects_total == lost)
        trace_fail("a connection is kept on which no command is answered");
    await_connected(1, 2000);
}

/* --- what ends a connection, and what does not --- */

/* Where no reply is due. */
static void run_nonsense(void)
{
    static const char *const texts[] = {
        "+surprise\r\n", "-ERR surprise\r\n",         "nonsense\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$-5\r\n",       "*99999999999999999999\r\n", "*-1\r\n",      ">0\r\n_\r\n"};
    await_connected(1, 5000);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t lost = all->redis_disconnects_total;
        scenario_disturb(SECOND);
        redis_say(&scenario.server[0], texts[i]);
        run_for_ms(200);
        await_connected(1, 2000);
        if (all->redis_disconnects_total == lost)
            trace_fail("a connection is kept on which something came that cannot be: %s", texts[i]);
        run_for_ms(REDIS_SESSION_STAYED_MS);
    }
}

/* A Redis that cannot save refuses PING, and can be read. */
static void run_misconf(void)
{
    await_connected(1, 5000);
    scenario.server[0].faults.error = "MISCONF Redis is configured to save RDB snapshots";
    for (int i = 0; i < 2; i++) {
        uint64_t lost = all->redis_disconnects_total;
        run_for_ms(20000);
        expect_not_lost(lost);
        restart(&scenario.server[0], 1000);
    }
}

/* Redis was busy with a script: otherwise nothing would be cached until the connection ends. */
static void run_tracking_that_fails_once(void)
{
    struct redis_faults *f = &scenario.server[0].faults;
    await_connected(1, 5000);
    f->refuses_tracking = true;
    f->tracking_error = "BUSY Redis is busy running a script.";
    scenario_disturb(5 * SECOND);
    redis_restart(&scenario.server[0], true);
    run_for_ms(1000);
    f->refuses_tracking = false;
    await_connected(1, 2000);
    if (all->redis_tracking_refused_total != 0)
        trace_fail("a connection is used without tracking because of an error that passes");
}

/* A heartbeat is often under way when the process stops. */
static void begin_stopped_process(void)
{
    scenario.server[0].listener.distance_ns = 200 * (uint64_t)MS;
}

/* The replies are in the socket then. */
static void run_stopped_process(void)
{
    await_connected(1, 5000);
    uint64_t lost = all->redis_disconnects_total;
    for (int i = 0; i < 10; i++) {
        run_for_ms(1000 + scenario_choose(1000));
        scenario_delay_answers(10 * SECOND);
        process_stop(8 * SECOND, i % 2 == 0);
        run_for_ms(9000);
    }
    expect_not_lost(lost);
}

/* --- Redis is slow, or far --- */

/* Nothing changes, and nobody but the case asks. */
static void begin_alone(void)
{
    struct redis *r = &scenario.server[0];
    net_hasten_names(10 * (uint64_t)MS);
    scenario.quiet = true;
    r->tls = false; /* of which a record is read as a whole */
    r->table_max = NAMES_COUNT;
    r->other_keys = 24;
    r->catalogue.fixed = FIXED_MAX;
}

/* Returns the first answer: the key is confirmed from now on. */
static void connect_alone(void)
{
    clients_end();
    await_connected(1, 5000);
    run_for_ms(1000);
    (void)clients_ask(0, QUERY_AUTH_ONLY, 0, 0);
    run_for_ms(1000);
}

static void expect_answer(const struct asked *a, enum cache_status status, enum cache_source source)
{
    if (a->waits || a->status != status || a->source != source)
        trace_fail("a request for %d has another result than planned: waits %d, status %d, source %d",
                   (int)a->query.number, a->waits, a->status, a->source);
}

/* A window is narrow that has as many commands as it has at least, and a few. */
enum { NARROW = 24, SLOW_BYTES = 1800, EVERY_MS = 15, FIRST_FIXED = CARDS + 1 };

/* In this time. */
static unsigned most_under_way(uint64_t ms)
{
    unsigned most = 0;
    for (uint64_t i = 0; i < ms; i++) {
        run_for_ms(1);
        most = costs_under_way() > most ? costs_under_way() : most;
    }
    return most;
}

/* Cards that do not exist, one every few milliseconds, from place 1 on. Returns how many commands were
 * under way at most. */
static unsigned load_slow_redis(const struct asked *asked[CLIENTS_PLACES], int64_t first)
{
    unsigned most = 0;
    for (unsigned i = 1; i < CLIENTS_PLACES; i++) {
        asked[i] = clients_ask(i, QUERY_CARD, first + i, 0);
        unsigned now = most_under_way(EVERY_MS);
        most = now > most ? now : most;
    }
    return most;
}

/* Redis does no work in vain, and those that came first are answered first. Returns how many were
 * answered.
 */
static unsigned count_answered(const struct asked *asked[CLIENTS_PLACES])
{
    unsigned answered = 0;
    uint64_t last_ns = 0;
    for (unsigned i = 1; i < CLIENTS_PLACES; i++) {
        bool is_answered = !asked[i]->waits && asked[i]->status == CACHE_NOT_FOUND;
        if (is_answered && asked[i]->answered_ns < last_ns)
            trace_fail("a request was answered ahead of an earlier one");
        last_ns = is_answered ? asked[i]->answered_ns : last_ns;
        answered += is_answered;
    }
    return answered;
}

/* More is asked for than it answers. */
static void run_slow_redis(void)
{
    enum { TIME_MS = CLIENTS_PLACES * EVERY_MS, LEAST_ANSWERED = 90, IN_VAIN_PART = 5 };
    const struct asked *asked[CLIENTS_PLACES];
    connect_alone();
    (void)clients_ask(0, QUERY_CARD, FIRST_FIXED, 0);
    run_for_ms(1000);
    scenario_delay_answers((uint64_t)4 * TIME_MS * MS);
    net_set_rate(&scenario.server[0].listener, SLOW_BYTES);
    uint64_t lost = all->redis_disconnects_total;
    (void)load_slow_redis(asked, 1000);
    run_for_ms(3000);
    uint64_t read = caches->cache_misses_total;
    if (load_slow_redis(asked, 2000) > NARROW)
        trace_fail("a slow Redis gets more commands than it answers in time");
    const struct asked *hit = clients_ask(0, QUERY_CARD, FIRST_FIXED, 0);
    run_for_ms(SAMPLE_MS);
    expect_answer(hit, CACHE_FOUND, CACHE_SOURCE_HIT);
    run_for_ms(3000);
    unsigned answered = count_answered(asked);
    if (answered < LEAST_ANSWERED || answered == CLIENTS_PLACES - 1)
        trace_fail("a slow Redis has answered %u requests", answered);
    if (caches->cache_misses_total - read > answered + answered / IN_VAIN_PART)
        trace_fail("%u of %u reads came too late", (unsigned)(caches->cache_misses_total - read) - answered,
                   (unsigned)(caches->cache_misses_total - read));
    if (all->redis_disconnects_total != lost)
        trace_fail("a connection was lost because Redis is slow");
    net_set_rate(&scenario.server[0].listener, 0);
    scenario.server[0].listener.distance_ns = 10 * (uint64_t)MS; /* so that commands are seen under way */
    run_for_ms(1000);
    for (unsigned i = 1; i < FIXED_MAX; i++)
        asked[i] = clients_ask(i, QUERY_CARD, FIRST_FIXED + i, 0);
    if (most_under_way(1000) <= NARROW)
        trace_fail("a Redis that is not slow any more gets few commands");
    for (unsigned i = 1; i < FIXED_MAX; i++)
        expect_answer(asked[i], CACHE_FOUND, CACHE_SOURCE_MISS);
}

enum { DISTANCE_MS = 110, ROUND_TRIP_MS = 2 * DISTANCE_MS, MORE_MS = 60 };

static void begin_distant_redis(void)
{
    begin_alone();
    scenario.server[0].listener.distance_ns = DISTANCE_MS * (uint64_t)MS;
}

/* It takes so many round trips. */
static void expect_round_trips(unsigned count, enum cache_query_type type, int64_t number, int key)
{
    const struct asked *a = clients_ask(0, type, number, key);
    run_for_ms(2000);
    uint64_t ms = (a->answered_ns - a->sent_ns) / MS;
    if (a->waits || a->status != CACHE_FOUND)
        trace_fail("a request failed");
    if (ms + MORE_MS < (uint64_t)count * ROUND_TRIP_MS || ms > (uint64_t)count * ROUND_TRIP_MS + MORE_MS)
        trace_fail("a request for %d of type %d took %u ms, and not %u round trips", (int)number, type,
                   (unsigned)ms, count);
}

/* It is no busy one. */
static void run_distant_redis(void)
{
    enum { ROUND = FIXED_MAX / 2, FULL = 95 };
    const struct asked *asked[FIXED_MAX];
    connect_alone();
    expect_round_trips(0, QUERY_AUTH_ONLY, 0, 1); /* the worker has looked for it */
    expect_round_trips(1, QUERY_CARD, 1, 0);
    expect_round_trips(0, QUERY_CARD_BY_LINK, 0, 0); /* of that card */
    expect_round_trips(2, QUERY_CARD_BY_LINK, 1, 0);
    expect_round_trips(2, QUERY_PAGE, 1, 0);
    expect_round_trips(1, QUERY_PAGE, 4, 0); /* beyond the last */
    expect_round_trips(0, QUERY_PAGE, 4, 0);
    change_card();
    run_for_ms(1000);
    expect_round_trips(1, QUERY_PAGE, 1, 0);
    for (unsigned i = 1; i < FIXED_MAX; i++) {
        asked[i] = clients_ask(i, QUERY_CARD, FIRST_FIXED + i, 0);
        if (i == ROUND)
            run_for_ms(ROUND_TRIP_MS + MORE_MS);
    }
    unsigned most = most_under_way((uint64_t)3 * ROUND_TRIP_MS);
    if (most < FULL)
        trace_fail("a distant Redis gets %u commands at once", most);
    for (unsigned i = 1; i < FIXED_MAX; i++)
        expect_answer(asked[i], CACHE_FOUND, CACHE_SOURCE_MISS);
}

static void begin_no_cache(void)
{
    begin_distant_redis();
    scenario.settings.cache_size = 0;
}

/* A key that was valid is read together with the data. */
static void run_no_cache(void)
{
    connect_alone();
    for (int key = 1; key < KEYS - 1; key++) {
        expect_round_trips(2, QUERY_CARD, 1, key);
        expect_round_trips(1, QUERY_CARD, 1, key);
        expect_round_trips(2, QUERY_PAGE, 1, key);
        expect_round_trips(2, QUERY_CARD_BY_LINK, 1, key);
    }
}

/* What a command takes while it waits for its reply is free again. */
static void run_many_commands(void)
{
    enum { COMMANDS = 20000, AT_FIRST = 1000, MORE_BYTES = 64 * 1024 };
    long before = 0;
    connect_alone();
    for (int i = 0; i < COMMANDS; i++) {
        const struct asked *card = clients_ask(0, QUERY_CARD, 1, 0);
        while (card->waits)
            run_for_ms(1);
        expect_answer(card, CACHE_FOUND, CACHE_SOURCE_MISS);
        if (i == AT_FIRST)
            before = memory_live_bytes();
    }
    if (memory_live_bytes() > before + MORE_BYTES)
        trace_fail("commands that have ended take %ld bytes", memory_live_bytes() - before);
}

static void begin_many_commands(void)
{
    begin_alone();
    scenario.settings.cache_size = 0;
}

static void set_key(int key, int64_t value)
{
    struct change c = {0};
    change_add(&c, OBJECT_KEY + key, value);
    if (!redis_submit(scenario.master, &c))
        trace_fail("too many changes wait");
}

static void begin_key_of_an_earlier_connection(void)
{
    begin_no_cache();
    scenario.settings.request_timeout_ms = 10000;
}

/* What waits for room to be read has keys that were valid; one is revoked before the next connection. */
static void run_key_of_an_earlier_connection(void)
{
    const struct asked *asked[FIXED_MAX];
    connect_alone();
    for (unsigned i = 1; i < FIXED_MAX; i++)
        asked[i] = clients_ask(i, QUERY_CARD, FIRST_FIXED + i, 1);
    run_for_ms(ROUND_TRIP_MS + MORE_MS);
    set_key(1, key_value(false, 0));
    run_for_ms(1);
    scenario_disturb(0);
    redis_restart(&scenario.server[0], true);
    run_for_ms(8000);
    for (unsigned i = 1; i < FIXED_MAX; i++)
        if (asked[i]->waits || asked[i]->status != CACHE_KEY_INVALID)
            trace_fail("a key is accepted that an earlier connection has found valid");
}

/* --- a read that ends each connection --- */

static void on_first_card_read(void *arg, uint64_t number)
{
    (void)number;
    redis_restart(arg, true);
}

static void drop_reader(struct redis_client *c)
{
    c->mute = true;
    events_add_in(MS, on_first_card_read, c->redis, 0);
}

static void begin_read_that_ends_connections(void)
{
    begin_alone();
    scenario.server[0].faults.at_first_card = drop_reader;
}

/* Its reply exceeds client-output-buffer-limit, for example. Few fail with it. */
static void run_read_that_ends_connections(void)
{
    enum { LOSSES = 3, OTHERS_TOO = 20, WITH_IT = 6 /* that were read with it each time */ };
    const struct asked *asked[OTHERS_TOO];
    connect_alone();
    uint64_t lost = all->redis_disconnects_total;
    scenario_disturb(5 * SECOND);
    for (unsigned i = 1; i < OTHERS_TOO; i++)
        asked[i] = clients_ask(i, QUERY_CARD, i == 1 ? 1 : FIRST_FIXED + i, 0);
    run_for_ms(1900);
    expect_answer(asked[1], CACHE_UNAVAILABLE, CACHE_SOURCE_MISS);
    unsigned failed = 0;
    for (unsigned i = 2; i < OTHERS_TOO; i++)
        failed += asked[i]->waits || asked[i]->status != CACHE_FOUND;
    if (failed > WITH_IT)
        trace_fail("%u requests failed because of another one", failed);
    if (all->redis_disconnects_total - lost != LOSSES)
        trace_fail("%u connections were lost with one read", (unsigned)(all->redis_disconnects_total - lost));
    scenario.server[0].faults.at_first_card = NULL;
}

/* --- keys in an outage --- */

static void begin_keys_in_an_outage(void)
{
    begin_alone();
    scenario.settings.stale_limit_ms = scenario.settings.stale_keys_limit_ms = 5 * (uint64_t)MINUTE_MS;
}

/* Of the valid ones as well. */
static void expect_key_in_outage(int key)
{
    const struct asked *a = clients_ask(0, QUERY_AUTH_ONLY, 0, key);
    run_for_ms(10);
    expect_answer(a, CACHE_FOUND, CACHE_SOURCE_STALE);
}

static void begin_outage(void)
{
    stop_listening(NET_REFUSES, 10 * (uint64_t)MS);
    run_for_ms(500);
}

/* After a change those keys are confirmed that are used, with each heartbeat some others, and in the end all.
 */
static void run_keys_in_an_outage(void)
{
    connect_alone();
    (void)clients_ask(0, QUERY_AUTH_ONLY, 0, 2);
    run_for_ms(1000);
    set_key(1, key_value(false, 0));
    run_for_ms(1500); /* a heartbeat */
    begin_outage();
    expect_key_in_outage(0);
    expect_key_in_outage(2);
    listen_again(2000);
    run_for_ms(MINUTE_MS);
    begin_outage();
    expect_key_in_outage(0);
    for (int key = 1; key < scenario.server[0].other_keys; key++)
        expect_key_in_outage(OTHER_KEYS + key);
    const struct asked *revoked = clients_ask(0, QUERY_AUTH_ONLY, 0, 1);
    run_for_ms(2100);
    if (revoked->waits || revoked->status == CACHE_FOUND)
        trace_fail("a key is valid in an outage that was revoked before");
    listen_again(2000);
}

/* --- pages in an outage --- */

enum { OUTDATED_LIMIT_MS = 10000 };

static void begin_page_in_an_outage(void)
{
    begin_alone();
    scenario.settings.stale_limit_ms = scenario.settings.stale_keys_limit_ms = OUTDATED_LIMIT_MS;
}

/* The first member of the index that changes, and is above `least`; or 0. */
static int next_member(const struct catalogue *c, int least)
{
    int ids[MEMBERS_MAX];
    int count = catalogue_members(c, catalogue_value(c, OBJECT_INDEX), ids);
    for (int i = 0; i < count; i++)
        if (ids[i] > least && ids[i] <= CARDS && catalogue_value(c, OBJECT_CARD + ids[i] - 1) > 0)
            return ids[i];
    return 0;
}

/* Changes the next such card of the first page. */
static int change_a_member(int least)
{
    const struct catalogue *c = &scenario.server[0].catalogue;
    struct change change = {0};
    int id = next_member(c, least);
    int object = OBJECT_CARD + (id == 0 ? 0 : id - 1);
    int64_t value = catalogue_value(c, object);
    change_add(&change, object, card_value(card_version(value) + 1, card_link(value)));
    if (id == 0 || !redis_submit(scenario.master, &change))
        trace_fail("no card can be changed");
    return id;
}

/* A request does not share the read of a page of which a card has changed since. The oracle knows the card.
 */
static void run_page_changes(void)
{
    connect_alone();
    (void)clients_ask(0, QUERY_PAGE, 1, 0);
    run_for_ms(2000);
    int id = change_a_member(0);
    run_for_ms(ROUND_TRIP_MS);
    const struct asked *first = clients_ask(0, QUERY_PAGE, 1, 0);
    (void)change_a_member(id);
    run_for_ms(DISTANCE_MS + MORE_MS);
    const struct asked *second = clients_ask(1, QUERY_PAGE, 1, 0);
    run_for_ms(2000);
    expect_answer(first, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_answer(second, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* A channel leaves the index, with its card, between the reads of the list and of the card. */
static void run_channel_leaves_page(void)
{
    const struct catalogue *c = &scenario.server[0].catalogue;
    struct change change = {0};
    connect_alone();
    int id = next_member(c, 0);
    if (id == 0)
        trace_fail("no channel can leave");
    const struct asked *page = clients_ask(0, QUERY_PAGE, 1, 0);
    run_for_ms(ROUND_TRIP_MS + DISTANCE_MS / 2);
    log_count("\"reason\":\"no card\"");
    change_add(&change, OBJECT_INDEX, catalogue_value(c, OBJECT_INDEX) & ~(INT64_C(1) << id));
    change_add(&change, OBJECT_CARD + id - 1, 0);
    if (!redis_submit(scenario.master, &change))
        trace_fail("no channel can leave");
    run_for_ms(2000);
    expect_answer(page, CACHE_FOUND, CACHE_SOURCE_MISS);
    if (log_counted() != 0)
        trace_fail("a page lacks a channel that has left the index");
}

/* It is served for the limit since it was current, which is before the loss. */
static void run_page_in_an_outage(void)
{
    connect_alone();
    (void)clients_ask(0, QUERY_PAGE, 1, 0);
    run_for_ms(1000);
    (void)change_a_member(0);
    run_for_ms(3000);
    begin_outage();
    const struct asked *page = clients_ask(0, QUERY_PAGE, 1, 0);
    run_for_ms(10);
    expect_answer(page, CACHE_FOUND, CACHE_SOURCE_STALE);
    run_for_ms(OUTDATED_LIMIT_MS - 2000);
    const struct asked *late = clients_ask(0, QUERY_PAGE, 1, 0);
    run_for_ms(10);
    if (!late->waits)
        trace_fail("an outdated page is served beyond the limit");
    listen_again(2000);
}

static void begin_demoted_master(void)
{
    begin_page_in_an_outage();
    for (struct redis *r = scenario.server; r < scenario.server + FIRST_SENTINEL + SENTINELS; r++)
        r->tls = false;
}

/* Of a master that is none any more: the heartbeat before that one which shows it was the last to confirm
 * what it has. Sentinels do not know yet. */
static void run_demoted_master(void)
{
    struct redis *demoted = &scenario.server[0];
    connect_alone();
    (void)clients_ask(0, QUERY_CARD, 1, 0);
    run_for_ms(1000);
    uint64_t lost = all->redis_disconnects_total;
    scenario_disturb(2 * (uint64_t)OUTDATED_LIMIT_MS * MS);
    replica_promote(&scenario.server[1]);
    replica_follow(demoted, &scenario.server[1]);
    replica_separate(demoted, now_ns() + MINUTE_MS * (uint64_t)MS);
    for (int ms = 0; ms < 1100 && all->redis_disconnects_total == lost; ms += 10)
        run_for_ms(10);
    run_for_ms(OUTDATED_LIMIT_MS - 1500);
    const struct asked *card = clients_ask(0, QUERY_CARD, 1, 0);
    run_for_ms(10);
    expect_answer(card, CACHE_FOUND, CACHE_SOURCE_STALE);
    run_for_ms(1000);
    const struct asked *late = clients_ask(0, QUERY_CARD, 1, 0);
    run_for_ms(10);
    if (!late->waits)
        trace_fail("a card is served for longer than the limit since a heartbeat has shown a master");
    sentinel_fail_over();
    await_connected(1, 5000);
}

/* --- a Redis that sends no invalidations --- */

static void begin_revoked_untold(void)
{
    begin_alone();
    scenario.server[0].faults.deaf = true;
    scenario.server[0].other_keys = 40;
}

/* The audit reads every key in its turn: also one that many others were used after. The oracle knows the
 * bound. */
static void run_revoked_untold(void)
{
    enum { AUDITED_MS = 80000 };
    connect_alone();
    (void)clients_ask(0, QUERY_AUTH_ONLY, 0, 3);
    run_for_ms(1000);
    for (int key = 1; key < scenario.server[0].other_keys; key++)
        (void)clients_ask((unsigned)key, QUERY_AUTH_ONLY, 0, OTHER_KEYS + key);
    run_for_ms(1000);
    if (clients_ask(0, QUERY_AUTH_ONLY, 0, 3)->source != CACHE_SOURCE_HIT)
        trace_fail("a key is not cached");
    for (int second = 0; second < 3; second++) {
        run_for_ms(1000);
        for (int key = 1; key < scenario.server[0].other_keys; key++)
            (void)clients_ask((unsigned)key, QUERY_AUTH_ONLY, 0, OTHER_KEYS + key);
    }
    set_key(3, key_value(false, 0));
    run_for_ms(AUDITED_MS);
    (void)clients_ask(0, QUERY_AUTH_ONLY, 0, 3);
    run_for_ms(2000);
    if (caches->cache_audit_failures_total == 0)
        trace_fail("a key was revoked, and nothing notices");
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
    restart(&scenario.server[0], 10000); /* and it is found again */
}

/* MOVED to "?" does not say where: another node does. */
static void run_unnamed_successor(void)
{
    await_connected(1, 20000);
    run_for_ms(5000);
    cluster_remove_name(1);
    cluster_take_over(1);
    run_for_ms(SAMPLE_MS);
    await_connected(1, 5000);
    run_for_ms(5000);
    if (attempts_at(&scenario.server[1]) == 0 || all->redis_failovers_total[REDIS_FAILOVER_MASTER] != 1)
        trace_fail("a replica that has taken over is not used");
}

/* Each says that the other one has the slot. */
static void run_nodes_that_refer_to_each_other(void)
{
    await_connected(1, 20000);
    scenario_disturb(2 * (uint64_t)MINUTE_MS * MS);
    cluster_refer(0, 2);
    cluster_refer(2, 0);
    run_for_ms(10000);
    unsigned before = connects_attempts();
    run_for_ms(MINUTE_MS);
    if (connects_attempts() - before > 3 * 124)
        trace_fail("nodes that refer to each other are connected to all the time: %u",
                   connects_attempts() - before);
}

/* Pauses do not get longer than a request may take, and begin anew after a while. */
static void run_failovers_in_a_row(void)
{
    await_connected(1, 20000);
    for (int n = 0; n < 10; n++) {
        run_for_ms(200);
        cluster_take_over(n % 2 == 0 ? 1 : 0);
        run_for_ms(300);
        await_connected(1, 700);
    }
    run_for_ms(3000);
    cluster_take_over(1);
    run_for_ms(150);
    await_connected(1, 1);
}

/* No request fails, and it counts as no failover, but where the process has not heard of the replicas yet. */
static void run_slot_that_migrates(void)
{
    await_connected(1, 20000);
    unsigned errors = oracle_answers[CACHE_SOURCE_NONE];
    run_for_ms(120000);
    expect_no_errors(errors);
    cluster_stay();
    run_for_ms(30000);
    uint64_t slot = all->redis_failovers_total[REDIS_FAILOVER_SLOT];
    uint64_t master = all->redis_failovers_total[REDIS_FAILOVER_MASTER];
    if (slot < 2 * master || slot + master != cluster_migrations())
        trace_fail("migrations of the slot are not what the metrics show: %u and %u of %u", (unsigned)slot,
                   (unsigned)master, cluster_migrations());
    int owner = (int)(scenario.master - scenario.server);
    if (owner == NODES - 1) /* which has no replica */
        return;
    cluster_take_over(owner ^ 1);
    run_for_ms(5000);
    if (all->redis_failovers_total[REDIS_FAILOVER_MASTER] != master + 1)
        trace_fail("a failover behind a migration is not counted as one");
}

/* --- all of them --- */

static const struct simulated_case cases[] = {
    {"hung-replica", &topology_sentinel_replica, 1, true, sentinel_see_no_fault, run_hung_replica},
    {"flapping-replica", &topology_sentinel_replica, 1, true, sentinel_see_no_fault, run_flapping_replica},
    {"replica-reported-as-down", &topology_sentinel_replica, 1, true, begin_with_grace,
     run_replica_reported_as_down},
    {"unreachable-replicas", &topology_sentinel_replica, 1, true, begin_unreachable_replicas, run_trials},
    {"replicas-that-return", &topology_sentinel_replica, 1, true, begin_unreachable_replicas,
     run_replicas_that_return},
    {"replicas-that-load", &topology_sentinel_replica, 1, false, begin_replicas_that_load,
     run_replicas_that_load},
    {"start-without-replicas", &topology_sentinel_replica, 1, false, begin_unreachable_replicas,
     run_start_without_replicas},
    {"trials-of-a-fleet", &topology_sentinel_replica, ALL, false, begin_unreachable_replicas,
     run_trials_of_a_fleet},
    {"names-that-fail-once", &topology_sentinel_replica, 1, false, begin_names_that_fail_once,
     run_names_that_fail_once},
    {"masters-named-differently", &topology_sentinel_replica, 1, false, sentinel_announce_names,
     run_masters_named_differently},
    {"fleet-of-sentinels", &topology_sentinel, ALL, false, nothing, run_fleet_of_sentinels},
    {"fleet-of-nodes", &topology_cluster, ALL, false, cluster_stay, run_fleet_of_nodes},
    {"sentinel-lost", &topology_sentinel, ALL, false, nothing, run_sentinel_lost},
    {"sentinels-that-refuse", &topology_sentinel, 1, true, names_at_once, run_sentinels_that_refuse},
    {"failover-of-the-master", &topology_sentinel, 1, true, nothing, run_failover_of_the_master},
    {"one-sentinel-lost-with-redis", &topology_sentinel, 1, false, begin_one_sentinel,
     run_one_sentinel_lost_with_redis},
    {"sentinels-that-are-silent", &topology_sentinel, 1, true, names_at_once, run_sentinels_that_are_silent},
    {"one-node-of-the-url", &topology_cluster, 1, true, begin_one_node_of_the_url, run_one_node_of_the_url},
    {"nodes-that-refuse", &topology_cluster, 1, true, cluster_stay, run_nodes_that_refuse},
    {"names-that-take-long", &topology_sentinel, 1, false, begin_names_that_take_long,
     run_names_that_take_long},
    {"two-addresses", &topology_plain, 1, true, begin_two_addresses, run_two_addresses},
    {"first-address-that-drops", &topology_plain, 1, false, begin_two_addresses,
     run_first_address_that_drops},
    {"name-that-moves", &topology_plain, 1, true, begin_second_server, run_name_that_moves},
    {"name-that-rotates", &topology_plain, 1, true, begin_name_that_rotates, run_name_that_rotates},
    {"name-that-flaps", &topology_plain, 1, true, begin_name_that_flaps, run_name_that_flaps},
    {"redis-that-refuses", &topology_plain, 1, false, hasten_names, run_redis_that_refuses},
    {"redis-that-is-silent", &topology_plain, 1, false, hasten_names, run_redis_that_is_silent},
    {"redis-that-drops", &topology_plain, 1, false, hasten_names, run_redis_that_drops},
    {"fleet-of-attempts", &topology_plain, ALL, false, names_at_once, run_fleet_of_attempts},
    {"one-that-returns", &topology_sentinel_replica, 1, false, sentinel_see_no_fault, run_one_that_returns},
    {"slow-reply", &topology_plain, 1, true, begin_large_card, run_slow_reply},
    {"endless-reply", &topology_plain, 1, true, begin_large_card, run_endless_reply},
    {"slow-push", &topology_plain, 1, true, begin_large_card, run_slow_push},
    {"endless-push", &topology_plain, 1, true, begin_large_card, run_endless_push},
    {"lost-commands", &topology_plain, 1, true, begin_large_card, run_lost_commands},
    {"nonsense", &topology_plain, 1, false, hasten_names, run_nonsense},
    {"misconf", &topology_plain, 1, true, hasten_names, run_misconf},
    {"tracking-that-fails-once", &topology_plain, 1, true, hasten_names, run_tracking_that_fails_once},
    {"stopped-process", &topology_plain, 1, true, begin_stopped_process, run_stopped_process},
    {"too-large-card", &topology_plain, 1, true, begin_too_large_card, run_too_large_card},
    {"slow-redis", &topology_plain, 1, true, begin_alone, run_slow_redis},
    {"distant-redis", &topology_plain, 1, true, begin_distant_redis, run_distant_redis},
    {"no-cache", &topology_plain, 1, true, begin_no_cache, run_no_cache},
    {"many-commands", &topology_plain, 1, true, begin_many_commands, run_many_commands},
    {"key-of-an-earlier-connection", &topology_plain, 1, true, begin_key_of_an_earlier_connection,
     run_key_of_an_earlier_connection},
    {"read-that-ends-connections", &topology_plain, 1, true, begin_read_that_ends_connections,
     run_read_that_ends_connections},
    {"keys-in-an-outage", &topology_plain, 1, true, begin_keys_in_an_outage, run_keys_in_an_outage},
    {"page-in-an-outage", &topology_plain, 1, true, begin_page_in_an_outage, run_page_in_an_outage},
    {"demoted-master", &topology_sentinel, 1, true, begin_demoted_master, run_demoted_master},
    {"page-changes", &topology_plain, 1, true, begin_distant_redis, run_page_changes},
    {"channel-leaves-page", &topology_plain, 1, true, begin_distant_redis, run_channel_leaves_page},
    {"revoked-untold", &topology_plain, 1, true, begin_revoked_untold, run_revoked_untold},
    {"unnamed-node", &topology_cluster, 1, true, begin_unnamed_node, run_unnamed_node},
    {"unnamed-successor", &topology_cluster, 1, true, begin_unnamed_node, run_unnamed_successor},
    {"nodes-that-refer-to-each-other", &topology_cluster, 1, true, cluster_stay,
     run_nodes_that_refer_to_each_other},
    {"failovers-in-a-row", &topology_cluster, 1, true, cluster_stay, run_failovers_in_a_row},
    {"slot-that-migrates", &topology_cluster, 1, true, cluster_rest, run_slot_that_migrates},
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

void cases_run(const struct simulated_case *k, uv_loop_t *loop, const struct redis_metrics redis[],
               const struct cache_metrics *cache)
{
    loop_in_use = loop;
    of_worker = redis;
    caches = cache;
    k->run();
}
