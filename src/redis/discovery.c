/*
 * Queries to the servers that know Redis, and the choice of one; see discovery.h.
 *
 * The connection to a server:
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

#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"
#include "redis/cluster.h"
#include "redis/sentinel.h"
#include "redis/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum {
    /* The time in milliseconds after which a replica is tried again while the master stands in for one. */
    STAND_IN_MS = 30000,
    /* Attempts to connect with one server's answer, before another server is queried. */
    ATTEMPTS_PER_SERVER = 2,
    /*
     * How long, in milliseconds, a replica may be used that follows another master or that is reported as
     * down, unless the stale limit is shorter: in a failover replicas take a moment to follow. So long, too,
     * other servers may still name the master that has said that it is none.
     */
    GRACE_MS = 5000,
    /* How long the result of a comparison of two names is kept, in milliseconds. */
    COMPARISON_MS = 10000,
    SERVERS_MAX = REDIS_SERVERS_MAX + DISCOVERY_NODES_MAX
};

enum discovery_state { PAUSING, RESOLVING, QUERYING, LISTENING, CLOSED };

/* The states that may follow each, as a set of bits; see the drawing above. */
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
    int next;  /* of its addresses, to be tried */
    bool late; /* it ended after its attempt had failed */
};

/* Whether two names have a common address. */
struct comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int lookups_due; /* look-ups that have not ended */
    bool equal;
    uint64_t made_ms; /* by the boot clock; 0: never */
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
    bool unreachable;           /* none had an answer the last time that all were asked */
    struct log_reasons reasons; /* since one had an answer */
    uv_timer_t timer;
    struct redis_socket *socket;      /* NULL but in QUERYING and LISTENING */
    bool hello_answered, subscribing; /* of this connection */
    int replies;                      /* to the query, so far */
    bool counted;                     /* it is in the metric */
    struct discovery_answer answer;
    struct redis_address learned[DISCOVERY_NODES_MAX]; /* behind those of the endpoint */
    int learned_count;
    struct lookup lookup[SERVERS_MAX];

    /* The Redis that was found. */
    enum { NOT_IN_USE, DISCOVERING, IN_USE } use; /* a discovery is under way */
    struct redis_endpoint endpoint;               /* borrows `address` */
    struct redis_address address;
    struct redis_address master; /* the master that is named */
    bool is_master;              /* the address is the master's, also in place of a replica */
    struct comparison masters;   /* that one, and the one that the replica follows */
    unsigned first_replica;      /* the choice begins with this one */
    unsigned failures;           /* attempts in a row that failed */
    uint64_t ready_ms;           /* since when it is in use, by the monotonic clock */
    int rotations;               /* since then, away from it: another server than it is to be queried */
    struct redis_address owner;  /* the master by the word of the one before */
    uint64_t owner_ms;           /* when it said so, by the monotonic clock; 0: never, or that was wrong */
    bool owner_next;             /* it is connected to without a query */
    /* By the boot clock; 0: not so. */
    uint64_t confirmed_ms; /* when this master was last named, or the replica last followed it */
    uint64_t mismatch_ms;  /* since when the replica follows another or an unknown master */
    uint64_t down_ms;      /* since when the replica is reported as down */
    uint64_t failover_ms;  /* until when the Redis was the right one, where another is named now */

    void (*closed)(void *arg);
    void *closed_arg;
};

/* --- the Redis that was found --- */

/* Other servers have not heard yet that the master has changed. */
static bool discovery_is_behind(const struct discovery *d)
{
    return d->owner_ms != 0 && clock_now_ms() - d->owner_ms < GRACE_MS &&
           !redis_address_equal(&d->answer.master, &d->owner);
}

static void discovery_set_address(struct discovery *d, const struct redis_address *address)
{
    d->address = *address;
    d->endpoint = redis_endpoint_at(d->options.endpoint, d->address.host, d->address.port);
}

static void discovery_select_owner(struct discovery *d)
{
    d->master = d->owner;
    d->confirmed_ms = clock_boot_ms();
    d->is_master = true;
    discovery_set_address(d, &d->owner);
}

/* Replicas in turn, beginning with any, so that they share the load; after all of them the master. */
static void discovery_select_server(struct discovery *d)
{
    const struct discovery_answer *a = &d->answer;
    unsigned replicas = (unsigned)a->replicas;
    unsigned step = d->failures % (replicas + 1); /* no replicas: the master */
    d->master = a->master;
    d->confirmed_ms = clock_boot_ms();
    d->is_master = step == replicas;
    discovery_set_address(d, d->is_master ? &a->master : &a->replica[(d->first_replica + step) % replicas]);
}

