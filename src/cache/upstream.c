/* Connections of which one replaces the other; see upstream.h. */
#include "cache/upstream.h"

#include "cache/body.h"
#include "cache/catalogue.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct upstream_link {
    struct upstream *upstream;
    struct redis_config *config; /* a reference */
    struct redis_session *session;
    struct redis_connection *connection; /* of the session */

    bool was_ready;                  /* it was accepted once */
    int checks_sent, checks_replied; /* of permissions; equal, but while they are being checked */

    struct catalogue catalogue; /* checked by the owner where the connection is in use */
};

int upstream_send(struct upstream *u, struct span command, unsigned how, redis_reply_fn fn, void *arg)
{
    return redis_session_send(u->current->session, command, how, fn, arg);
}

/* --- the check of the catalogue --- */

static int upstream_send_check(void *arg, struct span command, unsigned how, redis_reply_fn fn, void *fn_arg)
{
    const struct upstream_link *l = arg;
    return redis_session_send(l->session, command, how, fn, fn_arg);
}

/* Of the next connection. Whatever is not known to be without a catalogue is accepted, as by the owner. */
static void upstream_on_checked(void *arg, enum catalogue_state state)
{
    const struct upstream_link *l = arg;
    if (state == CATALOGUE_LOST) /* there will be another attempt, or it is being closed */
        return;
    if (state == CATALOGUE_MISSING)
        redis_connection_fail(l->connection, UPSTREAM_NO_CATALOGUE);
    else
        redis_connection_accept(l->connection);
}

/* The owner checks it where the connection is in use. */
static void upstream_check_catalogue(struct upstream_link *l)
{
    struct upstream *u = l->upstream;
    if (l == u->current)
        u->options.on_handshake_done(u->options.arg);
    else
        catalogue_check(&l->catalogue);
}

/* --- the check of permissions --- */

/*
 * Reads with the commands of requests, of keys that do not exist; only whether an ACL denies them counts.
 * No other node is asked: Redis checks the ACL before the slot.
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
    switch (permission) {
    case PERMISSION_CARDS:
        return commands_read(c, &(struct entry_source){.kind = ENTRY_CARD});
    case PERMISSION_LINKS:
        return commands_link(c, SPAN("x"));
    case PERMISSION_PAGES: /* far beyond the last */
        return commands_read(c, &(struct entry_source){.kind = ENTRY_PAGE, .number = INT32_MAX});
    case PERMISSION_INDEX_SIZE:
        return commands_index_size(c);
    case PERMISSION_API_KEYS:
        return commands_auth(c);
    default:
        return commands_key_info(c);
    }
}

static void upstream_fail_denied(struct upstream_link *l, enum permission permission, const char *error)
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
    (void)snprintf(why, sizeof why, UPSTREAM_NO_PERMISSION "%s: %s", what[permission], error);
    redis_connection_fail(l->connection, why);
}

static void upstream_on_permission_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct upstream_link *l = arg;
    (void)origin;
    enum permission permission = (enum permission)l->checks_replied++;
    assert(l->checks_replied <= l->checks_sent);
    if (reply == NULL)
        return;
    if (reply_is_error(reply, SPAN("NOPERM ")))
        upstream_fail_denied(l, permission, reply->str);
    else if (l->checks_replied == PERMISSIONS)
        upstream_check_catalogue(l);
}

static int upstream_send_permission_check(struct upstream_link *l, struct commands *c,
                                          enum permission permission)
{
    const struct buf *command = upstream_compose_check(c, permission);
    int err = buf_error(command);
    if (err == 0)
        err = redis_session_send(l->session, buf_span(command), REDIS_SEND_STREAM_ONLY,
                                 upstream_on_permission_reply, l);
    l->checks_sent += err == 0;
    return err;
}

static void upstream_check_permissions(struct upstream_link *l)
{
    struct commands commands;
    assert(l->checks_replied == l->checks_sent);
    l->checks_replied = l->checks_sent = 0;
    int err = commands_init(&commands, l->upstream->keyspace);
    commands_set_key(&commands, &(struct digest){0});
    for (int permission = 0; err == 0 && permission < PERMISSIONS; permission++)
        err = upstream_send_permission_check(l, &commands, (enum permission)permission);
    commands_fini(&commands);
    if (err != 0)
        redis_connection_fail(l->connection, "out of memory");
}

/* --- links --- */

