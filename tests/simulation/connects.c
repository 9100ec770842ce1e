/* Counts and times connections; see connects.h. */
#include "simulation/connects.h"

#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/net.h"
#include "simulation/process.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <limits.h>
#include <string.h>

/* Times are compared in whole milliseconds, and a turn of the loop has one time. */
static const uint64_t ROUNDED_NS = 3 * (uint64_t)MS;
static const uint64_t LATE_NS = 60 * (uint64_t)MS;

static const uint64_t MINUTE_NS = 60 * UINT64_C(1000000000);

/* The first and the longest pause, which may be half as long. */
static const uint64_t PAUSE_MIN_NS = 50 * (uint64_t)MS;
static const uint64_t PAUSE_MAX_NS = 1000 * (uint64_t)MS;

/* How long an attempt waits at first, and at most: for Redis, and for an answer of a Sentinel or node. */
static const uint64_t ATTEMPT_NS = 2000 * (uint64_t)MS;
static const uint64_t ATTEMPT_MAX_NS = 8000 * (uint64_t)MS;
static const uint64_t QUERY_NS = 500 * (uint64_t)MS;
static const uint64_t QUERY_MAX_NS = 2000 * (uint64_t)MS;

/* Servers that hold data, in a cluster all nodes; and Sentinels. */
enum kind { DATA, SENTINEL, KINDS };

enum { OPEN_MAX = 64, REMEMBERED = 4096, PAUSES = 10, SENTINEL_PORT = 26379 };

/* By the monotonic clock of the process, as all times here. */
struct moment {
    uint64_t at_ns;
    uint64_t stopped_ns; /* for how long the process has not run until then */
    uint64_t turn_ns;    /* for how long it has not run in that turn of its loop, which has one time */
};

static struct connection {
    unsigned number; /* 0: free */
    enum kind kind;
    uint8_t host;
    bool is_used; /* it has come into use */
    struct moment begun;
} opened[OPEN_MAX];

struct counted {
    size_t count;
    uint64_t at_ns[REMEMBERED]; /* of the last ones */
};

static struct counted attempts[KINDS];
static unsigned workers;
static bool is_paced; /* the pauses can be told from outside */
static bool is_plain; /* and there is one address of one name */
static bool is_open_changed;
static uint64_t turned_stopped_ns; /* process_stopped_ns() when the last turn of the loop ended */

/* The pauses: attempts in a row that have failed, and the servers that were tried since the last pause. */
static unsigned failures;
static uint64_t tried[4]; /* hosts, as bits */
static struct moment ended, idle;
static uint64_t at_once_ns; /* the last attempt without a pause; 0: there was none */
static unsigned pauses;     /* of the longest kind */
static uint64_t shortest_ns, longest_ns;

static bool is_ready;    /* a connection is in use */
static uint64_t lost_ns; /* when it was lost: that of a master which stands in ends the search for replicas */
static bool is_closing;  /* the worker ends */
static unsigned looking_up; /* look-ups in progress */
static bool look_up_ended;  /* in this turn, or while the process was stopped */

static struct moment moment_now(void)
{
    return (struct moment){process_monotonic_ns(), process_stopped_ns(),
                           process_stopped_ns() - turned_stopped_ns};
}

/* How long it is since then for a process that has counted from the beginning of its turn. */
static uint64_t at_most_since(const struct moment *m)
{
    return process_monotonic_ns() - m->at_ns + m->turn_ns + ROUNDED_NS;
}

/* How long the process has run since then. */
static uint64_t at_least_since(const struct moment *m)
{
    uint64_t all_ns = process_monotonic_ns() - m->at_ns;
    uint64_t stopped_ns = process_stopped_ns() - m->stopped_ns;
    return all_ns > stopped_ns ? all_ns - stopped_ns : 0;
}

static void count(struct counted *c)
{
    c->at_ns[c->count++ % REMEMBERED] = process_monotonic_ns();
}

static bool were_within(const struct counted *c, size_t most, uint64_t ns)
{
    return c->count > most && process_monotonic_ns() - c->at_ns[(c->count - 1 - most) % REMEMBERED] < ns;
}

unsigned connects_attempts(void)
{
    return (unsigned)attempts[DATA].count;
}

/* --- bounds --- */

struct bounds {
    unsigned open[KINDS], per_second[KINDS], per_minute[KINDS], look_ups;
};

