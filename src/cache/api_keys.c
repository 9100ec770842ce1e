/*
 * The set, and reading it; see api_keys.h.
 *
 * The hash of digests is seeded like all others, since the set may contain any 64 hexadecimal digits.
 */
#include "cache/api_keys.h"

#include "base/hash.h"
#include "base/log.h"
#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Redis may return fewer members than COUNT; the number of portions is bounded against a faulty server. */
static const char PORTION[] = "1000";
enum { PORTIONS_MAX = API_KEYS_MAX / 100 };

/* --- the set --- */

int api_keys_init(struct api_keys *k, const struct keyspace *keyspace, struct entries *entries,
                  struct cache_metrics *metrics)
{
    *k = (struct api_keys){.keyspace = keyspace, .entries = entries, .metrics = metrics};
    k->seed = random_seed(k);
    return table_init(&k->table);
}

static void clear(struct api_keys *k)
{
    table_reset(&k->table);
    free(k->digest);
    k->digest = NULL;
    k->count = k->capacity = 0;
    k->committed = false;
}

void api_keys_fini(struct api_keys *k)
{
    clear(k);
    table_fini(&k->table);
}

static inline uint64_t hash_of(const struct api_keys *k, const struct digest *d)
{
    return hash_bytes((struct span){(const char *)d->bytes, DIGEST_LEN}, k->seed);
}

static inline bool holds(const struct api_keys *k, const struct digest *d, uint64_t hash)
{
    const struct table_slot *slot = table_find(&k->table, hash);
    while (slot != NULL && memcmp(slot->entry, d, sizeof *d) != 0)
        slot = table_find_next(&k->table, slot);
    return slot != NULL;
}

/* Makes room for a set of `size` digests, in place of what is held. */
static int make_room(struct api_keys *k, size_t size)
{
    clear(k);
    if (size > API_KEYS_MAX)
        return -E2BIG;
    k->digest = malloc((size > 0 ? size : 1) * sizeof *k->digest);
    if (k->digest == NULL)
        return -ENOMEM;
    k->capacity = size;
    return 0;
}

static int add_one(struct api_keys *k, const struct digest *d)
{
    uint64_t hash = hash_of(k, d);
    if (holds(k, d, hash))
        return 0;
    if (k->count == k->capacity)
        return -E2BIG;
    struct digest *at = &k->digest[k->count];
    *at = *d;
    int err = table_add(&k->table, hash, at);
    k->count += err == 0;
    return err;
}

/*
 * Adds the members of a reply. A digest may come more than once; a member that is none is counted and left
 * out. Returns 0, -EINVAL for a reply that is no list, -E2BIG for more than there is room for, or -ENOMEM.
 */
static int add_all(struct api_keys *k, const redisReply *members)
{
    if (members->type != REDIS_REPLY_SET && members->type != REDIS_REPLY_ARRAY)
        return -EINVAL;
    for (size_t i = 0; i < members->elements; i++) {
        const redisReply *member = members->element[i];
        struct digest d;
        int err = 0;
        if (member->type != REDIS_REPLY_STRING || !digest_from_hex(resp_text(member), &d))
            metric_add(&k->metrics->invalid_values_total, 1);
        else
            err = add_one(k, &d);
        if (err != 0)
            return err;
    }
    return 0;
}

/* --- single results --- */

/* A result is named by its epoch as well, so that a change of the set makes all of them unreachable. */
struct result_key {
    struct digest digest;
    int64_t epoch;
};

static struct span name_of(const struct result_key *key)
{
    return (struct span){(const char *)key, sizeof *key};
}

static enum auth_result find_result(const struct api_keys *k, const struct digest *key, uint64_t confirmed)
{
    const struct result_key name = {*key, k->epoch};
    const struct entry *e = entries_find(k->entries, ENTRY_AUTH, name_of(&name));
    if (e == NULL || !entry_is_confirmed(e, confirmed))
        return AUTH_RESULT_UNKNOWN;
    return e->negative ? AUTH_RESULT_INVALID : AUTH_RESULT_VALID;
}

enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key, uint64_t confirmed)
{
    if (!k->committed)
        return find_result(k, key, confirmed);
    return holds(k, key, hash_of(k, key)) ? AUTH_RESULT_VALID : AUTH_RESULT_INVALID;
}

void api_keys_put_result(struct api_keys *k, const struct digest *key, bool valid, uint64_t check)
{
    const struct result_key name = {*key, k->epoch};
    if (k->committed)
        return;
    if (valid)
        entries_put(k->entries, ENTRY_AUTH, name_of(&name), NULL, 0);
    else
        entries_put_absent(k->entries, ENTRY_AUTH, name_of(&name), (int64_t)check);
}

/* --- reading: steps --- */

static bool is_permitted(enum api_keys_step from, enum api_keys_step to)
{
    switch (to) {
    case API_KEYS_IDLE:
        return true;
    case API_KEYS_READ_SIZE:
        return from == API_KEYS_IDLE;
    case API_KEYS_READ_MEMBERS:
        return from == API_KEYS_READ_SIZE;
    case API_KEYS_READ_PORTION:
        return from == API_KEYS_READ_SIZE || from == API_KEYS_READ_PORTION;
    case API_KEYS_UNCOMMITTED:
        return from == API_KEYS_READ_MEMBERS || from == API_KEYS_READ_PORTION;
    }
    return false;
}

static void set_step(struct api_keys *k, enum api_keys_step next)
{
    assert(is_permitted(k->step, next));
    k->step = next;
}