/* The Redis in use. */
static bool discovery_is_superseded(const struct discovery *d)
{
    if (!d->is_master) /* a replica is checked with the heartbeat */
        return false;
    if (!redis_address_equal(&d->answer.master, &d->address))
        return true;
    return d->answer.replicas > 0 && clock_now_ms() - d->ready_ms >= STAND_IN_MS;
}

static bool discovery_is_reported_down(const struct discovery *d)
{
    const struct discovery_answer *a = &d->answer;
    bool exhaustive = d->protocol->lists_healthy;
    const struct redis_address *list = exhaustive ? a->replica : a->down;
    int count = exhaustive ? a->replicas : a->downs;
    bool listed = false;
    for (int i = 0; i < count; i++)
        listed = listed || redis_address_equal(&list[i], &d->address);
    return !d->is_master && listed != exhaustive;
}

static void discovery_fail_over(struct discovery *d)
{
    d->failures = 0;
    d->options.on_failover(d->options.arg, d->protocol->moved);
}

/* What the answer means for the Redis in use. */
static void discovery_check_server(struct discovery *d)
{
    uint64_t now = clock_boot_ms();
    if (d->is_master && redis_address_equal(&d->answer.master, &d->address))
        d->confirmed_ms = now;
    if (!discovery_is_reported_down(d))
        d->down_ms = 0;
    else if (d->down_ms == 0)
        d->down_ms = now;
    if (!d->is_master)
        d->master = d->answer.master;
    if (!discovery_is_superseded(d))
        return;
    d->failover_ms = d->confirmed_ms;
    discovery_fail_over(d);
}

static void discovery_handle_answer(struct discovery *d)
{
    bool outdated = discovery_is_behind(d);
    if (d->use == DISCOVERING) {
        if (outdated)
            discovery_select_owner(d);
        else
            discovery_select_server(d);
        d->use = NOT_IN_USE;
        d->options.on_found(d->options.arg, &d->endpoint);
    } else if (outdated) {
        return;
    } else if (d->use == IN_USE) {
        discovery_check_server(d);
    } else if (!redis_address_equal(&d->answer.master, &d->master)) {
        discovery_fail_over(d);
    }
}

enum discovery_error discovery_take_error(struct discovery *d, const redisReply *error)
{
    const struct discovery_protocol *p = d->protocol;
    struct redis_address owner = d->address;
    enum discovery_error kind =
        p->read_error == NULL ? DISCOVERY_ERROR_OTHER : p->read_error(&d->address, error, &owner);
    if (kind != DISCOVERY_ERROR_MOVED)
        return kind;
    d->owner = owner;
    d->owner_ms = clock_now_ms();
    d->owner_next = !d->options.endpoint->discovery.replica;
    d->failover_ms = d->confirmed_ms;
    return kind;
}

bool discovery_elsewhere(const struct discovery *d, const redisReply *reply, struct redis_address *node)
{
    const struct discovery_protocol *p = d->protocol;
    if (p->read_ask == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR)
        return p->read_ask(reply, &d->address, node);
    *node = d->master;
    return !d->is_master;
}

bool discovery_wants_readonly(const struct discovery *d)
{
    return d->protocol->read_ask != NULL && !d->is_master;
}

enum redis_role_kind discovery_wanted_role(const struct discovery *d)
{
    return d->is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA;
}

/* --- the master that a replica follows --- */

static bool discovery_share_address(const struct resolver *a, const struct resolver *b)
{
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (strcmp(a->address[i], b->address[k]) == 0)
                return true;
    return false;
}

static void discovery_on_compared(void *arg, const char *error)
{
    struct comparison *m = &((struct discovery *)arg)->masters;
    (void)error; /* then there are no addresses */
    assert(m->lookups_due > 0);
    if (--m->lookups_due > 0)
        return;
    m->equal = discovery_share_address(&m->side[0], &m->side[1]);
    m->made_ms = clock_boot_ms();
}

static void discovery_look_up_both(struct discovery *d, const struct redis_address *named,
                                   const struct redis_address *followed)
{
    struct comparison *m = &d->masters;
    m->of[0] = *named;
    m->of[1] = *followed;
    m->lookups_due = 1;
    for (int i = 0; i < 2; i++) {
        m->side[i].count = 0;
        if (resolver_take_numeric(&m->side[i], m->of[i].host))
            continue;
        if (resolver_start(&m->side[i], d->loop, m->of[i].host, discovery_on_compared, d) == 0)
            m->lookups_due++;
    }
    discovery_on_compared(d, NULL);
}

enum comparison_result { SAME, DIFFERENT, NOT_KNOWN_YET };

