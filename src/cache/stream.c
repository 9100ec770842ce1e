/* Events of the connection and pushes; see stream.h. */
#include "cache/stream.h"

#include "base/clock.h"
#include "base/text.h"
#include "cache/fetch.h"
#include "cache/keys.h"
#include "cache/upstream.h"

#include <assert.h>
#include <errno.h>
#include <sys/param.h>

int stream_init(struct stream *s, const struct cache_parts *parts, const struct cache_options *options)
{
    *s = (struct stream){.parts = parts, .options = options, .possible_losses = 1, .key_count = -1};
    keyspace_append(parts->keyspace, &s->index_key, KEYSPACE_INDEX);
    keyspace_append(parts->keyspace, &s->api_keys_key, KEYSPACE_API_KEYS);
    keyspace_append(parts->keyspace, &s->api_key_info_key, KEYSPACE_API_KEY_INFO);
    bool keys_complete = buf_error(&s->api_keys_key) == 0 && buf_error(&s->api_key_info_key) == 0;
    return keys_complete ? buf_error(&s->index_key) : -ENOMEM;
}

void stream_fini(struct stream *s)
{
    buf_fini(&s->index_key);
    buf_fini(&s->api_keys_key);
    buf_fini(&s->api_key_info_key);
}

/* --- everything --- */

static void stream_drop_all(struct stream *s)
{
    const struct cache_parts *parts = s->parts;
    metric_add(&parts->metrics->cache_flushes_total, 1);
    entries_clear(parts->entries);
    keys_invalidate(parts->keys);
}

/* Redis may have lost its data: nothing is dropped before a check has found a catalogue. */
static void stream_flush(struct stream *s)
{
    s->flush_pending = true;
    s->flushes++;
    s->possible_losses++;
    upstream_check_catalogue(s->parts->upstream);
}

static void stream_apply_flush(struct stream *s)
{
    if (!s->flush_pending)
        return;
    s->flush_pending = false;
    stream_drop_all(s);
}

void stream_suspend(struct stream *s)
{
    s->mode = STREAM_UNCACHED;
    s->flush_pending = false;
    metric_set(&s->parts->metrics->cache_suspended, 1);
    stream_drop_all(s);
}

/* --- checks of the catalogue --- */

void stream_checked(struct stream *s, bool present, bool missing, uint64_t began_ms)
{
    s->missing |= missing;
    if (missing)
        metric_set(&s->parts->metrics->catalogue_missing, 1);
    if (present)
        s->present_ms = began_ms;
    if (present && s->connected)
        stream_apply_flush(s);
}

/* --- pushes --- */

static void stream_card_changed(struct stream *s, int64_t id)
{
    const struct cache_parts *parts = s->parts;
    entries_drop(parts->entries, ENTRY_CARD, id);
    entries_drop_summary(parts->entries, id, s->pong_ms);
    fetches_invalidate_card(parts->fetches, id);
}

static void stream_key_changed(struct stream *s, struct span key)
{
    const struct cache_parts *parts = s->parts;
    int64_t id = 0;
    struct span card = keyspace_rest(parts->keyspace, key, KEYSPACE_CARD);
    loop_lag_begin(parts->loop_lag);
    metric_add(&parts->metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) == 0)
            stream_card_changed(s, id);
    } else if (span_equal(key, buf_span(&s->index_key))) {
        entries_drop_lists(parts->entries);
    } else if (span_equal(key, buf_span(&s->api_keys_key)) ||
               span_equal(key, buf_span(&s->api_key_info_key))) {
        s->possible_losses++;
        keys_invalidate(parts->keys);
    }
}

/*
 * A push with many keys is applied as its elements arrive. That is safe because an element only drops
 * entries. Replies cannot be inside a push, so a command sent after the first element is answered after the
 * last one. Keys that the rest of the push will name are served as before the push. No client reads an older
 * value after a newer one, since newer values come only behind the push. If the connection ends within a
 * push, the next connection begins with an empty cache.
 */
void stream_invalidate(struct stream *s, const struct redis_reply *key)
{
    if (s->mode != STREAM_TRACKED)
        return;
    if (key->type == REPLY_STRING)
        stream_key_changed(s, reply_text(key));
    else /* null: FLUSHALL, or a full resynchronisation; otherwise a name that is too long to be read */
        stream_flush(s);
}

/* --- connections --- */

void stream_connected(struct stream *s, uint64_t pong_ms, bool tracking, bool absences_untracked)
{
    struct cache_metrics *metrics = s->parts->metrics;
    assert(!s->connected);
    s->connected = true;
    bool is_cached = s->options->cache_size > 0 && (tracking || s->options->ttl_ms > 0);
    s->mode = !is_cached ? STREAM_UNCACHED : tracking ? STREAM_TRACKED : STREAM_TTL;
    s->absences_untracked = absences_untracked;
    s->missing = s->flush_pending = false;
    s->pong_ms = pong_ms;
    s->drained_until_ms = 0;
    s->present_ms = clock_boot_ms(); /* no entry is older */
    metric_set(&metrics->cache_suspended, 0);
    metric_set(&metrics->cache_untracked, s->options->cache_size > 0 && !tracking);
    metric_set(&metrics->cache_by_ttl, s->mode == STREAM_TTL);
    metric_set(&metrics->catalogue_missing, 0);
    metric_set(&metrics->api_keys_missing, 0);
    stream_drop_all(s);
}

/*
 * A process that was stopped notices the loss late, so the age counts at most from the end of the lease. Data
 * of a replica without a master counts from the last transfer of its master. Behind a flush that waits for a
 * check Redis may track nothing any more. Then only the time is known at which the catalogue was last found.
 */
void stream_lost(struct stream *s, uint64_t valid_until_ms)
{
    assert(s->connected);
    s->connected = false;
    s->lost_ms = MIN(clock_boot_ms(), MIN(s->pong_ms + STREAM_LEASE_MS, valid_until_ms));
    if (s->flush_pending)
        s->lost_ms = MIN(s->lost_ms, s->present_ms);
    if (valid_until_ms == 0)
        s->mode = STREAM_UNCACHED;
    if (s->missing)
        s->flush_pending = false;
    stream_apply_flush(s);
}
