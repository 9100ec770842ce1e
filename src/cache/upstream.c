/* Connections of which one replaces the other; see upstream.h. */
#include "cache/upstream.h"

#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct upstream_link {
    struct upstream *upstream;
    struct redis_config *config; /* a reference */
    struct redis_connection *connection;
    int absent; /* keys without which there is no catalogue, in the check of the next connection */
};

/* --- the check of the next connection --- */

enum { CATALOGUE_KEYS = 2 };

static bool is_absent(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == 0;
}

static void on_api_keys(void *arg, const redisReply *reply)
{
    struct upstream_link *l = arg;
    if (reply != NULL)
        l->absent += is_absent(reply);
}

/* Whatever is not known to be without a catalogue is accepted; the cache checks it from then on. */
static void on_index(void *arg, const redisReply *reply)
{
    struct upstream_link *l = arg;
    if (reply == NULL) /* there will be another attempt, or it is being closed */
        return;
    l->absent += is_absent(reply);
    if (l->absent == CATALOGUE_KEYS)
        redis_connection_fail(l->connection, UPSTREAM_NO_CATALOGUE);
    else
        redis_connection_accept(l->connection);
}

static int send_size(struct upstream_link *l, struct span command,
                     void name(const struct keyspace *, struct buf *), redis_connection_reply_fn fn)
{
    struct buf key = BUF_INIT;
    struct buf words = BUF_INIT;
    name(l->upstream->keyspace, &key);
    command_begin(&words, 2);
    command_add(&words, command);
    command_add_buf(&words, &key);
    int err = buf_error(&words);
    if (err == 0)
        err = redis_connection_send_command(l->connection, buf_span(&words), fn, l);
    buf_fini(&words);
    buf_fini(&key);
    return err;
}

static void check_catalogue(struct upstream_link *l)
{
    l->absent = 0;
    int err = send_size(l, SPAN("SCARD"), keyspace_api_keys, on_api_keys);
    if (err == 0)
        err = send_size(l, SPAN("ZCARD"), keyspace_index, on_index);
    if (err != 0)
        redis_connection_fail(l->connection, "out of memory");
}

/* --- links --- */

static void on_link_closed(void *arg)
{
    struct upstream_link *l = arg;
    struct upstream *u = l->upstream;
    redis_config_unref(l->config);
    free(l);
    wait_group_done(&u->open_links);
}

static void close_link(struct upstream_link *l)
{
    redis_connection_close(l->connection, on_link_closed, l);
}

static void set_current(struct upstream *u, struct upstream_link *l)
{
    u->current = l;
    u->connection = l->connection;
    u->config = l->config;
}

static void replace(struct upstream *u)
{
    struct upstream_link *old = u->current;
    if (redis_connection_is_ready(old->connection))
        u->on_replaced(u->options.arg);
    close_link(old); /* what fails with it finds no other to be sent on before on_ready */
    set_current(u, u->next);
    u->next = NULL;
}

static void on_handshake_done(void *arg)
{
    struct upstream_link *l = arg;
    struct upstream *u = l->upstream;
    if (l == u->current)
        u->options.on_handshake_done(u->options.arg);
    else
        check_catalogue(l);
}

static void on_ready(void *arg)
{
    struct upstream_link *l = arg;
    struct upstream *u = l->upstream;
    if (l == u->next)
        replace(u);
    assert(l == u->current);
    u->options.on_ready(u->options.arg);
}

static void on_heartbeat(void *arg)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_heartbeat(l->upstream->options.arg);
}

static void on_lost(void *arg)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_lost(l->upstream->options.arg);
}

static void on_push(void *arg, struct span kind, const redisReply *element)
{
    const struct upstream_link *l = arg;
    l->upstream->options.on_push(l->upstream->options.arg, kind, element);
}

static int open_link(struct upstream *u, struct redis_config *config, struct upstream_link **out)
{
    struct redis_connection_options options = u->options;
    struct upstream_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    l->upstream = u;
    options.endpoint = redis_config_endpoint(config);
    options.tls = redis_config_tls(config);
    options.on_handshake_done = on_handshake_done;
    options.on_ready = on_ready;
    options.on_heartbeat = on_heartbeat;
    options.on_lost = on_lost;
    options.on_push = on_push;
    options.arg = l;
    int err = redis_connection_new(u->loop, &options, &l->connection);
    if (err != 0) {
        free(l);
        return err;
    }
    l->config = redis_config_ref(config);
    wait_group_add(&u->open_links, 1);
    *out = l;
    return 0;
}

/* --- as a whole --- */

int upstream_open(struct upstream *u, uv_loop_t *loop, const struct redis_connection_options *options,
                  const struct keyspace *keyspace, struct redis_config *config,
                  void (*on_replaced)(void *arg))
{
    *u = (struct upstream){
        .loop = loop, .options = *options, .keyspace = keyspace, .on_replaced = on_replaced};
    struct upstream_link *first = NULL;
    int err = open_link(u, config, &first);
    if (err == 0)
        set_current(u, first);
    return err;
}

static void drop_next(struct upstream *u)
{
    if (u->next != NULL)
        close_link(u->next);
    u->next = NULL;
}

void upstream_close(struct upstream *u, void (*closed)(void *arg), void *arg)
{
    drop_next(u);
    close_link(u->current);
    wait_group_wait(&u->open_links, closed, arg);
}

int upstream_use(struct upstream *u, struct redis_config *config)
{
    struct upstream_link *next = NULL;
    if (u->next != NULL && u->next->config == config)
        return 0;
    int err = config != u->config ? open_link(u, config, &next) : 0;
    if (err != 0)
        return err;
    drop_next(u);
    u->next = next;
    return 0;
}
