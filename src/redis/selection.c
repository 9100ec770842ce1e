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

/* --- the choice --- */

bool selection_has_owner(const struct selection *s)
{
    return s->owner_ms != 0 && clock_boot_ms() - s->owner_ms < GRACE_MS;
}

/* The evidence against an earlier server does not count against this one. */
void selection_select(struct selection *s, const struct redis_address *master,
                      const struct redis_address *replica)
{
    s->is_master = replica == NULL;
    s->master = *master;
    s->address = s->is_master ? *master : *replica;
    s->right_until_ms = s->down_ms = 0;
    s->confirmed_ms = s->is_master ? clock_boot_ms() : 0;
}

unsigned selection_replicas(const struct selection *s, const struct locator_answer *answer)
{
    return s->settings->discovery.replica ? (unsigned)answer->replicas : 0;
}

bool selection_stands_in(const struct selection *s)
{
    return s->is_master && s->settings->discovery.replica;
}

/* --- is it still the right one? --- */

static void selection_note_down(struct selection *s, const struct locator_answer *answer)
{
    bool is_down = false;
    for (int i = 0; i < answer->downs; i++)
        is_down = is_down || redis_address_equal(&answer->down[i], &s->address);
    if (!is_down)
        s->down_ms = 0;
    else if (s->down_ms == 0)
        s->down_ms = clock_boot_ms();
}

const char *selection_check_answer(struct selection *s, const struct locator_answer *answer, bool in_use)
{
    bool is_same = redis_address_is_same(&answer->master, &s->master);
    if (!is_same && selection_has_owner(s)) /* the other nodes do not know yet that it has changed */
        return NULL;
    if (in_use && !s->is_master) { /* its next INFO shows whether it follows the master that is named */
        s->master = answer->master;
        selection_note_down(s, answer);
        return NULL;
    }
    if (is_same && in_use)
        s->confirmed_ms = clock_boot_ms();
    else if (in_use)
        s->right_until_ms = s->confirmed_ms;
    return is_same ? NULL : MOVED;
}

bool selection_take_error(struct selection *s, const struct redis_reply *error)
{
    struct redis_address owner;
    if (!cluster_read_moved(&s->address, error, &owner))
        return false;
    s->right_until_ms = s->confirmed_ms;
    s->owner = owner;
    s->owner_ms = owner.port != 0 ? clock_boot_ms() : 0;
    return s->owner_ms != 0;
}

uint64_t selection_trusted_until_ms(const struct selection *s)
{
    return s->right_until_ms != 0 ? s->right_until_ms : UINT64_MAX;
}

/* --- the master that a replica follows --- */

static bool selection_share_address(const struct resolver_result *a, const struct resolver_result *b)
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
    (void)error; /* it has no addresses then */
    assert(m->lookups_due > 0);
    const struct resolver_result *a = &m->side[0].result;
    const struct resolver_result *b = &m->side[1].result;
    if (--m->lookups_due == 0 && a->count > 0 && b->count > 0)
        m->result = selection_share_address(a, b) ? SELECTION_SAME : SELECTION_DIFFERENT;
}

/* Looks the names up, unless that is in progress. Until it has ended the earlier result counts. */
static void selection_look_up_both(struct selection *s)
{
    struct selection_comparison *m = &s->masters;
    if (m->lookups_due > 0)
        return;
    m->begun_ms = clock_boot_ms();
    m->lookups_due = 2;
    for (int i = 0; i < 2; i++)
        resolver_start(&m->side[i], s->loop, m->of[i].host, selection_on_compared, s);
}

/* Whether two addresses are equal, or names of the same address. */
static enum selection_result selection_compare(struct selection *s, const struct redis_address *named,
                                               const struct redis_address *followed)
{
    struct selection_comparison *m = &s->masters;
    if (named->port != followed->port)
        return SELECTION_DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SELECTION_SAME;
    if (!redis_address_equal(named, &m->of[0]) || !redis_address_equal(followed, &m->of[1])) {
        selection_close(s);
        m->of[0] = *named;
        m->of[1] = *followed;
        m->lookups_due = 0;
        m->result = SELECTION_NOT_KNOWN;
    }
    if (m->result == SELECTION_NOT_KNOWN || clock_boot_ms() - m->begun_ms >= COMPARISON_MS)
        selection_look_up_both(s);
    return m->result;
}

const char *selection_check_master(struct selection *s, const struct redis_address *master, uint64_t sent_ms)
{
    uint64_t now = clock_boot_ms();
    if (s->is_master)
        return NULL;
    if (s->down_ms != 0 && now - s->down_ms >= s->grace_ms)
        return "it is reported as down";
    enum selection_result result = selection_compare(s, &s->master, master);
    if (result == SELECTION_SAME) {
        s->confirmed_ms = sent_ms;
        s->right_until_ms = 0;
        return NULL;
    }
    bool was_confirmed = s->confirmed_ms != 0;
    if (s->right_until_ms == 0)
        s->right_until_ms = was_confirmed ? s->confirmed_ms : sent_ms;
    if ((was_confirmed || result == SELECTION_NOT_KNOWN) && now - s->right_until_ms < s->grace_ms)
        return NULL;
    return result == SELECTION_NOT_KNOWN ? "the name of its master was not found yet"
                                         : "it follows another master than the one that is named";
}

/* --- beginning and end --- */

void selection_init(struct selection *s, uv_loop_t *loop, const struct redis_endpoint *settings,
                    uint64_t stale_limit_ms)
{
    *s = (struct selection){.loop = loop,
                            .settings = settings,
                            .grace_ms = stale_limit_ms < GRACE_MS ? stale_limit_ms : GRACE_MS,
                            .is_master = true};
}

void selection_close(struct selection *s)
{
    resolver_cancel(&s->masters.side[0]);
    resolver_cancel(&s->masters.side[1]);
}
