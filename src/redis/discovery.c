/*
 * Queries to the servers that know Redis; see discovery.h. There is a socket only in QUERYING and LISTENING.
 *
 * One timer serves all states of the connection to a server:
 *
 *     PAUSING    DISCOVERY_INTERVAL_MS   the next attempt, when no server had an answer
 *     RESOLVING  discovery_limit_ms()    the deadline of the look-up, then the next server
 *     QUERYING   discovery_limit_ms()    the deadline of connection and answer, then the next address
 *     LISTENING  DISCOVERY_INTERVAL_MS   the next query
 */
/* clang-format off */
/*
 *     PAUSING -> RESOLVING -> QUERYING <-> LISTENING
 *        ^           |  ^        |  ^        |
 *        |           v  |        v  |        v
 *        +------- a failure: at once the next address (QUERYING), then the next server
 *                 (RESOLVING); after the last of them the pause
 */
/* clang-format on */
#include "redis/discovery.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"
#include "base/wait_group.h"
#include "redis/cluster.h"
#include "redis/name_watch.h"
#include "redis/sentinel.h"
#include "redis/server.h"
#include "redis/socket.h"
#include "redis/topology.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum {
    /* Attempts to connect with the answer of one server, before another server is queried. */
    ATTEMPTS_PER_SERVER = 2,
    /* Queries to the Redis in use, when no other server had an answer, before these are tried again. */
    QUERIES_OF_ITSELF = 5,
    SERVERS_MAX = REDIS_SERVERS_MAX + DISCOVERY_NODES_MAX
};

enum discovery_state { PAUSING, RESOLVING, QUERYING, LISTENING, CLOSED };

/* The states that may follow each state, as a set of bits; see the drawing above. */
/* clang-format off */
static const unsigned NEXT[] = {
    [PAUSING] = STATE(RESOLVING) | STATE(CLOSED),
    [RESOLVING] = STATE(RESOLVING) | STATE(QUERYING) | STATE(PAUSING) | STATE(CLOSED),
    [QUERYING] = STATE(LISTENING) | STATE(QUERYING) | STATE(RESOLVING) | STATE(PAUSING) | STATE(CLOSED),
    [LISTENING] = STATE(QUERYING) | STATE(RESOLVING) | STATE(PAUSING) | STATE(CLOSED),
    [CLOSED] = 0,
};
/* clang-format on */

/* One look-up per server, so that a slow one does not delay the others. */
struct lookup {
    struct discovery *discovery;
    struct resolver resolver;
    int next; /* index of the next address to be tried */
};

struct discovery {
    uv_loop_t *loop;
    struct discovery_options options;
    const struct discovery_protocol *protocol;
    _Atomic uint64_t *connected; /* the gauge */

    /* The connection to a server. */
    enum discovery_state state;
    int current;                /* the server that is, or will be, queried */
    int failed_servers;         /* servers in a row that had no answer */
    unsigned timeouts;          /* servers without an answer in time, since the last answer */
    bool unreachable;           /* no server had an answer when all were queried last */
    struct log_reasons reasons; /* the reasons logged since a server last had an answer */
    bool unnamed;               /* the last answer had a node without a host name, which is logged */
    uv_timer_t timer;
    struct redis_socket *socket;      /* NULL except in QUERYING and LISTENING */
    bool hello_answered, subscribing; /* on this connection */
    int replies;                      /* replies to the query, so far */
    bool counted;                     /* the connection is counted in the metric */
    struct discovery_answer answer;
    struct redis_address learned[DISCOVERY_NODES_MAX]; /* the servers behind those of the endpoint */
    int learned_count;
    struct lookup lookup[SERVERS_MAX];
    struct name_watch watch; /* of the server of the endpoint that answered last */

    /* The Redis that was found. */
    enum { NOT_IN_USE, DISCOVERING, IN_USE } use; /* DISCOVERING: a discovery is in progress */
    struct topology topology;
    unsigned failures; /* of attempts to use it, in a row */
    int self_queries;  /* times in a row that the Redis in use was about to be queried itself */

    struct wait_group open_parts; /* the timer and the watch */
};

/* --- the servers --- */

