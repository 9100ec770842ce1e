/* Commands and replies about API keys, and the requests that wait for them; see key_reader.h. */
#include "cache/key_reader.h"

#include "base/clock.h"
#include "cache/fetch.h"
#include "cache/upstream.h"

#include <assert.h>
#include <stdlib.h>

/* The limit of checks of a request that are void, or not certain, if the keys change all the time. */
enum { REPEATS_MAX = 8 };

/* A key of a check. */
struct checked_key {
    struct digest digest;
    struct key_word word; /* the digest in commands */
    /* What its replies have said. */
    struct api_key_info info;
    bool lacks_info; /* outside of the stream it has none */
    bool is_member;
};

/* A check. It is in flight while it expects replies, and then freed. */
struct key_check {
    struct key_reader *reader;
    struct key_queue *queue; /* the queue of its requests; NULL: the reader's own check */
    struct list requests;
    unsigned sent, replied;
    bool is_lost;    /* a reply was */
    bool has_error;  /* Redis has refused a command, or it could not be sent */
    bool is_outside; /* the set may be outside of the stream, so an absence from it is not certain here */
    uint64_t epoch, mark, sent_ms; /* the epoch of the keys when the first reply came, stream_mark() */
    struct lifetime lifetime;      /* of all replies */
    size_t key_count;
    struct checked_key key[];
};

/* --- requests --- */

static struct cache_request *key_reader_request_of(struct list *link)
{
    return LIST_ENTRY(link, struct cache_request, checking);
}

static void key_reader_move(struct list *to, struct list *link)
{
    list_remove(link);
    list_append(to, link);
}

/* Without a result the requests are looked up again: their keys are known, or cannot be checked now. */
static void key_reader_end(struct key_reader *r, struct list *requests, const struct cache_result *result)
{
    r->parts->checked(r->parts->arg, requests, result);
}

static void key_reader_end_with(struct key_reader *r, struct list *requests, enum cache_status status)
{
    key_reader_end(r, requests, &(struct cache_result){.status = status});
}

/* The requests wait for another check, ahead of the others. */
static void key_queue_prepend(struct key_queue *queue, struct list *requests)
{
    list_splice(requests, &queue->requests);
    list_splice(&queue->requests, requests);
}

/* --- a check: sending --- */

static struct key_check *key_check_new(struct key_reader *r, struct key_queue *queue, size_t room)
{
    struct key_check *c = malloc(sizeof *c + room * sizeof c->key[0]);
    if (c == NULL)
        return NULL;
    *c = (struct key_check){.reader = r, .queue = queue, .lifetime = LIFETIME_TRACKED};
    list_init(&c->requests);
    return c;
}

static void key_check_add(struct key_check *c, const struct digest *key)
{
    struct checked_key *k = &c->key[c->key_count++];
    k->digest = *key;
    commands_key_word(key, &k->word);
}

static void key_check_send_command(struct key_check *c, const struct buf *command, redis_reply_fn fn)
{
    const struct cache_parts *parts = c->reader->parts;
    unsigned how = c->queue == NULL ? REDIS_SEND_STREAM_ONLY : 0;
    c->has_error = c->has_error || redis_session_send(parts->session, command, how, fn, c) != 0;
    c->sent += !c->has_error;
    metric_add(&parts->metrics->redis_commands_total, !c->has_error && c->queue != NULL);
}

static const struct buf *key_check_compose(struct key_check *c, const struct buf *begun)
{
    for (size_t i = 0; i < c->key_count; i++)
        commands_add_key(c->reader->parts->commands, &c->key[i].word);
    return begun;
}

/*
 * Reads the data of requests whose keys were valid when they were last checked. If the cache is fresh, it
 * may have the data, or read it for others too.
 */
static void key_check_read_data(struct key_check *c)
{
    const struct cache_parts *parts = c->reader->parts;
    if (stream_freshness(parts->stream, c->sent_ms) == FRESHNESS_FRESH)
        return;
    for (struct list *at = c->requests.next; at != &c->requests; at = at->next) {
        struct cache_request *request = key_reader_request_of(at);
        const struct cache_query *q = &request->query;
        bool is_read = q->type != QUERY_AUTH_ONLY && list_empty(&request->waiting) &&
                       fetches_have_room(parts->fetches) &&
                       fetch_begin(parts->fetches, q, false, &request->waiting) != NULL;
        request->key_state = is_read ? REQUEST_KEY_PENDING : request->key_state;
    }
}

