/*
 * The records of keys; see api_keys.h.
 *
 * The hash of digests is seeded like all others, since the set may contain any 64 hexadecimal digits.
 */
#include "cache/api_keys.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/*
 * Keys that one heartbeat visits, in less than a millisecond; keys that a search for room visits, and records
 * of each table that an audit visits.
 */
enum {
    WALKED_SLOTS = 2048,
    SWEEP_KEYS = 4096,
    ROOM_KEYS = 64,
    AUDIT_SEARCH = (API_KEYS_AUDITED - API_KEYS_RECENT) / 2
};

struct api_key {
    struct digest digest;
    uint64_t epoch; /* the epoch in which the key was last confirmed */
    struct lifetime lifetime;
    int64_t expires;
    uint32_t used; /* the second of the last use */
    unsigned char name_len;
    char name[];
};

/* --- the table --- */

void api_keys_init(struct api_keys *k, struct cache_metrics *metrics)
{
    *k = (struct api_keys){.metrics = metrics, .epoch = 1, .second = 1, .next_expiry = API_KEY_NEVER};
    k->seed = random_seed(k);
}

static inline uint64_t api_keys_hash_of(const struct api_keys *k, const struct digest *d)
{
    return digest_hash(d, k->seed);
}

static inline struct api_key *api_keys_find(const struct api_keys *k, const struct digest *d)
{
    const struct table_slot *slot = table_find(&k->table, api_keys_hash_of(k, d));
    /* not covered: two digests with the same 64-bit hash */
    while (slot != NULL && memcmp(&((const struct api_key *)slot->entry)->digest, d, sizeof *d) != 0)
        slot = table_find_next(&k->table, slot);
    return slot == NULL ? NULL : slot->entry;
}

/* It counts until the next change of the keys is announced. */
static inline bool api_keys_knows(const struct api_keys *k, const struct api_key *key)
{
    return key != NULL && key->epoch == k->epoch && lifetime_is_tracked(key->lifetime);
}

static void api_keys_drop(struct api_keys *k, struct api_key *key)
{
    table_remove(&k->table, api_keys_hash_of(k, &key->digest), key);
    free(key);
}

void api_keys_fini(struct api_keys *k)
{
    for (size_t cursor = 0; table_used(&k->table) > 0;) {
        struct api_key *key = table_walk(&k->table, &cursor, WALKED_SLOTS);
        if (key != NULL)
            api_keys_drop(k, key);
    }
    table_clear(&k->table);
}

/* --- the state --- */

void api_keys_invalidate(struct api_keys *k)
{
    k->epoch++;
    k->differs = false;
}

void api_keys_note_scanned(struct api_keys *k)
{
    if (k->scanned_epoch == k->epoch)
        return;
    k->scanned_epoch = k->epoch;
    k->next_expiry = API_KEY_NEVER;
    k->sweep = 0;
}

void api_keys_forgo_scan(struct api_keys *k, const char *reason)
{
    metric_set(&k->metrics->api_key_next_expiry_timestamp_seconds, 0);
    if (log_reason_is_due(&k->reasons, reason, clock_now_ms()))
        log_text(LOG_WARN, "the API key set is not in memory: each key is checked in redis", "reason",
                 reason);
}

/* --- absent keys --- */

static size_t api_keys_absent_set(const struct api_keys *k, const struct digest *d)
{
    return api_keys_hash_of(k, d) % API_KEYS_ABSENT_SETS * API_KEYS_ABSENT_WAYS;
}

bool api_keys_is_absent(const struct api_keys *k, const struct digest *d)
{
    const struct api_key_absence *set = &k->absence[api_keys_absent_set(k, d)];
    bool absent = false;
    for (int i = 0; i < API_KEYS_ABSENT_WAYS; i++)
        absent |= set[i].epoch == k->epoch && memcmp(&set[i].digest, d, sizeof *d) == 0;
    return absent;
}

/* The place of a record that does not count any more, or else one of the set in turn. */
static struct api_key_absence *api_keys_place_absence(struct api_keys *k, const struct digest *d)
{
    struct api_key_absence *set = &k->absence[api_keys_absent_set(k, d)];
    for (int i = 0; i < API_KEYS_ABSENT_WAYS; i++)
        if (set[i].epoch != k->epoch)
            return &set[i];
    return &set[k->next_way++ % API_KEYS_ABSENT_WAYS];
}

void api_keys_note_absent(struct api_keys *k, const struct digest *digest)
{
    if (!api_keys_is_absent(k, digest))
        *api_keys_place_absence(k, digest) = (struct api_key_absence){*digest, k->epoch};
}

/* --- checks --- */

/* The key used longest ago leaves the list when there are too many. */
static void api_keys_note_use(struct api_keys *k, struct api_key *key)
{
    size_t at = 0;
    key->used = k->second;
    while (at < k->recent_count && memcmp(&k->recent[at], &key->digest, sizeof key->digest) != 0)
        at++;
    k->recent_count += at == k->recent_count && at < API_KEYS_RECENT;
    at = at < k->recent_count ? at : k->recent_count - 1;
    memmove(&k->recent[1], &k->recent[0], at * sizeof k->recent[0]);
    k->recent[0] = key->digest;
}

