/* Checks, and the beginning and the end of a connection; see stream.h. */
#include "cache/stream.h"

#include "base/clock.h"
#include "base/log.h"
#include "cache/parts.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/param.h>

/* --- a probe --- */

static bool stream_is_next(const struct stream_check *check)
{
    return check == &check->stream->next;
}

static enum catalogue_state stream_read_count(const struct redis_reply *reply)
{
    if (reply == NULL)
        return CATALOGUE_LOST;
    if (reply->type == REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_MISSING : CATALOGUE_PRESENT;
    return reply_is_error(reply, SPAN("WRONGTYPE ")) ? CATALOGUE_PRESENT : CATALOGUE_UNKNOWN;
}

/* A key anywhere shows that there is a catalogue. */
static enum catalogue_state stream_state_found(const struct stream_check *check)
{
    enum catalogue_state least = MIN(check->keys, check->index);
    bool is_present = MAX(check->keys, check->index) == CATALOGUE_PRESENT;
    return is_present && least != CATALOGUE_LOST ? CATALOGUE_PRESENT : least;
}

static void stream_apply_flush(struct stream *s)
{
    if (s->flush_pending && !s->missing)
        s->parts->drop_all(s->parts->arg);
    s->flush_pending = false;
}

static const char NO_CATALOGUE[] = "no catalogue: neither the index nor the set of API keys exists";

/* Requests may be served from the cache then, as after any other loss. Returns what is left of the state. */
static enum catalogue_state stream_lost_catalogue(struct stream *s)
{
    s->missing = true;
    metric_set(&s->parts->metrics->catalogue_missing, 1);
    if (!s->connected)
        return CATALOGUE_MISSING;
    redis_connection_fail(redis_session_connection(s->parts->session), NO_CATALOGUE);
    return CATALOGUE_LOST;
}

/* A pending flush is applied before any request is answered: the answer may start the next request. */
static enum catalogue_state stream_apply_probe(struct stream *s, enum catalogue_state state)
{
    const struct stream_check *check = &s->current;
    if (state >= CATALOGUE_MISSING)
        metric_set(&s->parts->metrics->api_keys_missing, check->keys == CATALOGUE_MISSING);
    if (state == CATALOGUE_MISSING)
        return stream_lost_catalogue(s);
    if (state == CATALOGUE_PRESENT) {
        s->present_ms = check->sent_ms;
        if (s->connected && check->flushes == s->flushes)
            stream_apply_flush(s);
    }
    return state;
}

static void stream_end_waits(struct stream *s, enum catalogue_state state)
{
    struct list waiters;
    list_init(&waiters);
    list_splice(&waiters, &s->waiters);
    while (!list_empty(&waiters)) {
        struct probe_waiter *waiter = LIST_ENTRY(waiters.next, struct probe_waiter, link);
        list_remove(&waiter->link);
        waiter->done(waiter, state);
    }
}

/* Ends an attempt to connect: the connection is accepted if the state is unknown, too. */
static void stream_end_attempt(struct redis_connection *connection, enum catalogue_state state)
{
    if (state == CATALOGUE_UNKNOWN || state == CATALOGUE_PRESENT)
        redis_connection_accept(connection);
    else if (state == CATALOGUE_LOST)
        redis_connection_fail(connection,
                              "the check of the catalogue was lost with the connection to another node");
    else
        redis_connection_fail(connection, NO_CATALOGUE);
}

static void stream_send_probe(struct stream_check *check);

/* A probe is repeated if everything was invalidated meanwhile. */
static void stream_proceed(struct stream_check *check)
{
    struct stream *s = check->stream;
    if (check->due > 0)
        return;
    bool is_next = stream_is_next(check);
    enum catalogue_state state = stream_state_found(check);
    if (!is_next)
        state = stream_apply_probe(s, state);
    struct redis_connection *connection =
        is_next ? check->connection : redis_session_connection(s->parts->session);
    bool is_tried = redis_connection_is_usable(connection) && !redis_connection_is_ready(connection);
    if (state != CATALOGUE_LOST && check->flushes != s->flushes)
        stream_send_probe(check);
    else if (is_tried)
        stream_end_attempt(connection, state);
    else if (!is_next)
        stream_end_waits(s, state);
}

static void stream_on_key_count(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct stream_check *check = arg;
    struct stream *s = check->stream;
    (void)origin;
    check->due--;
    check->keys = stream_read_count(reply);
    if (!stream_is_next(check) && reply != NULL) {
        if (check->keys != CATALOGUE_PRESENT)
            s->keys_found = 0;
        else if (s->keys_found == 0)
            s->keys_found = ++s->keys_times;
    }
    stream_proceed(check);
}

static void stream_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct stream_check *check = arg;
    struct stream *s = check->stream;
    (void)origin;
    check->due--;
    check->index = stream_read_count(reply);
    if (!stream_is_next(check) && reply != NULL && reply->type == REPLY_INTEGER)
        metric_set(&s->parts->metrics->catalogue_channels, (uint64_t)reply->integer);
    stream_proceed(check);
}