static int discovery_server_count(const struct discovery *d)
{
    return d->options.endpoint->discovery.count + d->learned_count;
}

/* Borrowed, as in endpoint.h. A learned server is borrowed until the next answer. */
static struct redis_endpoint discovery_server_at(struct discovery *d, int n)
{
    int given = d->options.endpoint->discovery.count;
    if (n < given)
        return redis_endpoint_server(d->options.endpoint, n);
    struct redis_address *a = &d->learned[n - given];
    return redis_endpoint_at(d->options.endpoint, a->host, a->port);
}

static bool discovery_knows_all(const struct discovery *d)
{
    bool same = d->learned_count == d->answer.nodes;
    for (int i = 0; same && i < d->learned_count; i++)
        same = redis_address_equal(&d->learned[i], &d->answer.node[i]);
    return same;
}

/* The connection remains, but its server may get another number. */
static void discovery_learn_servers(struct discovery *d)
{
    int given = d->options.endpoint->discovery.count;
    int at = d->current - given;
    if (discovery_knows_all(d))
        return;
    for (int i = 0; i < d->answer.nodes && at >= 0; i++)
        if (redis_address_is_same(&d->answer.node[i], &d->learned[at]))
            d->current = given + i;
    for (int i = given; i < discovery_server_count(d); i++) {
        resolver_cancel(&d->lookup[i].resolver);
        d->lookup[i] = (struct lookup){.discovery = d};
    }
    d->learned_count = d->answer.nodes;
    memcpy(d->learned, d->answer.node, sizeof d->learned);
    if (d->current >= discovery_server_count(d))
        d->current = 0;
}

/* Whether the server that is queried is the Redis in use, which would not learn of its own replacement. */
static bool discovery_queries_server_in_use(struct discovery *d)
{
    const struct lookup *l = &d->lookup[d->current];
    const struct redis_endpoint server = discovery_server_at(d, d->current);
    const struct redis_endpoint *in_use = topology_endpoint(&d->topology);
    if (server.port != in_use->port)
        return false;
    if (strcasecmp(server.host, in_use->host) == 0)
        return true;
    return l->next > 0 && l->next <= l->resolver.count &&
           strcmp(l->resolver.address[l->next - 1], in_use->host) == 0;
}

/* --- the connection to a server --- */

static void discovery_resolve(struct discovery *d);
static void discovery_on_timer(uv_timer_t *timer);

static void discovery_start_timer(struct discovery *d, uint64_t ms)
{
    (void)uv_timer_start(&d->timer, discovery_on_timer, ms, 0); /* it fails only on a closing handle */
}

static uint64_t discovery_limit_ms(const struct discovery *d)
{
    unsigned rounds = d->timeouts / (unsigned)discovery_server_count(d);
    return backoff_doubled_ms(rounds, DISCOVERY_TIMEOUT_MS, DISCOVERY_TIMEOUT_MAX_MS);
}

static void discovery_enter(struct discovery *d, enum discovery_state next)
{
    STATE_ENTER(&d->state, next, NEXT);
    switch (next) {
    case PAUSING:
    case LISTENING:
        discovery_start_timer(d, DISCOVERY_INTERVAL_MS);
        break;
    case RESOLVING:
        discovery_start_timer(d, discovery_limit_ms(d));
        discovery_resolve(d);
        break;
    case QUERYING:
        discovery_start_timer(d, discovery_limit_ms(d));
        break;
    case CLOSED:
        break;
    }
}

static void discovery_drop_socket(struct discovery *d)
{
    if (d->socket == NULL)
        return;
    if (d->counted)
        metric_sub(d->connected, 1);
    d->counted = false;
    redis_socket_close(d->socket);
    d->socket = NULL;
}

static void discovery_connect_next(struct discovery *d);

static bool discovery_has_more_addresses(const struct discovery *d)
{
    const struct lookup *l = &d->lookup[d->current];
    return l->next < l->resolver.count;
}

/* Tries the next address of this server, or the next server. False when all have been tried. */
static bool discovery_try_next(struct discovery *d)
{
    discovery_drop_socket(d);
    resolver_leave(&d->lookup[d->current].resolver);
    if (discovery_has_more_addresses(d)) {
        discovery_connect_next(d);
        return true;
    }
    d->current = (d->current + 1) % discovery_server_count(d);
    bool more = ++d->failed_servers < discovery_server_count(d);
    if (!more)
        d->failed_servers = 0;
    discovery_enter(d, more ? RESOLVING : PAUSING);
    return more;
}