static void upstream_on_link_closed(void *arg)
{
    struct upstream_link *l = arg;
    struct upstream *u = l->upstream;
    catalogue_fini(&l->catalogue);
    redis_config_unref(l->config);
    free(l);
    wait_group_done(&u->open_links);
}

static void upstream_close_link(struct upstream_link *l)
{
    redis_session_close(l->session, upstream_on_link_closed, l);
}

static void upstream_set_current(struct upstream *u, struct upstream_link *l)
{
    u->current = l;
    u->connection = l->connection;
    u->config = l->config;
}

static void upstream_replace(struct upstream *u)
{
    struct upstream_link *old = u->current;
    if (redis_connection_is_ready(old->connection))
        u->on_replaced(u->options.arg);
    upstream_close_link(old); /* what fails with it finds no other to be sent on before upstream_on_ready */
    upstream_set_current(u, u->next);
    u->next = NULL;
}

static void upstream_on_handshake_done(void *arg)
{
    struct upstream_link *l = arg;
    if (l->was_ready)
        upstream_check_catalogue(l);
    else
        upstream_check_permissions(l);
}

static void upstream_on_ready(void *arg)
{
    struct upstream_link *l = arg;
    struct upstream *u = l->upstream;
    if (l == u->next)
        upstream_replace(u);
    assert(l == u->current);
    l->was_ready = true;
    u->options.on_ready(u->options.arg);
}

static void upstream_on_heartbeat(void *arg)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_heartbeat(l->upstream->options.arg);
}

static void upstream_on_lost(void *arg)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_lost(l->upstream->options.arg);
}

static void upstream_on_push(void *arg, struct span kind, const struct redis_reply *element)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_push(l->upstream->options.arg, kind, element);
}

static void upstream_on_redirect(void *arg)
{
    const struct upstream_link *l = arg;
    if (l == l->upstream->current)
        l->upstream->on_redirect(l->upstream->options.arg);
}

static int upstream_open_link(struct upstream *u, struct redis_config *config, struct upstream_link **out)
{
    struct redis_session_options options = {
        .config = config, .connection = u->options, .on_redirect = upstream_on_redirect};
    struct upstream_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    l->upstream = u;
    options.connection.on_handshake_done = upstream_on_handshake_done;
    options.connection.on_ready = upstream_on_ready;
    options.connection.on_heartbeat = upstream_on_heartbeat;
    options.connection.on_lost = upstream_on_lost;
    options.connection.on_push = upstream_on_push;
    options.connection.arg = l;
    int err = redis_session_new(u->loop, &options, &l->session);
    if (err != 0) {
        free(l);
        return err;
    }
    l->connection = redis_session_connection(l->session);
    const struct catalogue_options catalogue_options = {
        .keyspace = u->keyspace, .send = upstream_send_check, .checked = upstream_on_checked, .arg = l};
    catalogue_init(&l->catalogue, &catalogue_options);
    l->config = redis_config_ref(config);
    wait_group_add(&u->open_links, 1);
    *out = l;
    return 0;
}

/* --- as a whole --- */

int upstream_open(struct upstream *u, uv_loop_t *loop, const struct redis_connection_options *options,
                  const struct keyspace *keyspace, struct redis_config *config,
                  void (*on_replaced)(void *arg), void (*on_redirect)(void *arg))
{
    *u = (struct upstream){.loop = loop,
                           .options = *options,
                           .keyspace = keyspace,
                           .on_replaced = on_replaced,
                           .on_redirect = on_redirect};
    struct upstream_link *first = NULL;
    int err = upstream_open_link(u, config, &first);
    if (err == 0)
        upstream_set_current(u, first);
    return err;
}

static void upstream_drop_next(struct upstream *u)
{
    if (u->next != NULL)
        upstream_close_link(u->next);
    u->next = NULL;
}

void upstream_close(struct upstream *u, void (*closed)(void *arg), void *arg)
{
    upstream_drop_next(u);
    upstream_close_link(u->current);
    wait_group_wait(&u->open_links, closed, arg);
}

int upstream_use(struct upstream *u, struct redis_config *config)
{
    struct upstream_link *next = NULL;
    if (u->next != NULL && u->next->config == config)
        return 0;
    int err = config != u->config ? upstream_open_link(u, config, &next) : 0;
    if (err != 0)
        return err;
    upstream_drop_next(u);
    u->next = next;
    return 0;
}
