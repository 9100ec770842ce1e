/*
 * A Redis Cluster with these nodes: two masters between which the slot of all keys migrates, and a replica of
 * each, which can take over. A third master only knows the others.
 *
 * There is one true state: which master has the slot, where it migrates to, and where each key is. Each node
 * has its own view of it, which may be old. It replies ASK, MOVED or CLUSTERDOWN by its view, and CLUSTER
 * SLOTS reports the view. Keys move as MIGRATE moves them, in an event loop iteration of the source. The
 * source deletes them and so invalidates them there. A key that does not exist is created at the target while
 * the slot migrates. The writer follows the keys. It splits a transaction into the changes on each node.
 *
 * A node that takes over has all data of its master. It gets and invalidates the data only at that moment,
 * which is the worst case of replication.
 */
#include "simulation/cluster.h"

#include "simulation/events.h"
#include "simulation/random.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <assert.h>
#include <stdio.h>

enum { SLOT = 3553, SLOTS = 16384, PORT = 6379, NOBODY = -1, WRITES = 4096 };

/* The nodes: two pairs of a master and a replica, in either order, and one that has other slots. */
enum { PAIRED = 4, BYSTANDER = PAIRED, NODES };

static const uint64_t TIMEOUT_NS =
    2000 * (uint64_t)MS; /* of a node, at least, until its replica takes over */
static const uint64_t RESTARTED_NS = 2000 * (uint64_t)MS; /* a node that starts waits for the others' word */
static const uint64_t FOLLOWED_NS =
    3100 * (uint64_t)MS; /* the lease: a master that has learned that it is none says so with PONG */

/* A part of a change: one object, as far as this key of Redis has it. */
struct part {
    int name, object;
    int64_t value;
};

static struct catalogue truth;
static int place[NAMES_COUNT];   /* the node that has the key */
static int owner, target;        /* of the slot, and of its migration */
static uint64_t owned_ns;        /* since when the owner has had it; 0: from the beginning */
static uint64_t owned_before_ns; /* since when the one before had it */
static unsigned moves;           /* keys to be moved in the next turn of the owner */
static struct part writes[WRITES];
static size_t write_count;
static uint64_t changed_ns;
static unsigned takeovers, migrations;

/* When the last migrations have ended. After so many within as many seconds the process pauses. */
enum { MIGRATIONS = 4 };
static uint64_t ended_ns[MIGRATIONS];
static uint64_t pause_ms; /* at most, between two moves of keys; another one for each migration */
/* When takeovers may have been unknown to a node, or to the process: now or last, and before. */
enum { UNKNOWNS = 256 };
static struct unknown {
    uint64_t since_ns, until_ns;
} unknown, unknowns[UNKNOWNS];
static unsigned unknown_count;
static bool stays;           /* the slot does not migrate */
static uint64_t rest_ns;     /* how long the slot stays before it migrates again */
static bool names_announced; /* cluster-preferred-endpoint-type hostname */

static struct node {
    struct redis *redis;
    bool unnamed;       /* has no host name */
    bool follows, down; /* is a replica; does not run */
    uint64_t stale_until_ns, unsure_until_ns;

    /* Its view. */
    int owner, asks; /* the node that has the slot, and where it asks for what it has not */
    bool is_target, says_master;
    unsigned takeovers;  /* that it has heard of */
    uint64_t learned_ns; /* when it last heard of anything */
} nodes[NODES];

static struct node *node_of(const struct redis *r)
{
    struct node *n = nodes;
    while (n->redis != r)
        n++;
    return n;
}

static int peer_of(int node)
{
    return node ^ 1;
}

/* The master of the pair that this node is not of. */
static int master_beside(int node)
{
    int first = node < 2 ? 2 : 0;
    return nodes[first].follows ? peer_of(first) : first;
}

static bool is_able(int node)
{
    const struct redis *r = nodes[node].redis;
    return !nodes[node].down && r->listener.state == NET_LISTENS && r->hung_until_ns <= now_ns() &&
           nodes[node].stale_until_ns <= now_ns();
}

static bool is_whole(void)
{
    return !nodes[owner].redis->catalogue.lost;
}

/* --- views --- */

/* What the node has said until now may be believed for the lease. */
static void forget_unknown(struct node *n)
{
    if (n->takeovers != takeovers)
        unknown.until_ns = now_ns() + FOLLOWED_NS;
    n->takeovers = takeovers;
}