static void discovery_log_failure(const struct discovery *d, enum log_level level, const char *message,
                                  struct span name, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    log_str(&line, d->protocol->name, name);
    log_str(&line, "client", span_of(d->options.client_name));
    log_str(&line, "reason", span_of(why));
    log_end(&line);
}

static void discovery_report_unreachable(struct discovery *d, struct span name, const char *why)
{
    if (log_reason_is_due(&d->reasons, why, clock_now_ms()))
        discovery_log_failure(d, LOG_WARN, d->protocol->unreachable, name, why);
    d->unreachable = true;
    if (d->use != DISCOVERING)
        return;
    d->use = NOT_IN_USE;
    d->options.on_not_found(d->options.arg, why);
}

/* The current server has failed: tries the next one. */
static void discovery_fail(struct discovery *d, const char *why)
{
    struct redis_endpoint server = discovery_server_at(d, d->current);
    struct buf name = BUF_INIT;
    why = redis_endpoint_redact(d->options.endpoint, why);
    redis_endpoint_describe(&server, &name);
    discovery_log_failure(d, LOG_DEBUG, d->protocol->no_answer, buf_span(&name), why);
    if (!discovery_try_next(d))
        discovery_report_unreachable(d, buf_span(&name), why);
    buf_fini(&name);
}

/* --- commands and replies --- */

static void discovery_add_query(struct discovery *d, struct buf *out)
{
    d->replies = 0;
    d->protocol->compose(d->options.endpoint, out);
}

static void discovery_send_commands(struct discovery *d, struct buf *commands)
{
    int err = buf_error(commands);
    if (err == 0)
        err = redis_socket_send(d->socket, buf_span(commands));
    buf_fini(commands);
    if (err == 0)
        redis_socket_flush(d->socket);
    else
        discovery_fail(d, "out of memory");
}

/* The handshake and the first query are sent together. */
static void discovery_on_connected(void *arg)
{
    struct discovery *d = arg;
    struct redis_endpoint server = discovery_server_at(d, d->current);
    struct buf commands = BUF_INIT;
    redis_endpoint_hello(&server, d->options.client_name, &commands);
    if (d->subscribing)
        command_write(&commands, 2, (const char *[]){"SUBSCRIBE", d->protocol->channel});
    discovery_add_query(d, &commands);
    discovery_send_commands(d, &commands);
}

/* Repeats the query, in LISTENING. */
static void discovery_query(struct discovery *d)
{
    struct buf commands = BUF_INIT;
    discovery_enter(d, QUERYING);
    discovery_add_query(d, &commands);
    discovery_send_commands(d, &commands);
}

static void discovery_handle_answer(struct discovery *d)
{
    if (d->use == DISCOVERING) {
        topology_select(&d->topology, &d->answer);
        d->use = NOT_IN_USE;
        d->options.on_found(d->options.arg, topology_endpoint(&d->topology));
        return;
    }
    const char *reason = topology_check_answer(&d->topology, &d->answer, d->use == IN_USE);
    if (reason != NULL)
        d->options.on_failover(d->options.arg, reason);
}

static void discovery_watch_server(struct discovery *d)
{
    const struct lookup *l = &d->lookup[d->current];
    if (d->current < d->options.endpoint->discovery.count && l->next > 0)
        name_watch_start(&d->watch, discovery_server_at(d, d->current).host,
                         l->resolver.address[l->next - 1]);
}

static void discovery_report_unnamed(struct discovery *d)
{
    struct redis_endpoint server = discovery_server_at(d, d->current);
    struct buf name = BUF_INIT;
    redis_endpoint_describe(&server, &name);
    if (d->answer.unnamed && !d->unnamed)
        discovery_log_failure(d, LOG_WARN, d->protocol->unnamed, buf_span(&name),
                              "cluster-announce-hostname is not set");
    d->unnamed = d->answer.unnamed;
    buf_fini(&name);
}

