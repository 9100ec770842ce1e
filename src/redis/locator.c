/*
 * Queries to the servers that know Redis; see locator.h.
 *
 * There is a connection, whose first answer is a part of its handshake. A server that fails is followed by
 * the next one at once, and after the last of them by a pause without a connection. One timer serves:
 *
 *     the pause                  LOCATOR_INTERVAL_MS
 *     an answer, but the first   locator_limit_ms(): its deadline
 *     between two queries        LOCATOR_INTERVAL_MS
 */
#include "redis/locator.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "redis/cluster.h"
#include "redis/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* Queries to the server in use, when no other server had an answer, before these are tried again. */
enum { QUERIES_OF_USED = 5 };

struct locator {
    uv_loop_t *loop;
    struct locator_options options;
    const struct locator_protocol *protocol;
    _Atomic uint64_t *connected; /* the gauge */
    const struct redis_endpoint *used;

    int current;                /* the server that is queried */
    int failed_servers;         /* servers in a row that had no answer */
    unsigned timeouts;          /* servers without an answer in time, since the last answer */
    bool unreachable;           /* no server had an answer when all were queried last */
    struct log_reasons reasons; /* the reasons logged since a server last had an answer */
    bool unnamed;               /* the last answer had a node without a host name, which is logged */
    int queries_of_used;        /* times in a row that the server in use was about to be queried itself */
    uv_timer_t timer;
    struct resolver resolver;
    struct redis_address address;        /* of the server */
    struct redis_endpoint server;        /* borrows `address` */
    struct redis_connection *connection; /* NULL: none during a pause */
    unsigned first_address;              /* of its name: the next connection begins with another one */
    bool counted;                        /* the connection is counted in the gauge */
    int queries, replies;                /* commands of the query, and those that were answered */
    struct locator_answer answer;
    struct redis_address learned[LOCATOR_NODES_MAX]; /* the servers behind those of the endpoint */
    int learned_count;
    struct wait_group open_parts; /* the timer and the connections */
};

/* --- the servers --- */

static int locator_given(const struct locator *l)
{
    return l->options.endpoint->discovery.count;
}

static int locator_server_count(const struct locator *l)
{
    return locator_given(l) + l->learned_count;
}

static bool locator_is_learned(const struct locator *l)
{
    return l->current >= locator_given(l);
}

/* Borrows the settings, or `address`: a learned server may be replaced while it is queried. */
static struct redis_endpoint locator_server(struct locator *l)
{
    if (!locator_is_learned(l))
        return redis_endpoint_server(l->options.endpoint, l->current);
    l->address = l->learned[l->current - locator_given(l)];
    return redis_endpoint_at(l->options.endpoint, l->address.host, l->address.port);
}

/* The connection remains, but its server may get another number. */
static void locator_learn_servers(struct locator *l)
{
    int at = l->current - locator_given(l);
    for (int i = 0; i < l->answer.nodes && at >= 0; i++)
        if (redis_address_is_same(&l->answer.node[i], &l->learned[at]))
            l->current = locator_given(l) + i;
    l->learned_count = l->answer.nodes;
    memcpy(l->learned, l->answer.node, sizeof l->learned);
    if (l->current >= locator_server_count(l))
        l->current = 0;
}

static bool locator_queries_used(const struct locator *l)
{
    const char *address = redis_connection_attempts(l->connection)->address;
    return l->used != NULL && l->used->port == l->server.port &&
           (strcasecmp(l->server.host, l->used->host) == 0 ||
            (address != NULL && strcmp(address, l->used->host) == 0));
}

/* --- the connection --- */

static uint64_t locator_limit_ms(const struct locator *l)
{
    unsigned rounds = l->timeouts / (unsigned)locator_server_count(l);
    return backoff_doubled_ms(rounds, LOCATOR_LIMIT_MS, LOCATOR_LIMIT_MAX_MS);
}

static void locator_on_timer(uv_timer_t *timer);

static void locator_start_timer(struct locator *l, uint64_t ms)
{
    (void)uv_timer_start(&l->timer, locator_on_timer, ms, 0); /* it fails only on a closing handle */
}

/* The server has answered, and its next query is not sent yet. */
static bool locator_is_idle(const struct locator *l)
{
    return redis_connection_is_ready(l->connection) && l->replies == l->queries;
}

static void locator_log(const struct locator *l, enum log_level level, const char *message, const char *why)
{
    redis_endpoint_log(&l->server, level, message, l->protocol->name, l->options.shared->client_name, why);
}

static void locator_drop_connection(struct locator *l)
{
    if (l->connection == NULL)
        return;
    metric_sub(l->connected, l->counted);
    l->counted = false;
    redis_connection_close(l->connection);
    l->connection = NULL;
}

static void locator_connect(struct locator *l);

/* The next server is queried at once, unless all have failed. */
static void locator_leave_server(struct locator *l, const char *why)
{
    locator_drop_connection(l);
    l->current = (l->current + 1) % locator_server_count(l);
    if (++l->failed_servers < locator_server_count(l)) {
        locator_connect(l);
        return;
    }
    l->failed_servers = 0;
    l->unreachable = true;
    locator_start_timer(l, LOCATOR_INTERVAL_MS);
    if (log_reason_is_due(&l->reasons, why, clock_now_ms()))
        locator_log(l, LOG_WARN, l->protocol->unreachable, why);
    l->options.on_unreachable(l->options.arg, why);
}

/* --- queries --- */

static void locator_report_unnamed(struct locator *l)
{
    if (l->answer.unnamed && !l->unnamed)
        locator_log(l, LOG_WARN, l->protocol->unnamed, "cluster-announce-hostname is not set");
    l->unnamed = l->answer.unnamed;
}