/* A node learns all at once. One that hangs does so when it continues, and perhaps after it has executed
 * some. */
static void on_learns(void *arg, uint64_t number)
{
    struct node *n = arg;
    int self = (int)(n - nodes);
    uint64_t hung_ns =
        n->redis->hung_until_ns > n->stale_until_ns ? n->redis->hung_until_ns : n->stale_until_ns;
    (void)number;
    if (hung_ns > now_ns()) {
        events_add(hung_ns + random_duration(STREAM_SERVER, 100 * (uint64_t)MS), on_learns, n, 0);
        return;
    }
    if (n->owner != owner)
        TRACE(n->redis->name, "learns that %s has the slot", nodes[owner].redis->name);
    n->owner = owner;
    n->asks = self == owner ? target : NOBODY;
    n->is_target = self == target;
    n->says_master = !n->follows;
    n->unsure_until_ns = now_ns();
    forget_unknown(n);
    n->learned_ns = now_ns();
}

static void tell(int node, uint64_t most_ms)
{
    events_add_in(random_duration(STREAM_SERVER, most_ms * MS), on_learns, &nodes[node], 0);
}

/* The first knows it, the second is told next, the others by gossip. */
static void tell_all(int first, int second)
{
    on_learns(&nodes[first], 0);
    tell(second, 50);
    for (int i = 0; i < NODES; i++)
        if (i != first && i != second)
            tell(i, 1500);
}

static bool has_converged(void)
{
    for (const struct node *n = nodes; n < nodes + NODES; n++)
        if (!n->down && (n->owner != owner || n->says_master == n->follows))
            return false;
    return nodes[owner].asks == target;
}

/* --- keys --- */

/* What the key of this name is of both values, of the new one; the rest of the old one. */
static int64_t merge(int name, int64_t old, int64_t value)
{
    if (name == NAME_API_KEYS)
        return key_value(key_is_member(value), key_info(old));
    if (name == NAME_API_KEY_INFO)
        return key_value(key_is_member(old), key_info(value));
    return value;
}

/* The objects that are in the key of this name. */
static void find_objects(int name, int *first, int *count)
{
    *first = name < OBJECT_KEY ? name : OBJECT_KEY;
    *count = name < OBJECT_KEY ? 1 : KEYS;
}

static bool has_key(const struct catalogue *c, int name)
{
    int first = 0;
    int count = 0;
    find_objects(name, &first, &count);
    for (int object = first; object < first + count; object++)
        if (merge(name, 0, c->value[object]) != 0)
            return true;
    return false;
}

/* The last takeover, to a node or to the process. */
static bool may_be_unknown(void)
{
    for (const struct node *n = nodes; n < nodes + NODES; n++)
        if (!n->down && n->takeovers != takeovers)
            return true;
    return now_ns() < unknown.until_ns;
}

/* --- what a node says --- */

void cluster_announce_names(void)
{
    names_announced = true;
}

void cluster_rest(void)
{
    rest_ns = SECOND;
}

void cluster_stay(void)
{
    stays = true;
}

void cluster_remove_name(int node)
{
    TRACE("cluster", "%s has no host name any more", nodes[node].redis->name);
    nodes[node].unnamed = true;
}

/* The preferred endpoint; borrowed until the next call. */
static const char *host_of(int node)
{
    static char host[32];
    if (names_announced && nodes[node].unnamed)
        return "?";
    if (names_announced)
        (void)snprintf(host, sizeof host, "node%d.test", node);
    else
        (void)snprintf(host, sizeof host, "10.0.0.%d", nodes[node].redis->listener.address.host);
    return host;
}

static const char *refuses(const struct redis *r, const struct redis_client *c, int name)
{
    static char error[64];
    const struct node *n = node_of(r);
    int self = (int)(n - nodes);
    bool is_owner = n->owner == self;
    if (n->unsure_until_ns > now_ns())
        return "CLUSTERDOWN The cluster is down";
    if (n->owner == NOBODY)
        return "CLUSTERDOWN Hash slot not served";
    bool is_here = !r->catalogue.lost && name >= 0 && has_key(&r->catalogue, name);
    if ((is_owner && (n->asks == NOBODY || is_here)) || (n->is_target && c->asking))
        return NULL;
    int other = is_owner ? n->asks : n->owner;
    (void)snprintf(error, sizeof error, "%s %d %s:%d", is_owner ? "ASK" : "MOVED", SLOT, host_of(other),
                   PORT);
    return error;
}

