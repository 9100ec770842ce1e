/*
 * Which Redis: the one of the address, or the one that Sentinels name. See connection_internal.h.
 *
 * The watch asks a Sentinel every second and whenever it publishes a switch. When the master it names is not
 * the one in use, the connection to that one ends and a new one begins at once: a stalled old master goes on
 * with its past when it wakes. Whom a replica follows, and whether it still hears that one, is for ROLE to
 * tell, with the heartbeat: if it is not the master that Sentinel names, the replica of a deposed one is
 * left.
 */
#include "redis/connection_internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <strings.h>

/* How long the master stands in for a replica before one is tried again, in milliseconds. */
enum { STAND_IN_MS = 30000 };

/* What one Sentinel says is believed for so many attempts. */
enum { ATTEMPTS_PER_SENTINEL = 2 };

/*
 * A replica that does not follow the named master, or that Sentinel calls down, is left after so long, in
 * milliseconds, or after the stale limit where that is less: at a failover replicas take a moment to follow.
 */
enum { GRACE_MS = 5000 };

/* What names were found to lead to is believed for so long, in milliseconds. */
enum { COMPARISON_MS = 10000 };

/* Replicas in turn, beginning with any, so that they share the load; after all of them the master. */
static void choose(struct redis_connection *c, const struct sentinel_answer *a)
{
    unsigned replicas = (unsigned)a->replicas;
    unsigned step = c->refused % (replicas + 1); /* no replicas: the master */
    c->master = a->master;
    c->agreed_ms = clock_boot_ms();
    c->at_master = step == replicas;
    c->place = c->at_master ? a->master : a->replica[(c->turn + step) % replicas];
    c->where = redis_endpoint_at(c->options.target, c->place.host, c->place.port);
}

static bool is_outdated(const struct redis_connection *c, const struct sentinel_answer *a)
{
    if (!c->at_master) /* but at a replica, which is looked after with the heartbeat */
        return false;
    if (!redis_address_equal(&a->master, &c->place))
        return true;
    return a->replicas > 0 && clock_now_ms() - c->ready_ms >= STAND_IN_MS;
}

static bool is_called_down(const struct redis_connection *c, const struct sentinel_answer *a)
{
    for (int i = 0; !c->at_master && i < a->downs; i++)
        if (redis_address_equal(&a->down[i], &c->place))
            return true;
    return false;
}

/* What an answer means for the connection in use. */
static void take_answer(struct redis_connection *c, const struct sentinel_answer *a)
{
    uint64_t now = clock_boot_ms();
    if (c->at_master && redis_address_equal(&a->master, &c->place))
        c->agreed_ms = now;
    if (!is_called_down(c, a))
        c->down_ms = 0;
    else if (c->down_ms == 0)
        c->down_ms = now;
    if (!c->at_master)
        c->master = a->master;
    if (!is_outdated(c, a))
        return;
    if (c->agreed_ms < c->good_ms)
        c->good_ms = c->agreed_ms;
    redis_connection_switch(c, "Sentinel names another");
}

static void on_answer(void *arg, const struct sentinel_answer *a)
{
    struct redis_connection *c = arg;
    if (c->state == REDIS_CONNECTION_DISCOVERING) {
        choose(c, a);
        redis_connection_connect(c);
    } else if (c->state == REDIS_CONNECTION_READY) {
        take_answer(c, a);
    } else if (!redis_address_equal(&a->master, &c->master)) {
        redis_connection_switch(c, "Sentinel names another");
    }
}

static void on_silence(void *arg, const char *why)
{
    struct redis_connection *c = arg;
    if (c->state == REDIS_CONNECTION_DISCOVERING)
        redis_connection_fail(c, why);
}

int redis_connection_discovery_init(struct redis_connection *c)
{
    const struct sentinel_events events = {on_answer, on_silence, c};
    const struct redis_connection_options *o = &c->options;
    if (o->target->sentinels.count == 0)
        return 0;
    c->turn = (unsigned)rand_r(&c->seed);
    return sentinel_watch_new(c->loop, o->target, o->tls, o->client_name, o->metrics, &events, &c->watch);
}

void redis_connection_discover(struct redis_connection *c)
{
    c->where = *c->options.target;
    if (c->watch == NULL)
        redis_connection_connect(c);
    else
        sentinel_watch_ask(c->watch);
}

/* --- whom a replica follows --- */

static void on_looked_up(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    struct comparison *m = &c->masters;
    (void)error; /* then nothing was found */
    if (--m->owed > 0)
        return;
    m->equal = resolver_meets(&m->side[0], &m->side[1]);
    m->made_ms = clock_boot_ms();
}

static void look_up(struct redis_connection *c, const struct redis_address *named,
                    const struct redis_address *followed)
{
    struct comparison *m = &c->masters;
    m->of[0] = *named;
    m->of[1] = *followed;
    m->owed = 1;
    for (int i = 0; i < 2; i++) {
        m->side[i].count = 0;
        if (resolver_take_numeric(&m->side[i], m->of[i].host))
            continue;
        if (resolver_start(&m->side[i], c->loop, m->of[i].host, on_looked_up, c) == 0)
            m->owed++;
    }
    on_looked_up(c, NULL);
}

enum auth_result { SAME, DIFFERENT, NOT_KNOWN_YET };

/* The same address, or names of the same. */
static enum auth_result compare(struct redis_connection *c, const struct redis_address *named,
                                const struct redis_address *followed)
{
    struct comparison *m = &c->masters;
    if (named->port != followed->port)
        return DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SAME;
    bool asked = redis_address_equal(named, &m->of[0]) && redis_address_equal(followed, &m->of[1]);
    bool fresh = asked && m->made_ms != 0 && clock_boot_ms() - m->made_ms < COMPARISON_MS;
    if (!fresh && m->owed == 0) {
        m->made_ms = asked ? m->made_ms : 0;
        look_up(c, named, followed);
        asked = true;
    }
    if (!asked || m->made_ms == 0)
        return NOT_KNOWN_YET;
    return m->equal ? SAME : DIFFERENT;
}

void redis_connection_discovery_reset(struct redis_connection *c)
{
    c->doubted_ms = c->down_ms = 0;
    if (!c->at_master)
        c->agreed_ms = 0;
}

const char *redis_connection_discovery_check(struct redis_connection *c)
{
    uint64_t limit = c->options.stale_limit_ms;
    uint64_t grace = limit < GRACE_MS ? limit : GRACE_MS;
    if (c->watch == NULL || c->at_master)
        return NULL;
    if (c->down_ms != 0 && clock_boot_ms() - c->down_ms >= grace)
        return "Sentinel calls it down";
    enum auth_result auth_result = compare(c, &c->master, &c->role.master);
    if (auth_result == SAME) {
        c->agreed_ms = c->asked_ms;
        c->doubted_ms = 0;
        return NULL;
    }
    bool trusted = c->agreed_ms != 0;
    if (c->doubted_ms == 0)
        c->doubted_ms = trusted ? c->agreed_ms : c->asked_ms;
    if ((trusted || auth_result == NOT_KNOWN_YET) && clock_boot_ms() - c->doubted_ms < grace)
        return NULL;
    if (c->doubted_ms < c->good_ms)
        c->good_ms = c->doubted_ms;
    return "it follows another master than Sentinel names";
}

void redis_connection_report_failure(struct redis_connection *c)
{
    c->refused++;
    if (c->watch != NULL && c->refused % ATTEMPTS_PER_SENTINEL == 0)
        sentinel_watch_doubt(c->watch);
}