/*
 * New settings, a name that has moved, and replicas while the master stands in are tried beside the
 * connection in use: with all that belongs to it.
 */
static struct bounds bounds_now(void)
{
    static const struct bounds single = {{1, 0}, {40, 0}, {1500, 0}, 3};
    static const struct bounds sentinel = {{1, 1}, {40, 20}, {1500, 400}, 5};
    static const struct bounds cluster = {{3, 0}, {100, 0}, {1500, 0}, 5};
    const struct topology *t = scenario.topology;
    struct bounds b = t == &topology_cluster                                       ? cluster
                      : t == &topology_sentinel || t == &topology_sentinel_replica ? sentinel
                                                                                   : single;
    bool is_beside = scenario_has(FAULT_renew) || t == &topology_sentinel_replica ||
                     (t == &topology_plain && scenario.servers > 1);
    unsigned factor = workers * (is_beside ? 2 : 1);
    b.look_ups *= factor;
    for (int kind = 0; kind < KINDS; kind++) {
        b.open[kind] *= factor;
        b.per_second[kind] *= factor;
        b.per_minute[kind] *= factor;
    }
    return b;
}

static void check_open(void)
{
    const struct bounds b = bounds_now();
    unsigned count[KINDS] = {0};
    for (const struct connection *c = opened; c < opened + OPEN_MAX; c++)
        if (c->number != 0)
            count[c->kind]++;
    for (int kind = 0; kind < KINDS; kind++)
        if (count[kind] > b.open[kind])
            trace_fail("too many connections at once: %u to servers of kind %d", count[kind], kind);
}

static void check_rate(enum kind kind)
{
    const struct bounds b = bounds_now();
    count(&attempts[kind]);
    if (were_within(&attempts[kind], b.per_second[kind], SECOND))
        trace_fail("too many attempts to connect in a second: to servers of kind %d", kind);
    if (were_within(&attempts[kind], b.per_minute[kind], MINUTE_NS))
        trace_fail("too many attempts to connect in a minute: to servers of kind %d", kind);
}

/* --- pauses --- */

static uint64_t full_pause_ns(unsigned after)
{
    uint64_t ns = PAUSE_MIN_NS;
    for (unsigned i = 1; i < after && ns < PAUSE_MAX_NS; i++)
        ns *= 2;
    return ns < PAUSE_MAX_NS ? ns : PAUSE_MAX_NS;
}

/* Pauses are random: over a run the longest ones differ. */
static void note_pause(uint64_t ns)
{
    shortest_ns = ns < shortest_ns ? ns : shortest_ns;
    longest_ns = ns > longest_ns ? ns : longest_ns;
    if (++pauses == PAUSES && longest_ns - shortest_ns < PAUSE_MAX_NS / 50)
        trace_fail("pauses between attempts are all alike");
}

/*
 * Another server that is named is tried at once; but two that name each other are not in turn. The query
 * between the end of one connection and the next attempt is why half the time is asked for.
 */
static bool may_be_at_once(void)
{
    bool again = at_once_ns != 0 && ended.at_ns - at_once_ns < PAUSE_MAX_NS / 2;
    return scenario.topology->superseded_ns != NULL && !again;
}

/* Behind a pause a round of attempts begins, in which no address is tried twice. */
static void check_pause(uint8_t host)
{
    uint64_t bit = UINT64_C(1) << host % 64;
    bool is_next = (tried[host / 64] & bit) == 0;
    bool has_paused = at_most_since(&ended) >= full_pause_ns(failures) / 2;
    if (has_paused)
        memset(tried, 0, sizeof tried);
    tried[host / 64] |= bit;
    if (is_next && scenario.topology->superseded_ns != NULL) /* it was named: its failures count anew */
        failures = 0;
    if (is_next || failures == 0)
        return;
    memset(tried, 0, sizeof tried);
    tried[host / 64] |= bit;
    if (has_paused) {
        if (full_pause_ns(failures) == PAUSE_MAX_NS)
            note_pause(process_monotonic_ns() - ended.at_ns);
        return;
    }
    if (!may_be_at_once())
        trace_fail("a server is connected to again too soon: %u ms after attempt %u",
                   (unsigned)(at_most_since(&ended) / MS), failures);
    at_once_ns = ended.at_ns;
    failures = 0;
}

