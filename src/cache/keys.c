/* Records of API keys, and the commands and replies that make them; see keys.h. */
#include "cache/keys.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cache/fetch.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

/* Slots of the table that a search for a record visits, in some microseconds. */
enum { WALKED_SLOTS = 2048 };

struct key_record {
    struct digest digest;
    uint64_t epoch;           /* in which it was made */
    struct lifetime lifetime; /* none: the record only says that the key is known */
    int64_t expires;
    struct api_key_name name;
};

/* The commands of a check. */
enum { KEY_COMMANDS = 2 };

/* A key of a check. */
struct checked_key {
    struct digest digest;
    char digits[DIGEST_HEX_LEN];
    /* What its replies have said. */
    struct api_key_info info;
    bool has_info, is_member;
};

/* A check. It is in flight while it expects replies, and freed when no request waits for its probe either. */
struct key_check {
    struct keys *keys;
    bool is_own;                  /* it has no requests */
    struct list requests, denied; /* the latter wait for a probe */
    unsigned due;                 /* replies */
    struct probe_waiter waiter;
    bool is_lost;                 /* a reply was */
    bool has_error;               /* Redis has refused a command, or it could not be sent */
    bool is_outside;              /* a reply came from outside of the stream, so an absence is not certain */
    bool has_infos;               /* a key has one: their hash exists, so it is tracked */
    uint64_t epoch;               /* of the keys when the first reply came */
    uint64_t keys_found, sent_ms; /* stream.keys_found, and the time, when it was sent */
    struct lifetime lifetime;     /* of all replies */
    size_t key_count;
    struct checked_key key[];
};

/* --- the records --- */

static struct key_record *keys_find(const struct keys *k, const struct digest *d)
{
    const struct table_slot *slot = table_find(&k->table, digest_hash(d, k->seed));
    for (; slot != NULL; slot = table_find_next(&k->table, slot)) {
        struct key_record *r = slot->entry;
        if (memcmp(&r->digest, d, sizeof *d) == 0) /* not covered: two digests with the same 64-bit hash */
            return r;
    }
    return NULL;
}

static inline struct absent_key *keys_absent_set(struct keys *k, const struct digest *d)
{
    return &k->absent[digest_hash(d, k->seed) % (KEYS_ABSENT_MAX / KEYS_ABSENT_WAYS) * KEYS_ABSENT_WAYS];
}

static bool keys_is_absent(struct keys *k, const struct digest *d)
{
    const struct absent_key *a = keys_absent_set(k, d);
    for (const struct absent_key *end = a + KEYS_ABSENT_WAYS; a < end; a++)
        if (a->epoch == k->epoch && memcmp(&a->digest, d, sizeof *d) == 0)
            return true;
    return false;
}

/* It counts until the next change of the keys is announced. */
static inline bool keys_is_current(const struct keys *k, const struct key_record *r)
{
    return r != NULL && r->epoch == k->epoch && lifetime_is_tracked(r->lifetime);
}

/* Whether the next change of what is known of the key will be announced. */
static bool keys_is_settled(struct keys *k, const struct digest *d)
{
    const struct key_record *r = keys_find(k, d);
    return r != NULL ? keys_is_current(k, r) : keys_is_absent(k, d);
}

static inline bool key_is_expired(int64_t expires)
{
    return expires != API_KEY_NEVER && api_key_is_expired(expires, clock_wall_s());
}

/* Whether the key was valid when it was last checked, and has not expired since. A revoked key may be so. */
static bool keys_is_known(const struct keys *k, const struct digest *key)
{
    const struct key_record *r = keys_find(k, key);
    return r != NULL && !key_is_expired(r->expires);
}

static void keys_drop(struct keys *k, struct key_record *r)
{
    table_remove(&k->table, digest_hash(&r->digest, k->seed), r);
    free(r);
}