static void put_node(struct bytes *out, int node)
{
    const char *host = host_of(node);
    bytes_printf(out, "*4\r\n$%zu\r\n%s\r\n:%d\r\n$2\r\nn%d\r\n", strlen(host), host, PORT, node);
    if (names_announced)
        bytes_printf(out, "%%1\r\n$2\r\nip\r\n$8\r\n10.0.0.%d\r\n", nodes[node].redis->listener.address.host);
    else
        bytes_printf(out, "*0\r\n");
}

/* With the replica, if it runs. */
static void put_range(struct bytes *out, int first, int last, int master)
{
    bool replica = master < PAIRED && !nodes[peer_of(master)].down;
    bytes_printf(out, "*%d\r\n:%d\r\n:%d\r\n", replica ? 4 : 3, first, last);
    put_node(out, master);
    if (replica)
        put_node(out, peer_of(master));
}

static void write_slots(const struct redis *r, struct bytes *out)
{
    const struct node *n = node_of(r);
    int other = n->owner == NOBODY ? NOBODY : master_beside(n->owner);
    bytes_printf(out, "*%d\r\n", n->owner == NOBODY ? 1 : 3);
    put_range(out, 0, SLOT - 1, BYSTANDER);
    if (n->owner == NOBODY)
        return;
    put_range(out, SLOT, SLOT, n->owner);
    put_range(out, SLOT + 1, SLOTS - 1, other);
}

static const struct redis *master_of(const struct redis *r)
{
    const struct node *n = node_of(r);
    return n->says_master ? NULL : nodes[peer_of((int)(n - nodes))].redis;
}

/* --- places --- */

/* What does not exist is made at the target. */
static int place_of(int name)
{
    if (place[name] != NOBODY)
        return place[name];
    return target == NOBODY ? owner : target;
}

static void set_part(int node, const struct part *p)
{
    struct redis *r = nodes[node].redis;
    redis_set(r, p->object, merge(p->name, r->catalogue.value[p->object], p->value), changed_ns);
}

static void begin_change(void)
{
    changed_ns = now_ns() > changed_ns ? now_ns() : changed_ns + 1;
}

/* MIGRATE: the target gets it, and the source deletes it. */
static void move_key(int name, int from, int to)
{
    int first = 0;
    int count = 0;
    TRACE("cluster", "%s moves from %s to %s", catalogue_name(name), nodes[from].redis->name,
          nodes[to].redis->name);
    begin_change();
    find_objects(name, &first, &count);
    for (int object = first; object < first + count; object++) {
        set_part(to, &(struct part){name, object, nodes[from].redis->catalogue.value[object]});
        set_part(from, &(struct part){name, object, 0});
    }
    place[name] = to;
    redis_wake(nodes[to].redis);
}

static void move_keys(void)
{
    unsigned from = random_below(STREAM_SERVER, NAMES_COUNT);
    bool possible = target != NOBODY && is_able(target) && is_whole();
    for (unsigned i = 0; i < NAMES_COUNT && moves > 0 && possible; i++) {
        int name = (int)((from + i) % NAMES_COUNT);
        if (place[name] != owner)
            continue;
        move_key(name, owner, target);
        moves--;
    }
    moves = 0;
}

/* --- the writer --- */

static void add_part(int name, int object, int64_t value)
{
    assert(write_count < WRITES);
    writes[write_count++] = (struct part){name, object, value};
}

static void wake_next(void)
{
    if (write_count > 0)
        redis_wake(nodes[place_of(writes[0].name)].redis);
}

static void write_change(const struct change *c)
{
    for (size_t i = 0; i < c->count; i++) {
        int object = c->set[i].object;
        if (object < OBJECT_KEY) {
            add_part(object, object, c->set[i].value);
            continue;
        }
        add_part(NAME_API_KEY_INFO, object, c->set[i].value);
        add_part(NAME_API_KEYS, object, c->set[i].value);
    }
    wake_next();
}

static bool is_busy(void)
{
    return write_count > 0;
}

static void write_part(int node, const struct part *p)
{
    set_part(node, p);
    catalogue_set(&truth, p->object, merge(p->name, truth.value[p->object], p->value), changed_ns);
    place[p->name] = has_key(&nodes[node].redis->catalogue, p->name) ? node : NOBODY;
}

static bool has_work(const struct redis *r)
{
    const struct node *n = node_of(r);
    int self = (int)(n - nodes);
    return !n->down &&
           ((write_count > 0 && place_of(writes[0].name) == self) || (moves > 0 && owner == self));
}

