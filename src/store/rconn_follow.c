/*
 * Which Redis: the one of the address, or the one that Sentinels name. See rconn_internal.h.
 *
 * The watch asks a Sentinel every second and whenever it publishes a switch. When the master it names is not
 * the one in use, the connection to that one ends and a new one begins at once: a stalled old master goes on
 * with its past when it wakes. Whether a replica still hears its master is for ROLE to tell, with the
 * heartbeat.
 */
#include "store/rconn_internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* How long the master stands in for a replica before one is tried again, in milliseconds. */
enum { STAND_IN_MS = 30000 };

/* What one Sentinel says is believed for so many attempts. */
enum { ATTEMPTS_PER_SENTINEL = 2 };

/* Replicas in turn, beginning with any, so that they share the load; after all of them the master. */
static void choose(struct rconn *c, const struct sentinel_answer *a)
{
    unsigned replicas = (unsigned)a->replicas;
    unsigned step = c->refused % (replicas + 1); /* no replicas: the master */
    c->master = a->master;
    c->at_master = step == replicas;
    c->place = c->at_master ? a->master : a->replica[(c->turn + step) % replicas];
    c->where = redis_target_at(c->options.target, c->place.host, c->place.port);
}

static bool is_outdated(const struct rconn *c, const struct sentinel_answer *a)
{
    if (!c->at_master) /* but at a replica, which is looked after with the heartbeat */
        return false;
    if (!redis_address_equal(&a->master, &c->place))
        return true;
    return a->replicas > 0 && clock_now_ms() - c->ready_ms >= STAND_IN_MS;
}

static void on_answer(void *arg, const struct sentinel_answer *a)
{
    struct rconn *c = arg;
    if (c->state == RCONN_LOCATING) {
        choose(c, a);
        rconn_go(c);
    } else if (c->state == RCONN_READY ? is_outdated(c, a) : !redis_address_equal(&a->master, &c->master)) {
        rconn_move(c, "Sentinel names another");
    }
}

static void on_silence(void *arg, const char *why)
{
    struct rconn *c = arg;
    if (c->state == RCONN_LOCATING)
        rconn_fail(c, why);
}

int rconn_follow(struct rconn *c)
{
    const struct sentinel_events events = {on_answer, on_silence, c};
    const struct rconn_options *o = &c->options;
    if (o->target->sentinels.count == 0)
        return 0;
    c->turn = (unsigned)rand_r(&c->seed);
    return sentinel_watch_new(c->loop, o->target, o->tls, o->client_name, o->metrics, &events, &c->watch);
}

void rconn_locate(struct rconn *c)
{
    c->where = *c->options.target;
    if (c->watch == NULL)
        rconn_go(c);
    else
        sentinel_watch_ask(c->watch);
}

void rconn_doubt(struct rconn *c)
{
    c->refused++;
    if (c->watch != NULL && c->refused % ATTEMPTS_PER_SENTINEL == 0)
        sentinel_watch_doubt(c->watch);
}
