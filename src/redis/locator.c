/*
 * Queries to the servers that know Redis; see locator.h.
 *
 * There is a connection, whose first answer is a part of its handshake. A server that fails is followed by
 * the next one at once, and after the last of them by a pause without a connection. One timer serves:
 *
 *     the pause                  LOCATOR_INTERVAL_MS
 *     an answer, but the first   LOCATOR_LIMIT_MS: its deadline
 *     between two queries        LOCATOR_INTERVAL_MS
 */
#include "redis/locator.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/wait_group.h"
#include "redis/connection.h"

#include <strings.h>

/* Queries to the master itself, when no other server had an answer, before these are tried again. */
enum { QUERIES_OF_MASTER = 5 };

/* --- the servers: those of the endpoint, and then those of the last answer --- */

static unsigned locator_server_count(const struct locator *l)
{
    return (unsigned)(l->options.endpoint->discovery.count + l->answer.nodes);
}

/* True if it is one of the settings. The next answer may list other nodes while this one is queried. */
static bool locator_select_server(struct locator *l)
{
    int given = l->options.endpoint->discovery.count;
    int at = (int)(l->turn % locator_server_count(l));
    if (at < given) {
        l->server = redis_endpoint_server(l->options.endpoint, at);
        return true;
    }
    l->address = l->answer.node[at - given];
    l->server = redis_endpoint_at(l->options.endpoint, l->address.host, l->address.port);
    return false;
}

/* Whether the server has named itself as the master. It may not know that it was replaced. */
static bool locator_queries_master(const struct locator *l)
{
    const struct redis_address *master = &l->answer.master;
    return master->port == l->server.port &&
           (strcasecmp(l->server.host, master->host) == 0 ||
            strcmp(redis_connection_status(l->connection)->address, master->host) == 0);
}

/* --- the connection --- */

static void locator_on_timer(uv_timer_t *timer);

static void locator_start_timer(struct locator *l, uint64_t ms)
{
    (void)uv_timer_start(&l->timer, locator_on_timer, ms, 0); /* it fails only on a closing handle */
}

/* The server has answered, and its next query is not sent yet. */
static bool locator_is_idle(const struct locator *l)
{
    return l->answered && l->replies == l->commands;
}

static void locator_log(const struct locator *l, enum log_level level, const char *message, const char *why)
{
    redis_endpoint_log(&l->server, level, message, l->protocol->name, l->options.shared->client_name, why);
}

static void locator_drop_connection(struct locator *l)
{
    metric_sub(l->connected, l->answered);
    l->answered = false;
    redis_connection_close(&l->connection);
}

static void locator_connect(struct locator *l);

static void locator_fail(void *arg, const char *why)
{
    struct locator *l = arg;
    locator_log(l, LOG_DEBUG, l->protocol->no_answer, why);
    locator_drop_connection(l);
    l->turn++;
    if (++l->failures % locator_server_count(l) != 0) {
        locator_connect(l);
        return;
    }
    locator_start_timer(l, LOCATOR_INTERVAL_MS);
    if (log_reason_is_due(&l->reasons, why, clock_now_ms()))
        locator_log(l, LOG_WARN, l->protocol->unreachable, why);
    l->options.on_answer(l->options.arg, why);
}

/* --- queries --- */

static void locator_on_answered(struct locator *l)
{
    metric_add(l->connected, !l->answered);
    l->answered = true;
    if (l->failures >= locator_server_count(l))
        log_text(LOG_INFO, l->protocol->reachable, "client", l->options.shared->client_name);
    l->reasons = (struct log_reasons){0};
    l->failures = 0;
    if (!redis_connection_is_ready(l->connection))
        redis_connection_accept(l->connection);
    locator_start_timer(l, LOCATOR_INTERVAL_MS);
    l->options.on_answer(l->options.arg, NULL);
}

static void locator_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct locator *l = arg;
    (void)origin;
    if (reply == NULL)
        return;
    const char *problem = reply->type == REPLY_ERROR ? reply->str
                                                     : l->protocol->read(l->options.endpoint, &l->server,
                                                                         l->replies++, reply, &l->answer);
    if (problem != NULL)
        redis_connection_fail(l->connection, problem);
    else if (l->replies == l->commands)
        locator_on_answered(l);
}

