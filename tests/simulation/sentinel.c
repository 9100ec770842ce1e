/* Views of Sentinels, and failovers; see sentinel.h. */
#include "simulation/sentinel.h"

#include "simulation/events.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <stdio.h>

enum { DATA = 3, SENTINELS = 3, PORT = 26379 };

/*
 * A replica may lose each connection before the next heartbeat, which is a second later. Three are lost so at
 * first: of the replica in use, of it again, and of the other one. Two are lost after 30 and after 60 seconds
 * or later. A backlog counts one of them twice.
 */
enum { LOST_AFTER_MS = 900, LOSSES_MAX = 10 };

static struct sentinel {
    const struct redis *named; /* NULL: it knows no master */
    uint64_t since_ns;
} sentinels[SENTINELS];

static struct redis *elected;     /* by the last failover */
static uint64_t failover_ends_ns; /* when the last of all has heard of it */
static bool names_announced;
static bool blind;                   /* Sentinels see no fault of a replica */
static const struct redis *reported; /* as down, which it is not */
static unsigned losses;              /* of connections to replicas, since everything else is whole */

/* --- replies --- */

static void put_text(struct bytes *out, const char *text)
{
    bytes_add(out, text, strlen(text));
}

static void put_word(struct bytes *out, const char *text)
{
    char head[32];
    (void)snprintf(head, sizeof head, "$%zu\r\n", strlen(text));
    put_text(out, head);
    put_text(out, text);
    put_text(out, "\r\n");
}

static void put_host(struct bytes *out, const struct redis *r)
{
    put_word(out, replica_host(r, names_announced));
}

/* The link of one that is promoted counts as it was before. */
static void put_replica(struct bytes *out, const struct redis *r, bool promoted)
{
    bool down =
        r == reported || (!blind && (r->hung_until_ns > now_ns() || r->listener.state != NET_LISTENS));
    bool follows = blind || (r->replication.upstream != NULL && r->replication.link == LINK_UP);
    put_text(out, "%4\r\n");
    put_word(out, "ip");
    put_host(out, r);
    put_word(out, "port");
    put_word(out, "6379");
    put_word(out, "flags");
    put_word(out, down ? "s_down,slave,disconnected" : "slave");
    put_word(out, "master-link-status");
    put_word(out, follows || promoted ? "ok" : "err");
}

/* The Sentinel that leads a failover lists the new master among the replicas until the end. */
static void put_replicas(struct bytes *out, const struct sentinel *s)
{
    bool leads = s == &sentinels[0] && now_ns() < failover_ends_ns;
    char head[32];
    (void)snprintf(head, sizeof head, "*%d\r\n", leads ? DATA : DATA - 1);
    put_text(out, head);
    for (const struct redis *r = scenario.server; r < scenario.server + DATA; r++)
        if (leads || r != s->named)
            put_replica(out, r, r == s->named);
}

void sentinel_query(struct redis *r, struct redis_client *c, const struct command *m)
{
    const struct redis *named = r->sentinel->named;
    TRACE(r->name, "names %s", named == NULL ? "none" : named->name);
    if (word_is(&m->word[1], "REPLICAS")) {
        if (named == NULL)
            put_text(&c->out, "-ERR No such master with that name\r\n");
        else
            put_replicas(&c->out, r->sentinel);
    } else if (named == NULL) {
        put_text(&c->out, "_\r\n");
    } else {
        put_text(&c->out, "*2\r\n");
        put_host(&c->out, named);
        put_word(&c->out, "6379");
    }
}

/* --- opinions --- */

static struct redis *sentinel_at(unsigned number)
{
    return &scenario.server[DATA + number];
}