/* Returns what is known before there is a reply. */
static enum catalogue_state stream_send_count(struct stream_check *check, const struct buf *command,
                                              redis_reply_fn fn)
{
    unsigned how = stream_is_next(check) ? REDIS_SEND_NEXT : 0;
    int err = redis_session_send(check->stream->parts->session, command, how, fn, check);
    check->due += err == 0;
    return err == -ENOTCONN ? CATALOGUE_LOST : CATALOGUE_UNKNOWN;
}

/* Does nothing while one is in flight. */
static void stream_send_probe(struct stream_check *check)
{
    struct commands *commands = check->stream->parts->commands;
    if (check->due > 0)
        return;
    check->sent_ms = clock_boot_ms();
    check->flushes = check->stream->flushes;
    check->keys = stream_send_count(check, commands_key_count(commands), stream_on_key_count);
    check->index = stream_send_count(check, commands_index_size(commands), stream_on_index_size);
    stream_proceed(check);
}

void stream_wait_for_probe(struct stream *s, struct probe_waiter *waiter)
{
    list_append(&s->waiters, &waiter->link);
    stream_send_probe(&s->current);
}

void stream_heartbeat(struct stream *s)
{
    s->pong_ms = redis_connection_status(redis_session_connection(s->parts->session))->last_pong_ms;
    stream_send_probe(&s->current);
}

void stream_flush(struct stream *s)
{
    s->flush_pending = true;
    s->flushes++;
    s->keys_found = 0;
    stream_send_probe(&s->current);
}

void stream_suspend(struct stream *s)
{
    s->mode = STREAM_UNCACHED;
    s->flush_pending = false;
    metric_set(&s->parts->metrics->cache_suspended, 1);
}

/* --- the check of permissions --- */

static void stream_on_permission(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    static const char *const names[] = {"channels",
                                        "links",
                                        "pages",
                                        "the size of the index",
                                        "the API keys",
                                        "the names and expiries of API keys",
                                        "the number of API keys"};
    struct stream_check *check = arg;
    char why[256];
    const char *name = names[check->permissions++];
    bool is_refused =
        reply != NULL && reply->type == REPLY_ERROR && !reply_is_error(reply, SPAN("WRONGTYPE "));
    if (!is_refused || origin != REDIS_ORIGIN_STREAM)
        return;
    bool is_denied = reply_is_error(reply, SPAN("NOPERM "));
    (void)snprintf(why, sizeof why, "%s %s: %s",
                   is_denied ? "no permission to read" : "redis refuses to read", name, reply->str);
    redis_connection_fail(check->connection, why);
}

static bool stream_send_read(struct stream_check *check, const struct buf *command)
{
    struct stream *s = check->stream;
    unsigned how = REDIS_SEND_STREAM_ONLY | (stream_is_next(check) ? REDIS_SEND_NEXT : 0);
    return redis_session_send(s->parts->session, command, how, stream_on_permission, check) == 0;
}

static const struct buf *stream_of_no_key(struct commands *c, const struct buf *begun)
{
    char digits[DIGEST_HEX_LEN];
    digest_hex(&(struct digest){0}, digits);
    commands_add_key(c, digits);
    return begun;
}

/*
 * Sends the commands of requests, with keys that do not exist. The only question is whether Redis refuses
 * them: an ACL denies them, or they were renamed. A WRONGTYPE is about the data. The commands are read in the
 * stream only, as Redis refuses them before it looks for keys. Returns whether they were sent.
 */
