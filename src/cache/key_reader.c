/* Commands and replies about API keys, and the requests that wait for them; see key_reader.h. */
#include "cache/key_reader.h"

#include "base/clock.h"
#include "base/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { REPEATS_MAX = 8 }; /* the limit of repetitions of a check, if the set changes all the time */

static void key_reader_proceed(struct key_reader *r);

static const unsigned NEXT[] = {
    [KEY_READER_IDLE] = STATE(KEY_READER_IDLE) | STATE(KEY_READER_SCANNING) | STATE(KEY_READER_CHECKING) |
                        STATE(KEY_READER_CONFIRMING) | STATE(KEY_READER_COMMITTING),
    [KEY_READER_SCANNING] = STATE(KEY_READER_IDLE),
    [KEY_READER_CHECKING] = STATE(KEY_READER_IDLE),
    [KEY_READER_CONFIRMING] = STATE(KEY_READER_IDLE),
    [KEY_READER_COMMITTING] = STATE(KEY_READER_IDLE),
};

static void key_reader_enter(struct key_reader *r, enum key_reader_step next)
{
    assert(r->replies_due == 0);
    STATE_ENTER(&r->step, next, NEXT);
}

static bool key_reader_is_pending(const struct key_reader *r)
{
    return validity_is_pending(r->parts->validity, INVALIDATED_KEYS);
}

/* While an invalidation waits for a check of the catalogue, the requests wait as well. */
bool key_reader_is_able(const struct key_reader *r)
{
    const struct cache_parts *parts = r->parts;
    return validity_may_store(parts->validity) && api_keys_state(parts->api_keys) != API_KEYS_REFUSED &&
           (!key_reader_is_pending(r) || catalogue_is_being_checked(parts->catalogue));
}

/* --- requests --- */

static const struct digest *key_reader_key_of(struct list *request)
{
    return &LIST_ENTRY(request, struct cache_request, waiting)->key;
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

/* Each request of the check in flight has to check its key itself. */
static void key_reader_end_unchecked(struct key_reader *r)
{
    for (struct list *at = r->checked.next; at != &r->checked; at = at->next)
        LIST_ENTRY(at, struct cache_request, waiting)->own_check = true;
    key_reader_end(r, &r->checked, NULL);
}

/*
 * The requests of the check in flight wait for the next check, ahead of the others. It may have been the
 * check of the keys used last.
 */
static void key_reader_requeue(struct key_reader *r)
{
    r->recent_due |= !r->is_portion;
    list_splice(&r->checked, &r->waiting);
    list_splice(&r->waiting, &r->checked);
}

/* Whether the check has the key; after its last reply: whether the key is no member. */
static bool key_reader_has_key(const struct key_reader *r, const struct digest *key)
{
    for (size_t i = 0; i < r->key_count; i++)
        if (memcmp(&r->key[i], key, sizeof *key) == 0)
            return true;
    return false;
}

static bool key_reader_is_unconfirmed(const struct key_reader *r, const struct digest *key)
{
    return !api_keys_is_confirmed(r->parts->api_keys, key);
}

/* Moves the requests, except those whose keys `stays` holds back. */
static void key_reader_move(struct key_reader *r, struct list *from, struct list *to,
                            bool (*stays)(const struct key_reader *r, const struct digest *key))
{
    for (struct list *next, *at = from->next; at != from; at = next) {
        next = at->next;
        if (stays(r, key_reader_key_of(at)))
            continue;
        list_remove(at);
        list_append(to, at);
    }
}

/*
 * The check is void. A tracking table that is too small invalidates the keys at each check, so requests whose
 * checks were void too often check their keys themselves: those checks are bounded (fetch.c).
 */
static void key_reader_take_given_up(struct key_reader *r, struct list *given_up)
{
    for (struct list *next, *at = r->checked.next; at != &r->checked; at = next) {
        struct cache_request *request = LIST_ENTRY(at, struct cache_request, waiting);
        next = at->next;
        if (request->void_checks++ < REPEATS_MAX)
            continue;
        request->own_check = true;
        list_remove(at);
        list_append(given_up, at);
    }
}

/* --- sending --- */

enum { NS_PER_MS = 1000000, BURST_NS = KEY_READER_BURST_MS * NS_PER_MS };

static bool key_reader_is_permitted(const struct key_reader *r)
{
    return r->paid_ns <= clock_now_ns() + BURST_NS;
}

static void key_reader_pay(struct key_reader *r)
{
    uint64_t now = clock_now_ns();
    uint64_t from = r->paid_ns > now ? r->paid_ns : now;
    r->paid_ns = from + (r->key_count + KEY_READER_CHECK_COST) * NS_PER_MS / KEY_READER_KEYS_PER_MS;
}

static void key_reader_on_permitted(uv_timer_t *timer)
{
    key_reader_proceed(timer->data);
}

static void key_reader_arm_timer(struct key_reader *r)
{
    uint64_t permitted_ns = clock_now_ns() + BURST_NS;
    uint64_t wait_ns = r->paid_ns > permitted_ns ? r->paid_ns - permitted_ns : 0;
    uv_update_time(r->timer.loop); /* libuv's time may be as old as the loop iteration */
    (void)uv_timer_start(&r->timer, key_reader_on_permitted, wait_ns / NS_PER_MS + 1, 0);
}

/* A failure ends the check when the replies to the earlier commands have arrived. */
static void key_reader_send_command(struct key_reader *r, redis_reply_fn fn)
{
    int err = r->failed ? -ECANCELED : buf_error(&r->command);
    if (err == 0)
        err = redis_session_send(r->parts->session, buf_span(&r->command), REDIS_SEND_STREAM_ONLY, fn, r);
    r->failed = err != 0;
    r->replies_due += err == 0;
}

static void key_reader_compose(struct key_reader *r, struct span name, const struct buf *key, size_t words)
{
    buf_clear(&r->command);
    command_begin(&r->command, 2 + words);
    command_add(&r->command, name);
    command_add_buf(&r->command, key);
}

static void key_reader_compose_keys(struct key_reader *r, struct span name, const struct buf *key)
{
    char digits[DIGEST_HEX_LEN];
    key_reader_compose(r, name, key, r->key_count);
    for (size_t i = 0; i < r->key_count; i++) {
        digest_hex(&r->key[i], digits);
        command_add(&r->command, (struct span){digits, sizeof digits});
    }
}

/* --- a check --- */

static void key_reader_on_check_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin);