/* Any other record is displaced if there are too many: its key is checked at its next use. */
static struct key_record *keys_add(struct keys *k, const struct digest *digest)
{
    struct key_record *r = malloc(sizeof *r);
    if (r == NULL)
        return NULL;
    *r = (struct key_record){.digest = *digest};
    if (table_used(&k->table) == KEYS_VALID_MAX)
        keys_drop(k, table_walk(&k->table, &k->walk, INT_MAX));
    if (table_add(&k->table, digest_hash(digest, k->seed), r) == 0)
        return r;
    free(r);
    return NULL;
}

enum auth_result keys_look_up(struct keys *k, const struct digest *digest, uint64_t now_ms,
                              struct api_key_name *name)
{
    struct key_record *r = keys_find(k, digest);
    api_key_name_clear(name);
    if (r == NULL)
        return keys_is_absent(k, digest) ? AUTH_RESULT_INVALID : AUTH_RESULT_UNKNOWN;
    if (r->epoch != k->epoch || now_ms >= r->lifetime.until_ms)
        return AUTH_RESULT_UNKNOWN;
    api_key_name_set(name, api_key_name_span(&r->name));
    return key_is_expired(r->expires) ? AUTH_RESULT_INVALID : AUTH_RESULT_VALID;
}

/*
 * Redis says that the key is valid. If that contradicts what is current, the invalidation is still to come,
 * or was lost. With LIFETIME_NONE the key is known, and its record does not count.
 */
static void keys_keep_valid(struct keys *k, const struct checked_key *key, struct lifetime lifetime)
{
    struct key_record *r = keys_find(k, &key->digest);
    bool was_settled = keys_is_settled(k, &key->digest);
    if (was_settled && !lifetime_is_tracked(lifetime))
        return;
    bool is_same = r != NULL && r->expires == key->info.expires &&
                   span_equal(api_key_name_span(&r->name), api_key_name_span(&key->info.name));
    k->differences += k->differences == 0 && was_settled && !is_same;
    if (r == NULL)
        r = keys_add(k, &key->digest);
    if (r == NULL)
        return;
    r->epoch = k->epoch;
    r->lifetime = lifetime;
    r->expires = key->info.expires;
    r->name = key->info.name;
}

/* Redis says that the key is no member; see keys_keep_valid. What another node says contradicts nothing. */
static void keys_forget_valid(struct keys *k, const struct digest *digest, bool is_outside)
{
    struct key_record *r = keys_find(k, digest);
    if (keys_is_current(k, r))
        k->differences += !is_outside && k->differences == 0;
    else if (r != NULL)
        keys_drop(k, r);
}

/* It is certain that the digest is no key, until the next change of the keys. If its set is full, one leaves.
 */
static void keys_keep_absent(struct keys *k, const struct digest *digest)
{
    struct absent_key *set = keys_absent_set(k, digest);
    size_t at = 0;
    while (at < KEYS_ABSENT_WAYS && set[at].epoch == k->epoch)
        at++;
    if (!keys_is_settled(k, digest))
        set[at < KEYS_ABSENT_WAYS ? at : k->absent_walk % KEYS_ABSENT_WAYS] =
            (struct absent_key){.epoch = k->epoch, .digest = *digest};
}

static void keys_report_untracked(struct keys *k, const char *reason)
{
    if (log_reason_is_due(&k->reasons, reason, clock_now_ms()))
        log_text(LOG_WARN, "the API key set is not in memory: each key is checked in redis", "reason",
                 reason);
}

/* --- requests --- */

static struct cache_request *keys_request_of(struct list *link)
{
    return LIST_ENTRY(link, struct cache_request, checking);
}

static const struct cache_result KEY_INVALID = {.status = CACHE_KEY_INVALID};
static const struct cache_result UNAVAILABLE = {.status = CACHE_UNAVAILABLE};