/* Without a connection an attempt begins with a look-up, after the longest pause at the latest. */
static void check_activity(void)
{
    bool is_idle = looking_up == 0 && !look_up_ended;
    for (const struct connection *c = opened; c < opened + OPEN_MAX; c++)
        is_idle = is_idle && c->number == 0;
    if (is_plain && is_idle && at_least_since(&idle) > PAUSE_MAX_NS + LATE_NS)
        trace_fail("a server is connected to again too late: after %u ms",
                   (unsigned)(at_least_since(&idle) / MS));
}

/* --- events --- */

static enum kind kind_of(const struct net_address *a)
{
    return a->port == SENTINEL_PORT ? SENTINEL : DATA;
}

static void on_connect(unsigned number, const struct net_address *to)
{
    enum kind kind = kind_of(to);
    struct connection *c = opened;
    while (c < opened + OPEN_MAX && c->number != 0)
        c++;
    if (c == opened + OPEN_MAX)
        trace_fail("too many connections at once: %d", OPEN_MAX);
    check_activity();
    *c = (struct connection){.number = number, .kind = kind, .host = to->host, .begun = moment_now()};
    is_open_changed = true;
    check_rate(kind);
    if (is_paced && kind == DATA)
        check_pause(to->host);
}

/* Nothing has come back until the process has closed it. */
static void check_timeout(const struct connection *c)
{
    uint64_t most_ns = c->kind == DATA ? ATTEMPT_MAX_NS : QUERY_MAX_NS;
    uint64_t least_ns = c->kind == DATA ? ATTEMPT_NS : QUERY_NS;
    if (at_least_since(&c->begun) > most_ns + LATE_NS)
        trace_fail("a server that does not answer is waited for too long");
    bool is_named = c->kind == DATA && scenario.topology->superseded_ns != NULL; /* another one, perhaps */
    if (is_paced && !is_named && !scenario_has(FAULT_memory) && at_most_since(&c->begun) < least_ns)
        trace_fail("a server that does not answer is given up too soon: after %u ms",
                   (unsigned)(at_most_since(&c->begun) / MS));
}

static void on_end(unsigned number, bool unanswered)
{
    struct connection *c = opened;
    while (c < opened + OPEN_MAX && c->number != number)
        c++;
    if (c == opened + OPEN_MAX)
        return;
    if (unanswered && !is_closing && now_ns() - lost_ns > MS)
        check_timeout(c);
    if (c->kind == DATA) {
        failures += !is_ready; /* otherwise it was replaced, or was to replace the one in use */
        ended = idle = moment_now();
    }
    c->number = 0;
    is_open_changed = true;
}

void connects_ready(bool ready)
{
    is_ready = ready;
    if (ready)
        failures = 0;
    else
        lost_ns = now_ns();
}

static void on_look_up(bool begins)
{
    const struct bounds b = bounds_now();
    if (begins)
        check_activity();
    look_up_ended = look_up_ended || !begins;
    looking_up = begins ? looking_up + 1 : looking_up - 1;
    if (looking_up > b.look_ups &&
        !scenario_has(FAULT_renew)) /* those of settings that were replaced go on */
        trace_fail("too many look-ups at once: %u", looking_up);
}

static void on_turned(void)
{
    turned_stopped_ns = process_stopped_ns();
    if (is_open_changed)
        check_open();
    is_open_changed = false;
    if (look_up_ended)
        idle = moment_now();
    look_up_ended = false;
}

void connects_end(void)
{
    is_closing = true;
}

void connects_begin(unsigned count_of_workers)
{
    const struct topology *t = scenario.topology;
    workers = count_of_workers;
    is_ready = is_closing = false;
    lost_ns = 0;
    is_paced = workers == 1 && t != &topology_cluster && !scenario_has(FAULT_renew);
    is_plain = is_paced && t == &topology_plain && !scenario_has(FAULT_memory);
    memset(opened, 0, sizeof opened);
    memset(attempts, 0, sizeof attempts);
    is_open_changed = look_up_ended = false;
    turned_stopped_ns = 0;
    failures = pauses = looking_up = 0;
    memset(tried, 0, sizeof tried);
    ended = idle = moment_now();
    at_once_ns = longest_ns = 0;
    shortest_ns = UINT64_MAX;
    net_watch_connects(on_connect, on_end);
    net_watch_look_ups(on_look_up);
    loop_watch(on_turned);
}