static void key_reader_send_check(struct key_reader *r)
{
    key_reader_enter(r, KEY_READER_CHECKING);
    r->failed = false;
    r->reply = KEY_READER_INFO_COUNT;
    r->mark = validity_mark(r->parts->validity);
    key_reader_pay(r);
    if (!list_empty(&r->checked))
        metric_add(&r->parts->metrics->redis_commands_total, KEY_READER_REPLIES);
    key_reader_compose(r, SPAN("HLEN"), &r->info_key, 0);
    key_reader_send_command(r, key_reader_on_check_reply);
    key_reader_compose_keys(r, SPAN("HMGET"), &r->info_key);
    key_reader_send_command(r, key_reader_on_check_reply);
    if (!r->is_portion) {
        key_reader_compose_keys(r, SPAN("SMISMEMBER"), &r->set_key);
        key_reader_send_command(r, key_reader_on_check_reply);
    }
    if (r->replies_due > 0)
        return;
    key_reader_enter(
        r, KEY_READER_IDLE); /* no callback is called from here: a request may have begun to wait just now */
    key_reader_requeue(r);
    key_reader_arm_timer(r);
}

/* Adds a key to the check. False when there is no room. */
static bool key_reader_add_key(struct key_reader *r, const struct digest *key)
{
    if (key_reader_has_key(r, key))
        return true;
    if (r->key_count == KEY_READER_KEYS)
        return false;
    r->key[r->key_count++] = *key;
    return true;
}

/* Begins a check of the keys that are there, and of keys of requests as far as there is room. */
static void key_reader_begin_check(struct key_reader *r)
{
    while (!list_empty(&r->waiting) && key_reader_add_key(r, key_reader_key_of(r->waiting.next))) {
        struct list *request = r->waiting.next;
        list_remove(request);
        list_append(&r->checked, request);
    }
    r->repeats = 0;
    r->is_portion = false;
    key_reader_send_check(r);
}

