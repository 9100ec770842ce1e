/* Commands and replies about API keys, and the requests that wait for them; see key_reader.h. */
#include "cache/key_reader.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The limit of checks of a request that are void, or not certain, if the keys change all the time. */
enum { REPEATS_MAX = 8 };

bool key_reader_is_able(const struct key_reader *r)
{
    const struct cache_parts *parts = r->parts;
    return validity_may_store(parts->validity) && !api_keys_is_refused(parts->api_keys);
}

/* --- requests --- */

static struct cache_request *key_reader_request_of(struct list *link)
{
    return LIST_ENTRY(link, struct cache_request, waiting);
}

static void key_reader_move(struct list *to, struct list *link)
{
    list_remove(link);
    list_append(to, link);
}

/* Without a result the requests are looked up again: their keys are confirmed, or cannot be checked now. */
static void key_reader_end(struct key_reader *r, struct list *requests, const struct cache_result *result)
{
    struct list ended;
    list_init(&ended);
    list_splice(&ended, requests);
    if (!list_empty(&ended))
        r->parts->ended(r->parts->arg, &ended, NULL, result);
}

static struct list *key_reader_queue_for(struct key_reader *r, struct list *link)
{
    bool is_held = api_keys_is_held(r->parts->api_keys, &key_reader_request_of(link)->key);
    return is_held ? &r->known : &r->unknown;
}

static void key_reader_prepend(struct list *queue, struct list *requests)
{
    list_splice(requests, queue);
    list_splice(queue, requests);
}

/* The requests wait for another check, ahead of the others. */
static void key_reader_requeue(struct key_reader *r, struct list *requests)
{
    struct list known;
    list_init(&known);
    for (struct list *next, *at = requests->next; at != requests; at = next) {
        next = at->next;
        if (key_reader_queue_for(r, at) == &r->known)
            key_reader_move(&known, at);
    }
    key_reader_prepend(&r->known, &known);
    key_reader_prepend(&r->unknown, requests);
}

/* --- sending --- */

static int key_reader_send(struct key_reader *r, redis_reply_fn fn, void *arg)
{
    return redis_session_send(r->parts->session, &r->command, REDIS_SEND_STREAM_ONLY, fn, arg);
}

/* --- a check --- */

static void key_check_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* A failure ends the check when the replies to the earlier commands have arrived. */
static void key_check_send_command(struct key_check *c)
{
    c->failed = c->failed || key_reader_send(c->reader, key_check_on_reply, c) != 0;
    c->replies_due += !c->failed;
}

static void key_check_compose(struct key_check *c, struct span name, const struct buf *key)
{
    struct key_reader *r = c->reader;
    char digits[DIGEST_HEX_LEN];
    command_begin_with_key(&r->command, name, key, c->key_count);
    for (size_t i = 0; i < c->key_count; i++) {
        digest_hex(&c->key[i], digits);
        command_add(&r->command, (struct span){digits, sizeof digits});
    }
}

/* Returns whether the check is in flight. */
static bool key_check_send(struct key_check *c)
{
    struct key_reader *r = c->reader;
    assert(c->replies_due == 0);
    c->failed = false;
    c->reply = KEY_CHECK_INFO_COUNT;
    c->mark = validity_mark(r->parts->validity);
    if (!list_empty(&c->requests))
        metric_add(&r->parts->metrics->redis_commands_total, KEY_CHECK_REPLIES);
    command_begin_with_key(&r->command, SPAN("HLEN"), &r->info_key, 0);
    key_check_send_command(c);
    key_check_compose(c, SPAN("HMGET"), &r->info_key);
    key_check_send_command(c);
    key_check_compose(c, SPAN("SMISMEMBER"), &r->set_key);
    key_check_send_command(c);
    return c->replies_due > 0;
}

/* Redis does not let keys be checked here: the check fails, and fetches check keys until one passes. */
static void key_check_refuse(struct key_check *c, const char *reason)
{
    c->failed = true;
    api_keys_refuse(c->reader->parts->api_keys, reason);
}

static bool key_check_is_expected(const struct key_check *c, const struct redis_reply *reply)
{
    return c->reply == KEY_CHECK_INFO_COUNT ? reply->type == REPLY_INTEGER
                                            : reply->type == REPLY_ARRAY && reply->elements == c->key_count;
}

