/* Streams, links and roles, and the topology of a master with two replicas; see replica.h. */
#include "simulation/replica.h"

#include "simulation/events.h"
#include "simulation/oracle.h"
#include "simulation/random.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <stdio.h>

enum { PING_S = 10 };

/* How long, at most, a full resync takes until the replica drops what it has, and then until it has all. */
static const uint64_t SYNC_NS = 3 * UINT64_C(1000000000), LOADING_NS = UINT64_C(1000000000);

static unsigned last_id;
static bool names_announced; /* replica-announce-ip, and replicaof, have names */

static struct redis *end_of_servers(void)
{
    return scenario.server + scenario.servers;
}

/* --- the stream --- */

static void on_item(void *arg, uint64_t number);

static void send_next(struct redis *r)
{
    struct replication *p = &r->replication;
    uint64_t due_ns = now_ns() + US + random_duration(STREAM_SERVER, p->delay_ns + MS);
    p->last_due_ns = due_ns > p->last_due_ns ? due_ns : p->last_due_ns;
    events_add(p->last_due_ns, on_item, r, p->number);
}

void replica_feed(struct redis *r, const struct change *c)
{
    struct replication *p = &r->replication;
    p->backlog[++p->offset % BACKLOG] = *c;
    for (struct redis *s = scenario.server; s < end_of_servers(); s++)
        if (s->replication.upstream == r && s->replication.link == LINK_UP)
            send_next(s);
}

static void break_link(struct redis *r)
{
    struct replication *p = &r->replication;
    if (p->upstream == NULL)
        return;
    if (p->link != LINK_DOWN) {
        TRACE(r->name, "has lost its link to %s", p->upstream->name);
        scenario_disturb(0); /* also where it was too far behind, long after it was made slow */
    }
    p->number++;
    p->link = LINK_DOWN;
    p->silent = false;
    r->pending_count = 0; /* what has arrived and was not executed is sent again */
}

/* Those below it have to learn of its new stream. */
static void break_links_to(const struct redis *r)
{
    for (struct redis *s = scenario.server; s < end_of_servers(); s++)
        if (s->replication.upstream == r)
            break_link(s);
}

/* Whether the backlog of the upstream has what follows `offset`. */
static bool reaches(const struct replication *upstream, int64_t offset)
{
    return offset >= upstream->backlog_from && offset <= upstream->offset &&
           upstream->offset - offset < BACKLOG;
}

static void on_item(void *arg, uint64_t number)
{
    struct redis *r = arg;
    struct replication *p = &r->replication;
    if (p->number != number || p->silent || p->link != LINK_UP)
        return;
    if (!reaches(&p->upstream->replication, p->next - 1) ||
        !redis_submit(r, &p->upstream->replication.backlog[p->next % BACKLOG])) {
        break_link(r);
        return;
    }
    p->next++;
    p->io_ns = now_ns();
}

/* --- the link --- */

static void open_link(struct redis *r)
{
    struct replication *p = &r->replication;
    p->link = LINK_UP;
    p->next = p->offset + 1;
    p->io_ns = p->last_due_ns = now_ns();
    TRACE(r->name, "is linked to %s at %lld of %lld", p->upstream->name, (long long)p->offset,
          (long long)p->upstream->replication.offset);
    for (int64_t n = p->offset; n < p->upstream->replication.offset; n++)
        send_next(r);
}

static void on_loaded(void *arg, uint64_t number)
{
    struct redis *r = arg;
    struct replication *p = &r->replication;
    if (p->number != number)
        return;
    if (reaches(&p->upstream->replication, p->offset))
        open_link(r);
    else
        break_link(r);
}

static bool can_reach(const struct redis *r)
{
    const struct redis *u = r->replication.upstream;
    bool linked = u->replication.upstream == NULL || u->replication.link == LINK_UP;
    return linked && u->hung_until_ns <= now_ns() && u->listener.state == NET_LISTENS &&
           r->hung_until_ns <= now_ns() && r->replication.apart_until_ns <= now_ns();
}

static void on_synced(void *arg, uint64_t number)
{
    struct redis *r = arg;
    const struct change replace = {.kind = CHANGE_REPLACE};
    if (r->replication.number == number && !redis_submit(r, &replace))
        break_link(r);
}