/* Without a result the request is looked up again: its key is known, or cannot be checked now. */
static void keys_end(struct keys *k, struct cache_request *request, const struct cache_result *result)
{
    list_remove(&request->checking);
    k->parts->checked(k->parts->arg, request, result);
}

static struct list *keys_queue_of(struct keys *k, const struct cache_request *request)
{
    return keys_is_known(k, &request->query.key) ? &k->known : &k->unknown;
}

/* The request moves to the head of a list: of those that wait for another check, or for a probe. */
static void keys_put_first(struct list *queue, struct cache_request *request)
{
    list_remove(&request->checking);
    list_append(queue->next, &request->checking);
}

/* --- a check: sending --- */

static void key_check_on_probed(struct probe_waiter *waiter, enum catalogue_state state);

static struct key_check *key_check_new(struct keys *k, size_t room)
{
    struct key_check *c = malloc(sizeof *c + room * sizeof c->key[0]);
    if (c == NULL)
        return NULL;
    *c = (struct key_check){.keys = k, .waiter.done = key_check_on_probed, .lifetime = LIFETIME_TRACKED};
    list_init(&c->requests);
    list_init(&c->denied);
    return c;
}

static void key_check_add(struct key_check *c, const struct digest *key)
{
    struct checked_key *k = &c->key[c->key_count++];
    k->digest = *key;
    digest_hex(key, k->digits);
}

static void key_check_send_command(struct key_check *c, const struct buf *command, redis_reply_fn fn)
{
    const struct cache_parts *parts = c->keys->parts;
    unsigned how = c->is_own ? REDIS_SEND_STREAM_ONLY : 0;
    c->has_error = c->has_error || redis_session_send(parts->session, command, how, fn, c) != 0;
    c->due += !c->has_error;
    metric_add(&parts->metrics->redis_commands_total, !c->has_error && !c->is_own);
}

static const struct buf *key_check_compose(struct key_check *c, const struct buf *begun)
{
    for (size_t i = 0; i < c->key_count; i++)
        commands_add_key(c->keys->parts->commands, c->key[i].digits);
    return begun;
}

/* If the cache is fresh, it may have the data, or read it for others too. */
static void key_check_read_data(struct key_check *c)
{
    const struct cache_parts *parts = c->keys->parts;
    if (stream_freshness(parts->stream, c->sent_ms) == FRESHNESS_FRESH)
        return;
    for (struct list *at = c->requests.next; at != &c->requests; at = at->next) {
        struct cache_request *request = keys_request_of(at);
        const struct cache_query *q = &request->query;
        bool is_read = q->type != QUERY_AUTH_ONLY && keys_is_known(c->keys, &q->key) &&
                       list_empty(&request->waiting) && fetches_have_room(parts->fetches) &&
                       fetch_begin(parts->fetches, q, false, &request->waiting) != NULL;
        request->key_state = is_read ? REQUEST_KEY_PENDING : request->key_state;
    }
}

static void key_check_on_infos(void *arg, const struct redis_reply *reply, enum redis_origin origin);
static void key_check_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* Returns whether the check is in flight. Otherwise it is over. */
static bool key_check_send(struct key_check *c)
{
    const struct cache_parts *parts = c->keys->parts;
    struct commands *commands = parts->commands;
    c->keys_found = parts->stream->keys_found;
    c->sent_ms = clock_boot_ms();
    key_check_send_command(c, key_check_compose(c, commands_begin_infos(commands, c->key_count)),
                           key_check_on_infos);
    key_check_send_command(c, key_check_compose(c, commands_begin_members(commands, c->key_count)),
                           key_check_on_members);
    if (!c->is_own && !c->has_error)
        key_check_read_data(c);
    return c->due > 0;
}

/* --- a check: replies --- */