/*
 * Returns whether the reply has data that may be cached. The number of infos shows whether their hash exists.
 * A reply without any info may be about keys that have none.
 */
static bool key_check_accept(struct key_check *c, const struct redis_reply *reply)
{
    const struct validity *v = c->reader->parts->validity;
    const struct redis_reply *counted = c->reply == KEY_CHECK_INFO_COUNT ? reply : NULL;
    c->failed = c->failed || reply == NULL || !validity_may_store(v);
    if (c->failed)
        return false;
    if (reply->type == REPLY_ERROR)
        key_check_refuse(c, reply->str);
    else if (!key_check_is_expected(c, reply))
        key_check_refuse(c, "unexpected reply");
    else if (lifetime_is_none(validity_lifetime(v, counted, 0)))
        key_check_refuse(c, "it may not be cached: " REDIS_SESSION_ABSENCES_UNTRACKED
                            " the set and the infos have to exist");
    return !c->failed;
}

static void key_check_read_infos(struct key_check *c, const struct redis_reply *infos)
{
    struct api_keys *keys = c->reader->parts->api_keys;
    const struct redis_reply *info = reply_first(infos);
    for (size_t i = 0; i < c->key_count && !c->failed; i++, info++) /* an array ends it */
        if (!api_keys_read_info(keys, &c->key[i], info, &c->info[i]))
            key_check_refuse(c, "unexpected reply");
}

/* The other keys than the members, which remain in the check. */
static void key_check_deny(struct key_check *c)
{
    struct api_keys *keys = c->reader->parts->api_keys;
    for (size_t i = 0; i < c->key_count && !c->is_outside; i++)
        api_keys_deny(keys, &c->key[i]);
    api_keys_permit(keys);
}

/*
 * Confirms the members. The check fails if an invalidation came since the first reply, because the infos may
 * be older.
 */
static void key_check_read_members(struct key_check *c, const struct redis_reply *members)
{
    struct api_keys *keys = c->reader->parts->api_keys;
    size_t others = 0;
    c->failed = c->epoch != api_keys_epoch(keys);
    const struct redis_reply *member = reply_first(members);
    for (size_t i = 0; i < c->key_count && !c->failed; i++, member++)
        if (member->type != REPLY_INTEGER)
            key_check_refuse(c, "unexpected reply");
        else if (member->integer != 1)
            c->key[others++] = c->key[i];
        else if (api_keys_confirm(keys, &c->key[i], LIFETIME_TRACKED, &c->info[i]) != 0)
            key_check_refuse(c, "out of memory");
    c->key_count = others;
    if (!c->failed)
        key_check_deny(c);
}

/* Whether the check has the key; after its last reply: whether the key is no member. */
static bool key_check_has_key(const struct key_check *c, const struct digest *key)
{
    for (size_t i = 0; i < c->key_count; i++)
        if (memcmp(&c->key[i], key, sizeof *key) == 0)
            return true;
    return false;
}

/*
 * The check has failed. If it was void, it is repeated. A tracking table that is too small makes each check
 * void, so requests check their keys themselves in the end: those checks are bounded (fetch.c).
 */
static void key_check_repeat(struct key_check *c, struct list *ended)
{
    for (struct list *next, *at = c->requests.next; at != &c->requests; at = next) {
        struct cache_request *request = key_reader_request_of(at);
        next = at->next;
        request->own_check = request->void_checks++ >= REPEATS_MAX;
        if (request->own_check)
            key_reader_move(ended, at);
    }
    key_reader_requeue(c->reader, &c->requests);
}

/*
 * Requests whose keys are members are looked up again. It does not matter what is confirmed now: a member may
 * have given way to another one of the same check. The keys of the other requests are no members, which a
 * check of the catalogue has to confirm.
 */
static void key_check_settle(struct key_check *c, struct list *ended)
{
    struct key_reader *r = c->reader;
    while (!list_empty(&c->requests)) {
        struct list *at = c->requests.next;
        struct cache_request *request = key_reader_request_of(at);
        bool is_denied = key_check_has_key(c, &request->key);
        request->own_check = is_denied && c->is_outside;
        request->denial_mark = c->mark;
        key_reader_move(is_denied && !c->is_outside ? &r->denied : ended, at);
    }
    if (!list_empty(&r->denied))
        catalogue_check(r->parts->catalogue);
}