static void key_check_on_info_count(void *arg, const struct redis_reply *reply, enum redis_origin origin);
static void key_check_on_infos(void *arg, const struct redis_reply *reply, enum redis_origin origin);
static void key_check_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* Returns whether the check is in flight. Otherwise it is over. */
static bool key_check_send(struct key_check *c)
{
    const struct cache_parts *parts = c->reader->parts;
    struct commands *commands = parts->commands;
    c->mark = stream_mark(parts->stream);
    c->epoch = api_keys_epoch(parts->api_keys);
    c->sent_ms = clock_boot_ms();
    if (parts->stream->absences_untracked)
        key_check_send_command(c, commands_info_count(commands), key_check_on_info_count);
    key_check_send_command(c, key_check_compose(c, commands_begin_infos(commands, c->key_count)),
                           key_check_on_infos);
    key_check_send_command(c, key_check_compose(c, commands_begin_members(commands, c->key_count)),
                           key_check_on_members);
    if (c->queue == &c->reader->known && !c->has_error)
        key_check_read_data(c);
    return c->sent > 0;
}

/* --- a check: replies --- */

/* The epoch of the keys counts from the first reply, unless the replies may come in another order. */
static void key_check_note_reply(struct key_check *c, enum redis_origin origin)
{
    assert(c->replied < c->sent);
    if (c->replied++ == 0 && origin == REDIS_ORIGIN_STREAM)
        c->epoch = api_keys_epoch(c->reader->parts->api_keys);
}

/* Returns whether the reply has data: a list with an element for each key. */
static bool key_check_accept(struct key_check *c, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct cache_parts *parts = c->reader->parts;
    if (reply == NULL) {
        c->is_lost = true;
        return false;
    }
    bool is_stream = origin == REDIS_ORIGIN_STREAM;
    c->lifetime = lifetime_of_both(c->lifetime, is_stream ? stream_lifetime(parts->stream, NULL, c->sent_ms)
                                                          : LIFETIME_NONE);
    bool is_list = reply->type == REPLY_ARRAY && reply->elements == c->key_count;
    if (reply->type == REPLY_ERROR && c->queue != NULL)
        value_reports_error(parts->reports, reply);
    c->has_error = c->has_error || !is_list;
    return is_list;
}

static void key_check_end(struct key_check *c);

static void key_check_proceed(struct key_check *c)
{
    if (c->replied == c->sent)
        key_check_end(c);
}

/* The number of infos shows whether their hash exists. A list without any info may be of keys without one. */
static void key_check_on_info_count(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    const struct cache_parts *parts = c->reader->parts;
    key_check_note_reply(c, origin);
    c->is_lost = c->is_lost || reply == NULL;
    bool exists = reply != NULL && reply->type == REPLY_INTEGER && reply->integer > 0;
    if (!exists)
        c->lifetime = LIFETIME_NONE;
    if (!exists && reply != NULL && stream_may_store(parts->stream))
        api_keys_forgo_scan(parts->api_keys, reply->type == REPLY_ERROR
                                                 ? reply->str
                                                 : "it may not be cached: " REDIS_SESSION_ABSENCES_UNTRACKED
                                                   " the set and the infos have to exist");
    key_check_proceed(c);
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
        value_reports_key_info(c->reader->parts->reports, &k->digest);
    return true;
}

static void key_check_on_infos(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    key_check_note_reply(c, origin);
    if (key_check_accept(c, reply, origin)) {
        const struct redis_reply *info = reply_first(reply);
        for (size_t i = 0; i < c->key_count; i++, info++) { /* an array ends it */
            struct checked_key *k = &c->key[i];
            k->lacks_info = origin == REDIS_ORIGIN_OUTSIDE && info->type == REPLY_NIL;
            c->has_error = c->has_error || !key_check_read_info(c, k, info);
        }
    }
    key_check_proceed(c);
}