/* Whether the reply is a list with an element for each key. The epoch counts from the first reply. */
static bool key_check_accept(struct key_check *c, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct cache_parts *parts = c->keys->parts;
    assert(c->due > 0);
    if (c->due-- == KEY_COMMANDS)
        c->epoch = c->keys->epoch;
    if (reply == NULL) {
        c->is_lost = true;
        return false;
    }
    c->is_outside |= origin == REDIS_ORIGIN_OUTSIDE;
    c->lifetime = lifetime_of_both(
        c->lifetime, c->is_outside ? LIFETIME_NONE : stream_lifetime(parts->stream, NULL, c->sent_ms));
    bool is_list = reply->type == REPLY_ARRAY && reply->elements == c->key_count;
    if (reply->type == REPLY_ERROR && !c->is_own)
        value_reports_error(parts->reports, reply);
    c->has_error = c->has_error || !is_list;
    return is_list;
}

static void key_check_end(struct key_check *c);

static void key_check_proceed(struct key_check *c)
{
    if (c->due == 0)
        key_check_end(c);
}

/* The info of a key is nil or a text. False for any other reply. */
static bool key_check_read_info(struct key_check *c, struct checked_key *k, const struct redis_reply *info)
{
    k->info = API_KEY_INFO_NONE;
    if (info->type == REPLY_NIL)
        return true;
    if (info->type != REPLY_STRING)
        return false;
    if ((api_key_info_parse(reply_text(info), &k->info) & ~(unsigned)API_KEY_FAULT_ISSUED) != 0)
        value_reports_key_info(c->keys->parts->reports, &k->digest);
    return true;
}

static void key_check_on_infos(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    if (key_check_accept(c, reply, origin)) {
        const struct redis_reply *info = reply_first(reply);
        for (size_t i = 0; i < c->key_count; i++, info++) { /* an array ends it */
            struct checked_key *k = &c->key[i];
            k->has_info = info->type == REPLY_STRING;
            c->has_infos |= k->has_info;
            c->has_error = c->has_error || !key_check_read_info(c, k, info);
        }
    }
    key_check_proceed(c);
}

static void key_check_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    if (key_check_accept(c, reply, origin)) {
        const struct redis_reply *member = reply_first(reply);
        for (size_t i = 0; i < c->key_count; i++, member++) {
            c->has_error = c->has_error || member->type != REPLY_INTEGER;
            c->key[i].is_member = member->integer == 1;
        }
    }
    key_check_proceed(c);
}

/* --- a check: its end --- */

/* The infos are older than the membership if a change was announced since. Or all was invalidated. */
static bool key_check_is_void(const struct key_check *c)
{
    return c->epoch != c->keys->epoch || c->keys->parts->stream->flush_pending;
}

/*
 * Keeps what was found, without memory less. A valid key is held even if it may not be cached: also where an
 * absence is not tracked, and none of the keys has an info.
 */
static void key_check_keep(struct key_check *c)
{
    bool is_void = key_check_is_void(c);
    bool is_untracked = !c->has_infos && c->keys->parts->stream->absences_untracked;
    c->lifetime = is_void || is_untracked ? LIFETIME_NONE : c->lifetime;
    for (size_t i = 0; i < c->key_count; i++) {
        const struct checked_key *key = &c->key[i];
        if (key->is_member && is_untracked && c->is_own)
            keys_report_untracked(c->keys, "it may not be cached: " REDIS_SESSION_ABSENCES_UNTRACKED
                                           " the infos have to exist");
        if (key->is_member)
            keys_keep_valid(c->keys, key, c->lifetime);
        else if (!is_void)
            keys_forget_valid(c->keys, &key->digest, c->is_outside);
    }
}

/*
 * Whether what was found about the key is certain. A tracking table that is too small makes each check void.
 * An info that another node lacks may be one that it has given back; or the key had expired, and was revoked
 * after the set was read, so without its info it would be valid. Such a lack, and an absence, must be found
 * twice in a row, unless the stream makes it certain at once.
 */
