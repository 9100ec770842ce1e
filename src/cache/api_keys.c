/*
 * The set, and reading it; see api_keys.h.
 *
 * The hash of digests is seeded like all others, since the set may contain any 64 hexadecimal digits.
 */
#include "cache/api_keys.h"

#include "base/backoff.h"
#include "base/hash.h"
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
    *k = (struct api_keys){
        .keyspace = keyspace, .entries = entries, .metrics = metrics, .next_expiry = API_KEY_NEVER};
    k->seed = random_seed(k);
    k->pause_seed = (unsigned)k->seed;
    return table_init(&k->table);
}

static void clear(struct api_keys *k)
{
    table_reset(&k->table);
    free(k->digest);
    free(k->record);
    buf_fini(&k->names);
    k->digest = NULL;
    k->record = NULL;
    k->count = k->capacity = k->recorded = k->malformed = 0;
    k->malformed_sum = 0;
    k->next_expiry = API_KEY_NEVER;
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

/* The digest as it is held, or NULL. */
static inline const struct digest *find(const struct api_keys *k, const struct digest *d, uint64_t hash)
{
    const struct table_slot *slot = table_find(&k->table, hash);
    while (slot != NULL && memcmp(slot->entry, d, sizeof *d) != 0)
        slot = table_find_next(&k->table, slot);
    return slot == NULL ? NULL : slot->entry;
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
    if (find(k, d, hash) != NULL)
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

/* --- names and expiries --- */

static inline enum auth_result result_now(int64_t expires)
{
    return api_keys_is_expired(expires) ? AUTH_RESULT_INVALID : AUTH_RESULT_VALID;
}

static void report_malformed(const struct digest *key, size_t count)
{
    enum { SHOWN = 8 };
    struct log_line line;
    char digits[DIGEST_HEX_LEN];
    digest_hex(key, digits);
    if (!log_begin(&line, LOG_WARN,
                   "invalid API key info in redis: without a readable expiry the key is refused, "
                   "without a readable name it has none"))
        return;
    log_str(&line, "key", (struct span){digits, SHOWN});
    log_int(&line, "keys", (int64_t)count);
    log_end(&line);
}

/* Parses the text of an info, or nil. Returns whether it is well-formed; malformed ones are counted. */
static bool parse_info(struct api_keys *k, const redisReply *reply, struct api_key_info *out)
{
    *out = API_KEY_INFO_NONE;
    if (reply->type == REDIS_REPLY_NIL)
        return true;
    unsigned faults = api_key_info_parse(resp_text(reply), out) & ~(unsigned)API_KEY_FAULT_ISSUED;
    metric_add(&k->metrics->invalid_values_total, faults != 0);
    return faults == 0;
}

static bool is_info(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_NIL || reply->type == REDIS_REPLY_STRING;
}

/* The next digest's. Returns 0 or -ENOMEM. */
static int add_record(struct api_keys *k, const redisReply *reply)
{
    struct api_key_info info;
    const struct digest *d = &k->digest[k->recorded];
    if (!parse_info(k, reply, &info)) {
        k->malformed++;
        k->malformed_key = *d;
        k->malformed_sum += hash_of(k, d);
    }
    struct api_key_record *record = &k->record[k->recorded++];
    *record = (struct api_key_record){.expires = info.expires};
    if (info.name.len == 0)
        return 0;
    record->name = k->names.len;
    buf_append_char(&k->names, (char)info.name.len);
    buf_append_span(&k->names, api_key_name_span(&info.name));
    return buf_error(&k->names);
}

/* Replies come in the order of the digests. Returns 0, -EINVAL for another reply, or -ENOMEM. */
static int add_records(struct api_keys *k, const redisReply *infos)
{
    if (infos->type != REDIS_REPLY_ARRAY || infos->elements == 0 || infos->elements > k->count - k->recorded)
        return -EINVAL;
    int err = 0;
    for (size_t i = 0; i < infos->elements && err == 0; i++)
        err = is_info(infos->element[i]) ? add_record(k, infos->element[i]) : -EINVAL;
    return err;
}

/* Some have an info. Returns 0 or -ENOMEM. */
static int make_records(struct api_keys *k)
{
    assert(k->record == NULL && k->count > 0);
    k->record = malloc(k->count * sizeof *k->record);
    buf_append_char(&k->names, '\0'); /* so that no name is at 0 */
    return k->record == NULL ? -ENOMEM : buf_error(&k->names);
}

/* To be called when all were read: the same ones are logged once, however often they are read. */
static void report_malformed_records(struct api_keys *k)
{
    if (k->malformed > 0 && k->malformed_sum != k->malformed_logged)
        report_malformed(&k->malformed_key, k->malformed);
    k->malformed_logged = k->malformed_sum;
}

static enum auth_result check_record(const struct api_keys *k, const struct api_key_record *record,
                                     struct api_key_name *name)
{
    if (record->name != 0) {
        const char *text = k->names.data + record->name;
        api_key_name_set(name, (struct span){text + 1, (size_t)text[0]});
    }
    return result_now(record->expires);
}

/* Looks at all of them, which takes less than a millisecond. */
static int64_t earliest_expiry(const struct api_keys *k, int64_t now)
{
    int64_t earliest = API_KEY_NEVER;
    for (size_t i = 0; i < k->recorded; i++) {
        int64_t expires = k->record[i].expires;
        if (expires < earliest && !api_key_is_expired(expires, now))
            earliest = expires;
    }
    return earliest;
}

static void show_next_expiry(const struct api_keys *k)
{
    bool known = k->state == API_KEYS_HELD && k->next_expiry != API_KEY_NEVER;
    metric_set(&k->metrics->api_key_next_expiry_timestamp_seconds, known ? (uint64_t)k->next_expiry : 0);
}

/* To be called when the set is new, or the next one has expired. */
static void find_next_expiry(struct api_keys *k)
{
    k->next_expiry = earliest_expiry(k, clock_wall_s());
    show_next_expiry(k);
}

static bool is_given_up(enum api_keys_state state)
{
    return state == API_KEYS_TOO_LARGE || state == API_KEYS_UNTRACKED || state == API_KEYS_FAILED;
}

/* While a changed set is read anew the metric stays as it was. */
void api_keys_heartbeat(struct api_keys *k)
{
    if (k->state == API_KEYS_HELD && api_keys_is_expired(k->next_expiry))
        find_next_expiry(k);
    else if (is_given_up(k->state))
        show_next_expiry(k);
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

static enum auth_result find_result(const struct api_keys *k, const struct digest *key, uint64_t now_ms,
                                    struct api_key_name *name)
{
    const struct result_key result = {*key, k->epoch};
    const struct entry *e = entries_find(k->entries, ENTRY_AUTH, name_of(&result));
    if (e == NULL || !entry_is_alive(e, now_ms))
        return AUTH_RESULT_UNKNOWN;
    api_key_name_set(name, e->body == NULL ? SPAN_ABSENT : (struct span){e->body->data, e->body->len});
    return result_now(e->value);
}

enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key, uint64_t now_ms,
                                struct api_key_name *name)
{
    name->len = -1;
    if (k->state != API_KEYS_HELD)
        return find_result(k, key, now_ms, name);
    const struct digest *found = find(k, key, hash_of(k, key));
    if (found == NULL)
        return AUTH_RESULT_INVALID;
    name->len = 0;
    return k->record == NULL ? AUTH_RESULT_VALID : check_record(k, &k->record[found - k->digest], name);
}

bool api_keys_read_info(struct api_keys *k, const struct digest *key, struct lifetime lifetime,
                        const redisReply *reply, struct api_key_reading *out)
{
    if (!is_info(reply))
        return false;
    out->epoch = k->epoch;
    out->lifetime = lifetime;
    if (parse_info(k, reply, &out->info))
        return true;
    uint64_t hash = hash_of(k, key);
    if (k->reported[hash % API_KEYS_REPORTED] != hash)
        report_malformed(key, 1);
    k->reported[hash % API_KEYS_REPORTED] = hash;
    return true;
}

/* Without memory for the name nothing is cached. */
static void put_member(struct api_keys *k, struct lifetime lifetime, struct span result,
                       const struct api_key_info *info)
{
    bool named = info->name.len > 0;
    struct blob *name = named ? blob_new(api_key_name_span(&info->name)) : NULL;
    if (name != NULL || !named)
        entries_put(k->entries, lifetime, ENTRY_AUTH, result, name, info->expires);
    blob_unref(name);
}

void api_keys_put_result(struct api_keys *k, const struct digest *key, struct lifetime lifetime,
                         const struct api_key_reading *reading)
{
    const struct result_key result = {*key, k->epoch};
    if (k->state != API_KEYS_HELD && reading->epoch == k->epoch)
        put_member(k, lifetime_of_both(lifetime, reading->lifetime), name_of(&result), &reading->info);
}

/* --- reading: steps --- */

static bool is_under_way(enum api_keys_state state)
{
    return state >= API_KEYS_READ_SIZE && state <= API_KEYS_READ_INFO;
}

static bool is_permitted(enum api_keys_state from, enum api_keys_state to)
{
    switch (to) {
    case API_KEYS_UNREAD:
        return true;
    case API_KEYS_READ_SIZE:
        return from == API_KEYS_UNREAD;
    case API_KEYS_READ_MEMBERS:
        return from == API_KEYS_READ_SIZE;
    case API_KEYS_READ_PORTION:
        return from == API_KEYS_READ_SIZE || from == API_KEYS_READ_PORTION;
    case API_KEYS_READ_INFOS:
        return from == API_KEYS_READ_MEMBERS || from == API_KEYS_READ_PORTION;
    case API_KEYS_READ_INFO:
        return from == API_KEYS_READ_INFOS || from == API_KEYS_READ_INFO;
    case API_KEYS_UNCOMMITTED:
        return is_under_way(from) && from != API_KEYS_READ_SIZE;
    case API_KEYS_HELD:
        return from == API_KEYS_UNCOMMITTED;
    case API_KEYS_TOO_LARGE:
    case API_KEYS_UNTRACKED:
    case API_KEYS_FAILED:
        return is_under_way(from);
    }
    return false;
}

static void set_state(struct api_keys *k, enum api_keys_state next)
{
    assert(is_permitted(k->state, next));
    k->state = next;
}

/* Goes to a step that sends a command; `cursor` is NULL for one that has none. */
static void compose(struct api_keys *k, enum api_keys_state state, const char *name, const char *cursor,
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
    set_state(k, state);
}

/* Goes to the step that reads how many infos there are. */
static void compose_hlen(struct api_keys *k, struct buf *command)
{
    struct buf key = BUF_INIT;
    keyspace_api_key_info(k->keyspace, &key);
    buf_clear(command);
    command_begin(command, 2);
    command_add(command, SPAN("HLEN"));
    command_add_buf(command, &key);
    buf_fini(&key);
    set_state(k, API_KEYS_READ_INFOS);
}

/* Goes to the step that reads the infos of the next digests. */
static void compose_hmget(struct api_keys *k, struct buf *command)
{
    struct buf key = BUF_INIT;
    size_t left = k->count - k->recorded;
    size_t n = left < API_KEYS_INFO_PORTION ? left : API_KEYS_INFO_PORTION;
    char digits[DIGEST_HEX_LEN];
    keyspace_api_key_info(k->keyspace, &key);
    buf_clear(command);
    command_begin(command, 2 + n);
    command_add(command, SPAN("HMGET"));
    command_add_buf(command, &key);
    for (size_t i = 0; i < n; i++) {
        digest_hex(&k->digest[k->recorded + i], digits);
        command_add(command, (struct span){digits, sizeof digits});
    }
    buf_fini(&key);
    set_state(k, API_KEYS_READ_INFO);
}

void api_keys_invalidate(struct api_keys *k)
{
    clear(k);
    k->epoch++;
    k->changed = true;
    if (!is_under_way(k->state))
        set_state(k, API_KEYS_UNREAD);
}

bool api_keys_read(struct api_keys *k, uint64_t now_ms, struct buf *command)
{
    if (is_under_way(k->state))
        return false;
    k->started_ms = now_ms;
    set_state(k, API_KEYS_UNREAD);
    compose(k, API_KEYS_READ_SIZE, "SCARD", NULL, command);
    return true;
}

void api_keys_commit(struct api_keys *k)
{
    if (k->state != API_KEYS_UNCOMMITTED)
        return;
    set_state(k, API_KEYS_HELD);
    k->failures = 0;
    find_next_expiry(k);
}

/* --- reading: replies --- */

/* Ends a read: each key is checked in Redis until the next one. Logged once a minute for each reason. */
static enum api_keys_progress give_up(struct api_keys *k, enum api_keys_state state, const char *reason,
                                      uint64_t now_ms)
{
    clear(k);
    set_state(k, state);
    k->started_ms = now_ms;
    if (state == API_KEYS_FAILED)
        k->pause_ms = backoff_ms(++k->failures, API_KEYS_PAUSE_MIN_MS, API_KEYS_PAUSE_MAX_MS, &k->pause_seed);
    if (log_reason_is_due(&k->reasons, reason, now_ms))
        log_text(LOG_WARN, "the API key set is not in memory: each key is checked in redis", "reason",
                 reason);
    return API_KEYS_STOPPED;
}

static enum api_keys_progress give_up_error(struct api_keys *k, int err, uint64_t now_ms)
{
    if (err == -E2BIG)
        return give_up(k, API_KEYS_TOO_LARGE, "it has too many keys", now_ms);
    return give_up(k, API_KEYS_FAILED, err == -ENOMEM ? "out of memory" : "unexpected reply", now_ms);
}

/* It is read again after a pause, so that frequent changes do not cause constant reads. */
static enum api_keys_progress stop_changed(struct api_keys *k, uint64_t now_ms)
{
    k->started_ms = now_ms;
    set_state(k, API_KEYS_UNREAD);
    return API_KEYS_STOPPED;
}

/* All members are known: their infos are next. */
static enum api_keys_progress end_members(struct api_keys *k, struct buf *command)
{
    if (k->count > 0) {
        compose_hlen(k, command);
        return API_KEYS_SEND;
    }
    set_state(k, API_KEYS_UNCOMMITTED);
    return API_KEYS_COMPLETE;
}

static enum api_keys_progress end_infos(struct api_keys *k)
{
    report_malformed_records(k);
    set_state(k, API_KEYS_UNCOMMITTED);
    return API_KEYS_COMPLETE;
}

static enum api_keys_progress take_size(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                        struct buf *command)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return give_up_error(k, -EINVAL, now_ms);
    if (reply->integer > API_KEYS_MAX)
        return give_up_error(k, -E2BIG, now_ms);
    k->set_size = reply->integer;
    if (reply->integer <= API_KEYS_AT_ONCE_MAX) {
        compose(k, API_KEYS_READ_MEMBERS, "SMEMBERS", NULL, command);
        return API_KEYS_SEND;
    }
    k->changed = false;
    k->portions_left = PORTIONS_MAX;
    int err = make_room(k, (size_t)reply->integer);
    if (err != 0)
        return give_up_error(k, err, now_ms);
    compose(k, API_KEYS_READ_PORTION, "SSCAN", "0", command);
    return API_KEYS_SEND;
}

static enum api_keys_progress take_members(struct api_keys *k, const redisReply *members, uint64_t now_ms,
                                           struct buf *command)
{
    bool is_list = members->type == REDIS_REPLY_SET || members->type == REDIS_REPLY_ARRAY;
    int err = make_room(k, is_list ? members->elements : 0);
    if (err == 0)
        err = add_all(k, members);
    if (err != 0)
        return give_up_error(k, err, now_ms);
    k->set_size = (int64_t)members->elements;
    k->changed = false;
    return end_members(k, command);
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
    if (k->changed)
        return stop_changed(k, now_ms);
    int err = add_portion(k, reply);
    if (err != 0)
        return give_up_error(k, err, now_ms);
    if (strcmp(k->cursor, "0") == 0)
        return end_members(k, command);
    compose(k, API_KEYS_READ_PORTION, "SSCAN", k->cursor, command);
    return API_KEYS_SEND;
}

/* The number of infos, of which 0 means that there is nothing to read, or a portion of them. */
static enum api_keys_progress take_infos(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                         struct buf *command)
{
    int err = 0;
    if (k->changed)
        return stop_changed(k, now_ms);
    if (k->state == API_KEYS_READ_INFO)
        err = add_records(k, reply);
    else if (reply->type != REDIS_REPLY_INTEGER)
        err = -EINVAL;
    else if (reply->integer == 0)
        return end_infos(k);
    else
        err = make_records(k);
    if (err != 0)
        return give_up_error(k, err, now_ms);
    if (k->recorded == k->count)
        return end_infos(k);
    compose_hmget(k, command);
    return API_KEYS_SEND;
}

enum api_keys_progress api_keys_reply(struct api_keys *k, struct lifetime lifetime, const redisReply *reply,
                                      uint64_t now_ms, struct buf *command)
{
    assert(is_under_way(k->state));
    if (reply == NULL) {
        set_state(k, API_KEYS_UNREAD);
        return API_KEYS_STOPPED;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        return give_up(k, API_KEYS_FAILED, reply->str, now_ms);
    /* That there are infos was said by their number: keys without one are no absence of the hash. */
    if (lifetime_is_none(lifetime) && k->state != API_KEYS_READ_INFO)
        return give_up(k, API_KEYS_UNTRACKED,
                       "it may not be cached: in a cluster the set and the infos have to exist", now_ms);
    switch (k->state) {
    case API_KEYS_READ_SIZE:
        return take_size(k, reply, now_ms, command);
    case API_KEYS_READ_MEMBERS:
        return take_members(k, reply, now_ms, command);
    case API_KEYS_READ_PORTION:
        return take_portion(k, reply, now_ms, command);
    default:
        return take_infos(k, reply, now_ms, command);
    }
}
