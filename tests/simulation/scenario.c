/* The writer and the faults; see scenario.h. */
#include "simulation/scenario.h"

#include "simulation/events.h"
#include "simulation/memory.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/settings.h"
#include "simulation/trace.h"

#include <assert.h>
#include <string.h>

struct scenario scenario;

static int64_t planned[OBJECTS]; /* what the writer has written, or is about to */
static int64_t last_version, last_info;

static unsigned pick(unsigned count)
{
    return random_below(STREAM_WRITER, count);
}

/* --- the writer --- */

static void plan(struct change *c, int object, int64_t value)
{
    planned[object] = value;
    change_add(c, object, value);
}

static void submit(const struct change *c)
{
    if (c->count > 0 && scenario.topology->write != NULL)
        scenario.topology->write(c);
    else if (c->count > 0 && !redis_submit(scenario.master, c))
        trace_fail("too many changes wait");
}

static void plan_card(struct change *c, int card, int link)
{
    plan(c, OBJECT_CARD + card, card_value(++last_version, link));
    if (link >= 0)
        plan(c, OBJECT_LINK + link, card + 1);
}

static void change_card(void)
{
    struct change c = {0};
    int card = (int)pick(CARDS);
    if (planned[OBJECT_CARD + card] == 0)
        return;
    plan(&c, OBJECT_CARD + card, card_value(++last_version, card_link(planned[OBJECT_CARD + card])));
    submit(&c);
}

/* Two cards exchange their links, or one takes a link that is free. */
static void move_link(void)
{
    struct change c = {0};
    bool hot = scenario_has(FAULT_hot) && pick(4) != 0;
    int one = (int)pick(hot ? 2 : CARDS);
    int link = hot ? 0 : (int)pick(LINKS);
    int other = (int)planned[OBJECT_LINK + link] - 1;
    int former = card_link(planned[OBJECT_CARD + one]);
    if (planned[OBJECT_CARD + one] == 0 || former == link || one == other)
        return;
    if (other >= 0 && planned[OBJECT_CARD + other] != 0)
        plan_card(&c, other, former);
    else if (former >= 0)
        plan(&c, OBJECT_LINK + former, 0);
    plan_card(&c, one, link);
    submit(&c);
}

static uint64_t index_of(void)
{
    return (uint64_t)planned[OBJECT_INDEX];
}

/* As docs/schema.md orders it, in one transaction or in three commands. */
static void remove_card(void)
{
    struct change c = {0};
    int card = (int)pick(CARDS);
    int link = card_link(planned[OBJECT_CARD + card]);
    bool apart = pick(2) == 0;
    if (planned[OBJECT_CARD + card] == 0)
        return;
    plan(&c, OBJECT_INDEX, (int64_t)(index_of() & ~(UINT64_C(1) << (card + 1))));
    if (apart)
        submit(&c);
    c.count = apart ? 0 : c.count;
    if (link >= 0 && planned[OBJECT_LINK + link] == card + 1)
        plan(&c, OBJECT_LINK + link, 0);
    if (apart)
        submit(&c);
    c.count = apart ? 0 : c.count;
    plan(&c, OBJECT_CARD + card, 0);
    submit(&c);
}

static void add_card(void)
{
    struct change c = {0};
    int card = (int)pick(CARDS);
    int link = (int)pick(LINKS);
    if (planned[OBJECT_CARD + card] != 0)
        return;
    plan_card(&c, card, planned[OBJECT_LINK + link] == 0 ? link : -1);
    plan(&c, OBJECT_INDEX, (int64_t)(index_of() | UINT64_C(1) << (card + 1)));
    submit(&c);
}

static void change_index(void)
{
    struct change c = {0};
    plan(&c, OBJECT_INDEX, (int64_t)(index_of() ^ UINT64_C(2) << pick(CARDS)));
    submit(&c);
}

/* A key that is issued just now may be accepted without its info (docs/design.md): it has not expired. */
static int64_t new_info(bool issued)
{
    int64_t info = ++last_info % (INFOS - 2) + 1;
    bool expires = scenario_has(FAULT_expire) && pick(2) == 0;
    int64_t in_s = (int64_t)pick(20) - 2;
    catalogue_expires[info] = expires ? process_wall_s() + (issued && in_s < 1 ? 1 : in_s) : INT64_MAX;
    return info;
}