/* The same address, or names of the same. */
static enum comparison_result discovery_compare(struct discovery *d, const struct redis_address *named,
                                                const struct redis_address *followed)
{
    struct comparison *m = &d->masters;
    if (named->port != followed->port)
        return DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SAME;
    bool begun = redis_address_equal(named, &m->of[0]) && redis_address_equal(followed, &m->of[1]);
    bool fresh = begun && m->made_ms != 0 && clock_boot_ms() - m->made_ms < COMPARISON_MS;
    if (!fresh && m->lookups_due == 0) {
        m->made_ms = begun ? m->made_ms : 0;
        discovery_look_up_both(d, named, followed);
        begun = true;
    }
    if (!begun || m->made_ms == 0)
        return NOT_KNOWN_YET;
    return m->equal ? SAME : DIFFERENT;
}

const char *discovery_check_replica(struct discovery *d, const struct redis_address *master,
                                    uint64_t role_sent_ms)
{
    uint64_t limit = d->options.stale_limit_ms;
    uint64_t grace = limit < GRACE_MS ? limit : GRACE_MS;
    if (d->is_master)
        return NULL;
    if (d->down_ms != 0 && clock_boot_ms() - d->down_ms >= grace)
        return d->protocol->down;
    enum comparison_result result = discovery_compare(d, &d->master, master);
    if (result == SAME) {
        d->confirmed_ms = role_sent_ms;
        d->mismatch_ms = 0;
        return NULL;
    }
    bool confirmed = d->confirmed_ms != 0;
    if (d->mismatch_ms == 0)
        d->mismatch_ms = confirmed ? d->confirmed_ms : role_sent_ms;
    if ((confirmed || result == NOT_KNOWN_YET) && clock_boot_ms() - d->mismatch_ms < grace)
        return NULL;
    return d->protocol->other_master;
}

uint64_t discovery_trusted_until_ms(const struct discovery *d)
{
    uint64_t until = UINT64_MAX;
    if (d->failover_ms != 0)
        until = d->failover_ms;
    if (d->mismatch_ms != 0 && d->mismatch_ms < until)
        until = d->mismatch_ms;
    return until;
}

/* --- the servers --- */

static int discovery_server_count(const struct discovery *d)
{
    return d->options.endpoint->discovery.count + d->learned_count;
}

/* Borrowed, as in endpoint.h; a learned one until the next answer. */
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

/* The connection remains, and counts as that to the server of the same number. */
static void discovery_learn_servers(struct discovery *d)
{
    int given = d->options.endpoint->discovery.count;
    if (discovery_knows_all(d))
        return;
    for (int i = given; i < discovery_server_count(d); i++) {
        resolver_cancel(&d->lookup[i].resolver);
        d->lookup[i] = (struct lookup){.discovery = d};
    }
    d->learned_count = d->answer.nodes;
    memcpy(d->learned, d->answer.node, sizeof d->learned);
    if (d->current >= discovery_server_count(d))
        d->current = 0;
}

/* Whether the server that is queried is the Redis in use, which would not hear of its own replacement. */
static bool discovery_queries_server_in_use(struct discovery *d)
{
    const struct lookup *l = &d->lookup[d->current];
    const struct redis_endpoint server = discovery_server_at(d, d->current);
    if (server.port != d->address.port)
        return false;
    if (strcasecmp(server.host, d->address.host) == 0)
        return true;
    return l->next > 0 && l->next <= l->resolver.count &&
           strcmp(l->resolver.address[l->next - 1], d->address.host) == 0;
}

/* --- the connection to a server --- */

static void discovery_resolve(struct discovery *d);
static void discovery_on_timer(uv_timer_t *timer);