static void work(struct redis *r)
{
    size_t done = 0;
    int self = (int)(node_of(r) - nodes);
    if (nodes[self].down)
        return;
    begin_change();
    for (; done < write_count && place_of(writes[done].name) == self; done++)
        write_part(self, &writes[done]);
    memmove(writes, writes + done, (write_count - done) * sizeof writes[0]);
    write_count -= done;
    if (self == owner)
        move_keys();
    wake_next();
}

/* --- migration --- */

static bool has_moved(void)
{
    for (int name = 0; name < NAMES_COUNT; name++)
        if (place[name] == owner)
            return false;
    return true;
}

static void begin_migration(void)
{
    if (!has_converged() || !is_able(owner) || !is_whole() || now_ns() < owned_ns + rest_ns)
        return;
    int to = master_beside(owner);
    if (!is_able(to))
        return;
    target = to;
    pause_ms = 100U << 2 * random_below(STREAM_SERVER, 4);
    TRACE("cluster", "the slot migrates from %s to %s", nodes[owner].redis->name, nodes[to].redis->name);
    nodes[to].is_target = true; /* first, as redis-cli does */
    nodes[owner].asks = to;
}

/* A slot that moves three times within a request's deadline may be too fast for the process. */
static void set_owner(int node)
{
    if (owned_before_ns != 0 && now_ns() - owned_before_ns < scenario.settings.request_timeout_ms * MS)
        scenario_delay_answers(0);
    owned_before_ns = owned_ns;
    owned_ns = now_ns();
    owner = node;
}

static void end_migration(void)
{
    int source = owner;
    TRACE("cluster", "%s has the slot", nodes[target].redis->name);
    set_owner(target);
    target = NOBODY;
    scenario.master = nodes[owner].redis;
    if (migrations >= MIGRATIONS && now_ns() - ended_ns[migrations % MIGRATIONS] < MIGRATIONS * SECOND)
        scenario_disturb(SECOND);
    ended_ns[migrations++ % MIGRATIONS] = now_ns();
    tell_all(owner, source);
}

static void on_migration(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if ((scenario.quiet || stays) && target == NOBODY)
        return;
    if (target == NOBODY) {
        begin_migration();
    } else if (!has_moved()) {
        moves = 1 + random_below(STREAM_SERVER, 6);
        redis_wake(nodes[owner].redis);
    } else if (is_able(owner) && is_able(target) && write_count == 0) {
        end_migration();
    }
    uint64_t most_ms = target == NOBODY ? 10000 : scenario.quiet ? 100 : pause_ms;
    events_add_in(random_duration(STREAM_SERVER, most_ms * MS) + MS, on_migration, NULL, 0);
}

/* --- faults --- */

/* A source that is alone goes on naming the former target, which knows of no migration any more. */
static void replace_target(int node)
{
    const uint64_t alone_until_ns = nodes[owner].stale_until_ns;
    target = node;
    if (alone_until_ns > now_ns())
        scenario_disturb(alone_until_ns - now_ns());
}

/* The replica has what its master has, and the slot's state with it. */
static void take_over(int node)
{
    int former = peer_of(node);
    struct redis *r = nodes[node].redis;
    begin_change();
    TRACE("cluster", "%s takes over from %s", r->name, nodes[former].redis->name);
    for (int object = 0; object < OBJECTS; object++)
        if (r->catalogue.value[object] != nodes[former].redis->catalogue.value[object])
            redis_set(r, object, nodes[former].redis->catalogue.value[object], changed_ns);
    redis_wake(r);
    for (int name = 0; name < NAMES_COUNT; name++)
        place[name] = place[name] == former ? node : place[name];
    nodes[node].follows = false;
    nodes[former].follows = true;
    if (owner == former)
        set_owner(node);
    if (target == former)
        replace_target(node);
    scenario.master = nodes[owner].redis;
    if (!may_be_unknown()) {
        unknowns[unknown_count++ % UNKNOWNS] = unknown;
        unknown.since_ns = now_ns();
    }
    takeovers++;
    tell_all(node, former);
    tell(owner, 50);
    wake_next();
}

void cluster_take_over(int node)
{
    scenario_disturb(0);
    take_over(node);
}

void cluster_refer(int node, int other)
{
    nodes[node].stale_until_ns = now_ns() + 90 * SECOND;
    nodes[node].owner = other;
}

