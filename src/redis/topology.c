/* Selects a Redis, and finds reasons against the one in use; see topology.h. */
#include "redis/topology.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "redis/cluster.h"

#include <assert.h>
#include <strings.h>

enum {
    /*
     * The time in milliseconds after which the replicas are tried again while the master replaces them. No
     * Redis is in use meanwhile, so the time doubles after each trial in vain.
     */
    STAND_IN_MS = 30000,
    STAND_IN_MAX_MS = 960000,
    /*
     * How long, in milliseconds, a replica may be used that follows another master or that is reported as
     * down, unless the stale limit is shorter. In a failover replicas take a moment to follow. For the same
     * time other servers may still name a demoted master.
     */
    GRACE_MS = 5000,
    /* How long the result of a comparison of two names is kept, in milliseconds. */
    COMPARISON_MS = 10000
};

/* --- failovers --- */

/* A replica of a former master that has become the master is a failover. Any other node got the slot. */
static bool topology_was_promoted(const struct topology *t)
{
    bool known = t->successors < 0;
    for (int i = 0; i < t->successors; i++)
        known = known || redis_address_is_same(&t->successor[i], &t->master);
    return known;
}

/* The master is in use, or the replica in use follows it. */
static void topology_follow_master(struct topology *t)
{
    if (t->followed.port != 0 && redis_address_is_same(&t->followed, &t->master))
        return;
    enum redis_failover kind = topology_was_promoted(t) ? REDIS_FAILOVER_MASTER : REDIS_FAILOVER_SLOT;
    if (t->followed.port != 0)
        metric_add(&t->metrics->redis_failovers[kind], 1);
    t->followed = t->master;
    t->successors = -1;
}

static void topology_note_successors(struct topology *t, const struct discovery_answer *answer)
{
    if (!redis_endpoint_is_cluster(t->settings) || !redis_address_is_same(&answer->master, &t->followed))
        return;
    t->followed = answer->master;
    t->successors = answer->replicas;
    memcpy(t->successor, answer->replica, (size_t)answer->replicas * sizeof answer->replica[0]);
}

/* --- the Redis that was found --- */

/* The other servers do not know yet that the master has changed. */
static bool topology_is_behind(const struct topology *t, const struct discovery_answer *answer)
{
    return t->owner_ms != 0 && clock_now_ms() - t->owner_ms < GRACE_MS &&
           !redis_address_is_same(&answer->master, &t->owner);
}

static void topology_set_address(struct topology *t, const struct redis_address *address)
{
    t->address = *address;
    t->endpoint = redis_endpoint_at(t->settings, t->address.host, t->address.port);
}

static void topology_select_owner(struct topology *t)
{
    t->master = t->owner;
    t->confirmed_ms = clock_boot_ms();
    t->is_master = true;
    t->candidates = 1;
    topology_set_address(t, &t->owner);
}

static unsigned topology_wanted_replicas(const struct topology *t, const struct discovery_answer *answer)
{
    return t->settings->discovery.replica ? (unsigned)answer->replicas : 0;
}

/* Number `step`, in the order in which they are tried. */
static struct topology_candidate topology_candidate(const struct topology *t,
                                                    const struct discovery_answer *answer, unsigned step)
{
    unsigned replicas = topology_wanted_replicas(t, answer);
    if (step == replicas)
        return (struct topology_candidate){answer->master, true};
    return (struct topology_candidate){answer->replica[(t->first_replica + step) % replicas], false};
}

/* Its place among those that have failed, or their number. */
static unsigned topology_find_failed(const struct topology *t, const struct topology_candidate *c)
{
    unsigned i = 0;
    while (i < t->failed_count && !(t->failed[i].is_master == c->is_master &&
                                    redis_address_equal(&t->failed[i].address, &c->address)))
        i++;
    return i;
}

static void topology_forget_failed(struct topology *t, const struct topology_candidate *c)
{
    unsigned i = topology_find_failed(t, c);
    if (i < t->failed_count)
        t->failed[i] = t->failed[--t->failed_count];
}

/* The first that has not failed. When all have, each is tried once more. */
static struct topology_candidate topology_next_candidate(struct topology *t,
                                                         const struct discovery_answer *answer)
{
    for (unsigned step = 0; step < t->candidates; step++) {
        struct topology_candidate c = topology_candidate(t, answer, step);
        if (topology_find_failed(t, &c) == t->failed_count)
            return c;
    }
    for (unsigned step = 0; step < t->candidates; step++) {
        struct topology_candidate c = topology_candidate(t, answer, step);
        topology_forget_failed(t, &c);
    }
    return topology_candidate(t, answer, 0);
}

/*
 * Selects the replicas in turn, beginning with any, so that they share the load. After all of them it selects
 * the master.
 */