static bool stream_check_permissions(struct stream_check *check)
{
    struct commands *c = check->stream->parts->commands;
    check->permissions = 0;
    return stream_send_read(check, commands_channel(c, 0, CHANNEL_CARD)) &&
           stream_send_read(check, commands_link(c, SPAN("x"))) &&
           stream_send_read(check, commands_page(c, INT32_MAX)) && /* far beyond the last */
           stream_send_read(check, commands_index_size(c)) &&
           stream_send_read(check, stream_of_no_key(c, commands_begin_members(c, 1))) &&
           stream_send_read(check, stream_of_no_key(c, commands_begin_infos(c, 1))) &&
           stream_send_read(check, commands_key_count(c));
}

void stream_check(struct stream *s, struct redis_connection *connection)
{
    bool is_current = connection == redis_session_connection(s->parts->session);
    struct stream_check *check = is_current ? &s->current : &s->next;
    check->connection = connection;
    if ((is_current && s->was_ready) || stream_check_permissions(check))
        stream_send_probe(check);
    else
        redis_connection_fail(connection, "out of memory");
}

/* --- the eviction policy --- */

/* An error says that the user may not run INFO. */
static void stream_on_memory_info(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    char text[64];
    (void)arg;
    (void)origin;
    struct span policy = reply != NULL ? redis_server_eviction_policy(reply) : SPAN_ABSENT;
    if (policy.data == NULL)
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)policy.len, policy.data);
    log_text(LOG_WARN, "redis may evict channels and API keys: set maxmemory-policy to noeviction",
             "maxmemory_policy", text);
}

static void stream_check_eviction(struct stream *s)
{
    struct buf info = BUF_INIT;
    command_write(&info, 2, (const char *[]){"INFO", "memory"});
    int err =
        redis_session_send(s->parts->session, &info, REDIS_SEND_STREAM_ONLY, stream_on_memory_info, NULL);
    (void)err; /* then the policy of the next connection's Redis is read */
    buf_fini(&info);
}

/* --- connections --- */

void stream_init(struct stream *s, const struct cache_parts *parts, const struct cache_options *options)
{
    *s = (struct stream){.parts = parts, .options = options};
    s->current.stream = s->next.stream = s;
    list_init(&s->waiters);
}

/* Logs the consequence; the connection has logged the reason. */
static void stream_log_untracked(const struct stream *s)
{
    struct log_line line;
    if (s->options->settings.ttl_ms == 0) {
        log_text(LOG_WARN, "redis does not track: nothing is cached on this connection", NULL, NULL);
    } else if (log_begin(&line, LOG_WARN, "redis does not track: what is cached is served for the TTL")) {
        log_int(&line, "ttl_ms", (int64_t)s->options->settings.ttl_ms);
        log_end(&line);
    }
}

void stream_connected(struct stream *s)
{
    const struct cache_options *o = s->options;
    struct cache_metrics *metrics = s->parts->metrics;
    const struct redis_connection *connection = redis_session_connection(s->parts->session);
    bool is_tracking = redis_connection_status(connection)->tracking;
    bool is_untracked = o->settings.cache_size > 0 && !is_tracking;
    assert(!s->connected);
    s->connected = s->was_ready = true;
    s->connected_ms = clock_now_ms();
    s->mode = o->settings.cache_size == 0 ? STREAM_UNCACHED
              : is_tracking               ? STREAM_TRACKED
              : o->settings.ttl_ms > 0    ? STREAM_TTL
                                          : STREAM_UNCACHED;
    s->absences_untracked = !redis_session_tracks_absences(s->parts->session);
    s->missing = s->flush_pending = false;
    s->pong_ms = redis_connection_status(connection)->last_pong_ms;
    s->drained_until_ms = 0;
    s->present_ms = clock_boot_ms(); /* no entry is older */
    metric_set(&metrics->cache_suspended, 0);
    metric_set(&metrics->cache_untracked, is_untracked);
    metric_set(&metrics->cache_by_ttl, s->mode == STREAM_TTL);
    metric_set(&metrics->catalogue_missing, 0);
    metric_set(&metrics->api_keys_missing, 0);
    if (is_untracked)
        stream_log_untracked(s);
    if (o->checks_eviction)
        stream_check_eviction(s);
}

/*
 * A process that was stopped notices the loss late, so the age counts at most from the end of the lease.
 * Behind a flush that waits for a check Redis may track nothing any more. Then only the time is known at
 * which the catalogue was last found.
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
    stream_apply_flush(s);
}

/* The API keys were counted on the other connection, which does not tell what this one tracks. */
void stream_replaced(struct stream *s)
{
    if (s->connected)
        stream_lost(s, 0);
    s->keys_found = 0;
}