static bool key_check_is_certain(const struct key_check *c, const struct checked_key *key,
                                 struct cache_request *request)
{
    if (key_check_is_void(c)) {
        request->lack = REQUEST_LACKS_NOTHING;
        return false;
    }
    enum request_lack lack = !key->is_member                   ? REQUEST_LACKS_KEY
                             : c->is_outside && !key->has_info ? REQUEST_LACKS_INFO
                                                               : REQUEST_LACKS_NOTHING;
    bool is_same = request->lack == lack;
    request->lack = lack;
    if (key->is_member)
        return is_same || lack == REQUEST_LACKS_NOTHING;
    return stream_is_certain(c->keys->parts->stream, c->keys_found, is_same, !c->is_outside);
}

static void key_check_accept_key(struct key_check *c, const struct checked_key *key,
                                 struct cache_request *request)
{
    request->key_name = key->info.name;
    bool is_valid = !key_is_expired(key->info.expires);
    request->key_state = is_valid ? REQUEST_KEY_VALID : request->key_state;
    keys_end(c->keys, request, is_valid ? NULL : &KEY_INVALID);
}

/* What the check has found decides, or the request waits for another. `state` is that of a later probe. */
static void key_check_settle(struct key_check *c, struct cache_request *request, enum catalogue_state state)
{
    struct keys *k = c->keys;
    const struct checked_key *key = &c->key[request->checked_at];
    bool is_certain = state == CATALOGUE_PRESENT && key_check_is_certain(c, key, request);
    bool is_last = request->repeats == REPEATS_MAX;
    bool decides = is_certain || (state == CATALOGUE_PRESENT && is_last);
    request->repeats += !decides && !is_last && state != CATALOGUE_LOST;
    if (is_certain && !key->is_member && !c->is_outside && stream_announces_keys(k->parts->stream))
        keys_keep_absent(k, &key->digest);
    if (state == CATALOGUE_UNKNOWN)
        keys_end(k, request, &UNAVAILABLE);
    else if (!decides)
        keys_put_first(key->is_member ? keys_queue_of(k, request) : &k->unknown, request);
    else if (key->is_member)
        key_check_accept_key(c, key, request);
    else
        keys_end(k, request, &KEY_INVALID);
}

static void keys_proceed(struct keys *k);

static void key_check_on_probed(struct probe_waiter *waiter, enum catalogue_state state)
{
    struct key_check *c = LIST_ENTRY(waiter, struct key_check, waiter);
    struct keys *k = c->keys;
    while (!list_empty(&c->denied))
        key_check_settle(c, keys_request_of(c->denied.prev), state);
    free(c);
    keys_proceed(k);
}

/* A request is checked again if a reply was lost. A denial counts only with a catalogue. */
static void key_check_end_request(struct key_check *c, struct cache_request *request)
{
    struct keys *k = c->keys;
    if (c->is_lost) {
        keys_put_first(keys_queue_of(k, request), request);
    } else if (c->has_error) {
        keys_end(k, request, &UNAVAILABLE);
    } else if (c->key[request->checked_at].is_member) {
        key_check_settle(c, request, CATALOGUE_PRESENT);
    } else {
        list_remove(&request->waiting); /* what is read for it causes no error */
        keys_put_first(&c->denied, request);
    }
}

/* From the last request to the first, as each may go to the head of a queue. */
static void key_check_end(struct key_check *c)
{
    struct keys *k = c->keys;
    if (!c->is_lost && !c->has_error)
        key_check_keep(c);
    if (c->is_own)
        k->is_walking = false;
    else
        k->in_flight--;
    while (!list_empty(&c->requests))
        key_check_end_request(c, keys_request_of(c->requests.prev));
    if (list_empty(&c->denied))
        free(c);
    else
        stream_wait_for_probe(k->parts->stream, &c->waiter);
    keys_proceed(k);
}

/* --- checks for requests --- */

/* Adds the requests that wait in the queue to `count`, as far as one check has room for them. */
static size_t keys_count_waiting(const struct list *queue, size_t count)
{
    for (const struct list *at = queue->next; at != queue && count < KEYS_CHECKED; at = at->next)
        count++;
    return count;
}