static void discovery_on_answered(struct discovery *d)
{
    if (!d->counted)
        metric_add(d->connected, 1);
    d->counted = true;
    if (d->unreachable)
        log_text(LOG_INFO, d->protocol->reachable, "client", d->options.client_name);
    d->unreachable = false;
    d->reasons = (struct log_reasons){0};
    d->failed_servers = 0;
    d->timeouts = 0;
    discovery_enter(d, LISTENING);
    discovery_watch_server(d);
    discovery_report_unnamed(d);
    discovery_learn_servers(d);
    discovery_handle_answer(d);
}

static void discovery_handle_reply(struct discovery *d, const struct redis_reply *reply)
{
    const struct redis_endpoint server = discovery_server_at(d, d->current);
    const char *problem = reply->str;
    bool complete = false;
    if (reply->type != REPLY_ERROR)
        problem = d->protocol->read(d->options.endpoint, &server, d->replies++, reply, &d->answer, &complete);
    if (problem != NULL)
        discovery_fail(d, problem);
    else if (complete)
        discovery_on_answered(d);
}

static void discovery_handle_hello(struct discovery *d, const struct redis_reply *reply)
{
    const char *problem =
        redis_endpoint_is_cluster(d->options.endpoint) ? redis_server_check_mode(reply, true) : NULL;
    d->hello_answered = true;
    if (problem != NULL)
        discovery_fail(d, problem);
}

/* A subscription is confirmed by a push, so an error reply in its place means that it was refused. */
static void discovery_on_reply(void *arg, const struct redis_reply *reply, uint64_t read_ns)
{
    struct discovery *d = arg;
    bool error = reply->type == REPLY_ERROR;
    (void)read_ns;
    if (d->state != QUERYING)
        discovery_fail(d, error ? reply->str : "a reply without a command");
    else if (!d->hello_answered && error)
        discovery_fail(d, reply->str);
    else if (!d->hello_answered)
        discovery_handle_hello(d, reply);
    else if (d->subscribing && error)
        d->subscribing = false;
    else
        discovery_handle_reply(d, reply);
}

/* "subscribe" confirms the subscription. A message causes one query, whatever its content. */
static void discovery_on_push(void *arg, struct span kind, const struct redis_reply *element)
{
    struct discovery *d = arg;
    (void)element;
    if (span_equal(kind, SPAN("subscribe")))
        d->subscribing = false;
    else if (span_equal(kind, SPAN("message")) && d->state == LISTENING)
        discovery_query(d);
}

static void discovery_on_failed(void *arg, const char *why)
{
    discovery_fail(arg, why);
}

/* --- states --- */

static void discovery_connect_next(struct discovery *d)
{
    const struct redis_socket_options options = {
        .on_connected = discovery_on_connected,
        .on_reply = discovery_on_reply,
        .on_push = discovery_on_push,
        .on_failed = discovery_on_failed,
        .arg = d,
        .bytes_max = d->protocol->bytes_max,
        .elements_max = d->protocol->elements_max,
    };
    struct redis_endpoint server = discovery_server_at(d, d->current);
    struct lookup *l = &d->lookup[d->current];
    const char *address = l->resolver.address[l->next++];
    discovery_enter(d, QUERYING);
    d->hello_answered = false;
    d->subscribing = d->protocol->channel != NULL;
    int err = redis_socket_open(d->loop, &server, d->options.tls, address, &options, &d->socket);
    if (err != 0)
        discovery_fail(d, strerror(-err));
}

static void discovery_on_resolved(void *arg, const char *error)
{
    struct lookup *l = arg;
    struct discovery *d = l->discovery;
    assert(d->state == RESOLVING && l == &d->lookup[d->current]);
    if (error != NULL)
        discovery_fail(d, error);
    else
        discovery_connect_next(d);
}

static void discovery_resolve(struct discovery *d)
{
    struct lookup *l = &d->lookup[d->current];
    const char *host = discovery_server_at(d, d->current).host;
    l->next = 0;
    resolver_start(&l->resolver, d->loop, host, discovery_on_resolved, l);
}

