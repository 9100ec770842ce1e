/* Handling of pushes and of lost connections; see invalidation.h. */
#include "cache/invalidation.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int invalidation_init(struct invalidation *i, const struct keyspace *keyspace, struct cache_metrics *metrics,
                      struct loop_lag *loop_lag, bool enabled,
                      const struct invalidation_subscriber *subscriber)
{
    *i = (struct invalidation){.keyspace = keyspace,
                               .metrics = metrics,
                               .loop_lag = loop_lag,
                               .subscriber = *subscriber,
                               .enabled = enabled};
    keyspace_index(keyspace, &i->index_key);
    keyspace_api_keys(keyspace, &i->api_keys_key);
    return buf_error(&i->index_key) != 0 ? -ENOMEM : buf_error(&i->api_keys_key);
}

void invalidation_fini(struct invalidation *i)
{
    buf_fini(&i->index_key);
    buf_fini(&i->api_keys_key);
}

/* --- pushes --- */

/* Returns whether the invalidation is deferred until a check of the catalogue. */
static bool defer(struct invalidation *i, unsigned what, bool checking)
{
    uint64_t now = clock_boot_ms();
    uint64_t *last_ms = what == INVALIDATED_INDEX ? &i->index_check_ms : &i->keys_check_ms;
    if (what != INVALIDATED_ALL && !checking && now - *last_ms < INVALIDATION_CHECK_INTERVAL_MS)
        return false;
    *last_ms = now;
    if (i->deferred == 0)
        i->deferred_ms = now;
    i->deferred |= what;
    return true;
}

/* Replies in flight may be older than the change: they are neither cached nor shared. */
static void notice(struct invalidation *i, unsigned what, bool checking)
{
    const struct invalidation_subscriber *to = &i->subscriber;
    i->possible_losses += what != INVALIDATED_INDEX;
    to->received(to->arg, what);
    if (defer(i, what, checking))
        to->check(to->arg);
    else
        to->drop(to->arg, what);
}

static void key_changed(struct invalidation *i, struct span key, bool checking)
{
    const struct invalidation_subscriber *to = &i->subscriber;
    int64_t id = 0;
    struct span card = keyspace_card_id(i->keyspace, key);
    struct span link = keyspace_link_of(i->keyspace, key);
    loop_lag_begin(i->loop_lag);
    metric_add(&i->metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) == 0)
            to->card(to->arg, id);
    } else if (link.data != NULL) {
        to->link(to->arg, link);
    } else if (span_equal(key, buf_span(&i->index_key))) {
        notice(i, INVALIDATED_INDEX, checking);
    } else if (span_equal(key, buf_span(&i->api_keys_key))) {
        notice(i, INVALIDATED_KEYS, checking);
    }
}

/* For tests that must detect a process that ignores invalidations. */
static bool is_ignoring(void)
{
#ifdef CHANNELD_TEST_HOOKS
    return getenv("CHANNELD_TEST_IGNORE_INVALIDATIONS") != NULL;
#else
    return false;
#endif
}

/*
 * A push with many keys is applied as its elements arrive. That is safe because an element only drops
 * entries. Replies cannot be inside a push, so a command sent after the first element is answered after the
 * last one. Keys that the rest of the push will name are served as before the push; no client reads an older
 * value after a newer one, since newer values come only behind the push. If the connection ends within a
 * push, the next connection begins with an empty cache.
 */
void invalidation_push(struct invalidation *i, struct span kind, const redisReply *element, bool checking)
{
    if (is_ignoring() || i->suspended || !span_equal(kind, SPAN("invalidate")))
        return;
    if (element->type == REDIS_REPLY_STRING)
        key_changed(i, (struct span){element->str, element->len}, checking);
    else /* null: FLUSHALL, or a replica's full resynchronisation; else a name that is too long to be read */
        notice(i, INVALIDATED_ALL, checking);
}

void invalidation_apply(struct invalidation *i)
{
    unsigned what = i->deferred;
    i->deferred = 0;
    if (what != 0)
        i->subscriber.drop(i->subscriber.arg, what);
}

/* --- connections --- */

void invalidation_suspend(struct invalidation *i)
{
    i->suspended = true;
    i->coherent = false;
    i->deferred = 0;
    metric_set(&i->metrics->cache_suspended, 1);
    i->subscriber.drop(i->subscriber.arg, INVALIDATED_ALL);
}

void invalidation_connected(struct invalidation *i, bool tracking)
{
    assert(!i->connected);
    i->connected = true;
    i->tracking = tracking;
    i->suspended = false;
    i->deferred = 0;
    metric_set(&i->metrics->cache_suspended, 0);
    i->coherent = invalidation_may_store(i);
    i->subscriber.drop(i->subscriber.arg, INVALIDATED_ALL);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * A process that was stopped notices the loss late, so the age counts from the end of the lease at most; data
 * of a replica without a master counts from the last transfer of its master.
 */
void invalidation_lost(struct invalidation *i, uint64_t last_pong_ms, uint64_t valid_until_ms,
                       bool catalogue_missing)
{
    assert(i->connected);
    i->connected = i->tracking = false;
    i->lost_ms = earlier(clock_boot_ms(), earlier(last_pong_ms + INVALIDATION_LEASE_MS, valid_until_ms));
    if (i->deferred != 0)
        i->lost_ms = earlier(i->lost_ms, i->deferred_ms);
    if (catalogue_missing)
        i->deferred = 0;
    else
        invalidation_apply(i);
}