static bool keys_may_check(const struct keys *k, size_t waiting)
{
    bool is_each_checked = !list_empty(&k->known) && !stream_may_store(k->parts->stream);
    bool may_be_next = k->in_flight < KEYS_CHECKS && (is_each_checked || waiting == KEYS_CHECKED);
    return k->parts->stream->connected && waiting > 0 && (k->in_flight == 0 || may_be_next);
}

static void key_check_take(struct key_check *c, struct cache_request *request)
{
    size_t at = 0;
    while (at < c->key_count &&
           memcmp(&c->key[at].digest, &request->query.key, sizeof request->query.key) != 0)
        at++;
    if (at == c->key_count)
        key_check_add(c, &request->query.key);
    request->checked_at = (unsigned char)at;
    list_remove(&request->checking);
    list_append(&c->requests, &request->checking);
}

/* False when no further check may begin, or can be sent. */
static bool keys_begin_check(struct keys *k)
{
    size_t waiting = keys_count_waiting(&k->unknown, keys_count_waiting(&k->known, 0));
    struct key_check *c = keys_may_check(k, waiting) ? key_check_new(k, waiting) : NULL;
    if (c == NULL)
        return false;
    while (waiting-- > 0) {
        bool is_known = !list_empty(&k->known);
        key_check_take(c, keys_request_of(is_known ? k->known.next : k->unknown.next));
    }
    if (key_check_send(c)) {
        k->in_flight++;
        return true;
    }
    while (!list_empty(&c->requests)) {
        struct cache_request *request = keys_request_of(c->requests.prev);
        keys_put_first(keys_queue_of(k, request), request);
    }
    free(c);
    return false;
}

/* What cannot be sent waits for the next event. Calls no callback: a request may have begun to wait just now.
 */
static void keys_run_requests(struct keys *k)
{
    while (keys_begin_check(k))
        continue;
}

/* --- what the worker checks for itself --- */

/* At the end of the table the earliest expiry of all keys in it is known. */
static void keys_walk(struct keys *k, struct key_check *c)
{
    int64_t now = clock_wall_s();
    bool ended = false;
    for (int i = 0; i < KEYS_WALKED && !ended; i++) {
        size_t before = k->walk;
        const struct key_record *r = table_walk(&k->table, &k->walk, WALKED_SLOTS);
        ended = k->walk <= before;
        if (r == NULL)
            continue;
        key_check_add(c, &r->digest);
        if (r->expires < k->next_expiry && !api_key_is_expired(r->expires, now))
            k->next_expiry = r->expires;
    }
    if (!ended)
        return;
    metric_set(&k->parts->metrics->api_key_next_expiry_timestamp_seconds,
               k->next_expiry != API_KEY_NEVER ? (uint64_t)k->next_expiry : 0);
    k->next_expiry = API_KEY_NEVER;
}

/* Of the digests that are known to be no keys, the next ones. */
static void keys_walk_absent(struct keys *k, struct key_check *c)
{
    enum { PLACES = KEYS_ABSENT_MAX / 4 };
    size_t count = c->key_count + KEYS_ABSENT_WALKED;
    for (int i = 0; i < PLACES && c->key_count < count; i++) {
        const struct absent_key *a = &k->absent[k->absent_walk++ % KEYS_ABSENT_MAX];
        if (a->epoch == k->epoch)
            key_check_add(c, &a->digest);
    }
}

/* Members of the set without a current record. */
static void keys_propose(struct keys *k, struct key_check *c, const struct redis_reply *members)
{
    const struct redis_reply *member = reply_first(members);
    for (size_t i = 0; i < members->elements && c->key_count < KEYS_CHECKED; i++) {
        struct digest d;
        bool valid = digest_from_hex(reply_text(member), &d);
        metric_add(&k->parts->metrics->invalid_values_total, !valid);
        if (valid && !keys_is_current(k, keys_find(k, &d)))
            key_check_add(c, &d);
        member = reply_next(member);
    }
}

