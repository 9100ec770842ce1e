/* Reads that show the permissions, then the check of the catalogue; see upstream.h. */
#include "cache/upstream.h"

#include "base/clock.h"
#include "base/log.h"
#include "cache/body.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* --- the check of the catalogue --- */

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

static enum catalogue_state upstream_evaluate(const struct upstream_check *check)
{
    if (check->lost)
        return CATALOGUE_LOST;
    if (check->keys == CATALOGUE_KEY_PRESENT || check->index == CATALOGUE_KEY_PRESENT)
        return CATALOGUE_PRESENT;
    if (check->keys == CATALOGUE_KEY_ABSENT && check->index == CATALOGUE_KEY_ABSENT)
        return CATALOGUE_MISSING;
    bool forbidden = check->keys == CATALOGUE_KEY_FORBIDDEN || check->index == CATALOGUE_KEY_FORBIDDEN;
    return forbidden ? CATALOGUE_PRESENT : CATALOGUE_UNKNOWN;
}

static void upstream_note_checked(const struct upstream_check *check, enum catalogue_state state)
{
    const struct cache_parts *parts = check->upstream->parts;
    if (state == CATALOGUE_PRESENT || state == CATALOGUE_MISSING)
        metric_set(&parts->metrics->api_keys_missing, check->keys == CATALOGUE_KEY_ABSENT);
    if (check->index_size >= 0)
        metric_set(&parts->metrics->catalogue_channels, (uint64_t)check->index_size);
    parts->catalogue_checked(parts->arg, state);
}

static void upstream_send_catalogue_check(struct upstream_check *check);

/* Both replies have arrived, or nothing could be sent. */
static void upstream_end_catalogue_check(struct upstream_check *check)
{
    struct upstream *u = check->upstream;
    if (!check->lost && u->parts->stream->flushes != check->flushes)
        upstream_send_catalogue_check(check);
    if (check->replies_due > 0)
        return;
    enum catalogue_state state = upstream_evaluate(check);
    if (check == &u->current)
        upstream_note_checked(check, state);
    else if (redis_connection_is_usable(check->connection)) /* otherwise it is lost, or is being closed */
        (void)upstream_conclude(check->connection, state);
}

static enum catalogue_key upstream_read_count(struct upstream *u, const struct redis_reply *reply)
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

/* The origin does not matter: a key anywhere shows that there is a catalogue. */
static void upstream_accept_count(struct upstream_check *check, const struct redis_reply *reply,
                                  enum catalogue_key *key, int64_t *count)
{
    assert(check->replies_due > 0);
    check->replies_due--;
    check->lost |= reply == NULL;
    if (reply != NULL)
        *key = upstream_read_count(check->upstream, reply);
    *count = reply != NULL && reply->type == REPLY_INTEGER ? reply->integer : -1;
}

static void upstream_on_key_count(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct upstream_check *check = arg;
    int64_t count = -1;
    (void)origin;
    upstream_accept_count(check, reply, &check->keys, &count);
    if (check == &check->upstream->current && reply != NULL)
        stream_counted(check->upstream->parts->stream, count, check->keys == CATALOGUE_KEY_PRESENT);
    if (check->replies_due == 0)
        upstream_end_catalogue_check(check);
}

static void upstream_on_index_size(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct upstream_check *check = arg;
    (void)origin;
    upstream_accept_count(check, reply, &check->index, &check->index_size);
    if (check->replies_due == 0)
        upstream_end_catalogue_check(check);
}

/* Returns 0 or a negative errno. */
static int upstream_send_count(struct upstream_check *check, const struct buf *command, redis_reply_fn fn)
{
    struct upstream *u = check->upstream;
    unsigned how = check == &u->next ? REDIS_SEND_NEXT : 0;
    int err = redis_session_send(u->parts->session, command, how, fn, check);
    check->replies_due += err == 0;
    check->lost |= err == -ENOTCONN;
    return err;
}

static void upstream_send_catalogue_check(struct upstream_check *check)
{
    const struct cache_parts *parts = check->upstream->parts;
    check->keys = check->index = CATALOGUE_KEY_UNKNOWN;
    check->lost = false;
    check->flushes = parts->stream->flushes;
    bool sent = upstream_send_count(check, commands_key_count(parts->commands), upstream_on_key_count) == 0;
    if (!sent && check == &check->upstream->current)
        stream_counted(parts->stream, -1, false);
    (void)upstream_send_count(check, commands_index_size(parts->commands), upstream_on_index_size);
}