static void topology_select_server(struct topology *t, const struct discovery_answer *answer)
{
    t->candidates = topology_wanted_replicas(t, answer) + 1;
    struct topology_candidate c = topology_next_candidate(t, answer); /* without replicas: the master */
    t->master = answer->master;
    t->confirmed_ms = clock_boot_ms();
    t->is_master = c.is_master;
    topology_set_address(t, &c.address);
}

/* The master in use has replaced the replicas long enough. */
static bool topology_has_stood_in(const struct topology *t, const struct discovery_answer *answer)
{
    uint64_t limit = backoff_doubled_ms(t->trials, STAND_IN_MS, STAND_IN_MAX_MS);
    return topology_wanted_replicas(t, answer) > 0 && clock_now_ms() - t->ready_ms >= limit;
}

/* Why the answer is against the selected Redis; NULL if it is not. */
static const char *topology_reason_to_leave(struct topology *t, const struct discovery_answer *answer,
                                            bool in_use)
{
    if (in_use && !t->is_master) /* the heartbeat checks a replica */
        return NULL;
    if (!redis_address_is_same(&answer->master, &t->master))
        return t->protocol->moved;
    if (!in_use || !topology_has_stood_in(t, answer))
        return NULL;
    t->trials++;
    metric_add(&t->metrics->redis_failovers[REDIS_FAILOVER_REPLICAS], 1);
    return "the replicas are tried again";
}

static bool topology_is_reported_down(const struct topology *t, const struct discovery_answer *answer)
{
    bool exhaustive = t->protocol->lists_healthy;
    const struct redis_address *list = exhaustive ? answer->replica : answer->down;
    int count = exhaustive ? answer->replicas : answer->downs;
    bool listed = false;
    for (int i = 0; i < count; i++)
        listed = listed || redis_address_is_same(&list[i], &t->address);
    return !t->is_master && listed != exhaustive;
}

/* Notes what the answer says of the Redis in use. */
static void topology_note_answer(struct topology *t, const struct discovery_answer *answer)
{
    uint64_t now = clock_boot_ms();
    if (t->is_master && redis_address_is_same(&answer->master, &t->address))
        t->confirmed_ms = now;
    if (!topology_is_reported_down(t, answer))
        t->down_ms = 0;
    else if (t->down_ms == 0)
        t->down_ms = now;
    topology_note_successors(t, answer);
    if (!t->is_master)
        t->master = answer->master;
}

void topology_select(struct topology *t, const struct discovery_answer *answer)
{
    if (topology_is_behind(t, answer))
        topology_select_owner(t);
    else
        topology_select_server(t, answer);
}

bool topology_select_next(struct topology *t)
{
    if (!t->owner_next)
        return false;
    t->owner_next = false;
    topology_select_owner(t);
    return true;
}

const char *topology_check_answer(struct topology *t, const struct discovery_answer *answer, bool in_use)
{
    if (topology_is_behind(t, answer))
        return NULL;
    if (in_use)
        topology_note_answer(t, answer);
    const char *reason = topology_reason_to_leave(t, answer, in_use);
    if (reason == NULL)
        return NULL;
    if (in_use)
        t->failover_ms = t->confirmed_ms;
    return reason;
}

enum discovery_error topology_handle_error(struct topology *t, const struct redis_reply *error)
{
    struct redis_address owner = {.port = 0};
    enum discovery_error kind = redis_endpoint_is_cluster(t->settings)
                                    ? cluster_read_error(&t->address, error, &owner)
                                    : DISCOVERY_ERROR_OTHER;
    if (kind != DISCOVERY_ERROR_MOVED)
        return kind;
    t->failover_ms = t->confirmed_ms;
    if (owner.port == 0)
        return DISCOVERY_ERROR_DOWN;
    t->owner = owner;
    t->owner_ms = clock_now_ms();
    t->owner_next = !t->settings->discovery.replica;
    return kind;
}

bool topology_elsewhere(const struct topology *t, const struct redis_reply *reply, struct redis_address *node)
{
    if (!redis_endpoint_is_cluster(t->settings))
        return false;
    if (reply->type == REPLY_ERROR)
        return cluster_read_ask(reply, &t->address, node);
    *node = t->master;
    return !t->is_master;
}

bool topology_stands_in(const struct topology *t)
{
    return t->is_master && t->settings->discovery.replica;
}

bool topology_wants_readonly(const struct topology *t)
{
    return redis_endpoint_is_cluster(t->settings) && !t->is_master;
}

enum redis_role_kind topology_wanted_role(const struct topology *t)
{
    return t->is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA;
}

/* --- the master that a replica follows --- */

static bool topology_share_address(const struct resolver *a, const struct resolver *b)
{
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (strcmp(a->address[i], b->address[k]) == 0)
                return true;
    return false;
}