/* Everything is dropped and loaded; until it is, nothing can be read. */
const struct catalogue *replica_load(struct redis *r)
{
    struct replication *p = &r->replication;
    uint64_t loading_ns = random_duration(STREAM_SERVER, LOADING_NS);
    if (p->link != LINK_SYNC || !can_reach(r)) {
        p->link = LINK_DOWN;
        return NULL;
    }
    break_links_to(r);
    TRACE(r->name, "begins anew with the data of %s", p->upstream->name);
    p->id = p->upstream->replication.id;
    p->former_id = 0;
    p->offset = p->backlog_from = p->upstream->replication.offset;
    p->loading_until_ns = now_ns() + loading_ns;
    events_add_in(loading_ns, on_loaded, r, p->number);
    return &p->upstream->catalogue;
}

static void attempt(struct redis *r)
{
    struct replication *p = &r->replication;
    const struct replication *u = &p->upstream->replication;
    bool same = p->id == u->id || (p->id == u->former_id && p->offset <= u->former_offset);
    if (!can_reach(r))
        return;
    p->number++;
    if (!same || !reaches(u, p->offset)) {
        p->link = LINK_SYNC;
        p->io_ns = now_ns();
        events_add_in(random_duration(STREAM_SERVER, SYNC_NS), on_synced, r, p->number);
        return;
    }
    if (p->id != u->id)
        break_links_to(r);
    p->id = u->id;
    p->former_id = u->former_id;
    p->former_offset = u->former_offset;
    open_link(r);
}

static void ping_replicas(struct redis *r)
{
    const struct change ping = {.kind = CHANGE_PING};
    bool has_replicas = false;
    for (struct redis *s = scenario.server; s < end_of_servers(); s++)
        has_replicas = has_replicas || s->replication.upstream == r;
    if (has_replicas)
        replica_feed(r, &ping);
}

/* Once a second, as Redis does. */
static void on_second(void *arg, uint64_t number)
{
    struct redis *r = arg;
    struct replication *p = &r->replication;
    bool runs = r->hung_until_ns <= now_ns();
    if (runs && p->upstream == NULL && number % PING_S == 0)
        ping_replicas(r);
    if (runs && p->upstream != NULL && p->link == LINK_DOWN)
        attempt(r);
    else if (runs && p->link == LINK_UP && now_ns() - p->io_ns > p->timeout_s * SECOND)
        break_link(r);
    events_add_in(SECOND, on_second, r, number + 1);
}

static void start_ticking(struct redis *r)
{
    if (!r->replication.ticks)
        events_add_in(SECOND, on_second, r, 1);
    r->replication.ticks = true;
}

/* --- roles --- */

void replica_begin(struct redis *r)
{
    names_announced = false;
    last_id = r == scenario.server ? 1 : last_id + 1;
    r->replication.id = last_id;
    r->replication.former_id = r->replication.down_conn = 0;
    r->replication.down_said_ns = 0;
    r->replication.offset = r->replication.former_offset = r->replication.backlog_from = 1000;
    r->replication.upstream = NULL;
    r->replication.link = LINK_DOWN;
    r->replication.number = 0;
    r->replication.since_ns = 0;
    r->replication.silent = r->replication.has_lied = r->replication.ticks = false;
    r->replication.delay_ns = 5 * (uint64_t)MS;
    r->replication.last_due_ns = r->replication.apart_until_ns = r->replication.loading_until_ns = 0;
    r->replication.serves_stale = true;
    r->replication.timeout_s = 60;
    r->replication.lie = LIE_NONE;
}

void replica_join(struct redis *r, struct redis *upstream)
{
    struct replication *p = &r->replication;
    p->upstream = upstream;
    p->id = upstream->replication.id;
    p->serves_stale = scenario_choose(4) != 0;
    p->timeout_s = scenario_choose(2) == 0 ? 20 : 60;
    p->delay_ns = scenario_a_while(500);
    for (int object = 0; object < OBJECTS; object++)
        catalogue_set(&r->catalogue, object, upstream->catalogue.value[object], 0);
    open_link(r);
    start_ticking(r);
    start_ticking(upstream);
}