/* Redis does not let keys be checked here: the check fails, and fetches check keys until it is tried again.
 */
static void key_reader_refuse(struct key_reader *r, const char *reason)
{
    r->failed = true;
    api_keys_refuse(r->parts->api_keys, reason);
}

static bool key_reader_is_expected(const struct key_reader *r, const struct redis_reply *reply)
{
    return r->reply == KEY_READER_INFO_COUNT ? reply->type == REPLY_INTEGER
                                             : reply->type == REPLY_ARRAY && reply->elements == r->key_count;
}

/*
 * Returns whether the reply has data that may be cached. The number of infos shows whether their hash exists.
 * A reply without any info may be about keys that have none.
 */
static bool key_reader_accept_reply(struct key_reader *r, const struct redis_reply *reply)
{
    const struct validity *v = r->parts->validity;
    const struct redis_reply *counted = r->reply == KEY_READER_INFO_COUNT ? reply : NULL;
    r->failed = r->failed || reply == NULL || !validity_may_store(v);
    if (r->failed)
        return false;
    if (reply->type == REPLY_ERROR)
        key_reader_refuse(r, reply->str);
    else if (!key_reader_is_expected(r, reply))
        key_reader_refuse(r, "unexpected reply");
    else if (lifetime_is_none(validity_lifetime(v, counted, 0)))
        key_reader_refuse(r, "it may not be cached: " REDIS_SESSION_ABSENCES_UNTRACKED
                             " the set and the infos have to exist");
    return !r->failed;
}

static void key_reader_read_infos(struct key_reader *r, const struct redis_reply *infos)
{
    for (size_t i = 0; i < r->key_count && !r->failed; i++)
        if (!api_keys_read_info(r->parts->api_keys, &r->key[i], infos->element[i], &r->info[i]))
            key_reader_refuse(r, "unexpected reply");
}

/*
 * Confirms the members. The other keys remain in the check. The check fails if an invalidation came since the
 * first reply, because the infos may be older.
 */
static void key_reader_read_members(struct key_reader *r, const struct redis_reply *members)
{
    struct api_keys *keys = r->parts->api_keys;
    size_t others = 0;
    r->failed = r->epoch != api_keys_epoch(keys);
    for (size_t i = 0; i < r->key_count && !r->failed; i++)
        if (members->element[i]->type != REPLY_INTEGER)
            key_reader_refuse(r, "unexpected reply");
        else if (members->element[i]->integer != 1)
            r->key[others++] = r->key[i];
        else if (api_keys_confirm(keys, &r->key[i], LIFETIME_TRACKED, &r->info[i]) != 0)
            key_reader_refuse(r, "out of memory");
    r->key_count = others;
    for (size_t i = 0; i < others && !r->failed && !r->is_outside; i++)
        api_keys_deny(keys, &r->key[i]);
    if (!r->failed)
        api_keys_permit(keys);
}

/* The keys of the remaining requests are not members. A check of the catalogue has to confirm that. */
static void key_reader_confirm_later(struct key_reader *r)
{
    if (list_empty(&r->checked))
        return;
    if (r->is_outside) {
        key_reader_end_unchecked(r);
        return;
    }
    key_reader_enter(r, KEY_READER_CONFIRMING);
    catalogue_check(r->parts->catalogue);
}

/* A check of the catalogue that is sent from now on commits the portion. */
static void key_reader_commit_later(struct key_reader *r)
{
    key_reader_enter(r, KEY_READER_COMMITTING);
    r->commit = catalogue_begun(r->parts->catalogue) + 1;
    catalogue_check(r->parts->catalogue);
}

static void key_reader_end_check(struct key_reader *r)
{
    struct list ended;
    list_init(&ended);
    key_reader_enter(r, KEY_READER_IDLE);
    if (r->failed) {
        key_reader_take_given_up(r, &ended);
        key_reader_requeue(r);
    } else if (r->is_portion) {
        key_reader_commit_later(r);
    } else {
        /* not by what is confirmed: a member may have given way to another one of the same check */
        key_reader_move(r, &r->checked, &ended, key_reader_has_key);
        key_reader_move(r, &r->waiting, &ended, key_reader_is_unconfirmed);
        key_reader_confirm_later(r);
    }
    key_reader_end(r, &ended, NULL);
    key_reader_proceed(r);
}