static void key_reader_end_own_check(struct key_reader *r);
static void key_reader_proceed(struct key_reader *r, struct list *ended);

static void key_check_end(struct key_check *c)
{
    struct list ended;
    list_init(&ended);
    if (c == &c->reader->check[KEY_CHECK_OWN])
        key_reader_end_own_check(c->reader);
    else
        (c->failed ? key_check_repeat : key_check_settle)(c, &ended);
    key_reader_proceed(c->reader, &ended);
}

static void key_check_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    assert(c->replies_due > 0);
    c->replies_due--;
    if (c->reply == KEY_CHECK_INFO_COUNT)
        c->epoch = api_keys_epoch(c->reader->parts->api_keys);
    c->is_outside = origin == REDIS_ORIGIN_OUTSIDE; /* the last reply, which is about the set, decides */
    bool accepted = key_check_accept(c, reply);
    if (accepted && c->reply == KEY_CHECK_INFOS)
        key_check_read_infos(c, reply);
    if (accepted && c->reply == KEY_CHECK_MEMBERS)
        key_check_read_members(c, reply);
    c->reply++;
    if (c->replies_due == 0)
        key_check_end(c);
}

/* --- the queues --- */

static bool key_reader_has_full_check(const struct list *queue)
{
    const struct list *at = queue;
    for (int i = 0; i < KEY_READER_KEYS; i++) {
        at = at->next;
        if (at == queue)
            return false;
    }
    return true;
}

/* The check that the queue may begin now, or NULL. `own` is the first that it may use. */
static struct key_check *key_reader_next_check(struct key_reader *r, const struct list *queue, int own)
{
    int end = key_reader_has_full_check(queue) ? KEY_CHECKS : own + 1;
    for (int i = own; i < end && !list_empty(queue); i++)
        if (r->check[i].replies_due == 0)
            return &r->check[i];
    return NULL;
}

static void key_check_take(struct key_check *c, struct list *queue)
{
    c->key_count = 0;
    for (int i = 0; i < KEY_READER_KEYS && !list_empty(queue); i++) {
        const struct digest *key = &key_reader_request_of(queue->next)->key;
        if (!key_check_has_key(c, key))
            c->key[c->key_count++] = *key;
        key_reader_move(&c->requests, queue->next);
    }
}

/* What cannot be sent waits for the next event. */
static void key_reader_run_queue(struct key_reader *r, struct list *queue, int own)
{
    for (struct key_check *c; (c = key_reader_next_check(r, queue, own)) != NULL;) {
        key_check_take(c, queue);
        if (key_check_send(c))
            continue;
        key_reader_requeue(r, &c->requests);
        return;
    }
}

static bool key_reader_knows_key_of(const struct key_reader *r, struct list *link)
{
    const struct digest *key = &key_reader_request_of(link)->key;
    return api_keys_is_confirmed(r->parts->api_keys, key) || api_keys_is_absent(r->parts->api_keys, key);
}

/* Requests at the head of the queue whose keys were confirmed or denied meanwhile need no check. */
static void key_reader_take_known(struct key_reader *r, struct list *queue, struct list *ended)
{
    while (!list_empty(queue) && key_reader_knows_key_of(r, queue->next))
        key_reader_move(ended, queue->next);
}

/* --- what the reader reads for itself --- */

static bool key_reader_send_own_check(struct key_reader *r)
{
    struct key_check *c = &r->check[KEY_CHECK_OWN];
    return c->key_count > 0 && key_check_send(c);
}

/* What was not checked has to be checked again. */
static void key_reader_end_own_check(struct key_reader *r)
{
    if (!r->check[KEY_CHECK_OWN].failed)
        return;
    r->recent_due = true;
    r->scan_epoch = 0;
}

/* Keeps the members without a current record. False for an unexpected reply. */
static bool key_reader_read_portion(struct key_reader *r, const struct redis_reply *reply)
{
    if (reply->type != REPLY_ARRAY || reply->elements != 2)
        return false;
    const struct redis_reply *cursor = reply_first(reply);
    const struct redis_reply *members = reply_next(cursor);
    if (cursor->type != REPLY_STRING || cursor->len > KEY_READER_CURSOR_MAX || members->type != REPLY_ARRAY)
        return false;
    const struct redis_reply *member = reply_first(members);
    for (size_t i = 0; i < members->elements && r->found_count < KEY_READER_FOUND; i++) {
        struct digest *d = &r->found[r->found_count];
        bool valid = digest_from_hex(reply_text(member), d);
        metric_add(&r->parts->metrics->invalid_values_total, !valid);
        r->found_count += valid && !api_keys_is_confirmed(r->parts->api_keys, d);
        member = reply_next(member);
    }
    bool last = cursor->len == 1 && cursor->str[0] == '0';
    memcpy(r->cursor, cursor->str, last ? 0 : cursor->len);
    r->cursor[last ? 0 : cursor->len] = '\0';
    return true;
}