/* The next query goes to another address or server if there is one, otherwise to this one again. */
static void discovery_rotate_server(struct discovery *d)
{
    bool another = discovery_server_count(d) > 1 || d->lookup[d->current].resolver.count > 1;
    if (d->state != LISTENING || !another)
        return;
    d->failed_servers = -1; /* this server is queried again when no other answers */
    (void)discovery_try_next(d);
}

/* The Redis in use is queried itself only where no other server has an answer, or all are the same one. */
static void discovery_query_again(struct discovery *d)
{
    bool itself = d->use == IN_USE && discovery_queries_server_in_use(d);
    d->self_queries = itself ? d->self_queries + 1 : 0;
    if (itself && (d->self_queries <= discovery_server_count(d) || d->self_queries % QUERIES_OF_ITSELF == 0))
        discovery_rotate_server(d);
    if (d->state == LISTENING)
        discovery_query(d);
}

static void discovery_on_timer(uv_timer_t *timer)
{
    struct discovery *d = timer->data;
    switch (d->state) {
    case PAUSING:
        discovery_enter(d, RESOLVING);
        break;
    case RESOLVING:
        d->timeouts++;
        discovery_fail(d, "its name was not resolved in time");
        break;
    case QUERYING:
        d->timeouts++;
        discovery_fail(d, "no answer in time");
        break;
    case LISTENING:
        discovery_query_again(d);
        break;
    case CLOSED:
        break;
    }
}

const struct discovery_protocol *discovery_protocol_of(const struct redis_endpoint *endpoint)
{
    return redis_endpoint_is_cluster(endpoint) ? &cluster_protocol : &sentinel_protocol;
}

int discovery_new(uv_loop_t *loop, const struct discovery_options *options, struct discovery **out)
{
    struct discovery *d = calloc(1, sizeof *d);
    if (d == NULL)
        return -ENOMEM;
    d->loop = loop;
    d->options = *options;
    d->protocol = discovery_protocol_of(options->endpoint);
    d->connected = redis_endpoint_is_cluster(options->endpoint) ? &options->metrics->cluster_nodes_connected
                                                                : &options->metrics->sentinels_connected;
    topology_init(&d->topology, loop, d->protocol, options);
    for (int i = 0; i < SERVERS_MAX; i++)
        d->lookup[i].discovery = d;
    (void)uv_timer_init(loop, &d->timer); /* cannot fail */
    d->timer.data = d;
    name_watch_init(&d->watch, loop, options->client_name, options->on_moved, options->arg);
    wait_group_add(&d->open_parts, 2);
    *out = d;
    return 0;
}

struct topology *discovery_topology(struct discovery *d)
{
    return &d->topology;
}

void discovery_discover(struct discovery *d)
{
    if (topology_select_next(&d->topology)) {
        d->use = NOT_IN_USE;
        d->options.on_found(d->options.arg, topology_endpoint(&d->topology));
        return;
    }
    d->use = DISCOVERING;
    if (d->state == PAUSING)
        discovery_enter(d, RESOLVING);
    else if (d->state == LISTENING)
        discovery_query(d);
}

void discovery_ready(struct discovery *d)
{
    d->use = IN_USE;
    d->self_queries = 0;
    d->failures = 0;
    topology_ready(&d->topology);
}

void discovery_lost(struct discovery *d)
{
    d->use = NOT_IN_USE;
}

void discovery_failed(struct discovery *d)
{
    topology_failed(&d->topology);
    if (++d->failures % ATTEMPTS_PER_SERVER == 0)
        discovery_rotate_server(d);
}

void discovery_look_up(struct discovery *d)
{
    name_watch_look(&d->watch);
}

static void discovery_on_timer_closed(uv_handle_t *timer)
{
    struct discovery *d = timer->data;
    wait_group_done(&d->open_parts);
}

void discovery_close(struct discovery *d, void (*closed)(void *arg), void *arg)
{
    discovery_drop_socket(d);
    discovery_enter(d, CLOSED);
    topology_close(&d->topology);
    for (int i = 0; i < discovery_server_count(d); i++)
        resolver_cancel(&d->lookup[i].resolver);
    name_watch_close(&d->watch, wait_group_on_done, &d->open_parts);
    uv_close((uv_handle_t *)&d->timer, discovery_on_timer_closed);
    wait_group_close(&d->open_parts, free, d, closed, arg);
}