static void discovery_start_timer(struct discovery *d, uint64_t ms)
{
    (void)uv_timer_start(&d->timer, discovery_on_timer, ms, 0); /* fails only on a closing handle */
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
        discovery_start_timer(d, DISCOVERY_TIMEOUT_MS);
        discovery_resolve(d);
        break;
    case QUERYING:
        discovery_start_timer(d, DISCOVERY_TIMEOUT_MS);
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

/* Tries the next address of this server, or the next server; false when all have been tried. */
static bool discovery_try_next(struct discovery *d)
{
    struct lookup *l = &d->lookup[d->current];
    discovery_drop_socket(d);
    if (l->next < l->resolver.count && !resolver_busy(&l->resolver)) {
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

/* The handshake and the first query leave together. */
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
    discovery_enter(d, LISTENING);
    discovery_learn_servers(d);
    discovery_handle_answer(d);
}

static void discovery_handle_reply(struct discovery *d, const redisReply *reply)
{
    const struct redis_endpoint server = discovery_server_at(d, d->current);
    const char *problem = reply->str;
    bool complete = false;
    if (reply->type != REDIS_REPLY_ERROR)
        problem = d->protocol->read(d->options.endpoint, &server, d->replies++, reply, &d->answer, &complete);
    if (problem != NULL)
        discovery_fail(d, problem);
    else if (complete)
        discovery_on_answered(d);
}

static void discovery_handle_hello(struct discovery *d, const redisReply *reply)
{
    const struct discovery_protocol *p = d->protocol;
    const char *problem = p->check_hello == NULL ? NULL : p->check_hello(reply);
    d->hello_answered = true;
    if (problem != NULL)
        discovery_fail(d, problem);
}

/* A subscription is confirmed by a push, so an error reply in its place means that it was refused. */
static void discovery_on_reply(void *arg, const redisReply *reply, uint64_t read_ns)
{
    struct discovery *d = arg;
    bool error = reply->type == REDIS_REPLY_ERROR;
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

/* "subscribe" confirms the subscription; a message causes one query, whatever it says. */
static void discovery_on_push(void *arg, struct span kind, const redisReply *element)
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
    bool awaited = d->state == RESOLVING && l == &d->lookup[d->current];
    l->late = !awaited && error == NULL; /* the next attempt begins with what a slow look-up has found */
    if (!awaited)
        return;
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
    if (l->late || resolver_take_numeric(&l->resolver, host)) {
        l->late = false;
        discovery_connect_next(d);
        return;
    }
    if (resolver_busy(&l->resolver)) /* waits for the look-up of an earlier attempt */
        return;
    l->resolver.count = 0;
    int err = resolver_start(&l->resolver, d->loop, host, discovery_on_resolved, l);
    if (err != 0)
        discovery_fail(d, uv_strerror(err));
}

/* The next command goes to another address or server, where there is one; else to this one again. */
static void discovery_rotate_server(struct discovery *d)
{
    bool another = discovery_server_count(d) > 1 || d->lookup[d->current].resolver.count > 1;
    if (d->state != LISTENING || !another)
        return;
    d->failed_servers = -1; /* this one is asked again when no other answers */
    (void)discovery_try_next(d);
}

static void discovery_query_again(struct discovery *d)
{
    if (d->use == IN_USE && d->rotations < discovery_server_count(d) && discovery_queries_server_in_use(d)) {
        d->rotations++;
        discovery_rotate_server(d);
    }
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
        discovery_fail(d, "its name was not resolved in time");
        break;
    case QUERYING:
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
    d->first_replica = options->seed;
    for (int i = 0; i < SERVERS_MAX; i++)
        d->lookup[i].discovery = d;
    (void)uv_timer_init(loop, &d->timer); /* cannot fail */
    d->timer.data = d;
    *out = d;
    return 0;
}

void discovery_discover(struct discovery *d)
{
    if (d->owner_next) {
        d->owner_next = false;
        d->use = NOT_IN_USE;
        discovery_select_owner(d);
        d->options.on_found(d->options.arg, &d->endpoint);
        return;
    }
    d->use = DISCOVERING;
    if (d->state == PAUSING)
        discovery_enter(d, RESOLVING);
    else if (d->state == LISTENING)
        discovery_query(d);
}

static void discovery_reset_trust(struct discovery *d)
{
    d->mismatch_ms = d->down_ms = d->failover_ms = 0;
    if (!d->is_master)
        d->confirmed_ms = 0;
}

void discovery_report(struct discovery *d, enum discovery_report report)
{
    switch (report) {
    case DISCOVERY_REPORT_CONNECTED:
        discovery_reset_trust(d);
        break;
    case DISCOVERY_REPORT_READY:
        d->use = IN_USE;
        d->failures = 0;
        d->ready_ms = clock_now_ms();
        d->rotations = 0;
        break;
    case DISCOVERY_REPORT_LOST:
        d->use = NOT_IN_USE;
        break;
    case DISCOVERY_REPORT_FAILED:
        d->owner_ms = 0;
        if (++d->failures % ATTEMPTS_PER_SERVER == 0)
            discovery_rotate_server(d);
        break;
    }
}

static void discovery_on_timer_closed(uv_handle_t *timer)
{
    struct discovery *d = timer->data;
    void (*closed)(void *arg) = d->closed;
    void *arg = d->closed_arg;
    free(d);
    closed(arg);
}

void discovery_close(struct discovery *d, void (*closed)(void *arg), void *arg)
{
    d->closed = closed;
    d->closed_arg = arg;
    discovery_drop_socket(d);
    discovery_enter(d, CLOSED);
    resolver_cancel(&d->masters.side[0]);
    resolver_cancel(&d->masters.side[1]);
    for (int i = 0; i < discovery_server_count(d); i++)
        resolver_cancel(&d->lookup[i].resolver);
    uv_close((uv_handle_t *)&d->timer, discovery_on_timer_closed);
}