static void key_reader_on_check_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_reader *r = arg;
    assert(r->step == KEY_READER_CHECKING && r->replies_due > 0);
    r->replies_due--;
    if (r->reply == KEY_READER_INFO_COUNT)
        r->epoch = api_keys_epoch(r->parts->api_keys);
    r->is_outside = origin == REDIS_ORIGIN_OUTSIDE; /* the last reply, which is about the set, decides */
    bool accepted = key_reader_accept_reply(r, reply);
    if (accepted && r->reply == KEY_READER_INFOS)
        key_reader_read_infos(r, reply);
    if (accepted && r->reply == KEY_READER_MEMBERS)
        key_reader_read_members(r, reply);
    r->reply++;
    if (r->replies_due == 0)
        key_reader_end_check(r);
}

/*
 * Called when a check has found a catalogue. It is certain that the keys are not members if the set was also
 * found before they were checked, without an invalidation in between (validity_mark). If no set was found,
 * the check is repeated once.
 */
static void key_reader_confirm(struct key_reader *r)
{
    const struct validity *v = r->parts->validity;
    bool certain = validity_has_api_keys(v) ? validity_lost_nothing(v, r->mark) : r->repeats > 0;
    key_reader_enter(r, KEY_READER_IDLE);
    if (certain || r->repeats == REPEATS_MAX || list_empty(&r->checked)) {
        key_reader_end(r, &r->checked, &(struct cache_result){.status = CACHE_KEY_INVALID});
        return;
    }
    r->repeats++;
    key_reader_send_check(r);
}

/* --- reading the set --- */

/* SSCAN may return a member more than once. */
static void key_reader_end_reading(struct key_reader *r)
{
    int64_t size = validity_key_count(r->parts->validity);
    if (size < 0)
        api_keys_fail_reading(r->parts->api_keys, "its size is not known any more");
    else if (r->members < size)
        api_keys_fail_reading(r->parts->api_keys, "members are missing in the replies to SSCAN");
    else
        api_keys_commit(r->parts->api_keys, size);
}

static int key_reader_confirm_portion(struct key_reader *r)
{
    int err = 0;
    for (size_t i = 0; i < r->key_count && err == 0; i++)
        err = api_keys_confirm(r->parts->api_keys, &r->key[i], LIFETIME_TRACKED, &r->info[i]);
    return err;
}

/* Called when a check has found a catalogue. A change since the portion was read has ended the reading. */
static void key_reader_commit(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    struct list confirmed;
    list_init(&confirmed);
    if (catalogue_passed(r->parts->catalogue) < r->commit) {
        catalogue_check(r->parts->catalogue);
        return;
    }
    key_reader_enter(r, KEY_READER_IDLE);
    if (api_keys_state(keys) != API_KEYS_READING)
        return;
    if (key_reader_confirm_portion(r) != 0)
        api_keys_fail_reading(keys, "out of memory");
    r->found_count = r->left_count;
    /* not covered: no test holds so many keys that one of them gives way to the portion */
    if (api_keys_state(keys) == API_KEYS_READING && r->cursor[0] == '\0' && r->found_count == 0)
        key_reader_end_reading(r);
    key_reader_move(r, &r->waiting, &confirmed, key_reader_is_unconfirmed);
    key_reader_end(r, &confirmed, NULL);
}

/* Keeps the members whose infos must be read. Returns 0, -EINVAL for an unexpected reply, or -ENOMEM. */
static int key_reader_read_portion(struct key_reader *r, const struct redis_reply *reply)
{
    const struct redis_reply *cursor = reply->elements == 2 ? reply->element[0] : NULL;
    const struct redis_reply *members = reply->elements == 2 ? reply->element[1] : NULL;
    if (reply->type != REPLY_ARRAY || cursor == NULL || cursor->type != REPLY_STRING ||
        cursor->len > KEY_READER_CURSOR_MAX || members->type != REPLY_ARRAY)
        return -EINVAL;
    free(r->found);
    r->found = malloc((members->elements + 1) * sizeof *r->found);
    if (r->found == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < members->elements; i++) {
        struct digest *d = &r->found[r->found_count];
        bool valid = digest_from_hex(reply_text(members->element[i]), d);
        metric_add(&r->parts->metrics->invalid_values_total, !valid);
        r->found_count += valid && !api_keys_is_confirmed(r->parts->api_keys, d);
    }
    r->members += (int64_t)members->elements;
    bool last = cursor->len == 1 && cursor->str[0] == '0';
    memcpy(r->cursor, cursor->str, last ? 0 : cursor->len);
    r->cursor[last ? 0 : cursor->len] = '\0';
    return 0;
}