unsigned cluster_migrations(void)
{
    return migrations;
}

static bool may_take_over(int node)
{
    return node < PAIRED && nodes[node].follows && is_able(node) && is_whole();
}

static void on_timeout(void *arg, uint64_t number)
{
    int node = peer_of((int)((struct node *)arg - nodes));
    (void)number;
    if (scenario.quiet)
        return;
    scenario_disturb(2 * SECOND);
    if (may_take_over(node))
        take_over(node);
}

/* It begins with the view that it had. */
static void on_starts(void *arg, uint64_t number)
{
    struct node *n = arg;
    (void)number;
    if (!n->down)
        return;
    TRACE("cluster", "%s starts again", n->redis->name);
    scenario_disturb(RESTARTED_NS);
    n->down = false;
    n->redis->listener.state = NET_LISTENS;
    n->unsure_until_ns = now_ns() + RESTARTED_NS;
    n->takeovers = takeovers; /* until it learns it says nothing */
    tell((int)(n - nodes), RESTARTED_NS / MS);
    redis_wake(n->redis);
    wake_next();
}

static void kill_node(struct node *n)
{
    uint64_t timeout_ns = TIMEOUT_NS + scenario_a_while(3000);
    if (n->down || !is_whole() || n->redis->listener.state != NET_LISTENS)
        return;
    TRACE("cluster", "%s is killed", n->redis->name);
    scenario_disturb(timeout_ns);
    forget_unknown(n);
    n->down = true;
    n->stale_until_ns = 0;
    n->redis->hung_until_ns = 0; /* it is a new process that starts again */
    redis_restart(n->redis, true);
    n->redis->listener.state = NET_REFUSES;
    if (!n->follows)
        events_add_in(timeout_ns, on_timeout, n, 0);
    events_add_in(timeout_ns + SECOND + scenario_a_while(10000), on_starts, n, 0);
}

static void stall_node(struct node *n)
{
    uint64_t timeout_ns = TIMEOUT_NS + scenario_a_while(3000);
    if (n->down || !is_whole())
        return;
    scenario_disturb(timeout_ns + 6 * SECOND);
    redis_hang(n->redis, timeout_ns + SECOND / 10 + scenario_a_while(6000));
    if (!n->follows)
        events_add_in(timeout_ns, on_timeout, n, 0);
}

static void make_stale(struct node *n)
{
    uint64_t duration_ns = scenario_a_while(10000);
    int self = (int)(n - nodes);
    if (self == owner || self == target || n->down)
        return;
    n->stale_until_ns = now_ns() + duration_ns;
    n->owner = scenario_choose(2) == 0 ? NOBODY : (int)scenario_choose(PAIRED);
    n->owner = n->owner == self ? NOBODY : n->owner;
    TRACE("cluster", "the view of %s is old for %u ms: %d has the slot", n->redis->name,
          (unsigned)(duration_ns / MS), n->owner);
    scenario_disturb(duration_ns);
    on_learns(n, 0);
}

/* The others do not reach this master, clients do: it goes on, with what it knows, behind the takeover too.
 */
static void isolate_node(struct node *n)
{
    uint64_t timeout_ns = TIMEOUT_NS + scenario_a_while(3000);
    int self = (int)(n - nodes);
    if (self >= PAIRED || n->follows || self == target || !is_able(self) || !is_whole())
        return;
    n->stale_until_ns = now_ns() + timeout_ns + scenario_choose(30000) * (uint64_t)MS;
    TRACE("cluster", "%s is alone for %u ms", n->redis->name,
          (unsigned)((n->stale_until_ns - now_ns()) / MS));
    scenario_disturb(timeout_ns + 6 * SECOND);
    events_add_in(timeout_ns, on_timeout, n, 0);
}

static void make_unsure(struct node *n)
{
    uint64_t duration_ns = scenario_a_while(5000);
    n->unsure_until_ns = now_ns() + duration_ns;
    scenario_disturb(duration_ns);
}

static void move(void)
{
    struct node *n = &nodes[scenario_choose(3) == 0 ? (int)scenario_choose(NODES) : owner];
    int self = (int)(n - nodes);
    switch (scenario_choose(8)) {
    case 0:
        kill_node(n);
        break;
    case 1:
        stall_node(n);
        break;
    case 2:
        make_stale(&nodes[scenario_choose(NODES)]);
        break;
    case 3:
        make_unsure(n);
        break;
    case 4:
        isolate_node(n);
        break;
    case 5:
        scenario_slow(target != NOBODY ? nodes[target].redis : n->redis);
        break;
    default: /* by order */
        if (self < PAIRED && !n->follows && is_able(self) && may_take_over(peer_of(self))) {
            scenario_disturb(0);
            take_over(peer_of(self));
        }
        break;
    }
}