static void key_check_on_members(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_check *c = arg;
    c->replied++;
    c->is_outside = origin == REDIS_ORIGIN_OUTSIDE;
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

/* The infos may be older than the membership: a change was announced since they came. */
static bool key_check_is_void(const struct key_check *c)
{
    return c->epoch != api_keys_epoch(c->reader->parts->api_keys);
}

/* Keeps what was found, without memory less. A valid key is held even if it may not be cached. */
static void key_check_keep(struct key_check *c)
{
    struct api_keys *keys = c->reader->parts->api_keys;
    bool is_void = key_check_is_void(c);
    for (size_t i = 0; i < c->key_count; i++) {
        const struct checked_key *k = &c->key[i];
        if (k->is_member)
            (void)!api_keys_confirm(keys, &k->digest, is_void ? LIFETIME_NONE : c->lifetime, &k->info);
        else if (!is_void && !c->is_outside)
            api_keys_deny(keys, &k->digest);
    }
}

/*
 * Whether the key of the request must be checked again. A tracking table that is too small makes each check
 * void. An info that another node lacks may be one that it has given back. Or the key had expired, and was
 * revoked after the set was read. Without its info the key would be valid.
 */
static bool key_check_is_repeated(const struct key_check *c, struct cache_request *request)
{
    const struct checked_key *k = &c->key[request->checked_at];
    bool lacks_info = k->is_member && k->lacks_info;
    bool again =
        (key_check_is_void(c) && request->checks++ < REPEATS_MAX) || (lacks_info && !request->lacked_info);
    request->lacked_info = lacks_info;
    return again;
}

/* The lists of requests whose check has ended, by what follows. */
struct settled {
    struct list valid, expired, repeated;
};

/* The record of the key, if there is one, is used. */
static struct list *key_check_accept_key(const struct key_check *c, struct cache_request *request,
                                         struct settled *s)
{
    const struct checked_key *k = &c->key[request->checked_at];
    if (!lifetime_is_none(c->lifetime))
        (void)api_keys_check(c->reader->parts->api_keys, &k->digest, clock_boot_ms(), &request->key_name);
    request->key_name = k->info.name;
    if (api_keys_is_expired(k->info.expires))
        return &s->expired;
    request->key_state = REQUEST_KEY_VALID;
    return &s->valid;
}

/* A key that is none has to be confirmed by a check of the catalogue. Its data causes no error. */
static struct list *key_check_deny(const struct key_check *c, struct cache_request *request)
{
    list_remove(&request->waiting);
    request->denial_mark = c->mark;
    request->denied_outside = c->is_outside;
    return &c->reader->denied;
}

static void key_check_settle(struct key_check *c, struct settled *s)
{
    while (!list_empty(&c->requests)) {
        struct cache_request *request = key_reader_request_of(c->requests.next);
        struct list *to = key_check_is_repeated(c, request)       ? &s->repeated
                          : c->key[request->checked_at].is_member ? key_check_accept_key(c, request, s)
                                                                  : key_check_deny(c, request);
        key_reader_move(to, &request->checking);
    }
}

static void key_reader_proceed(struct key_reader *r);

/* The check of requests was answered. Those whose check was lost are looked up again, or checked again. */
static void key_check_end_for_requests(struct key_check *c)
{
    struct key_reader *r = c->reader;
    struct settled s;
    list_init(&s.valid);
    list_init(&s.expired);
    list_init(&s.repeated);
    if (c->is_lost)
        list_splice(&s.repeated, &c->requests);
    else if (!c->has_error)
        key_check_settle(c, &s);
    key_queue_prepend(c->queue, &s.repeated);
    if (!list_empty(&r->denied))
        upstream_check_catalogue(r->parts->upstream);
    key_reader_end_with(r, &c->requests, CACHE_UNAVAILABLE);
    key_reader_end_with(r, &s.expired, CACHE_KEY_INVALID);
    key_reader_end(r, &s.valid, NULL);
    key_reader_proceed(r);
}

/* What was not checked has to be checked again. */
static void key_check_end_own(const struct key_check *c)
{
    struct key_reader *r = c->reader;
    r->is_checking = false;
    if (c->is_lost || c->has_error || key_check_is_void(c)) {
        r->recent_due = true;
        r->scan_epoch = 0;
    }
    key_reader_proceed(r);
}

static void key_check_end(struct key_check *c)
{
    if (!c->is_lost && !c->has_error)
        key_check_keep(c);
    if (c->queue == NULL) {
        key_check_end_own(c);
    } else {
        c->queue->in_flight--;
        key_check_end_for_requests(c);
    }
    free(c);
}

/* --- the queues --- */

static bool key_queue_has_full_check(const struct key_queue *queue)
{
    const struct list *at = &queue->requests;
    for (int i = 0; i < KEY_READER_KEYS; i++) {
        at = at->next;
        if (at == &queue->requests)
            return false;
    }
    return true;
}

/* Whether the queue may begin a check now. One of the checks is left to the other queue. */
static bool key_reader_may_check(const struct key_reader *r, const struct key_queue *queue)
{
    if (list_empty(&queue->requests) || queue->in_flight == 0)
        return !list_empty(&queue->requests);
    bool is_each_checked = queue == &r->known && !stream_may_store(r->parts->stream);
    return r->known.in_flight + r->unknown.in_flight < KEY_READER_CHECKS - 1 &&
           (is_each_checked || key_queue_has_full_check(queue));
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
    key_reader_move(&c->requests, &request->checking);
}

static bool key_reader_begin_check(struct key_reader *r, struct key_queue *queue)
{
    size_t room = 0;
    for (const struct list *at = queue->requests.next; at != &queue->requests && room < KEY_READER_KEYS;
         at = at->next)
        room++;
    struct key_check *c = key_check_new(r, queue, room);
    if (c == NULL)
        return false;
    while (room-- > 0)
        key_check_take(c, key_reader_request_of(queue->requests.next));
    if (key_check_send(c)) {
        queue->in_flight++;
        return true;
    }
    key_queue_prepend(queue, &c->requests);
    free(c);
    return false;
}

/* What cannot be sent waits for the next event. */
static void key_reader_run_queue(struct key_reader *r, struct key_queue *queue)
{
    while (key_reader_may_check(r, queue))
        if (!key_reader_begin_check(r, queue))
            return;
}

static bool key_reader_knows_key_of(const struct key_reader *r, struct list *link)
{
    const struct digest *key = &key_reader_request_of(link)->query.key;
    return api_keys_is_confirmed(r->parts->api_keys, key) || api_keys_is_absent(r->parts->api_keys, key);
}

/* Requests at the head of the queue whose keys were confirmed or denied meanwhile need no check. */
static void key_reader_take_known(struct key_reader *r, struct key_queue *queue, struct list *ended)
{
    while (!list_empty(&queue->requests) && key_reader_knows_key_of(r, queue->requests.next))
        key_reader_move(ended, queue->requests.next);
}

/* --- what the reader reads for itself --- */

/* Returns whether the reader's own check is in flight. */
static bool key_reader_check_keys(struct key_reader *r, const struct digest *key, size_t count)
{
    struct key_check *c = count > 0 ? key_check_new(r, NULL, count) : NULL;
    if (c == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        key_check_add(c, &key[i]);
    r->is_checking = key_check_send(c);
    if (!r->is_checking)
        free(c);
    return r->is_checking;
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
    assert(r->scanning);
    r->scanning = false;
    bool is_read = reply != NULL && key_reader_read_portion(r, reply);
    if (reply != NULL && !is_read) {
        r->scan_epoch = 0;
        api_keys_forgo_scan(r->parts->api_keys, reply->type == REPLY_ERROR ? reply->str : "unexpected reply");
    }
    key_reader_proceed(r);
}

static void key_reader_send_scan(struct key_reader *r)
{
    const struct cache_parts *parts = r->parts;
    const struct buf *command = commands_scan(parts->commands, r->cursor, KEY_READER_PORTION);
    r->scanning =
        redis_session_send(parts->session, command, REDIS_SEND_STREAM_ONLY, key_reader_on_portion, r) == 0;
}

/* A scan during which the keys have changed begins again. Members that were found have to be checked first.
 */
static void key_reader_begin_portion(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    int64_t size = stream_key_count(r->parts->stream);
    bool due = r->portion_due && !r->scanning;
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

/* What cannot be sent is due with the next event. */
static void key_reader_begin_recent(struct key_reader *r)
{
    const struct api_keys *keys = r->parts->api_keys;
    uint64_t now = clock_now_ms();
    if (!r->recent_due || now < r->recent_ms)
        return;
    r->recent_ms = now + KEY_READER_RECENT_INTERVAL_MS;
    r->recent_due = keys->recent_count > 0 && !key_reader_check_keys(r, keys->recent, keys->recent_count);
}

/* Keys of current records are read again, and members that were found are checked with them. */
static bool key_reader_begin_audit(struct key_reader *r)
{
    struct digest key[KEY_READER_KEYS];
    if (!r->audit_due)
        return false;
    r->audit_due = false;
    size_t count = api_keys_audited(r->parts->api_keys, key);
    while (r->found_count > 0 && count < KEY_READER_KEYS)
        key[count++] = r->found[--r->found_count];
    return key_reader_check_keys(r, key, count);
}

/* --- what is next --- */

/* Calls no callback: a request may have begun to wait just now. */
static void key_reader_run_queues(struct key_reader *r)
{
    if (!r->parts->stream->connected)
        return;
    key_reader_run_queue(r, &r->known);
    key_reader_run_queue(r, &r->unknown);
}

static void key_reader_run(struct key_reader *r)
{
    bool is_readable = stream_may_store(r->parts->stream);
    if (is_readable && !r->is_checking && !key_reader_begin_audit(r))
        key_reader_begin_recent(r);
    if (is_readable)
        key_reader_begin_portion(r);
    key_reader_run_queues(r);
}

/* Sends what is due, and ends the requests that need not wait any longer. */
static void key_reader_proceed(struct key_reader *r)
{
    struct list ended;
    list_init(&ended);
    if (!r->parts->stream->connected) {
        list_splice(&ended, &r->known.requests);
        list_splice(&ended, &r->unknown.requests);
    } else {
        key_reader_take_known(r, &r->known, &ended);
        key_reader_take_known(r, &r->unknown, &ended);
    }
    key_reader_run(r);
    key_reader_end(r, &ended, NULL);
}

/* --- events --- */

void key_reader_wait(struct key_reader *r, struct cache_request *request)
{
    bool is_known = api_keys_was_valid(r->parts->api_keys, &request->query.key);
    list_append(is_known ? &r->known.requests : &r->unknown.requests, &request->checking);
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
    api_keys_heartbeat(r->parts->api_keys);
    r->portion_due = true;
    r->audit_due = true;
    key_reader_proceed(r);
}

/* A reply from outside of the stream, or one whose changes are not announced, has to deny the key twice. */
static bool key_reader_is_certain(const struct key_reader *r, const struct cache_request *request)
{
    const struct stream *stream = r->parts->stream;
    bool is_certain =
        stream_is_certain(stream, request->denial_mark, request->denials > 0, !request->denied_outside);
    if (is_certain && !request->denied_outside && stream_announces_keys(stream))
        api_keys_note_absent(r->parts->api_keys, &request->query.key);
    return is_certain || request->denials == REPEATS_MAX;
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
        key_reader_move(is_certain ? &certain : &repeated, &request->checking);
    }
    key_queue_prepend(&r->unknown, &repeated);
    key_reader_end_with(r, &certain, CACHE_KEY_INVALID);
}

void key_reader_checked(struct key_reader *r, enum catalogue_state state)
{
    if (state == CATALOGUE_PRESENT)
        key_reader_confirm_denials(r);
    else if (state == CATALOGUE_UNKNOWN)
        key_reader_end_with(r, &r->denied, CACHE_UNAVAILABLE);
    else
        key_queue_prepend(&r->unknown, &r->denied);
    key_reader_proceed(r);
}

/* --- beginning and end --- */

void key_reader_init(struct key_reader *r, const struct cache_parts *parts)
{
    memset(r, 0, sizeof *r);
    r->parts = parts;
    list_init(&r->known.requests);
    list_init(&r->unknown.requests);
    list_init(&r->denied);
}