void replica_follow(struct redis *r, struct redis *upstream)
{
    TRACE(r->name, "becomes a replica of %s", upstream->name);
    break_link(r);
    r->pending_count = 0;
    r->replication.number++;
    r->replication.link = LINK_DOWN;
    r->replication.upstream = upstream;
    r->replication.since_ns = now_ns();
}

void replica_promote(struct redis *r)
{
    struct replication *p = &r->replication;
    TRACE(r->name, "becomes a master");
    break_link(r);
    p->upstream = NULL;
    p->since_ns = now_ns();
    p->former_id = p->id;
    p->former_offset = p->offset;
    p->id = ++last_id;
    p->loading_until_ns = 0;
    break_links_to(r);
}

void replica_break(struct redis *r, bool forgets)
{
    break_link(r);
    if (forgets && r->replication.upstream != NULL)
        r->replication.id = ++last_id;
}

void replica_silence(struct redis *r)
{
    TRACE(r->name, "hears nothing");
    r->replication.silent = r->replication.link == LINK_UP;
}

void replica_separate(struct redis *r, uint64_t until_ns)
{
    break_link(r);
    r->replication.apart_until_ns = until_ns;
}

void replica_heal(struct redis *r)
{
    struct replication *p = &r->replication;
    p->lie = LIE_NONE;
    p->delay_ns = 5 * (uint64_t)MS;
    p->apart_until_ns = 0;
    if (p->link != LINK_SYNC)
        break_link(r);
}

const struct redis *replica_root(const struct redis *r)
{
    while (r->replication.upstream != NULL)
        r = r->replication.upstream;
    return r;
}

/* --- replies --- */

const char *replica_host(const struct redis *r, bool by_name)
{
    static char host[16];
    if (by_name)
        (void)snprintf(host, sizeof host, "data%d.test", (int)(r - scenario.server));
    else
        (void)snprintf(host, sizeof host, "10.0.0.%d", r->listener.address.host);
    return host;
}

void replica_announce_names(void)
{
    names_announced = true;
}

static long long seconds_since(uint64_t ns)
{
    return (long long)(now_ns() / SECOND) - (long long)(ns / SECOND);
}

/* A master that lies says that it is its own replica. */
static void put_replica(const struct redis *r, struct bytes *out)
{
    const struct replication *p = &r->replication;
    const struct redis *u = p->upstream == NULL ? r : p->upstream;
    bool up = p->upstream == NULL || p->link == LINK_UP;
    long long heard_s = p->upstream == NULL ? 0 : seconds_since(p->io_ns);
    bytes_printf(out,
                 "role:slave\r\nmaster_host:%s\r\nmaster_port:%d\r\nmaster_link_status:%s\r\n"
                 "master_last_io_seconds_ago:%lld\r\nmaster_sync_in_progress:%d\r\n"
                 "slave_repl_offset:%lld\r\n",
                 replica_host(u, names_announced), u->listener.address.port, up ? "up" : "down",
                 up ? heard_s : -1LL, p->upstream != NULL && p->link == LINK_SYNC, (long long)p->offset);
}

/* A master that has become a replica is left for that, whatever its link: within two heartbeats. */
static const uint64_t DEMOTION_NS = 3 * UINT64_C(1000000000);

void replica_put_info(struct redis *r, unsigned conn, struct bytes *out)
{
    struct replication *p = &r->replication;
    p->has_lied = p->has_lied || p->lie != LIE_NONE;
    bool is_down = !p->has_lied && p->upstream != NULL && p->link != LINK_UP;
    if (is_down && p->since_ns + DEMOTION_NS < now_ns()) {
        p->down_conn = conn;
        p->down_said_ns = r->turn_ns;
    }
    TRACE(r->name, "link %d, last heard %lld s ago, at %lld of stream %u", p->link, seconds_since(p->io_ns),
          (long long)p->offset, p->id);
    bytes_printf(out, "# Replication\r\n");
    if (p->lie == LIE_NONSENSE)
        bytes_printf(out, "role:slaves\r\n");
    else if (p->lie == LIE_MASTER || (p->lie == LIE_NONE && p->upstream == NULL))
        bytes_printf(out, "role:master\r\n");
    else
        put_replica(r, out);
    bytes_printf(out, "master_replid:%040u\r\n", p->id);
    if (p->upstream != NULL && p->link == LINK_UP)
        oracle_stated(&(struct oracle_statement){conn, r->turn_ns, p->io_ns});
}