/* The members are only proposals. So it does not matter when the portion was read. */
static void key_reader_on_portion(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_reader *r = arg;
    (void)origin; /* always the stream */
    struct list ended;
    list_init(&ended);
    assert(r->scanning);
    r->scanning = false;
    bool is_read = reply != NULL && key_reader_read_portion(r, reply);
    if (reply != NULL && !is_read) {
        r->scan_epoch = 0;
        api_keys_forgo_scan(r->parts->api_keys, reply->type == REPLY_ERROR ? reply->str : "unexpected reply");
    }
    key_reader_proceed(r, &ended);
}

static void key_reader_send_scan(struct key_reader *r)
{
    command_begin_with_key(&r->command, SPAN("SSCAN"), &r->set_key, 3);
    command_add(&r->command, span_of(r->cursor));
    command_add(&r->command, SPAN("COUNT"));
    command_add_int(&r->command, KEY_READER_PORTION);
    r->scanning = key_reader_send(r, key_reader_on_portion, r) == 0;
}

/* A scan during which the keys have changed begins again. Members that were found have to be checked first.
 */
static void key_reader_begin_portion(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    int64_t size = validity_key_count(r->parts->validity);
    bool due = r->portion_due && !r->scanning && !api_keys_is_refused(keys);
    r->portion_due = false;
    if (!due)
        return;
    if (size > API_KEYS_MAX)
        api_keys_forgo_scan(keys, "it has too many keys");
    if (size < 0 || size > API_KEYS_MAX)
        return;
    if (r->scan_epoch != api_keys_epoch(keys)) {
        r->scan_epoch = api_keys_epoch(keys);
        memcpy(r->cursor, "0", sizeof "0");
        r->found_count = 0;
    }
    if (r->found_count > 0)
        return;
    if (r->cursor[0] != '\0')
        key_reader_send_scan(r);
    else
        api_keys_note_scanned(keys);
}

static void key_reader_begin_recent(struct key_reader *r)
{
    struct key_check *c = &r->check[KEY_CHECK_OWN];
    uint64_t now = clock_now_ms();
    if (!r->recent_due || now < r->recent_ms || api_keys_is_refused(r->parts->api_keys))
        return;
    r->recent_ms = now + KEY_READER_RECENT_INTERVAL_MS;
    c->key_count = api_keys_recent(r->parts->api_keys, c->key);
    r->recent_due = c->key_count > 0 && !key_reader_send_own_check(r);
}

/*
 * Keys of current records are read again, and members that were found are checked with them. After a refusal
 * this shows whether keys can be checked now, so no request has to try it; if there is no key to read, the
 * digest of none is.
 */
static bool key_reader_begin_audit(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    struct key_check *c = &r->check[KEY_CHECK_OWN];
    if (!r->audit_due)
        return false;
    r->audit_due = false;
    c->key_count = api_keys_audited(keys, c->key);
    while (r->found_count > 0 && c->key_count < KEY_READER_KEYS)
        c->key[c->key_count++] = r->found[--r->found_count];
    if (c->key_count == 0 && api_keys_is_refused(keys))
        c->key[c->key_count++] = (struct digest){0};
    return key_reader_send_own_check(r);
}

/* --- what is next --- */

/* Calls no callback: a request may have begun to wait just now. */
static void key_reader_run_queues(struct key_reader *r)
{
    if (!key_reader_is_able(r))
        return;
    key_reader_run_queue(r, &r->known, KEY_CHECK_KNOWN);
    key_reader_run_queue(r, &r->unknown, KEY_CHECK_UNKNOWN);
}

static void key_reader_run(struct key_reader *r)
{
    bool is_readable = validity_may_store(r->parts->validity);
    if (is_readable && r->check[KEY_CHECK_OWN].replies_due == 0 && !key_reader_begin_audit(r))
        key_reader_begin_recent(r);
    if (is_readable)
        key_reader_begin_portion(r);
    key_reader_run_queues(r);
}