static void locator_on_answered(struct locator *l)
{
    metric_add(l->connected, !l->counted);
    l->counted = true;
    if (l->unreachable)
        log_text(LOG_INFO, l->protocol->reachable, "client", l->options.shared->client_name);
    l->unreachable = false;
    l->reasons = (struct log_reasons){0};
    l->failed_servers = 0;
    l->timeouts = 0;
    locator_report_unnamed(l);
    locator_learn_servers(l);
    if (!redis_connection_is_ready(l->connection))
        redis_connection_accept(l->connection);
    locator_start_timer(l, LOCATOR_INTERVAL_MS);
    l->options.on_answer(l->options.arg, &l->answer);
}

static void locator_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct locator *l = arg;
    (void)origin;
    if (reply == NULL)
        return;
    int n = l->replies++;
    const char *problem = reply->type == REPLY_ERROR
                              ? reply->str
                              : l->protocol->read(l->options.endpoint, &l->server, n, reply, &l->answer);
    if (problem != NULL)
        redis_connection_fail(l->connection, problem);
    else if (l->replies == l->queries)
        locator_on_answered(l);
}

static void locator_send_query(struct locator *l)
{
    int err = 0;
    struct buf command = BUF_INIT;
    l->queries = l->replies = 0;
    while (err == 0 && l->protocol->compose(l->options.endpoint, l->queries, &command)) {
        err = buf_error(&command);
        if (err == 0)
            err = redis_connection_send(l->connection, buf_span(&command), true, locator_on_reply, l);
        buf_clear(&command);
        l->queries++;
    }
    buf_fini(&command);
    if (err != 0)
        redis_connection_fail(l->connection, "out of memory");
}

static void locator_query_now(struct locator *l)
{
    locator_start_timer(l, locator_limit_ms(l));
    locator_send_query(l);
}

/* --- events of the connection --- */

static void locator_on_handshake_done(void *arg)
{
    struct locator *l = arg;
    locator_send_query(l);
}

static void locator_on_lost(void *arg, const char *why)
{
    struct locator *l = arg;
    locator_log(l, LOG_DEBUG, l->protocol->no_answer, why);
    l->timeouts += redis_connection_attempts(l->connection)->timed_out;
    if (l->counted) /* it has answered before: it is queried again when no other answers */
        l->failed_servers = -1;
    locator_leave_server(l, why);
}

static void locator_on_moved(void *arg)
{
    const struct locator *l = arg;
    l->options.on_moved(l->options.arg);
}

static void locator_connect(struct locator *l)
{
    (void)uv_timer_stop(&l->timer); /* cannot fail */
    l->server = locator_server(l);
    const struct redis_connection_options options = {.endpoint = &l->server,
                                                     .shared = l->options.shared,
                                                     .open = &l->open_parts,
                                                     .resolver = &l->resolver,
                                                     .limit_ms = locator_limit_ms(l),
                                                     .first_address = l->first_address++,
                                                     .queries_only = true,
                                                     .bytes_max = l->protocol->bytes_max,
                                                     .on_handshake_done = locator_on_handshake_done,
                                                     .on_lost = locator_on_lost,
                                                     .on_moved =
                                                         locator_is_learned(l) ? NULL : locator_on_moved,
                                                     .arg = l};
    if (redis_connection_new(l->loop, &options, &l->connection) != 0)
        locator_leave_server(l, "out of memory");
}

void locator_rotate(struct locator *l)
{
    if (!locator_is_idle(l) ||
        (locator_server_count(l) == 1 && redis_connection_attempts(l->connection)->addresses == 1))
        return;
    l->failed_servers = -1; /* this server is queried again when no other answers */
    locator_leave_server(l, "another server is queried");
}

/* The server in use is queried itself only where no other has an answer, or all are the same one. */
static void locator_query_again(struct locator *l)
{
    bool used = locator_queries_used(l);
    l->queries_of_used = used ? l->queries_of_used + 1 : 0;
    if (used && (l->queries_of_used <= locator_server_count(l) || l->queries_of_used % QUERIES_OF_USED == 0))
        locator_rotate(l);
    if (locator_is_idle(l))
        locator_query_now(l);
}

static void locator_on_timer(uv_timer_t *timer)
{
    struct locator *l = timer->data;
    if (l->connection == NULL) {
        locator_connect(l);
    } else if (locator_is_idle(l)) {
        locator_query_again(l);
    } else {
        l->timeouts++;
        redis_connection_fail(l->connection, "no answer in time");
    }
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

void locator_set_used(struct locator *l, const struct redis_endpoint *endpoint)
{
    l->used = endpoint;
    l->queries_of_used = 0;
}

int locator_new(uv_loop_t *loop, const struct locator_options *options, struct locator **out)
{
    struct locator *l = calloc(1, sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    l->loop = loop;
    l->options = *options;
    l->protocol = locator_protocol_of(options->endpoint);
    l->connected = redis_endpoint_is_cluster(options->endpoint) ? &options->metrics->cluster_nodes_connected
                                                                : &options->metrics->sentinels_connected;
    l->current = (int)(options->seed % (unsigned)locator_given(l));
    (void)uv_timer_init(loop, &l->timer); /* cannot fail */
    l->timer.data = l;
    wait_group_add(&l->open_parts, 1);
    wait_group_add(l->options.open, 1);
    locator_start_timer(l, 0);
    *out = l;
    return 0;
}

static void locator_on_timer_closed(uv_handle_t *timer)
{
    struct locator *l = timer->data;
    wait_group_done(&l->open_parts);
}

void locator_close(struct locator *l)
{
    locator_drop_connection(l);
    resolver_cancel(&l->resolver);
    uv_close((uv_handle_t *)&l->timer, locator_on_timer_closed);
    wait_group_close(&l->open_parts, free, l, wait_group_on_done, l->options.open);
}