/* If this fails the members are still found, and the next heartbeat reads their infos. */
static void key_reader_read_found_infos(struct key_reader *r)
{
    r->key_count = 0;
    r->left_count = r->found_count;
    /* not covered: key_reader_add_key() fails only beyond KEY_READER_KEYS, which are more than a portion */
    while (r->left_count > 0 && r->key_count < KEY_READER_PORTION_MAX &&
           key_reader_add_key(r, &r->found[r->left_count - 1]))
        r->left_count--;
    r->is_portion = true;
    if (r->key_count > 0)
        key_reader_send_check(r);
    else
        key_reader_commit_later(r);
}

/*
 * The portion is read in the stream only: the size of a set outside is not the sum of the portions of this
 * one.
 */
static void key_reader_on_portion(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct key_reader *r = arg;
    (void)origin;
    struct api_keys *keys = r->parts->api_keys;
    assert(r->step == KEY_READER_SCANNING && r->replies_due == 1);
    r->replies_due = 0;
    key_reader_enter(r, KEY_READER_IDLE);
    bool wanted = reply != NULL && api_keys_state(keys) == API_KEYS_READING;
    int err = !wanted ? 0 : reply->type == REPLY_ERROR ? -EIO : key_reader_read_portion(r, reply);
    if (err != 0) {
        api_keys_fail_reading(keys, err == -EIO      ? reply->str
                                    : err == -ENOMEM ? "out of memory"
                                                     : "unexpected reply");
    } else if (wanted) {
        key_reader_read_found_infos(r);
    }
    key_reader_proceed(r);
}

static void key_reader_send_scan(struct key_reader *r)
{
    key_reader_enter(r, KEY_READER_SCANNING);
    r->failed = false;
    key_reader_compose(r, SPAN("SSCAN"), &r->set_key, 3);
    command_add(&r->command, span_of(r->cursor));
    command_add(&r->command, SPAN("COUNT"));
    command_add_int(&r->command, KEY_READER_PORTION);
    key_reader_send_command(r, key_reader_on_portion);
    if (r->replies_due == 0)
        key_reader_enter(r, KEY_READER_IDLE);
}

/* --- what is next --- */

/* Returns whether a command was sent, like key_reader_begin_recent. */
static bool key_reader_begin_portion(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    int64_t size = validity_key_count(r->parts->validity);
    bool due = r->portion_due && api_keys_wants_reading(keys);
    r->portion_due = false;
    if (!due)
        return false;
    if (size > API_KEYS_MAX)
        api_keys_forgo_reading(keys, "it has too many keys");
    if (size < 0 || size > API_KEYS_MAX)
        return false;
    if (api_keys_state(keys) == API_KEYS_UNREAD) {
        api_keys_reading(keys);
        memcpy(r->cursor, "0", sizeof "0");
        r->found_count = 0;
        r->members = 0;
    }
    if (r->found_count > 0 || r->cursor[0] == '\0')
        key_reader_read_found_infos(r);
    else
        key_reader_send_scan(r);
    return r->step != KEY_READER_IDLE;
}

/* A set that is not larger than a portion is read as a portion instead. */
static bool key_reader_begin_recent(struct key_reader *r)
{
    uint64_t now = clock_now_ms();
    int64_t size = validity_key_count(r->parts->validity);
    if (!r->recent_due || now < r->recent_ms)
        return false;
    r->recent_due = false;
    r->recent_ms = now + KEY_READER_RECENT_INTERVAL_MS;
    bool small = size >= 0 && size <= KEY_READER_PORTION;
    r->portion_due |= small;
    r->key_count = small ? 0 : api_keys_recent(r->parts->api_keys, r->key);
    if (r->key_count > 0)
        key_reader_begin_check(r);
    return r->step != KEY_READER_IDLE;
}