/* One key is always there, so that the set is never empty but when it was lost. */
static void change_key(void)
{
    struct change c = {0};
    bool same = scenario_has(FAULT_keys) && pick(4) != 0;
    int object = OBJECT_KEY + 1 + (same ? 0 : (int)pick(KEYS - 1));
    int64_t value = planned[object];
    bool info_too = pick(2) == 0;
    if (!key_is_member(value) || pick(2) == 0) {
        plan(&c, object, key_value(true, info_too ? new_info(!key_is_member(value)) : 0));
    } else { /* revoked: from the set first */
        plan(&c, object, key_value(false, key_info(value)));
        submit(&c);
        c.count = 0;
        if (key_info(value) != 0)
            plan(&c, object, 0);
    }
    submit(&c);
}

/* One change at a time, with pauses in which each has its whole effect. */
static void on_calm_write(void *arg, uint64_t number)
{
    (void)arg;
    if (number == 0 || scenario.topology->write != NULL)
        return;
    if (pick(12) == 0)
        change_index();
    else if (pick(12) == 0)
        change_key();
    else
        change_card();
    events_add_in(MS + random_duration(STREAM_WRITER, 8 * SECOND), on_calm_write, NULL, number - 1);
}

static void write_any(void)
{
    static void (*const writes[])(void) = {change_card, change_card, move_link,    move_link, remove_card,
                                           add_card,    add_card,    change_index, change_key};
    if (scenario_has(FAULT_hot) && pick(2) == 0)
        move_link();
    else if (scenario_has(FAULT_keys) && pick(2) == 0)
        change_key();
    else
        writes[pick(sizeof writes / sizeof writes[0])]();
}

static void on_write(void *arg, uint64_t number)
{
    (void)number;
    (void)arg;
    if (scenario.quiet)
        return;
    const struct topology *t = scenario.topology;
    if (t->is_busy == NULL ? scenario.master->pending_count == 0 : !t->is_busy())
        for (unsigned n = 1 + (pick(4) == 0 ? pick(4) : 0); n > 0; n--)
            write_any();
    events_add_in(random_duration(STREAM_WRITER, scenario.settings.writes_every_ms * (uint64_t)MS) + MS / 10,
                  on_write, NULL, 0);
}

/* --- faults --- */

unsigned scenario_choose(unsigned count)
{
    return random_below(STREAM_SCENARIO, count);
}

uint64_t scenario_a_while(uint64_t max_ms)
{
    return random_duration(STREAM_SCENARIO, max_ms * MS);
}

static void prolong(uint64_t *until_ns, uint64_t duration_ns)
{
    *until_ns = now_ns() + duration_ns > *until_ns ? now_ns() + duration_ns : *until_ns;
}

/* Answers may fail until then, and until the process has recovered from it. */
void scenario_delay_answers(uint64_t duration_ns)
{
    prolong(&scenario.disturbed_until_ns, duration_ns);
}

/* Connections may end, too. */
void scenario_disturb(uint64_t duration_ns)
{
    scenario_delay_answers(duration_ns);
    prolong(&scenario.severed_until_ns, duration_ns);
}

static struct redis *any_server(void)
{
    return &scenario.server[scenario.servers == 1 ? 0 : scenario_choose((unsigned)scenario.servers)];
}

static void listen_again(struct redis *r)
{
    scenario_disturb(0);
    if (r->listener.state == NET_SILENT)
        redis_restart(r, true);
    r->listener.state = NET_LISTENS;
}

static void on_listens(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    TRACE("scenario", "%s listens", r->name);
    listen_again(r);
}

static void stop_listening(struct redis *r)
{
    uint64_t duration_ns = scenario_a_while(20000);
    r->listener.state = scenario_choose(3) == 0   ? NET_REFUSES
                        : scenario_choose(2) == 0 ? NET_IGNORES
                                                  : NET_SILENT;
    TRACE("scenario", "%s does not listen for %u ms (%d)", r->name, (unsigned)(duration_ns / MS),
          r->listener.state);
    scenario_disturb(duration_ns);
    events_add_in(duration_ns, on_listens, r, 0);
}

static void do_nothing(void) /* these last for the whole run */
{
}

static void do_reset(void)
{
    scenario_disturb(0);
    redis_restart(any_server(), scenario_choose(2) == 0);
}

static void on_cut_ended(void *arg, uint64_t number)
{
    (void)number;
    scenario_disturb(0);
    redis_restart(arg, true);
}