static void upstream_begin_catalogue_check(struct upstream_check *check)
{
    if (check->replies_due > 0)
        return;
    check->began_ms = clock_boot_ms();
    upstream_send_catalogue_check(check);
    if (check->replies_due == 0)
        upstream_end_catalogue_check(check);
}

void upstream_check_catalogue(struct upstream *u)
{
    upstream_begin_catalogue_check(&u->current);
}

/* --- the check of permissions --- */

/*
 * The check sends the commands of requests, with keys that do not exist. The only question is whether Redis
 * refuses them: an ACL denies them, or they were renamed. A WRONGTYPE is about the data. The commands are
 * read in the stream only, as Redis refuses them before it looks for keys.
 */
enum permission {
    PERMISSION_CARDS,
    PERMISSION_LINKS,
    PERMISSION_PAGES,
    PERMISSION_INDEX_SIZE,
    PERMISSION_API_KEYS,
    PERMISSION_API_KEY_INFO,
    PERMISSIONS
};

static const struct buf *upstream_compose_check(struct commands *c, enum permission permission)
{
    struct key_word none;
    const struct buf *command = NULL;
    switch (permission) {
    case PERMISSION_CARDS:
        return commands_channel(c, 0, CHANNEL_CARD);
    case PERMISSION_LINKS:
        return commands_link(c, SPAN("x"));
    case PERMISSION_PAGES: /* a page far beyond the last one */
        return commands_page(c, INT32_MAX);
    case PERMISSION_INDEX_SIZE:
        return commands_index_size(c);
    case PERMISSION_API_KEYS:
        command = commands_begin_members(c, 1);
        break;
    default:
        command = commands_begin_infos(c, 1);
        break;
    }
    commands_key_word(&(struct digest){0}, &none);
    commands_add_key(c, &none);
    return command;
}

static void upstream_fail_refused(const struct upstream_check *check, enum permission permission,
                                  const struct redis_reply *error)
{
    static const char *const what[PERMISSIONS] = {
        [PERMISSION_CARDS] = "channels",
        [PERMISSION_LINKS] = "links",
        [PERMISSION_PAGES] = "pages",
        [PERMISSION_INDEX_SIZE] = "the size of the index",
        [PERMISSION_API_KEYS] = "the API keys",
        [PERMISSION_API_KEY_INFO] = "the names and expiries of API keys",
    };
    char why[256];
    bool is_denied = reply_is_error(error, SPAN("NOPERM "));
    (void)snprintf(why, sizeof why, "%s%s: %s", is_denied ? UPSTREAM_NO_PERMISSION : UPSTREAM_REFUSED,
                   what[permission], error->str);
    redis_connection_fail(check->connection, why);
}

static void upstream_on_permission_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct upstream_check *check = arg;
    enum permission permission = (enum permission)check->replied++;
    assert(check->replied <= check->sent);
    if (reply == NULL)
        return;
    bool is_refused = reply->type == REPLY_ERROR && !reply_is_error(reply, SPAN("WRONGTYPE "));
    if (is_refused && origin == REDIS_ORIGIN_STREAM)
        upstream_fail_refused(check, permission, reply);
    else if (check->replied == PERMISSIONS)
        upstream_begin_catalogue_check(check);
}

static int upstream_send_permission_check(struct upstream_check *check, enum permission permission)
{
    const struct buf *command = upstream_compose_check(check->upstream->parts->commands, permission);
    unsigned how = REDIS_SEND_STREAM_ONLY | (check == &check->upstream->next ? REDIS_SEND_NEXT : 0);
    int err = redis_session_send(check->upstream->parts->session, command, how, upstream_on_permission_reply,
                                 check);
    check->sent += err == 0;
    return err;
}

static void upstream_check_permissions(struct upstream_check *check)
{
    int err = 0;
    assert(check->replied == check->sent);
    check->replied = check->sent = 0;
    for (int permission = 0; err == 0 && permission < PERMISSIONS; permission++)
        err = upstream_send_permission_check(check, (enum permission)permission);
    if (err != 0)
        redis_connection_fail(check->connection, "out of memory");
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
    if (check == &u->current && u->was_ready)
        upstream_begin_catalogue_check(check);
    else
        upstream_check_permissions(check);
}