enum auth_result api_keys_check(struct api_keys *k, const struct digest *digest, uint64_t now_ms,
                                struct api_key_name *name)
{
    struct api_key *key = api_keys_find(k, digest);
    api_key_name_clear(name);
    if (key == NULL || key->epoch != k->epoch || now_ms >= key->lifetime.until_ms)
        return api_keys_is_absent(k, digest) ? AUTH_RESULT_INVALID : AUTH_RESULT_UNKNOWN;
    if (key->used != k->second)
        api_keys_note_use(k, key);
    api_key_name_set(name, (struct span){key->name, key->name_len});
    return api_keys_is_expired(key->expires) ? AUTH_RESULT_INVALID : AUTH_RESULT_VALID;
}

bool api_keys_is_confirmed(const struct api_keys *k, const struct digest *key)
{
    return api_keys_knows(k, api_keys_find(k, key));
}

bool api_keys_was_valid(const struct api_keys *k, const struct digest *key)
{
    const struct api_key *held = api_keys_find(k, key);
    return held != NULL && !api_keys_is_expired(held->expires);
}

/* A key that is used, and is the next of the table too, is read twice. */
size_t api_keys_audited(struct api_keys *k, struct digest key[API_KEYS_AUDITED])
{
    size_t count = 0;
    for (size_t i = 0; i < k->recent_count; i++)
        if (api_keys_is_confirmed(k, &k->recent[i]))
            key[count++] = k->recent[i];
    bool ended = false; /* the end of the table was passed */
    for (int i = 0; i < AUDIT_SEARCH && !ended; i++) {
        size_t before = k->audit;
        const struct api_key *next = table_walk(&k->table, &k->audit, WALKED_SLOTS);
        ended = k->audit <= before;
        if (api_keys_knows(k, next))
            key[count++] = next->digest;
    }
    for (int i = 0; i < AUDIT_SEARCH; i++) {
        size_t at = k->audit_absent++ % (sizeof k->absence / sizeof k->absence[0]);
        const struct api_key_absence *absent = &k->absence[at];
        if (absent->epoch == k->epoch)
            key[count++] = absent->digest;
    }
    return count;
}

/* --- confirmed keys --- */

static void api_keys_make_room(struct api_keys *k)
{
    struct api_key *key = NULL;
    for (int i = 0; i < ROOM_KEYS && (key == NULL || api_keys_knows(k, key)); i++)
        key = table_walk(&k->table, &k->sweep, WALKED_SLOTS);
    if (key != NULL)
        api_keys_drop(k, key);
}

static struct api_key *api_keys_add(struct api_keys *k, const struct digest *digest, struct span name)
{
    struct api_key *key = malloc(sizeof *key + name.len);
    if (key == NULL)
        return NULL;
    *key = (struct api_key){.digest = *digest, .name_len = (unsigned char)name.len};
    if (name.len > 0)
        memcpy(key->name, name.data, name.len);
    if (table_used(&k->table) >= API_KEYS_HELD_MAX)
        api_keys_make_room(k);
    if (table_add(&k->table, api_keys_hash_of(k, digest), key) == 0)
        return key;
    free(key);
    return NULL;
}

int api_keys_confirm(struct api_keys *k, const struct digest *digest, struct lifetime lifetime,
                     const struct api_key_info *info)
{
    struct span name = api_key_name_span(&info->name);
    struct api_key *key = api_keys_find(k, digest);
    bool is_known = api_keys_knows(k, key);
    if (is_known && !lifetime_is_tracked(lifetime))
        return 0;
    bool is_named = key != NULL && span_equal((struct span){key->name, key->name_len}, name);
    if ((is_known && (!is_named || key->expires != info->expires)) || api_keys_is_absent(k, digest))
        k->differs = true;
    if (key != NULL && !is_named) {
        api_keys_drop(k, key);
        key = NULL;
    }
    if (key == NULL)
        key = api_keys_add(k, digest, name);
    if (key == NULL)
        return -ENOMEM;
    key->epoch = k->epoch;
    key->lifetime = lifetime;
    key->expires = info->expires;
    return 0;
}

void api_keys_deny(struct api_keys *k, const struct digest *digest)
{
    struct api_key *key = api_keys_find(k, digest);
    if (api_keys_knows(k, key))
        k->differs = true;
    else if (key != NULL)
        api_keys_drop(k, key);
}

/* --- heartbeats --- */

static void api_keys_show_next_expiry(struct api_keys *k)
{
    uint64_t shown = k->next_expiry != API_KEY_NEVER ? (uint64_t)k->next_expiry : 0;
    metric_set(&k->metrics->api_key_next_expiry_timestamp_seconds, shown);
}

/* All members were checked, so a key that is not confirmed is not a member any more, or was not found. */
static void api_keys_sweep_key(struct api_keys *k, struct api_key *key, int64_t now)
{
    if (!api_keys_knows(k, key))
        api_keys_drop(k, key);
    else if (key->expires < k->next_expiry && !api_key_is_expired(key->expires, now))
        k->next_expiry = key->expires;
}

/* At the end of the table the earliest expiry is known. */
static void api_keys_sweep(struct api_keys *k)
{
    int64_t now = clock_wall_s();
    for (int i = 0; i < SWEEP_KEYS; i++) {
        size_t before = k->sweep;
        struct api_key *key = table_walk(&k->table, &k->sweep, WALKED_SLOTS);
        bool ended = k->sweep <= before;
        if (ended) {
            api_keys_show_next_expiry(k);
            k->next_expiry = API_KEY_NEVER;
        }
        if (key != NULL)
            api_keys_sweep_key(k, key, now);
        if (ended)
            return;
    }
}

/* While a changed set is scanned again, the metric of the next expiry keeps its value. */
void api_keys_heartbeat(struct api_keys *k)
{
    k->second++;
    if (k->scanned_epoch == k->epoch)
        api_keys_sweep(k);
}