static void on_cut(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    if (scenario.quiet)
        return;
    TRACE("scenario", "connections to %s are cut", r->name);
    net_cut(&r->listener);
    scenario_disturb(2 * SECOND);
    events_add_in(scenario_a_while(10000), on_cut_ended, r, 0);
}

static void do_delay(void);
static void do_stop(void);

/* At once, or in the middle of what it does next. */
static void stop(uint64_t duration_ns)
{
    scenario_delay_answers(duration_ns);
    if (scenario_choose(2) == 0)
        process_stop(duration_ns, false);
    else
        process_stop_behind(1 + scenario_choose(64), duration_ns);
}

/* The process has not read the reply yet. */
static void stop_and_cut(struct redis *r)
{
    stop(scenario_choose(10000) * (uint64_t)MS);
    events_add_in(scenario_a_while(4000), on_cut, r, 0);
}

/* Possibly while something is under way. */
static void do_cut(void)
{
    static void (*const before[])(void) = {do_nothing, do_delay, do_stop};
    unsigned which = scenario_choose(4);
    struct redis *r = any_server();
    if (which == 3) {
        r->faults.behind_ping = stop_and_cut;
        return;
    }
    before[which]();
    events_add_in(scenario_a_while(4000), on_cut, r, 0);
}

static void do_refuse(void)
{
    struct redis *r = any_server();
    if (r->listener.state != NET_LISTENS)
        return;
    if (scenario_choose(2) == 0)
        redis_restart(r, scenario_choose(2) == 0);
    stop_listening(r);
}

static void set_delay(struct redis *of, uint64_t delay_ns)
{
    for (struct redis *r = scenario.server; r < scenario.server + scenario.servers; r++)
        if (of == NULL || r == of)
            net_set_delay(&r->listener, delay_ns);
}

static void on_delay_ended(void *arg, uint64_t number)
{
    (void)number;
    set_delay(arg, 0);
}

void scenario_slow(struct redis *of)
{
    uint64_t delay_ns = scenario_a_while(3000);
    uint64_t duration_ns = scenario_a_while(20000);
    TRACE("scenario", "the network to %s is slow for %u ms", of == NULL ? "all" : of->name,
          (unsigned)(duration_ns / MS));
    set_delay(of, delay_ns);
    scenario.slow_until_ns = now_ns() + duration_ns + delay_ns;
    scenario_disturb(duration_ns + delay_ns);
    events_add_in(duration_ns, on_delay_ended, of, 0);
}

static void do_delay(void)
{
    scenario_slow(scenario_choose(2) == 0 ? NULL : any_server());
}

static void hang(struct redis *r, uint64_t duration_ns)
{
    scenario_disturb(duration_ns);
    redis_hang(r, duration_ns);
}

static void hang_behind_ping(struct redis *r)
{
    hang(r, (500 + scenario_choose(1500)) * (uint64_t)MS);
}

/* At once, or so that what the process sends after a PING waits for the next one. */
static void do_hang(void)
{
    struct redis *r = any_server();
    if (scenario_choose(2) == 0)
        r->faults.behind_ping = hang_behind_ping;
    else
        hang(r, scenario_a_while(10000));
}

static void on_error_ended(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    TRACE("scenario", "no more errors from %s", r->name);
    r->faults.error = NULL;
}

static void do_error(void)
{
    static const char *const errors[] = {"LOADING Redis is loading the dataset in memory",
                                         "BUSY Redis is busy running a script",
                                         "MISCONF Redis is configured to save RDB snapshots"};
    struct redis *r = any_server();
    uint64_t duration_ns = scenario_a_while(10000);
    r->faults.error = errors[scenario_choose(sizeof errors / sizeof errors[0])];
    r->faults.error_one_in = 1 + scenario_choose(8);
    TRACE("scenario", "errors from %s for %u ms: %s", r->name, (unsigned)(duration_ns / MS), r->faults.error);
    scenario_disturb(duration_ns);
    events_add_in(duration_ns, on_error_ended, r, 0);
}

static void on_restore(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    redis_restore(scenario.master);
}

void scenario_set_master(struct redis *r)
{
    scenario.master = r;
    memcpy(planned, r->catalogue.value, sizeof planned);
    for (int object = 0; object < OBJECTS; object++)
        planned[object] = value_is_broken(planned[object]) ? 0 : planned[object];
    if (r->catalogue.lost) {
        scenario_disturb(SECOND);
        events_add_in(SECOND, on_restore, NULL, 0);
    }
}

