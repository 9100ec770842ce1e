/* Selects a server, and finds reasons against the one in use; see selection.h. */
#include "redis/selection.h"

#include "base/clock.h"
#include "redis/cluster.h"

#include <assert.h>
#include <strings.h>

enum {
    /*
     * How long, in milliseconds, a replica may be used that follows another master or that is reported as
     * down, unless the stale limit is shorter. In a failover replicas take a moment to follow. For the same
     * time other servers may still name a demoted master.
     */
    GRACE_MS = 5000,
    /* How long the result of a comparison of two names is kept, in milliseconds. */
    COMPARISON_MS = 10000
};

static const char MOVED[] = "another server is named in its place";

/* --- failovers --- */

/* The master is in use, or the replica in use follows it. */
static void selection_follow_master(struct selection *s)
{
    if (s->followed.port != 0 && redis_address_is_same(&s->followed, &s->master))
        return;
    enum redis_failover kind = s->migrates ? REDIS_FAILOVER_SLOT : REDIS_FAILOVER_MASTER;
    if (s->followed.port != 0)
        metric_add(&s->metrics->redis_failovers_total[kind], 1);
    s->followed = s->master;
    s->migrates = false;
}

/* --- the choice --- */

/* The evidence against an earlier server does not count against this one. */
static void selection_select(struct selection *s, const struct redis_address *address, bool is_master)
{
    s->address = *address;
    s->is_master = is_master;
    s->right_until_ms = s->down_ms = 0;
    s->confirmed_ms = is_master ? clock_boot_ms() : 0;
}

static bool selection_has_owner(const struct selection *s)
{
    return s->owner_ms != 0 && clock_boot_ms() - s->owner_ms < GRACE_MS;
}

/* The other servers do not know yet that the master has changed. */
static bool selection_is_behind(const struct selection *s, const struct locator_answer *answer)
{
    return selection_has_owner(s) && !redis_address_is_same(&answer->master, &s->owner);
}

static void selection_select_owner(struct selection *s)
{
    s->master = s->owner;
    selection_select(s, &s->owner, true);
}

bool selection_take_owner(struct selection *s)
{
    if (!selection_has_owner(s))
        return false;
    selection_select_owner(s);
    return true;
}

unsigned selection_replicas(const struct selection *s, const struct locator_answer *answer)
{
    return s->settings->discovery.replica ? (unsigned)answer->replicas : 0;
}

void selection_take_answer(struct selection *s, const struct locator_answer *answer, unsigned turn)
{
    if (selection_is_behind(s, answer)) {
        selection_select_owner(s);
        return;
    }
    unsigned replicas = selection_replicas(s, answer);
    bool is_round_over = replicas == 0 || s->failed_count >= SELECTION_FAILED_MAX;
    s->master = answer->master;
    if (is_round_over && replicas > 0) /* the answer of another Sentinel may have none */
        s->failed_count = 0;
    selection_select(s, is_round_over ? &answer->master : &answer->replica[turn % replicas], is_round_over);
}

bool selection_stands_in(const struct selection *s)
{
    return s->is_master && s->settings->discovery.replica;
}

void selection_failed(struct selection *s)
{
    s->owner_ms = 0;
    s->failed_count += !s->is_master;
}

void selection_used(struct selection *s)
{
    if (s->is_master)
        selection_follow_master(s);
}

void selection_stayed(struct selection *s)
{
    s->failed_count = 0;
}

/* --- is it still the right one? --- */

/* Notes what the answer says of the server in use. */
static void selection_note_answer(struct selection *s, const struct locator_answer *answer)
{
    bool is_down = false;
    uint64_t now = clock_boot_ms();
    if (s->is_master && redis_address_is_same(&answer->master, &s->address))
        s->confirmed_ms = now;
    for (int i = 0; i < answer->downs; i++)
        is_down = is_down || redis_address_equal(&answer->down[i], &s->address);
    if (s->is_master || !is_down)
        s->down_ms = 0;
    else if (s->down_ms == 0)
        s->down_ms = now;
    if (!s->is_master) /* the next ROLE of the replica shows whether it follows this one */
        s->master = answer->master;
}

const char *selection_check_answer(struct selection *s, const struct locator_answer *answer, bool in_use)
{
    if (selection_is_behind(s, answer))
        return NULL;
    if (in_use)
        selection_note_answer(s, answer);
    if (redis_address_is_same(&answer->master, &s->master))
        return NULL;
    if (in_use)
        s->right_until_ms = s->confirmed_ms;
    return MOVED;
}