static void topology_on_compared(void *arg, const char *error)
{
    struct topology_comparison *m = &((struct topology *)arg)->masters;
    assert(m->lookups_due > 0);
    m->failed = m->failed || error != NULL;
    if (--m->lookups_due > 0)
        return;
    if (!m->failed || m->made_ms == 0) /* a name that is not found does not show that they differ now */
        m->equal = topology_share_address(&m->side[0], &m->side[1]);
    m->made_ms = clock_boot_ms();
}

static void topology_look_up_both(struct topology *t, const struct redis_address *named,
                                  const struct redis_address *followed)
{
    struct topology_comparison *m = &t->masters;
    m->of[0] = *named;
    m->of[1] = *followed;
    m->lookups_due = 2;
    m->failed = false;
    for (int i = 0; i < 2; i++)
        resolver_start(&m->side[i], t->loop, m->of[i].host, topology_on_compared, t);
}

enum comparison_result { SAME, DIFFERENT, NOT_KNOWN_YET };

/* Whether two addresses are equal, or names of the same address. */
static enum comparison_result topology_compare(struct topology *t, const struct redis_address *named,
                                               const struct redis_address *followed)
{
    struct topology_comparison *m = &t->masters;
    if (named->port != followed->port)
        return DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SAME;
    bool begun = redis_address_equal(named, &m->of[0]) && redis_address_equal(followed, &m->of[1]);
    bool fresh = begun && m->made_ms != 0 && clock_boot_ms() - m->made_ms < COMPARISON_MS;
    if (!fresh && m->lookups_due == 0) {
        m->made_ms = begun ? m->made_ms : 0;
        topology_look_up_both(t, named, followed);
        begun = true;
    }
    if (!begun || m->made_ms == 0)
        return NOT_KNOWN_YET;
    return m->equal ? SAME : DIFFERENT;
}

const char *topology_check_replica(struct topology *t, const struct redis_address *master,
                                   uint64_t role_sent_ms)
{
    uint64_t limit = t->stale_limit_ms;
    uint64_t grace = limit < GRACE_MS ? limit : GRACE_MS;
    if (t->is_master)
        return NULL;
    if (t->down_ms != 0 && clock_boot_ms() - t->down_ms >= grace)
        return t->protocol->down;
    enum comparison_result result = topology_compare(t, &t->master, master);
    if (result == SAME) {
        topology_follow_master(t);
        t->confirmed_ms = role_sent_ms;
        t->mismatch_ms = 0;
        return NULL;
    }
    bool confirmed = t->confirmed_ms != 0;
    if (t->mismatch_ms == 0)
        t->mismatch_ms = confirmed ? t->confirmed_ms : role_sent_ms;
    if ((confirmed || result == NOT_KNOWN_YET) && clock_boot_ms() - t->mismatch_ms < grace)
        return NULL;
    return t->protocol->other_master;
}

uint64_t topology_trusted_until_ms(const struct topology *t)
{
    uint64_t until = UINT64_MAX;
    if (t->failover_ms != 0)
        until = t->failover_ms;
    if (t->mismatch_ms != 0 && t->mismatch_ms < until)
        until = t->mismatch_ms;
    return until;
}

/* --- events --- */

void topology_init(struct topology *t, uv_loop_t *loop, const struct discovery_protocol *protocol,
                   const struct discovery_options *options)
{
    *t = (struct topology){.loop = loop,
                           .settings = options->endpoint,
                           .protocol = protocol,
                           .metrics = options->metrics,
                           .stale_limit_ms = options->stale_limit_ms,
                           .successors = -1,
                           .first_replica = options->seed};
}

void topology_close(struct topology *t)
{
    resolver_cancel(&t->masters.side[0]);
    resolver_cancel(&t->masters.side[1]);
}

void topology_connected(struct topology *t)
{
    t->mismatch_ms = t->down_ms = t->failover_ms = 0;
    if (!t->is_master)
        t->confirmed_ms = 0;
}

void topology_ready(struct topology *t)
{
    t->ready_ms = clock_now_ms();
    if (t->is_master)
        topology_follow_master(t);
}

void topology_answered(struct topology *t)
{
    t->failed_count = 0;
    if (!t->is_master || t->candidates == 1)
        t->trials = 0;
}

void topology_lost_early(struct topology *t)
{
    const struct topology_candidate c = {t->address, t->is_master};
    topology_forget_failed(t, &c);
    if (t->failed_count == TOPOLOGY_CANDIDATES_MAX) /* candidates of several answers */
        t->failed_count = 0;
    t->failed[t->failed_count++] = c;
}

void topology_failed(struct topology *t)
{
    t->owner_ms = 0;
    topology_lost_early(t);
}