static void do_lose(void)
{
    struct redis *r = scenario.master;
    uint64_t duration_ns = scenario_a_while(10000);
    if (scenario.topology->may_lose != NULL && !scenario.topology->may_lose())
        return;
    scenario_disturb(duration_ns);
    redis_lose(r);
    if (scenario_choose(2) == 0) /* Redis has started again, without its data */
        redis_restart(r, true);
    events_add_in(duration_ns, on_restore, NULL, 0);
}

static void do_evict(void)
{
    struct redis *r = any_server();
    for (unsigned n = scenario_choose(4) + 1; n > 0; n--)
        redis_evict(r);
}

static void on_evictions_ended(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    r->faults.evicts_one_in = 0;
}

/* In a cluster a key is evicted as if it were deleted. */
static void do_maxmemory(void)
{
    struct redis *r = scenario.master;
    uint64_t duration_ns = scenario_a_while(20000);
    if (scenario.topology->write != NULL) {
        struct change c = {0};
        change_add(&c, (int)scenario_choose(OBJECT_KEY), 0);
        submit(&c);
        return;
    }
    r->faults.evicts_one_in = 20U << scenario_choose(6);
    TRACE("scenario", "%s evicts keys for %u ms", r->name, (unsigned)(duration_ns / MS));
    events_add_in(duration_ns, on_evictions_ended, r, 0);
}

static const struct catalogue *truth(void)
{
    const struct catalogue *all = scenario.topology->truth;
    return all != NULL ? all : &scenario.master->catalogue;
}

/* The writer writes it again. */
static void repair(int object)
{
    struct change c = {0};
    if (!value_is_broken(truth()->value[object]))
        return;
    change_add(&c, object, planned[object]);
    submit(&c);
}

static void on_repaired(void *arg, uint64_t number)
{
    (void)arg;
    if (!scenario.quiet)
        repair((int)number);
}

/* Mostly a card; or a link, or the index. */
static void do_broken(void)
{
    struct change c = {0};
    bool is_card = scenario_choose(4) != 0;
    bool is_large = is_card && scenario_choose(8) == 0;
    int object = (int)scenario_choose(is_card ? CARDS : OBJECT_KEY);
    change_add(&c, object, is_large ? TOO_LARGE : WRONG_TYPE);
    submit(&c);
    events_add_in(scenario_a_while(is_large ? 1000 : 20000), on_repaired, NULL, (uint64_t)object);
}

/* Possibly while the process is stopped, so that all of it waits. */
static void do_flood(void)
{
    if (scenario_choose(2) == 0)
        do_stop();
    redis_flood(any_server(), 1 + scenario_choose(2000));
}

static void do_stop(void)
{
    stop(scenario_a_while(10000));
}

static void do_suspend(void)
{
    uint64_t duration_ns = scenario_a_while(60000);
    scenario_delay_answers(duration_ns);
    process_stop(duration_ns, true);
}

static void on_throttle(void *arg, uint64_t number)
{
    (void)arg;
    if (number == 0 || scenario.quiet)
        return;
    scenario_delay_answers(300 * (uint64_t)MS);
    process_stop_behind(1 + scenario_choose(number % 2 == 0 ? 1 : 64), scenario_a_while(250));
    events_add_in(scenario_a_while(300), on_throttle, NULL, number - 1);
}

static void do_throttle(void)
{
    on_throttle(NULL, 1 + scenario_choose(40));
}

static void do_wall(void)
{
    process_set_wall((int64_t)scenario_choose(20) - 10);
}

static void do_move(void)
{
    if (scenario.topology->move != NULL)
        scenario.topology->move();
}

static void do_cancel(void)
{
    do_nothing();
}

static void do_expire(void)
{
    do_nothing();
}

static void do_hot(void)
{
    do_nothing();
}

static void do_keys(void)
{
    do_nothing();
}

static void do_untracked(void)
{
    do_nothing();
}

static void do_deaf(void)
{
    do_nothing();
}

static void do_names(void)
{
    do_nothing();
}

static void do_burst(void)
{
    do_nothing();
}

/* One allocation in so many fails during the whole run; 0: none. What fails is followed by much that does
 * not. */
static unsigned memory_fails_one_in;

static void on_memory(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    memory_fail(memory_fails_one_in);
}