bool selection_take_error(struct selection *s, const struct redis_reply *error)
{
    struct redis_address owner;
    if (!cluster_read_moved(&s->address, error, &owner))
        return false;
    s->right_until_ms = s->confirmed_ms;
    s->owner = owner;
    s->owner_ms = owner.port != 0 ? clock_boot_ms() : 0;
    return true;
}

uint64_t selection_trusted_until_ms(const struct selection *s)
{
    return s->right_until_ms != 0 ? s->right_until_ms : UINT64_MAX;
}

/* --- the master that a replica follows --- */

static bool selection_share_address(const struct resolver *a, const struct resolver *b)
{
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (strcmp(a->address[i], b->address[k]) == 0)
                return true;
    return false;
}

/* A name that is not found shows nothing. */
static void selection_on_compared(void *arg, const char *error)
{
    struct selection_comparison *m = &((struct selection *)arg)->masters;
    assert(m->lookups_due > 0);
    m->failed = m->failed || error != NULL;
    if (--m->lookups_due > 0 || m->failed)
        return;
    m->equal = selection_share_address(&m->side[0], &m->side[1]);
    m->made_ms = clock_boot_ms();
}

static bool selection_is_comparison_of(const struct selection_comparison *m,
                                       const struct redis_address *named,
                                       const struct redis_address *followed)
{
    return redis_address_equal(named, &m->of[0]) && redis_address_equal(followed, &m->of[1]);
}

static void selection_look_up_both(struct selection *s, const struct redis_address *named,
                                   const struct redis_address *followed)
{
    struct selection_comparison *m = &s->masters;
    if (!selection_is_comparison_of(m, named, followed))
        m->made_ms = 0;
    m->of[0] = *named;
    m->of[1] = *followed;
    m->lookups_due = 2;
    m->failed = false;
    for (int i = 0; i < 2; i++)
        resolver_start(&m->side[i], s->loop, m->of[i].host, selection_on_compared, s);
}

enum comparison_result { SAME, DIFFERENT, NOT_KNOWN };

/* Whether two addresses are equal, or names of the same address. */
static enum comparison_result selection_compare(struct selection *s, const struct redis_address *named,
                                                const struct redis_address *followed)
{
    struct selection_comparison *m = &s->masters;
    if (named->port != followed->port)
        return DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SAME;
    bool is_old = m->made_ms == 0 || clock_boot_ms() - m->made_ms >= COMPARISON_MS;
    if (m->lookups_due == 0 && (is_old || !selection_is_comparison_of(m, named, followed)))
        selection_look_up_both(s, named, followed);
    if (m->made_ms == 0 || !selection_is_comparison_of(m, named, followed))
        return NOT_KNOWN;
    return m->equal ? SAME : DIFFERENT;
}

const char *selection_check_master(struct selection *s, const struct redis_address *master, uint64_t sent_ms)
{
    uint64_t grace_ms = s->stale_limit_ms < GRACE_MS ? s->stale_limit_ms : GRACE_MS;
    uint64_t now = clock_boot_ms();
    if (s->is_master)
        return NULL;
    if (s->down_ms != 0 && now - s->down_ms >= grace_ms)
        return "it is reported as down";
    enum comparison_result result = selection_compare(s, &s->master, master);
    if (result == SAME) {
        selection_follow_master(s);
        s->confirmed_ms = sent_ms;
        s->right_until_ms = 0;
        return NULL;
    }
    bool was_confirmed = s->confirmed_ms != 0;
    if (s->right_until_ms == 0)
        s->right_until_ms = was_confirmed ? s->confirmed_ms : sent_ms;
    if ((was_confirmed || result == NOT_KNOWN) && now - s->right_until_ms < grace_ms)
        return NULL;
    return result == NOT_KNOWN ? "the name of its master was not found yet"
                               : "it follows another master than the one that is named";
}

/* --- beginning and end --- */

void selection_init(struct selection *s, uv_loop_t *loop, const struct redis_endpoint *settings,
                    struct redis_metrics *metrics, uint64_t stale_limit_ms)
{
    *s = (struct selection){.loop = loop,
                            .settings = settings,
                            .metrics = metrics,
                            .stale_limit_ms = stale_limit_ms,
                            .is_master = true};
}

void selection_close(struct selection *s)
{
    resolver_cancel(&s->masters.side[0]);
    resolver_cancel(&s->masters.side[1]);
}