static void locator_send_query(void *arg)
{
    struct locator *l = arg;
    struct buf command = BUF_INIT;
    int err = 0;
    l->replies = l->commands = 0;
    while (err == 0 && l->protocol->compose(l->options.endpoint, l->commands, &command)) {
        err = buf_error(&command);
        if (err == 0)
            err = redis_connection_send(l->connection, buf_span(&command), true, locator_on_reply, l);
        l->commands++;
        buf_clear(&command);
    }
    buf_fini(&command);
    if (err != 0)
        redis_connection_fail(l->connection, "out of memory");
}

static void locator_query_now(struct locator *l)
{
    locator_start_timer(l, LOCATOR_LIMIT_MS);
    locator_send_query(l);
}

static void locator_on_moved(void *arg)
{
    const struct locator *l = arg;
    l->options.on_moved(l->options.arg);
}

static void locator_connect(struct locator *l)
{
    (void)uv_timer_stop(&l->timer); /* cannot fail */
    bool is_given = locator_select_server(l);
    unsigned count = locator_server_count(l);
    const struct redis_connection_options options = {
        .endpoint = &l->server,
        .shared = l->options.shared,
        .open = l->options.open,
        .limit_ms = backoff_doubled_ms(l->failures / count, LOCATOR_LIMIT_MS, LOCATOR_LIMIT_MAX_MS),
        .first_address = l->turn / count,
        .queries_only = true,
        .on_handshake_done = locator_send_query,
        .on_lost = locator_fail,
        .on_moved = is_given ? locator_on_moved : NULL,
        .arg = l};
    if (redis_connection_new(l->loop, &options, &l->connection) != 0)
        locator_fail(l, "out of memory");
}

void locator_rotate(struct locator *l)
{
    if (!locator_is_idle(l) ||
        (locator_server_count(l) == 1 && redis_connection_status(l->connection)->addresses == 1))
        return;
    locator_drop_connection(l);
    l->turn++;
    locator_connect(l);
}

static void locator_query_again(struct locator *l)
{
    bool is_master = locator_queries_master(l);
    l->queries_of_master = is_master ? l->queries_of_master + 1 : 0;
    if (is_master &&
        (l->queries_of_master <= locator_server_count(l) || l->queries_of_master % QUERIES_OF_MASTER == 0))
        locator_rotate(l);
    if (locator_is_idle(l))
        locator_query_now(l);
}

static void locator_on_timer(uv_timer_t *timer)
{
    struct locator *l = timer->data;
    if (l->connection == NULL)
        locator_connect(l);
    else if (locator_is_idle(l))
        locator_query_again(l);
    else
        redis_connection_fail(l->connection, "no answer in time");
}

/* --- the interface --- */

const struct locator_protocol *locator_protocol_of(const struct redis_endpoint *endpoint)
{
    return redis_endpoint_is_cluster(endpoint) ? &cluster_protocol : &sentinel_protocol;
}

void locator_query(struct locator *l)
{
    if (l->connection == NULL)
        locator_connect(l);
    else if (locator_is_idle(l))
        locator_query_now(l);
}

void locator_init(struct locator *l, uv_loop_t *loop, const struct locator_options *options)
{
    l->loop = loop;
    l->options = *options;
    l->protocol = locator_protocol_of(options->endpoint);
    l->connected = redis_endpoint_is_cluster(options->endpoint) ? &options->metrics->cluster_nodes_connected
                                                                : &options->metrics->sentinels_connected;
    l->turn = options->seed;
    (void)uv_timer_init(loop, &l->timer); /* cannot fail */
    l->timer.data = l;
    wait_group_add(options->open, 1);
}

static void locator_on_timer_closed(uv_handle_t *timer)
{
    const struct locator *l = timer->data;
    wait_group_done(l->options.open);
}

void locator_close(struct locator *l)
{
    locator_drop_connection(l);
    uv_close((uv_handle_t *)&l->timer, locator_on_timer_closed);
}