static void begin_memory(void)
{
    bool fails = scenario_has(FAULT_memory) && scenario_choose(2) == 0;
    memory_fails_one_in = fails ? 50U << scenario_choose(8) : 0;
    if (fails)
        scenario_disturb(LENGTH_S * SECOND);
    events_add(0, on_memory, NULL, 0);
}

/* Many fail for a moment. */
static void do_memory(void)
{
    uint64_t duration_ns = scenario_a_while(5000);
    TRACE("scenario", "allocations fail for %u ms", (unsigned)(duration_ns / MS));
    memory_fail(1 + scenario_choose(4) * scenario_choose(40));
    scenario_disturb(duration_ns);
    events_add_in(duration_ns, on_memory, NULL, 0);
}

static void do_renew(void)
{
    scenario_disturb(0);
    settings_renew(scenario_choose(4) == 0);
}

static void on_fault(void *arg, uint64_t number)
{
#define FAULT_FUNCTION(name, text) do_##name,
    static void (*const faults[])(void) = {FAULTS(FAULT_FUNCTION)};
#undef FAULT_FUNCTION
    unsigned kind = scenario_choose(FAULT_KINDS);
    if (scenario.topology->move != NULL && scenario_choose(4) == 0)
        kind = FAULT_move;
    (void)arg;
    (void)number;
    if (scenario.quiet)
        return;
    if (scenario_has((enum fault)kind))
        faults[kind]();
    uint64_t pause_ns = random_duration(STREAM_SCENARIO, scenario.settings.faults_every_ms * (uint64_t)MS);
    events_add_in(pause_ns + MS, on_fault, NULL, 0);
}

/* --- beginning and end --- */

static void choose_settings(struct scenario_settings *s)
{
    static const uint64_t stale_ms[] = {0, 5000, 30000, 300000};
    static const uint64_t keys_ms[] = {0, 5000, 300000};
    static const uint64_t ttl_ms[] = {0, 0, 1000, 10000};
    *s = (struct scenario_settings){
        .broadcast = scenario_choose(2) == 0,
        .cache_size = scenario_choose(4) == 0    ? 4096
                      : scenario_choose(16) == 0 ? 0
                                                 : 1 << 20,
        .request_timeout_ms = 500 + scenario_choose(4000),
        .ttl_ms = ttl_ms[scenario_choose(4)],
        .stale_limit_ms = stale_ms[scenario_choose(4)],
        .stale_keys_limit_ms = keys_ms[scenario_choose(3)],
        .writes_every_ms = 100U << scenario_choose(7),
        .requests_every_ms = 50U << scenario_choose(5),
        .faults_every_ms = 2000U << scenario_choose(5),
    };
}

static void fill(void)
{
    for (int object = 0; object < OBJECTS; object++)
        planned[object] = 0;
    last_version = last_info = 0;
    for (int card = 0; card < CARDS - 2; card++) {
        int link = card < LINKS - 2 ? card : -1;
        planned[OBJECT_CARD + card] = card_value(++last_version, link);
        if (link >= 0)
            planned[OBJECT_LINK + link] = card + 1;
        planned[OBJECT_INDEX] |= INT64_C(2) << card;
    }
    planned[OBJECT_INDEX] |= scenario.master->catalogue.fixed > 0;
    for (int key = 0; key < KEYS; key++)
        planned[OBJECT_KEY + key] = key_value(key < KEYS - 1, 0);
    for (int object = 0; object < OBJECTS; object++)
        catalogue_set(&scenario.master->catalogue, object, planned[object], 0);
}

struct redis *scenario_add_server(const char *name, uint8_t host)
{
    static const int other_keys[] = {0, 24, 100, 100000};
    struct redis *r = &scenario.server[scenario.servers++];
    assert(scenario.servers <= SERVERS);
    redis_begin(r, name, host);
    if (scenario_choose(4) == 0)
        r->table_max = 4 + scenario_choose(16);
    r->tls = scenario_choose(3) == 0;
    r->other_keys = other_keys[scenario_choose(4)];
    if (r == scenario.server)
        return r;
    r->tls = scenario.server[0].tls; /* one setting, and one catalogue */
    r->other_keys = scenario.server[0].other_keys;
    r->catalogue.fixed = scenario.server[0].catalogue.fixed;
    return r;
}

/* One server. */
const struct topology topology_plain = {.name = "plain", .url = "redis://redis.test"};