const char *replica_error(const struct redis *r)
{
    const struct replication *p = &r->replication;
    if (p->loading_until_ns > now_ns())
        return "LOADING Redis is loading the dataset in memory";
    if (p->upstream != NULL && p->link != LINK_UP && !p->serves_stale)
        return "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    return NULL;
}

/* --- the topology: a master and its two replicas, which the process reads --- */

static struct redis *any_replica(void)
{
    return &scenario.server[1 + scenario_choose((unsigned)scenario.servers - 1)];
}

static void begin_replicas(void)
{
    static const uint8_t hosts[][2] = {{3, 2}, {2, 3}};
    struct redis *second = scenario_add_server("replica", 2);
    struct redis *third = scenario_add_server("another", 3);
    replica_join(second, scenario.master);
    replica_join(third, scenario.master);
    net_set_name("replica.test", hosts[scenario_choose(2)], 1 + scenario_choose(2));
}

/* Its link works again, from the stream's position or from nothing. */
static void on_healed(void *arg, uint64_t number)
{
    struct redis *r = arg;
    bool forgets = number != 0;
    if (scenario.quiet) /* it has been healed */
        return;
    scenario_disturb(SYNC_NS);
    r->replication.lie = LIE_NONE;
    r->replication.delay_ns = 5 * (uint64_t)MS;
    replica_break(r, forgets);
}

static void heal_later(struct redis *r, uint64_t duration_ns)
{
    scenario_disturb(duration_ns);
    events_add_in(duration_ns, on_healed, r, scenario_choose(4) == 0);
}

static void on_demotion(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    if (scenario.quiet || scenario.master == r || r->replication.upstream != NULL)
        return;
    scenario_disturb(10 * SECOND);
    replica_follow(r, scenario.master);
}

/* The second server becomes the master, which the third follows; the first one goes on alone, and comes back
 * as a replica. */
static void swap_masters(void)
{
    struct redis *former = scenario.master;
    struct redis *next = former == scenario.server ? &scenario.server[1] : scenario.server;
    uint64_t alone_ns = scenario_a_while(10000);
    if (next->replication.upstream != former)
        return;
    TRACE("scenario", "%s takes the place of %s", next->name, former->name);
    scenario_disturb(alone_ns + 10 * SECOND);
    replica_promote(next);
    scenario_set_master(next);
    for (struct redis *r = scenario.server; r < end_of_servers(); r++)
        if (r->replication.upstream == former)
            replica_follow(r, next);
    events_add_in(alone_ns, on_demotion, former, 0);
}

static void move_replicas(void)
{
    struct redis *r = any_replica();
    uint64_t duration_ns = scenario_a_while(60000);
    switch (scenario_choose(7)) {
    case 0:
        r->replication.delay_ns = scenario_a_while(10000);
        scenario_disturb(r->replication.delay_ns);
        break;
    case 1:
        scenario_disturb(10 * SECOND);
        replica_break(r, scenario_choose(2) == 0);
        break;
    case 2:
    case 3:
        replica_silence(r);
        heal_later(r, duration_ns);
        break;
    case 4:
        replica_separate(r, now_ns() + duration_ns);
        scenario_disturb(duration_ns + 10 * SECOND);
        break;
    case 5:
        r->replication.lie = 1 + scenario_choose(LIES - 1);
        TRACE("scenario", "%s lies about its role (%d)", r->name, r->replication.lie);
        heal_later(r, duration_ns);
        break;
    default:
        swap_masters();
        break;
    }
}

void replica_heal_all(void)
{
    for (struct redis *r = scenario.server; r < end_of_servers(); r++) {
        if (r != scenario.master && r->replication.upstream == NULL && r->sentinel == NULL)
            replica_follow(r, scenario.master);
        replica_heal(r);
    }
}

const struct topology topology_replica = {.name = "replica",
                                          .url = "redis://replica.test",
                                          .begin = begin_replicas,
                                          .move = move_replicas,
                                          .quieten = replica_heal_all,
                                          .recovery_s = 15};
