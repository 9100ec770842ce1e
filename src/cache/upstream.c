/* Reads that show the permissions, and the check of the catalogue; see upstream.h. */
#include "cache/upstream.h"

#include "base/clock.h"
#include "base/log.h"
#include "cache/body.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

bool upstream_conclude(struct redis_connection *connection, enum catalogue_state state)
{
    if (state == CATALOGUE_LOST)
        redis_connection_fail(connection, UPSTREAM_NOT_CHECKED);
    else if (state == CATALOGUE_MISSING)
        redis_connection_fail(connection, UPSTREAM_NO_CATALOGUE);
    else
        redis_connection_accept(connection);
    return state != CATALOGUE_LOST && state != CATALOGUE_MISSING;
}

/* --- a probe --- */

static enum catalogue_state probe_evaluate(const struct probe *p)
{
    if (p->is_lost)
        return CATALOGUE_LOST;
    if (p->keys == CATALOGUE_KEY_PRESENT || p->index == CATALOGUE_KEY_PRESENT)
        return CATALOGUE_PRESENT;
    if (p->keys == CATALOGUE_KEY_ABSENT && p->index == CATALOGUE_KEY_ABSENT)
        return CATALOGUE_MISSING;
    bool forbidden = p->keys == CATALOGUE_KEY_FORBIDDEN || p->index == CATALOGUE_KEY_FORBIDDEN;
    return forbidden ? CATALOGUE_PRESENT : CATALOGUE_UNKNOWN;
}

static enum catalogue_key probe_read_count(struct upstream *u, const struct redis_reply *reply)
{
    if (reply->type == REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_KEY_ABSENT : CATALOGUE_KEY_PRESENT;
    if (reply_is_error(reply, SPAN("WRONGTYPE ")))
        return CATALOGUE_KEY_PRESENT;
    if (!reply_is_error(reply, SPAN("NOPERM ")))
        return CATALOGUE_KEY_UNKNOWN;
    if (!u->forbidden_logged)
        log_text(LOG_WARN, "redis does not permit SCARD or ZCARD: a missing catalogue cannot be noticed",
                 NULL, NULL);
    u->forbidden_logged = true;
    return CATALOGUE_KEY_FORBIDDEN;
}

/* The origin does not matter: a key anywhere shows that there is a catalogue. Returns the count, or -1. */
static int64_t probe_accept(struct probe *p, const struct redis_reply *reply, enum catalogue_key *key)
{
    assert(p->due > 0);
    p->due--;
    p->is_lost |= reply == NULL;
    if (reply != NULL)
        *key = probe_read_count(p->upstream, reply);
    return reply != NULL && reply->type == REPLY_INTEGER ? reply->integer : -1;
}

static void probe_proceed(struct probe *p)
{
    p->state = probe_evaluate(p);
    if (p->due == 0)
        p->done(p);
}

static bool probe_is_next(const struct probe *p)
{
    return p == &p->upstream->next.probe;
}

static void probe_on_key_count(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct probe *p = arg;
    (void)origin;
    int64_t count = probe_accept(p, reply, &p->keys);
    if (!probe_is_next(p) && reply != NULL)
        stream_counted(p->upstream->parts->stream, count, p->keys == CATALOGUE_KEY_PRESENT);
    probe_proceed(p);
}

static void probe_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct probe *p = arg;
    (void)origin;
    p->index_size = probe_accept(p, reply, &p->index);
    probe_proceed(p);
}

static void probe_send_count(struct probe *p, const struct buf *command, redis_reply_fn fn)
{
    unsigned how = probe_is_next(p) ? REDIS_SEND_NEXT : 0;
    int err = redis_session_send(p->upstream->parts->session, command, how, fn, p);
    p->due += err == 0;
    p->is_lost |= err == -ENOTCONN;
}

void probe_send(struct probe *p, struct upstream *upstream, void (*done)(struct probe *probe))
{
    const struct cache_parts *parts = upstream->parts;
    *p = (struct probe){
        .upstream = upstream, .done = done, .index_size = -1, .flushes = parts->stream->flushes};
    probe_send_count(p, commands_key_count(parts->commands), probe_on_key_count);
    if (p->due == 0 && !probe_is_next(p))
        stream_counted(parts->stream, -1, false);
    probe_send_count(p, commands_index_size(parts->commands), probe_on_index_size);
    p->state = probe_evaluate(p);
}

/* --- the check of the catalogue --- */

/* The probe has ended. It is sent again if everything was invalidated meanwhile. */
static void upstream_on_probed(struct probe *p)
{
    struct upstream *u = p->upstream;
    const struct cache_parts *parts = u->parts;
    if (!p->is_lost && parts->stream->flushes != p->flushes)
        probe_send(p, u, upstream_on_probed);
    if (p->due > 0)
        return;
    if (probe_is_next(p)) {
        if (redis_connection_is_usable(u->next.connection)) /* otherwise it is lost, or is being closed */
            (void)upstream_conclude(u->next.connection, p->state);
        return;
    }
    if (p->state == CATALOGUE_PRESENT || p->state == CATALOGUE_MISSING)
        metric_set(&parts->metrics->api_keys_missing, p->keys == CATALOGUE_KEY_ABSENT);
    if (p->index_size >= 0)
        metric_set(&parts->metrics->catalogue_channels, (uint64_t)p->index_size);
    parts->catalogue_checked(parts->arg, p->state);
}

