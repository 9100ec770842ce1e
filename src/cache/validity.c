/* The events that change the state; see validity.h. */
#include "cache/validity.h"

#include "base/clock.h"

#include <assert.h>

void validity_connected(struct validity *v, uint64_t pong_ms, bool tracking, bool absences_untracked)
{
    assert(!v->connected);
    v->connected = true;
    v->tracking = tracking;
    v->absences_untracked = absences_untracked;
    v->by_ttl = v->limits.enabled && !tracking && v->limits.ttl_ms > 0;
    v->suspended = v->missing = false;
    v->flush_pending = false;
    v->pong_ms = pong_ms;
    v->drained_until_ms = 0;
    v->present_ms = clock_boot_ms(); /* no entry is older */
    v->coherent = validity_may_store(v);
}

static uint64_t validity_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * A process that was stopped notices the loss late, so the age counts at most from the end of the lease. Data
 * of a replica without a master counts from the last transfer of its master. Behind a flush that waits for a
 * check Redis may track nothing any more. Then only the time is known at which the catalogue was last found.
 */
void validity_lost(struct validity *v, uint64_t valid_until_ms)
{
    assert(v->connected);
    v->connected = v->tracking = false;
    v->lost_ms =
        validity_earlier(clock_boot_ms(), validity_earlier(v->pong_ms + VALIDITY_LEASE_MS, valid_until_ms));
    if (v->flush_pending)
        v->lost_ms = validity_earlier(v->lost_ms, v->present_ms);
    if (valid_until_ms == 0)
        v->coherent = v->by_ttl = false;
    if (v->missing)
        v->flush_pending = false;
}

void validity_flush(struct validity *v)
{
    v->flush_pending = true;
    v->flushes++;
    v->possible_losses++;
}

void validity_suspend(struct validity *v)
{
    v->suspended = true;
    v->coherent = v->flush_pending = false;
}

/* The changes whose invalidations have arrived were executed before SCARD, and all others after it. */
void validity_counted(struct validity *v, int64_t count, bool found)
{
    v->key_count = count;
    v->possible_losses += !found;
    v->losses_seen = found ? v->possible_losses : 0;
}

void validity_checked(struct validity *v, bool present, bool missing, uint64_t began_ms)
{
    v->missing |= missing;
    if (present)
        v->present_ms = began_ms;
}