/* Sends what is due, and ends these requests and those that need not wait any longer. */
static void key_reader_proceed(struct key_reader *r, struct list *ended)
{
    if (!key_reader_is_able(r)) {
        list_splice(ended, &r->known);
        list_splice(ended, &r->unknown);
    } else {
        key_reader_take_known(r, &r->known, ended);
        key_reader_take_known(r, &r->unknown, ended);
    }
    key_reader_run(r);
    key_reader_end(r, ended, NULL);
}

/* --- events --- */

void key_reader_wait(struct key_reader *r, struct list *request)
{
    list_append(key_reader_queue_for(r, request), request);
    key_reader_run_queues(r);
}

/*
 * If keys cannot be checked any more, the next event ends the requests. Here the invalidation is not
 * completely applied yet.
 */
void key_reader_invalidate(struct key_reader *r, bool all)
{
    api_keys_invalidate(r->parts->api_keys);
    r->recent_due = true;
    r->recent_ms = all ? 0 : r->recent_ms;
    key_reader_run(r);
}

void key_reader_heartbeat(struct key_reader *r)
{
    struct list ended;
    list_init(&ended);
    api_keys_heartbeat(r->parts->api_keys);
    r->portion_due = true;
    r->audit_due = true;
    key_reader_proceed(r, &ended);
}

/*
 * It is certain that a key is not a member if the set was also found before the key was checked, without an
 * invalidation in between (validity_mark). If no set was found, two checks have to deny the key.
 */
static bool key_reader_is_certain(const struct key_reader *r, const struct cache_request *request)
{
    const struct validity *v = r->parts->validity;
    bool is_announced = validity_has_api_keys(v);
    if (is_announced && validity_lost_nothing(v, request->denial_mark)) {
        api_keys_note_absent(r->parts->api_keys, &request->key);
        return true;
    }
    return (!is_announced && request->denials > 0) || request->denials == REPEATS_MAX;
}

/* A check has found a catalogue. What is not certain is checked again. */
static void key_reader_confirm_denials(struct key_reader *r)
{
    struct list certain;
    struct list repeated;
    list_init(&certain);
    list_init(&repeated);
    while (!list_empty(&r->denied)) {
        struct cache_request *request = key_reader_request_of(r->denied.next);
        bool is_certain = key_reader_is_certain(r, request);
        request->denials += !is_certain;
        key_reader_move(is_certain ? &certain : &repeated, &request->waiting);
    }
    key_reader_requeue(r, &repeated);
    key_reader_end(r, &certain, &(struct cache_result){.status = CACHE_KEY_INVALID});
}

void key_reader_checked(struct key_reader *r, enum catalogue_state state)
{
    struct list ended;
    list_init(&ended);
    if (state == CATALOGUE_PRESENT)
        key_reader_confirm_denials(r);
    else if (state == CATALOGUE_UNKNOWN)
        key_reader_end(r, &r->denied, &(struct cache_result){.status = CACHE_UNAVAILABLE});
    else
        key_reader_requeue(r, &r->denied);
    key_reader_proceed(r, &ended);
}

/* --- beginning and end --- */

int key_reader_init(struct key_reader *r, const struct cache_parts *parts)
{
    memset(r, 0, sizeof *r);
    r->parts = parts;
    list_init(&r->known);
    list_init(&r->unknown);
    list_init(&r->denied);
    for (int i = 0; i < KEY_CHECKS; i++) {
        r->check[i].reader = r;
        list_init(&r->check[i].requests);
    }
    keyspace_api_keys(parts->keyspace, &r->set_key);
    keyspace_api_key_info(parts->keyspace, &r->info_key);
    return buf_error(&r->set_key) == 0 ? buf_error(&r->info_key) : -ENOMEM;
}

void key_reader_fini(struct key_reader *r)
{
    assert(list_empty(&r->known) && list_empty(&r->unknown) && list_empty(&r->denied));
    for (int i = 0; i < KEY_CHECKS; i++)
        assert(r->check[i].replies_due == 0 && list_empty(&r->check[i].requests));
    buf_fini(&r->command);
    buf_fini(&r->set_key);
    buf_fini(&r->info_key);
}