static void upstream_begin_catalogue_check(struct upstream_check *check)
{
    if (check->probe.due > 0)
        return;
    check->began_ms = clock_boot_ms();
    probe_send(&check->probe, check->upstream, upstream_on_probed);
    if (check->probe.due == 0)
        upstream_on_probed(&check->probe);
}

void upstream_check_catalogue(struct upstream *u)
{
    upstream_begin_catalogue_check(&u->current);
}

/* --- the check of permissions --- */

static void upstream_on_read(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    const struct upstream_read *read = arg;
    char why[256];
    bool is_refused =
        reply != NULL && reply->type == REPLY_ERROR && !reply_is_error(reply, SPAN("WRONGTYPE "));
    if (!is_refused || origin != REDIS_ORIGIN_STREAM)
        return;
    bool is_denied = reply_is_error(reply, SPAN("NOPERM "));
    (void)snprintf(why, sizeof why, "%s%s: %s", is_denied ? UPSTREAM_NO_PERMISSION : UPSTREAM_REFUSED,
                   read->what, reply->str);
    redis_connection_fail(read->check->connection, why);
}

/* Returns whether the command was sent. */
static bool upstream_send_read(struct upstream_check *check, int at, const char *what,
                               const struct buf *command)
{
    unsigned how = REDIS_SEND_STREAM_ONLY | (check == &check->upstream->next ? REDIS_SEND_NEXT : 0);
    check->reads[at] = (struct upstream_read){check, what};
    return redis_session_send(check->upstream->parts->session, command, how, upstream_on_read,
                              &check->reads[at]) == 0;
}

static const struct buf *upstream_of_no_key(struct commands *c, const struct buf *begun)
{
    struct key_word none;
    commands_key_word(&(struct digest){0}, &none);
    commands_add_key(c, &none);
    return begun;
}

/*
 * Sends the commands of requests, with keys that do not exist. The only question is whether Redis refuses
 * them: an ACL denies them, or they were renamed. A WRONGTYPE is about the data. The commands are read in the
 * stream only, as Redis refuses them before it looks for keys. Returns whether they were sent.
 */
static bool upstream_check_permissions(struct upstream_check *check)
{
    struct commands *c = check->upstream->parts->commands;
    return upstream_send_read(check, 0, "channels", commands_channel(c, 0, CHANNEL_CARD)) &&
           upstream_send_read(check, 1, "links", commands_link(c, SPAN("x"))) &&
           upstream_send_read(check, 2, "pages", commands_page(c, INT32_MAX)) && /* far beyond the last */
           upstream_send_read(check, 3, "the size of the index", commands_index_size(c)) &&
           upstream_send_read(check, 4, "the API keys",
                              upstream_of_no_key(c, commands_begin_members(c, 1))) &&
           upstream_send_read(check, 5, "the names and expiries of API keys",
                              upstream_of_no_key(c, commands_begin_infos(c, 1)));
}

/* --- the eviction policy --- */

/* An error says that the user may not run INFO. */
static void upstream_on_memory_info(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct upstream *u = arg;
    char text[64];
    (void)origin;
    u->eviction_checked = reply != NULL;
    struct span policy = reply != NULL ? redis_server_eviction_policy(reply) : SPAN_ABSENT;
    if (policy.data == NULL)
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)policy.len, policy.data);
    log_text(LOG_WARN, "redis may evict channels and API keys: set maxmemory-policy to noeviction",
             "maxmemory_policy", text);
}

void upstream_ready(struct upstream *u, bool checks_eviction)
{
    struct buf info = BUF_INIT;
    u->was_ready = true;
    if (!checks_eviction || u->eviction_checked)
        return;
    command_write(&info, 2, (const char *[]){"INFO", "memory"});
    u->eviction_checked =
        redis_session_send(u->parts->session, &info, REDIS_SEND_STREAM_ONLY, upstream_on_memory_info, u) == 0;
    buf_fini(&info);
}

/* --- as a whole --- */

void upstream_init(struct upstream *u, const struct cache_parts *parts)
{
    *u = (struct upstream){.parts = parts};
    u->current.upstream = u->next.upstream = u;
}

void upstream_check(struct upstream *u, struct redis_connection *connection)
{
    struct upstream_check *check =
        connection == redis_session_connection(u->parts->session) ? &u->current : &u->next;
    check->connection = connection;
    if ((check == &u->current && u->was_ready) || upstream_check_permissions(check))
        upstream_begin_catalogue_check(check);
    else
        redis_connection_fail(connection, "out of memory");
}