static bool is_under_way(const struct api_keys *k)
{
    return k->step == API_KEYS_READ_SIZE || k->step == API_KEYS_READ_MEMBERS ||
           k->step == API_KEYS_READ_PORTION;
}

/* Goes to a step that sends a command; `cursor` is NULL for one that has none. */
static void compose(struct api_keys *k, enum api_keys_step step, const char *name, const char *cursor,
                    struct buf *command)
{
    struct buf key = BUF_INIT;
    keyspace_api_keys(k->keyspace, &key);
    buf_clear(command);
    command_begin(command, cursor != NULL ? 5 : 2);
    command_add(command, span_of(name));
    command_add_buf(command, &key);
    if (cursor != NULL) {
        command_add(command, span_of(cursor));
        command_add(command, SPAN("COUNT"));
        command_add(command, span_of(PORTION));
    }
    buf_fini(&key);
    set_step(k, step);
}

void api_keys_invalidate(struct api_keys *k)
{
    clear(k);
    k->large = false;
    k->epoch++;
    k->changed = true;
    if (k->step == API_KEYS_UNCOMMITTED)
        set_step(k, API_KEYS_IDLE);
}

bool api_keys_read(struct api_keys *k, uint64_t now_ms, struct buf *command)
{
    if (is_under_way(k))
        return false;
    k->started_ms = now_ms;
    set_step(k, API_KEYS_IDLE);
    compose(k, API_KEYS_READ_SIZE, "SCARD", NULL, command);
    return true;
}

void api_keys_commit(struct api_keys *k)
{
    if (k->step != API_KEYS_UNCOMMITTED)
        return;
    set_step(k, API_KEYS_IDLE);
    k->committed = true;
}

/* --- reading: replies --- */

/* A set that is denied or too large stays so until it changes; lack of memory may be temporary. */
static void give_up(struct api_keys *k, int err)
{
    clear(k);
    set_step(k, API_KEYS_IDLE);
    k->large = err != -ENOMEM;
    if (err != -E2BIG)
        log_text(LOG_WARN, "the API key set cannot be read: each key is checked in Redis", NULL, NULL);
}

static enum api_keys_progress take_size(struct api_keys *k, const redisReply *reply, struct buf *command)
{
    int err = 0;
    if (reply->type != REDIS_REPLY_INTEGER) {
        set_step(k, API_KEYS_IDLE);
        return API_KEYS_STOPPED;
    }
    k->large = reply->integer > API_KEYS_MAX;
    if (k->large) {
        set_step(k, API_KEYS_IDLE);
        return API_KEYS_STOPPED;
    }
    k->set_size = reply->integer;
    if (reply->integer <= API_KEYS_AT_ONCE_MAX) {
        compose(k, API_KEYS_READ_MEMBERS, "SMEMBERS", NULL, command);
        return API_KEYS_SEND;
    }
    k->changed = false;
    k->portions_left = PORTIONS_MAX;
    err = make_room(k, (size_t)reply->integer);
    if (err != 0) {
        give_up(k, err);
        return API_KEYS_STOPPED;
    }
    compose(k, API_KEYS_READ_PORTION, "SSCAN", "0", command);
    return API_KEYS_SEND;
}

static enum api_keys_progress take_members(struct api_keys *k, const redisReply *members)
{
    bool is_list = members->type == REDIS_REPLY_SET || members->type == REDIS_REPLY_ARRAY;
    int err = make_room(k, is_list ? members->elements : 0);
    if (err == 0)
        err = add_all(k, members);
    if (err == 0) {
        k->set_size = (int64_t)members->elements;
        set_step(k, API_KEYS_UNCOMMITTED);
        return API_KEYS_COMPLETE;
    }
    /* What cannot be read at once is tried again later, unless it has grown since its size was read. */
    bool large = err == -E2BIG || resp_is_oversize(members);
    give_up(k, err);
    k->large = large;
    return API_KEYS_STOPPED;
}

/* Returns 0, or a negative errno: then nothing of the set is known. */
static int add_portion(struct api_keys *k, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return -EINVAL;
    const redisReply *cursor = reply->element[0];
    if (cursor->type != REDIS_REPLY_STRING || cursor->len > API_KEYS_CURSOR_MAX || k->portions_left == 0)
        return -EINVAL;
    k->portions_left--;
    memcpy(k->cursor, cursor->str, cursor->len);
    k->cursor[cursor->len] = '\0';
    return add_all(k, reply->element[1]);
}

static enum api_keys_progress take_portion(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                           struct buf *command)
{
    if (k->changed) { /* read again after a pause, so that frequent changes do not cause constant reads */
        k->started_ms = now_ms;
        set_step(k, API_KEYS_IDLE);
        return API_KEYS_STOPPED;
    }
    int err = add_portion(k, reply);
    if (err != 0) {
        give_up(k, err);
        return API_KEYS_STOPPED;
    }
    if (strcmp(k->cursor, "0") == 0) {
        set_step(k, API_KEYS_UNCOMMITTED);
        return API_KEYS_COMPLETE;
    }
    compose(k, API_KEYS_READ_PORTION, "SSCAN", k->cursor, command);
    return API_KEYS_SEND;
}

enum api_keys_progress api_keys_reply(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                      struct buf *command)
{
    assert(is_under_way(k));
    if (reply == NULL) {
        set_step(k, API_KEYS_IDLE);
        return API_KEYS_STOPPED;
    }
    switch (k->step) {
    case API_KEYS_READ_SIZE:
        return take_size(k, reply, command);
    case API_KEYS_READ_MEMBERS:
        return take_members(k, reply);
    default:
        return take_portion(k, reply, now_ms, command);
    }
}