/*
 * Confirmed keys are read again, for the audit (invalidation.h). After a refusal this shows whether keys can
 * be checked now: no request has to try it, and without a key to read the digest of none does.
 */
static bool key_reader_begin_audit(struct key_reader *r)
{
    struct api_keys *keys = r->parts->api_keys;
    if (!r->audit_due || !validity_may_store(r->parts->validity))
        return false;
    r->audit_due = false;
    r->key_count = api_keys_audited(keys, r->key);
    if (r->key_count == 0 && api_keys_state(keys) == API_KEYS_REFUSED)
        r->key[r->key_count++] = (struct digest){0};
    if (r->key_count > 0)
        key_reader_begin_check(r);
    return r->step != KEY_READER_IDLE;
}

static void key_reader_begin_waiting(struct key_reader *r)
{
    if (list_empty(&r->waiting))
        return;
    r->key_count = 0;
    if (key_reader_is_permitted(r))
        key_reader_begin_check(r);
    else
        key_reader_arm_timer(r);
}

static void key_reader_proceed(struct key_reader *r)
{
    if (r->step != KEY_READER_IDLE)
        return;
    if (!key_reader_is_able(r))
        key_reader_end(r, &r->waiting, NULL);
    if (key_reader_is_pending(r) || key_reader_begin_audit(r) || !key_reader_is_able(r))
        return;
    if (!key_reader_begin_recent(r) && !key_reader_begin_portion(r))
        key_reader_begin_waiting(r);
}

/* --- events --- */

void key_reader_wait(struct key_reader *r, struct list *request)
{
    list_append(&r->waiting, request);
    key_reader_proceed(r);
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
    if (key_reader_is_able(r))
        key_reader_proceed(r);
}

void key_reader_heartbeat(struct key_reader *r)
{
    api_keys_heartbeat(r->parts->api_keys);
    r->portion_due = true; /* for a larger set no other event makes a portion due */
    r->audit_due = true;
    key_reader_proceed(r);
}

void key_reader_checked(struct key_reader *r, enum catalogue_state state)
{
    bool waits = r->step == KEY_READER_CONFIRMING || r->step == KEY_READER_COMMITTING;
    if (waits && state == CATALOGUE_PRESENT) {
        (r->step == KEY_READER_CONFIRMING ? key_reader_confirm : key_reader_commit)(r);
    } else if (waits) {
        key_reader_enter(r, KEY_READER_IDLE);
        if (state == CATALOGUE_UNKNOWN)
            key_reader_end(r, &r->checked, &(struct cache_result){.status = CACHE_UNAVAILABLE});
        else
            key_reader_requeue(r);
    }
    key_reader_proceed(r);
}

/* --- beginning and end --- */

int key_reader_init(struct key_reader *r, const struct cache_parts *parts)
{
    *r = (struct key_reader){.parts = parts};
    list_init(&r->waiting);
    list_init(&r->checked);
    keyspace_api_keys(parts->keyspace, &r->set_key);
    keyspace_api_key_info(parts->keyspace, &r->info_key);
    return buf_error(&r->set_key) == 0 ? buf_error(&r->info_key) : -ENOMEM;
}

void key_reader_fini(struct key_reader *r)
{
    assert(list_empty(&r->waiting) && list_empty(&r->checked));
    buf_fini(&r->command);
    buf_fini(&r->set_key);
    buf_fini(&r->info_key);
    free(r->found);
}

void key_reader_open(struct key_reader *r, uv_loop_t *loop)
{
    (void)uv_timer_init(loop, &r->timer); /* cannot fail */
    r->timer.data = r;
}

static void key_reader_on_timer_closed(uv_handle_t *timer)
{
    wait_group_done(timer->data);
}

void key_reader_close(struct key_reader *r, struct wait_group *closing)
{
    r->timer.data = closing;
    wait_group_add(closing, 1);
    uv_close((uv_handle_t *)&r->timer, key_reader_on_timer_closed);
}