static void name_master(unsigned number, const struct redis *named)
{
    struct redis *r = sentinel_at(number);
    TRACE(r->name, "takes %s for the master", named == NULL ? "none" : named->name);
    r->sentinel->named = named;
    r->sentinel->since_ns = now_ns();
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Whether it is this one, or one that it follows: a former master may be in between. */
static bool is_followed(const struct redis *r, const struct redis *named)
{
    while (r != NULL && r != named)
        r = r->replication.upstream;
    return r != NULL;
}

/* By the word of the Sentinels. */
static uint64_t superseded_ns(const struct redis *r)
{
    const struct redis *root = replica_root(r);
    uint64_t since_ns = later(r->replication.since_ns, root->replication.since_ns);
    bool another_named = false; /* a Sentinel without one says nothing of this server */
    for (int i = 0; i < SENTINELS; i++) {
        if (sentinels[i].named != NULL && is_followed(r, sentinels[i].named))
            return 0;
        another_named = another_named || sentinels[i].named != NULL;
        since_ns = later(since_ns, sentinels[i].since_ns);
    }
    return another_named ? since_ns : 0;
}

static void on_heard(void *arg, uint64_t number)
{
    (void)arg;
    if (!scenario.quiet)
        name_master((unsigned)number, elected);
}

/* --- a failover --- */

/* The writer goes on at the new master; until then it writes to the former one what will be lost. */
static void on_writer_moves(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (scenario.master != elected)
        scenario_set_master(elected);
}

/* A replica of the former master, or that one, hears that it has another. */
static void on_reconfigured(void *arg, uint64_t number)
{
    struct redis *r = arg;
    if (scenario.quiet || r == elected || r->replication.upstream == elected)
        return;
    if (scenario.master != elected)
        scenario_set_master(elected);
    replica_follow(r, elected);
    if (number != 0) /* as Sentinel orders it */
        redis_restart(r, true);
}

static uint64_t soon_or_late(unsigned late_ms)
{
    bool is_late = scenario_choose(4) == 0;
    uint64_t after_ns = is_late ? scenario_choose(late_ms) * (uint64_t)MS : scenario_a_while(3000);
    failover_ends_ns = later(failover_ends_ns, now_ns() + after_ns);
    return after_ns;
}

static bool may_be_elected(const struct redis *r)
{
    return r->replication.upstream == scenario.master && r->replication.link == LINK_UP;
}

static void fail_over(void)
{
    struct redis *next = &scenario.server[scenario_choose(DATA)];
    if (failover_ends_ns >= now_ns() || !may_be_elected(next))
        return;
    TRACE("scenario", "%s takes the place of %s", next->name, scenario.master->name);
    elected = next;
    failover_ends_ns = now_ns();
    if (scenario_choose(3) == 0)
        redis_hang(scenario.master, scenario_a_while(10000));
    replica_promote(next);
    if (scenario_choose(2) == 0)
        redis_restart(next, true);
    for (unsigned i = 0; i < SENTINELS; i++)
        events_add_in(soon_or_late(20000), on_heard, NULL, i);
    for (struct redis *r = scenario.server; r < scenario.server + DATA; r++)
        if (r != next)
            events_add_in(soon_or_late(25000), on_reconfigured, r, scenario_choose(2));
    events_add_in(soon_or_late(2000), on_writer_moves, NULL, 0);
    scenario_disturb(failover_ends_ns - now_ns() + 10 * SECOND);
}

void sentinel_fail_over(void)
{
    elected = &scenario.server[1];
    failover_ends_ns = now_ns();
    replica_promote(elected);
    scenario_disturb(2 * SECOND);
    on_writer_moves(NULL, 0);
    for (struct redis *r = scenario.server; r < scenario.server + DATA; r++)
        if (r != elected)
            replica_follow(r, elected);
    for (unsigned i = 0; i < SENTINELS; i++)
        name_master(i, elected);
}

/* --- the topology --- */

void sentinel_announce_names(void)
{
    static const char *const hosts[DATA] = {"data0.test", "data1.test", "data2.test"};
    names_announced = true;
    for (int i = 0; i < DATA; i++)
        net_set_name(hosts[i], &scenario.server[i].listener.address.host, 1);
}

void sentinel_see_no_fault(void)
{
    blind = true;
}

void sentinel_report_down(const struct redis *r)
{
    reported = r;
}

static void begin_sentinels(void)
{
    static const char *const names[] = {"sentinel1", "sentinel2", "sentinel3"};
    static const char *const hosts[] = {"s1.test", "s2.test", "s3.test"};
    replica_join(scenario_add_server("second", 2), scenario.master);
    replica_join(scenario_add_server("third", 3), scenario.master);
    for (int i = 0; i < SENTINELS; i++) {
        uint8_t host = (uint8_t)(11 + i);
        struct redis *r = scenario_add_server(names[i], host);
        r->listener.address.port = PORT;
        r->sentinel = &sentinels[i];
        sentinels[i] = (struct sentinel){scenario.master, 0};
        net_set_name(hosts[i], &host, 1);
    }
    elected = scenario.master;
    failover_ends_ns = 0;
    names_announced = blind = false;
    reported = NULL;
}

static bool is_elected_named(void)
{
    bool named = false;
    for (int i = 0; i < SENTINELS; i++)
        named = named || sentinels[i].named == elected;
    return named;
}

/* A Sentinel is wrong. It costs no more than the way to the next one, unless all are wrong at once. */
static void mislead(void)
{
    unsigned number = scenario_choose(SENTINELS);
    unsigned wrong = scenario_choose(DATA + 1);
    uint64_t duration_ns = scenario_choose(60000) * (uint64_t)MS;
    if (failover_ends_ns >= now_ns())
        return;
    name_master(number, wrong == DATA ? NULL : &scenario.server[wrong]);
    scenario_disturb((is_elected_named() ? 0 : duration_ns) + 10 * SECOND);
    events_add_in(duration_ns, on_heard, NULL, number);
}

static void on_replica_healed(void *arg, uint64_t number)
{
    (void)number;
    if (!scenario.quiet)
        replica_heal(arg);
}

static void disturb_replica(void)
{
    struct redis *r = &scenario.server[scenario_choose(DATA)];
    uint64_t duration_ns = scenario_a_while(40000);
    switch (scenario_choose(3)) {
    case 0:
        replica_silence(r);
        break;
    case 1:
        replica_separate(r, now_ns() + duration_ns);
        break;
    default:
        r->replication.lie = 1 + scenario_choose(LIES - 1);
        TRACE("scenario", "%s lies about its role (%d)", r->name, r->replication.lie);
        break;
    }
    scenario_disturb(duration_ns + 10 * SECOND);
    events_add_in(duration_ns, on_replica_healed, r, 0);
}

static void move_sentinels(void)
{
    static void (*const moves[])(void) = {fail_over, fail_over, mislead, disturb_replica};
    moves[scenario_choose(sizeof moves / sizeof moves[0])]();
}

static void quieten_sentinels(void)
{
    on_writer_moves(NULL, 0);
    for (unsigned i = 0; i < SENTINELS; i++)
        name_master(i, elected);
    for (struct redis *r = scenario.server; r < scenario.server + DATA; r++)
        if (r != elected)
            replica_follow(r, elected);
    replica_heal_all();
}

static void on_loss(void *arg, uint64_t number)
{
    (void)number;
    if (++losses > LOSSES_MAX)
        trace_fail("replicas are used again and again that lose each connection");
    scenario.lost_ns = now_ns();
    scenario_disturb(0);
    redis_restart(arg, true);
}

static void lose_connections(struct redis *r)
{
    r->faults.behind_ping = lose_connections;
    events_add_in(scenario_a_while(LOST_AFTER_MS), on_loss, r, 0);
}

/* The master is whole, and no replica can be used, though Sentinels see no fault. */
static void quieten_replicas(void)
{
    quieten_sentinels();
    losses = 0;
    if (scenario_choose(3) != 0)
        return;
    for (struct redis *r = scenario.server; r < scenario.server + DATA; r++)
        if (r != elected)
            r->faults.behind_ping = lose_connections;
}

const struct topology topology_sentinel = {.name = "sentinel",
                                           .url = "redis+sentinel://s1.test,s2.test,s3.test/mymaster",
                                           .begin = begin_sentinels,
                                           .move = move_sentinels,
                                           .quieten = quieten_sentinels,
                                           .superseded_ns = superseded_ns,
                                           .recovery_s = 10};

const struct topology topology_sentinel_replica = {
    .name = "sentinel-replica",
    .url = "redis+sentinel://s1.test,s2.test,s3.test/mymaster?role=replica",
    .begin = begin_sentinels,
    .move = move_sentinels,
    .quieten = quieten_replicas,
    .superseded_ns = superseded_ns,
    .recovery_s = 10};