/* The first one is the commonest. */
static const struct topology *const topologies[] = {&topology_plain, &topology_replica, &topology_sentinel,
                                                    &topology_sentinel_replica, &topology_cluster};

const char *const scenario_topologies[] = {"plain",   "replica", "sentinel", "sentinel-replica",
                                           "cluster", NULL};

/* For the whole run. Of a catalogue that is lost nothing tells where Redis is deaf. */
static void choose_tracking(struct redis_faults *f)
{
    f->disordered = scenario_has(FAULT_untracked) && scenario_choose(2) == 0;
    f->refuses_tracking = scenario_has(FAULT_untracked) && !f->disordered;
    f->deaf = scenario_has(FAULT_deaf) && !scenario_has(FAULT_lose);
}

/* The index has about a page, two, or one with few more. Where Redis is deaf, what changes is soon read
 * again. */
static void choose_fixed(struct catalogue *c)
{
    static const int about[] = {0, 0, 0, PAGE, PAGE, 2 * PAGE};
    int fixed = about[scenario_choose(6)] - CARDS + (int)scenario_choose(CARDS);
    bool is_short = fixed < 0 || scenario_has(FAULT_deaf) || scenario.topology->truth != NULL;
    c->fixed = is_short ? 0 : fixed;
}

const struct topology *scenario_topology(int number)
{
    return number < 0 ? NULL : topologies[number];
}

static const struct topology *choose_topology(const struct topology *wanted)
{
    unsigned count = sizeof topologies / sizeof topologies[0];
    unsigned chosen = scenario_choose(2) == 0 ? 0 : scenario_choose(count);
    return wanted != NULL ? wanted : topologies[chosen];
}

/* One look-up that has begun before the end of the fault, and another one. */
unsigned scenario_recovery_s(void)
{
    return scenario.topology->recovery_s + (scenario_has(FAULT_names) ? 2 * NAME_SERVER_TIMEOUT_S : 0);
}

/* When the faults have ended for some time, a few more changes come. */
enum { CALM_WRITES = 24 };
static const uint64_t CALM_NS = 16 * UINT64_C(1000000000);

void scenario_begin(unsigned faults, const struct topology *topology)
{
    scenario.quiet = false;
    scenario.disturbed_until_ns = scenario.severed_until_ns = scenario.slow_until_ns = scenario.lost_ns = 0;
    choose_settings(&scenario.settings);
    scenario.faults = (unsigned)random_bits(STREAM_SCENARIO);
    scenario.faults &=
        (unsigned)random_bits(STREAM_SCENARIO) & faults; /* each kind in a quarter of the runs */
    scenario.topology = choose_topology(topology);
    if (scenario.topology->move != NULL && scenario_choose(4) != 0)
        scenario.faults |= 1U << FAULT_move & faults;
    scenario.url = scenario.topology->url;
    scenario.servers = 0;
    scenario.master = scenario_add_server("redis", 1);
    if (scenario.topology == &topology_plain)
        choose_tracking(&scenario.master->faults);
    choose_fixed(&scenario.master->catalogue);
    if (scenario_has(FAULT_broken))
        net_widen();
    fill();
    net_set_name("redis.test", (const uint8_t[]){1}, 1);
    net_delay_names(scenario_has(FAULT_names) ? NAME_SERVER_TIMEOUT_S * SECOND : 0);
    if (scenario.topology->begin != NULL)
        scenario.topology->begin();
    begin_memory();
    events_add(0, on_write, NULL, 0);
    events_add(0, on_fault, NULL, 0);
}

void scenario_quieten(void)
{
    scenario.quiet = true;
    memory_fails_one_in = 0;
    memory_fail(0);
    settings_quieten();
    set_delay(NULL, 0);
    for (struct redis *r = scenario.server; r < scenario.server + scenario.servers; r++) {
        listen_again(r);
        r->faults.error = NULL;
        r->faults.behind_ping = NULL;
        r->faults.at_first_card = NULL;
        r->faults.evicts_one_in = 0;
        r->hung_until_ns = 0;
    }
    redis_restore(scenario.master);
    if (scenario.topology->quieten != NULL)
        scenario.topology->quieten();
    for (int object = 0; object < OBJECT_KEY; object++)
        repair(object);
    events_add_in(CALM_NS, on_calm_write, NULL, CALM_WRITES);
}