/* `members`: some of the set; NULL: none. */
static void keys_check_own(struct keys *k, const struct redis_reply *members)
{
    struct key_check *c = key_check_new(k, KEYS_CHECKED);
    if (c == NULL)
        return;
    c->is_own = true;
    keys_walk(k, c);
    keys_walk_absent(k, c);
    if (members != NULL)
        keys_propose(k, c, members);
    k->is_walking = c->key_count > 0 && key_check_send(c);
    if (!k->is_walking)
        free(c);
}

/* Reads the cursor. Returns the members, or NULL for an unexpected reply. */
static const struct redis_reply *keys_read_portion(struct keys *k, const struct redis_reply *reply)
{
    if (reply->type != REPLY_ARRAY || reply->elements != 2)
        return NULL;
    const struct redis_reply *cursor = reply_first(reply);
    const struct redis_reply *members = reply_next(cursor);
    if (cursor->type != REPLY_STRING || cursor->len > KEYS_CURSOR_MAX || members->type != REPLY_ARRAY)
        return NULL;
    memcpy(k->cursor, cursor->str, cursor->len);
    k->cursor[cursor->len] = '\0';
    return members;
}

/* The members are only proposals. So it does not matter when the portion was read. */
static void keys_on_portion(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct keys *k = arg;
    (void)origin; /* always the stream */
    k->is_walking = false;
    if (reply == NULL)
        return;
    const struct redis_reply *members = keys_read_portion(k, reply);
    if (members == NULL)
        keys_report_untracked(k, reply->type == REPLY_ERROR ? reply->str : "unexpected reply");
    keys_check_own(k, members);
}

static void keys_scan(struct keys *k)
{
    const struct cache_parts *parts = k->parts;
    const struct buf *command = commands_scan(parts->commands, k->cursor, KEYS_PORTION);
    if (!k->is_walking && stream_may_store(parts->stream))
        k->is_walking =
            redis_session_send(parts->session, command, REDIS_SEND_STREAM_ONLY, keys_on_portion, k) == 0;
}

/* --- events --- */

/* At the head, if their keys were settled and a look-up uses the records; without a connection all. */
static void keys_end_settled(struct keys *k, struct list *queue)
{
    const struct stream *stream = k->parts->stream;
    while (!list_empty(queue)) {
        struct cache_request *request = keys_request_of(queue->next);
        bool is_fresh = stream_freshness(stream, clock_boot_ms()) == FRESHNESS_FRESH;
        if (stream->connected && !(is_fresh && keys_is_settled(k, &request->query.key)))
            return;
        keys_end(k, request, NULL);
    }
}

static void keys_proceed(struct keys *k)
{
    keys_end_settled(k, &k->known);
    keys_end_settled(k, &k->unknown);
    keys_run_requests(k);
}

void keys_wait(struct keys *k, struct cache_request *request)
{
    list_append(keys_queue_of(k, request), &request->checking);
    keys_run_requests(k);
}

void keys_invalidate(struct keys *k)
{
    k->epoch++;
    k->differences = 0;
}

void keys_heartbeat(struct keys *k)
{
    keys_scan(k);
    keys_proceed(k);
}

/* --- beginning and end --- */

void keys_init(struct keys *k, const struct cache_parts *parts)
{
    k->parts = parts;
    k->epoch = 1;
    k->next_expiry = API_KEY_NEVER;
    k->cursor[0] = '0';
    list_init(&k->known);
    list_init(&k->unknown);
    k->seed = random_seed(k);
}

void keys_fini(struct keys *k)
{
    while (table_used(&k->table) > 0)
        keys_drop(k, table_walk(&k->table, &k->walk, INT_MAX));
    table_clear(&k->table);
}