/* --- the topology --- */

static bool may_lose(void)
{
    return target == NOBODY && has_converged() && is_able(owner);
}

/* What the former master says until everybody has heard of the takeover was true until then. */
static uint64_t bound(uint64_t since_ns)
{
    if (since_ns > unknown.since_ns && (may_be_unknown() || since_ns <= unknown.until_ns))
        return unknown.since_ns;
    for (const struct unknown *u = unknowns; u < unknowns + UNKNOWNS; u++)
        if (u->since_ns < since_ns && since_ns <= u->until_ns)
            return u->since_ns;
    return since_ns;
}

/* Since when all others have known that another node has the slot; 0: one does not. */
static uint64_t superseded_ns(const struct redis *r)
{
    const struct node *self = node_of(r);
    uint64_t since_ns = 1;
    for (const struct node *n = nodes; n < nodes + NODES; n++) {
        if (n == self ? self == &nodes[owner] : !n->down && n->owner != owner)
            return 0;
        if (n != self && n->learned_ns > since_ns)
            since_ns = n->learned_ns;
    }
    return since_ns;
}

/* Not while a node is away, or has an old view for longer than gossip takes. */
static uint64_t owned_since_ns(const struct redis *r)
{
    for (const struct node *n = nodes; n < nodes + NODES; n++)
        if (n->down || n->stale_until_ns > now_ns())
            return 0;
    return r == nodes[owner].redis ? owned_ns : 0;
}

/* Keys are cached where the key of their infos exists (docs/design.md). */
static void write_info(void)
{
    struct change c = {0};
    catalogue_expires[INFOS - 1] = INT64_MAX;
    change_add(&c, OBJECT_KEY, key_value(true, INFOS - 1));
    write_change(&c);
}

static const struct redis_cluster hooks = {.refuses = refuses,
                                           .write_slots = write_slots,
                                           .master_of = master_of,
                                           .has_work = has_work,
                                           .work = work};

static void begin(void)
{
    static const char *const names[NODES] = {"node0", "node1", "node2", "node3", "node4"};
    static const char *const hosts[NODES] = {"node0.test", "node1.test", "node2.test", "node3.test",
                                             "node4.test"};
    owner = 0;
    owned_ns = owned_before_ns = 0;
    target = NOBODY;
    moves = 0;
    write_count = 0;
    changed_ns = 0;
    unknown = (struct unknown){0};
    memset(unknowns, 0, sizeof unknowns);
    unknown_count = 0;
    stays = names_announced = false;
    rest_ns = 0;
    takeovers = migrations = 0;
    truth = scenario.master->catalogue;
    for (int i = 0; i < NODES; i++) {
        uint8_t host = (uint8_t)(i + 1);
        struct redis *r = i == 0 ? scenario.master : scenario_add_server(names[i], host);
        r->name = names[i];
        r->cluster = &hooks;
        nodes[i] =
            (struct node){.redis = r, .follows = i < PAIRED && i % 2 == 1, .owner = owner, .asks = NOBODY};
        nodes[i].says_master = !nodes[i].follows;
        net_set_name(hosts[i], &host, 1);
    }
    for (int name = 0; name < NAMES_COUNT; name++)
        place[name] = has_key(&truth, name) ? owner : NOBODY;
    if (scenario_choose(2) == 0)
        write_info();
    events_add(0, on_migration, NULL, 0);
}

/* A migration goes on until it ends. */
static void quieten(void)
{
    for (int i = 0; i < NODES; i++) {
        on_starts(&nodes[i], 0);
        nodes[i].stale_until_ns = 0;
    }
    for (int i = 0; i < NODES; i++)
        on_learns(&nodes[i], 0);
    write_info();
}

const struct topology topology_cluster = {
    .name = "cluster",
    .url = "redis+cluster://node0.test,node2.test,node4.test",
    .begin = begin,
    .move = move,
    .quieten = quieten,
    .recovery_s = 4,
    .truth = &truth,
    .write = write_change,
    .is_busy = is_busy,
    .may_lose = may_lose,
    .bound = bound,
    .owned_since_ns = owned_since_ns,
    .superseded_ns = superseded_ns,
};
