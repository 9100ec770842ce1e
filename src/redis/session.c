/*
 * Connections that replace each other, and the commands that other nodes execute; see session.h.
 *
 * A pending command is in the queue of its connection, or at the target while another node executes it. When
 * its connection is lost, or its attempt fails, it ends in both. So no reply of an earlier connection is
 * taken for a reply of a later one.
 *
 * A backend has certain settings and makes one connection after the other. One timer serves its states:
 *
 *     PAUSING      session_pause_ms()        the pause before an attempt
 *     QUERYING                               none: the locator has its own
 *     CONNECTING                             none: the connection has its own
 *     READY        REDIS_SESSION_STAYED_MS   the connection has stayed
 */
#include "redis/session.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/state.h"
#include "redis/cluster.h"
#include "redis/locator.h"
#include "redis/selection.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    /* Attempts with the answer of one Sentinel or node, before another one is queried. */
    ATTEMPTS_PER_ANSWER = 2,
    /* After so many failures in a row, about five seconds, a name that is not found counts against its
       server. */
    FAILURES_OF_NAMES = 9,
    /* What failovers in a row count for: a pause of up to 400 ms, which a request survives. */
    FAILURES_OF_FAILOVERS = 4,
    /* The replicas that have failed, in turn, before the master stands in for the others. */
    REPLICAS_BEFORE_MASTER = 2,
    /* How long, in milliseconds, commands are held that the target of a migration cannot execute. */
    TARGET_HOLD_MS = 200,
    /* How long a connection to one address of the target may take. */
    TARGET_LIMIT_MS = 1000,
    /* After the last command for this time the connection to the target is closed. */
    TARGET_IDLE_MS = 10000
};

enum backend_state { PAUSING, QUERYING, CONNECTING, READY, CLOSED };

/* clang-format off */
static const unsigned NEXT[] = {
    [PAUSING] = STATE(PAUSING) | STATE(QUERYING) | STATE(CONNECTING) | STATE(CLOSED),
    [QUERYING] = STATE(CONNECTING) | STATE(PAUSING) | STATE(CLOSED),
    [CONNECTING] = STATE(READY) | STATE(PAUSING) | STATE(CLOSED),
    [READY] = STATE(PAUSING) | STATE(CLOSED),
    [CLOSED] = 0,
};
/* clang-format on */

/*
 * The node to which the slot migrates, and which executes the commands to which the node in use replies ASK.
 * The connection to it carries no invalidations, so its replies must not be cached. It is made when it is
 * needed, and closed when it has been idle for a while. There is one at a time.
 */
struct target {
    struct redis_address address;        /* named by the last ASK */
    struct redis_endpoint endpoint;      /* borrows `address` */
    struct redis_connection *connection; /* NULL: none, before the first command and after a loss */
    struct list held; /* commands, oldest first: until the connection is ready, or for TARGET_HOLD_MS */
    unsigned pending; /* these, and those that were sent to it */
    uv_timer_t timer; /* TARGET_HOLD_MS (without a connection: before the next one) or TARGET_IDLE_MS */
};

/* A copy of a command that the node in use of a cluster may refer to the target. */
struct session_command {
    struct backend *backend;
    struct list link; /* in `held` */
    bool stays;       /* REDIS_SEND_STREAM_ONLY */
    redis_reply_fn fn;
    void *arg;
    size_t len;
    char text[];
};

struct backend {
    struct redis_session *session;
    struct redis_config *config; /* one reference */
    bool seeks_replica;          /* to replace the master that stands in: one that stays */
    enum backend_state state;
    uv_timer_t timer;
    struct locator *locator; /* NULL: the address is known, or not needed yet */
    struct selection selection;
    struct redis_endpoint endpoint;      /* of the connection; borrows from the settings or the selection */
    struct redis_connection *connection; /* NULL in PAUSING and QUERYING */

    /* Since a connection has stayed. */
    unsigned failures; /* in a row, for the pause; a failover begins anew */
    unsigned misses;   /* servers that could not be used, or were lost */
    unsigned timeouts; /* among them those that took too long */

    struct log_reasons reasons;       /* the reasons logged since a connection was ready */
    bool is_failover;                 /* the connection is left because another server is named */
    uint64_t failover_ms;             /* when that was last so, by the monotonic clock; 0: never */
    enum redis_role_kind last_role;   /* of a server in use, as far as it was known */
    struct redis_address last_master; /* that was named then */
    bool migrates;                    /* the slot has begun to leave it */
    unsigned seed;

    struct target target;         /* in a cluster: other nodes may have to execute commands */
    struct wait_group open_parts; /* the timers, the locator and connections */
};

struct redis_session {
    struct redis_session_options options;
    uv_loop_t *loop;
    struct backend *current; /* in use; NULL before the first redis_session_use() */
    struct backend *next;    /* it is to replace `current`; NULL: none */
    struct redis_shared shared;
    unsigned turn; /* the replica that is tried next, among those of an answer */
    struct wait_group open_backends;
};

struct redis_connection *redis_session_connection(const struct redis_session *s)
{
    return s->current->connection;
}

struct redis_config *redis_session_config(const struct redis_session *s)
{
    return s->current->config;
}

unsigned redis_session_commands_outside(const struct redis_session *s)
{
    return s->current->target.pending;
}

static bool session_is_clustered(const struct backend *b)
{
    return redis_endpoint_is_cluster(&b->config->endpoint);
}

bool redis_session_tracks_absences(const struct redis_session *s)
{
    return !session_is_clustered(s->current);
}

uint64_t redis_session_valid_until_ms(const struct redis_session *s)
{
    const struct backend *b = s->current;
    uint64_t valid_ms = redis_connection_server(b->connection)->valid_until_ms;
    uint64_t trusted_ms = selection_trusted_until_ms(&b->selection);
    return valid_ms < trusted_ms ? valid_ms : trusted_ms;
}

/* --- commands that the target of a migration executes --- */

static void session_end_command(struct session_command *command, const struct redis_reply *reply,
                                enum redis_origin origin)
{
    redis_reply_fn fn = command->fn;
    void *arg = command->arg;
    list_remove(&command->link);
    free(command);
    fn(arg, reply, origin);
}

static void session_on_target_timer(uv_timer_t *timer);

static void session_start_target_timer(struct target *t, uint64_t ms)
{
    (void)uv_timer_start(&t->timer, session_on_target_timer, ms, 0); /* it fails only on a closing handle */
}

static void session_end_at_target(struct session_command *command, const struct redis_reply *reply)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the end of the one before has removed that */
    struct target *t = &command->backend->target;
    if (--t->pending == 0 && t->connection != NULL)
        session_start_target_timer(t, TARGET_IDLE_MS);
    session_end_command(command, reply, REDIS_ORIGIN_OUTSIDE);
}

/* A command that has failed ends a moment later, since its owner sends it again at once. */
static void session_hold(struct session_command *command)
{
    struct target *t = &command->backend->target;
    if (list_empty(&t->held))
        session_start_target_timer(t, TARGET_HOLD_MS);
    list_append(&t->held, &command->link);
}

/* None of them fails again before this returns. */
static void session_end_held(struct target *t)
{
    while (!list_empty(&t->held))
        session_end_at_target(LIST_ENTRY(t->held.next, struct session_command, link), NULL);
}

static void session_on_target_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    (void)origin; /* the stream of that connection, which tracks no keys */
    if (reply == NULL || cluster_is_left(reply) || cluster_is_migrating(reply))
        session_hold(command);
    else
        session_end_at_target(command, reply);
}

static void session_on_asking(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    (void)arg;
    (void)reply; /* if this command fails, so does the command behind it */
    (void)origin;
}

/* Without ASKING the target would refer back to the node in use. Only while its connection is ready. */
static void session_send_to_target(struct session_command *command)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    struct redis_connection *c = command->backend->target.connection;
    const struct span text = {command->text, command->len};
    int err = redis_connection_send(c, SPAN(asking), true, session_on_asking, NULL);
    if (err == 0)
        err = redis_connection_send(c, text, true, session_on_target_reply, command);
    if (err == 0)
        return;
    session_hold(command);
    redis_connection_fail(c, "out of memory");
}

static void session_on_target_handshake_done(void *arg)
{
    struct target *t = &((struct backend *)arg)->target;
    redis_connection_accept(t->connection);
    while (t->connection != NULL && !list_empty(&t->held)) {
        struct session_command *command = LIST_ENTRY(t->held.next, struct session_command, link);
        list_remove(&command->link);
        session_send_to_target(command);
    }
}

/* The commands that were sent to it, or are to be, are held. */
static void session_leave_target(struct backend *b)
{
    struct target *t = &b->target;
    struct redis_connection *c = t->connection;
    t->connection = NULL;
    (void)uv_timer_stop(&t->timer); /* cannot fail */
    if (c != NULL)
        redis_connection_close(c);
    if (!list_empty(&t->held))
        session_start_target_timer(t, TARGET_HOLD_MS);
}

static void session_on_target_lost(void *arg, const char *why)
{
    struct backend *b = arg;
    (void)why;
    session_leave_target(b);
    session_start_target_timer(&b->target, TARGET_HOLD_MS);
}

static int session_connect_to_target(struct backend *b)
{
    struct redis_session *s = b->session;
    const struct redis_connection_options options = {
        .endpoint = &b->target.endpoint,
        .shared = &s->shared,
        .open = &b->open_parts,
        .limit_ms = TARGET_LIMIT_MS,
        .on_handshake_done = session_on_target_handshake_done,
        .on_lost = session_on_target_lost,
        .arg = b,
    };
    return redis_connection_new(s->loop, &options, &b->target.connection);
}

static void session_set_target(struct backend *b, const struct redis_address *address)
{
    struct target *t = &b->target;
    if (redis_address_equal(&t->address, address))
        return;
    session_leave_target(b);
    t->address = *address;
    t->endpoint = redis_endpoint_at(&b->config->endpoint, t->address.host, t->address.port);
}

static void session_on_target_timer(uv_timer_t *timer)
{
    struct backend *b = timer->data;
    if (b->target.pending == 0)
        session_leave_target(b);
    session_end_held(&b->target);
}

static void session_refer_to(const struct redis_address *address, struct session_command *command)
{
    struct backend *b = command->backend;
    struct redis_session *s = b->session;
    struct target *t = &b->target;
    t->pending++;
    metric_add(&s->options.metrics->cluster_redirects_total, 1);
    if (b == s->current)
        s->options.on_outside_read(s->options.arg);
    session_set_target(b, address);
    if (redis_connection_is_ready(t->connection)) {
        session_send_to_target(command);
        return;
    }
    bool is_first = t->connection == NULL && uv_is_active((uv_handle_t *)&t->timer) == 0;
    if (is_first && session_connect_to_target(b) != 0)
        session_start_target_timer(t, TARGET_HOLD_MS);
    list_append(&t->held, &command->link);
}

static void session_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    struct redis_address target;
    bool is_elsewhere =
        reply != NULL && cluster_read_ask(reply, &command->backend->selection.address, &target);
    if (is_elsewhere && !command->stays)
        session_refer_to(&target, command);
    else
        session_end_command(command, reply, is_elsewhere ? REDIS_ORIGIN_OUTSIDE : origin);
}

int redis_session_send(struct redis_session *s, const struct buf *command, unsigned how, redis_reply_fn fn,
                       void *arg)
{
    if (buf_error(command) != 0)
        return buf_error(command);
    const struct span text = buf_span(command);
    struct backend *b = (how & REDIS_SEND_NEXT) != 0 ? s->next : s->current;
    bool tracked = (how & REDIS_SEND_UNTRACKED) == 0;
    if (!session_is_clustered(b))
        return redis_connection_send(b->connection, text, tracked, fn, arg);
    struct session_command *copy = malloc(sizeof *copy + text.len);
    if (copy == NULL)
        return -ENOMEM;
    *copy = (struct session_command){
        .backend = b, .stays = (how & REDIS_SEND_STREAM_ONLY) != 0, .fn = fn, .arg = arg, .len = text.len};
    (void)span_put(text, copy->text);
    list_init(&copy->link);
    int err = redis_connection_send(b->connection, text, tracked, session_on_reply, copy);
    if (err != 0)
        free(copy);
    return err;
}

/* --- logs and metrics --- */

static void session_log(const struct backend *b, enum log_level level, const char *message, const char *why)
{
    redis_endpoint_log(&b->endpoint, level, message, "redis", b->session->options.client_name, why);
}

/* A reason is repeated once in a while, and after a connection that was ready. */
static void session_log_failure(struct backend *b, const char *why)
{
    bool was_ready = b->state == READY;
    bool repeats = !log_reason_is_due(&b->reasons, why, clock_now_ms());
    metric_add(&b->session->options.metrics->redis_disconnects_total, 1);
    session_log(b, repeats ? LOG_DEBUG : LOG_WARN,
                was_ready ? "redis connection lost" : "redis connection failed", why);
}

/* The metrics are about the backend that is in use and ready; NULL: none is. */
static void session_show(struct redis_session *s, const struct backend *b)
{
    struct redis_metrics *m = s->options.metrics;
    const struct redis_server *server = b != NULL ? redis_connection_server(b->connection) : NULL;
    metric_set(&m->redis_connected, server != NULL);
    for (int kind = 0; kind < REDIS_ROLE_KINDS; kind++)
        metric_set(&m->redis_role[kind], server != NULL && (int)server->role.kind == kind);
    metric_set(&m->redis_stand_ins, server != NULL && selection_stands_in(&b->selection));
    metric_set(&m->redis_replica_lag_seconds, server != NULL ? server->lag_s : 0);
}

/*
 * A failover is another master, as far as it is named, and otherwise a server of another role, that has come
 * into use.
 */
static void session_count_failover(struct backend *b)
{
    enum redis_failover kind = b->migrates ? REDIS_FAILOVER_SLOT : REDIS_FAILOVER_MASTER;
    enum redis_role_kind before = b->last_role;
    enum redis_role_kind now = redis_connection_server(b->connection)->role.kind;
    bool is_other = !redis_address_is_same(&b->last_master, &b->selection.master);
    if (now == REDIS_ROLE_UNKNOWN)
        return;
    if (b->locator == NULL) {
        kind = REDIS_FAILOVER_ROLE;
        is_other = now != before;
    }
    b->last_role = now;
    b->last_master = b->selection.master;
    b->migrates = b->migrates && !is_other;
    if (before != REDIS_ROLE_UNKNOWN && is_other)
        metric_add(&b->session->options.metrics->redis_failovers_total[kind], 1);
}

/* --- attempts --- */

static void session_on_timer(uv_timer_t *timer);

static void session_start_timer(struct backend *b, uint64_t ms)
{
    (void)uv_timer_start(&b->timer, session_on_timer, ms, 0); /* it fails only on a closing handle */
}

static void session_enter(struct backend *b, enum backend_state next)
{
    STATE_ENTER(&b->state, next, NEXT);
    (void)uv_timer_stop(&b->timer); /* cannot fail */
}

/* Another server, or address, is tried next. */
static void session_count_miss(struct backend *b)
{
    b->session->turn++;
    b->misses++;
    b->selection.owner_ms = 0;
    if (b->locator != NULL && b->misses % ATTEMPTS_PER_ANSWER == 0)
        locator_rotate(b->locator);
}

/* Closes a connection (NULL: none). All pending commands fail, those at other nodes as well. */
static void session_end_commands(struct backend *b, struct redis_connection *c)
{
    if (c != NULL)
        redis_connection_close(c);
    session_leave_target(b);
    session_end_held(&b->target);
}

/* Ends the connection, and the commands that are pending, in PAUSING. */
static void session_drop_connection(struct backend *b)
{
    struct redis_session *s = b->session;
    struct redis_connection *c = b->connection;
    bool was_used = b->state == READY && b == s->current;
    if (was_used)
        s->options.on_lost(s->options.arg);
    if (b->state == CLOSED) /* by that */
        return;
    session_enter(b, PAUSING);
    b->connection = NULL;
    if (was_used)
        session_show(s, NULL);
    session_end_commands(b, c);
}

static void session_take_over(struct backend *b);
static void session_drop_next(struct redis_session *s);

static uint64_t session_pause_ms(struct backend *b)
{
    if (b->seeks_replica)
        return backoff_ms(1, REDIS_SESSION_TRIAL_MS, REDIS_SESSION_TRIAL_MS, &b->seed);
    return backoff_ms(b->failures, REDIS_SESSION_BACKOFF_MIN_MS, REDIS_SESSION_BACKOFF_MAX_MS, &b->seed);
}

/*
 * Whether another server should be tried before this one. One that has stayed may be back soon, and a name
 * that was not found may be the next time.
 */
static bool session_is_miss(const struct backend *b)
{
    bool has_stayed = b->state == READY && uv_is_active((const uv_handle_t *)&b->timer) == 0;
    bool is_found = b->connection == NULL || redis_connection_attempts(b->connection)->addresses > 0;
    bool may_be_found = b->locator != NULL && !is_found && b->failures < FAILURES_OF_NAMES;
    return b->state != QUERYING && !has_stayed && !may_be_found;
}

/*
 * An attempt has failed, or the connection is lost. In a failover the next server is connected to at once. If
 * failovers follow each other there is a pause, since two servers may refer to each other: a short one.
 */
static void session_fail(struct backend *b, const char *why)
{
    struct redis_session *s = b->session;
    uint64_t now = clock_now_ms();
    bool at_once = b->is_failover && now - b->failover_ms >= REDIS_SESSION_BACKOFF_MAX_MS;
    if (at_once)
        b->failures = 0;
    else if (!b->is_failover || b->failures < FAILURES_OF_FAILOVERS)
        b->failures++;
    if (b->is_failover) {
        session_log(b, LOG_INFO, "closing the redis connection for a failover", why);
        b->failover_ms = now;
        b->timeouts = 0;
    } else {
        session_log_failure(b, why);
        if (session_is_miss(b))
            session_count_miss(b);
    }
    b->is_failover = false;
    session_drop_connection(b);
    if (b->state != PAUSING) /* a callback has closed it */
        return;
    if (b == s->current && s->next != NULL && s->next->state == READY) {
        session_take_over(s->next);
        return;
    }
    if (b == s->current && s->next != NULL && s->next->seeks_replica) /* no master stands in any more */
        session_drop_next(s);
    session_start_timer(b, at_once ? 0 : session_pause_ms(b));
}

/* --- events of a connection --- */

static void session_on_address_failed(void *arg, const char *why)
{
    struct backend *b = arg;
    b->failures++;
    session_log_failure(b, why);
}

static void session_on_handshake_done(void *arg)
{
    const struct backend *b = arg;
    const struct redis_session_options *o = &b->session->options;
    o->on_handshake_done(o->arg, b->connection);
}

static void session_on_ready(void *arg)
{
    struct backend *b = arg;
    struct redis_session *s = b->session;
    session_enter(b, READY);
    session_start_timer(b, REDIS_SESSION_STAYED_MS);
    b->is_failover = false;
    b->reasons = (struct log_reasons){0};
    session_count_failover(b);
    metric_add(&s->options.metrics->redis_connects_total, 1);
    session_log(b, LOG_INFO, "redis connected", NULL);
    if (!b->seeks_replica) /* such a one has to stay first */
        session_take_over(b);
}

static void session_on_lost(void *arg, const char *why)
{
    struct backend *b = arg;
    b->timeouts += redis_connection_attempts(b->connection)->timed_out;
    session_fail(b, why);
}

static void session_on_heartbeat(void *arg)
{
    const struct backend *b = arg;
    struct redis_session *s = b->session;
    if (b != s->current)
        return;
    session_show(s, b);
    s->options.on_heartbeat(s->options.arg);
}

static void session_on_invalidated(void *arg, const struct redis_reply *key)
{
    const struct backend *b = arg;
    const struct redis_session *s = b->session;
    if (b == s->current)
        s->options.on_invalidated(s->options.arg, key);
}

static const char *session_check_role(void *arg, const struct redis_server *server, uint64_t sent_ms)
{
    struct backend *b = arg;
    return selection_check_master(&b->selection, &server->role.master, sent_ms);
}

/* The command of such an error counts as lost, so that it is sent again on the next connection. */
static const char *session_check_error(void *arg, const struct redis_reply *error)
{
    struct backend *b = arg;
    b->migrates |= cluster_is_migrating(error);
    if (!cluster_is_left(error))
        return NULL;
    b->is_failover = selection_take_error(&b->selection, error);
    return b->is_failover ? "the slot has moved to another node" : error->str;
}

static int session_open_next(struct redis_session *s, struct redis_config *config, bool seeks_replica);

static void session_try_next(struct redis_session *s, bool seeks_replica)
{
    if (session_open_next(s, s->current->config, seeks_replica) != 0)
        log_text(LOG_WARN, "out of memory for a connection to redis", "client", s->options.client_name);
}

/* A connection that has not come into use looks its name up with each attempt. */
static void session_on_moved(void *arg)
{
    const struct backend *b = arg;
    struct redis_session *s = b->session;
    if (b == s->current && (s->next == NULL || s->next->seeks_replica))
        session_try_next(s, false);
}

/* The time limit of the next attempt. A replica has half of it, since the master may have to wait for two. */
static uint64_t session_limit_ms(const struct backend *b)
{
    unsigned servers = b->config->endpoint.discovery.replica ? REPLICAS_BEFORE_MASTER + 1 : 1;
    uint64_t limit_ms =
        backoff_doubled_ms(b->timeouts / servers, REDIS_SESSION_LIMIT_MS, REDIS_SESSION_LIMIT_MAX_MS);
    return b->selection.is_master ? limit_ms : limit_ms / 2;
}

static enum redis_role_kind session_wanted_role(const struct backend *b)
{
    if (b->locator == NULL)
        return REDIS_ROLE_UNKNOWN;
    return b->selection.is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA;
}

static void session_connect(struct backend *b)
{
    struct redis_session *s = b->session;
    session_enter(b, CONNECTING);
    const struct redis_connection_options options = {
        .endpoint = &b->endpoint,
        .shared = &s->shared,
        .open = &b->open_parts,
        .first_address = b->misses,
        .limit_ms = session_limit_ms(b),
        .metrics = s->options.metrics,
        .role = session_wanted_role(b),
        .tracking = s->options.tracking,
        .on_address_failed = session_on_address_failed,
        .on_handshake_done = session_on_handshake_done,
        .on_ready = session_on_ready,
        .on_lost = session_on_lost,
        .on_moved = session_on_moved,
        .on_heartbeat = session_on_heartbeat,
        .check_role = session_check_role,
        .check_error = session_is_clustered(b) ? session_check_error : NULL,
        .on_invalidated = session_on_invalidated,
        .arg = b,
    };
    if (redis_connection_new(s->loop, &options, &b->connection) != 0)
        session_fail(b, "out of memory");
}

/* --- where to connect to --- */

static void session_connect_to_selected(struct backend *b)
{
    struct redis_address *address = &b->selection.address;
    b->endpoint = redis_endpoint_at(&b->config->endpoint, address->host, address->port);
    session_connect(b);
}

/* The master stands in after some replicas, and where none is listed. Then one is sought in addition. */
static void session_select(struct backend *b, const struct locator_answer *answer)
{
    unsigned replicas = selection_replicas(&b->selection, answer);
    bool takes_replica = replicas > 0 && b->misses % (REPLICAS_BEFORE_MASTER + 1) < REPLICAS_BEFORE_MASTER;
    if (b->seeks_replica && replicas == 0) /* a later answer may list one */
        return;
    takes_replica = takes_replica || b->seeks_replica;
    selection_select(&b->selection, &answer->master,
                     takes_replica ? &answer->replica[b->session->turn % replicas] : NULL);
    session_connect_to_selected(b);
}

static void session_on_answer(void *arg, const struct locator_answer *answer)
{
    struct backend *b = arg;
    struct redis_session *s = b->session;
    if (b->state == QUERYING) {
        session_select(b, answer);
        return;
    }
    if (b->state == PAUSING && b->selection.address.port == 0) /* no server was found before */
        return;
    const char *why = selection_check_answer(&b->selection, answer, b->state == READY);
    if (why != NULL) {
        b->is_failover = true;
        session_fail(b, why);
    } else if (b == s->current && b->state == READY && s->next == NULL &&
               selection_stands_in(&b->selection) && selection_replicas(&b->selection, answer) > 0) {
        session_try_next(s, true);
    }
}

static void session_on_unreachable(void *arg, const char *why)
{
    struct backend *b = arg;
    if (b->state == QUERYING)
        session_fail(b, why);
}

static int session_open_locator(struct backend *b)
{
    const struct locator_options options = {.endpoint = &b->config->endpoint,
                                            .shared = &b->session->shared,
                                            .open = &b->open_parts,
                                            .metrics = b->session->options.metrics,
                                            .seed = b->seed,
                                            .on_answer = session_on_answer,
                                            .on_unreachable = session_on_unreachable,
                                            .on_moved = session_on_moved,
                                            .arg = b};
    return locator_new(b->session->loop, &options, &b->locator);
}

static void session_begin(struct backend *b)
{
    if (!redis_endpoint_is_discovered(&b->config->endpoint)) {
        session_connect(b);
    } else if (selection_has_owner(&b->selection)) {
        selection_select(&b->selection, &b->selection.owner, NULL);
        session_connect_to_selected(b);
    } else {
        session_enter(b, QUERYING);
        if (b->locator != NULL)
            locator_query(b->locator);
        else if (session_open_locator(b) != 0)
            session_fail(b, "out of memory");
    }
}

static void session_on_stayed(struct backend *b)
{
    struct redis_session *s = b->session;
    b->failures = b->misses = b->timeouts = 0;
    if (b == s->next)
        session_take_over(b);
}

static void session_on_timer(uv_timer_t *timer)
{
    struct backend *b = timer->data;
    if (b->state == PAUSING)
        session_begin(b);
    else if (b->state == READY)
        session_on_stayed(b);
}

/* --- backends --- */

static void session_free_backend(void *arg)
{
    struct backend *b = arg;
    redis_config_unref(b->config);
    free(b);
}

static void session_on_handle_closed(uv_handle_t *handle)
{
    struct backend *b = handle->data;
    wait_group_done(&b->open_parts);
}

/* Its connection ends without on_lost; pending commands fail. */
static void session_close_backend(struct backend *b)
{
    struct redis_connection *c = b->connection;
    session_enter(b, CLOSED);
    b->connection = NULL;
    session_end_commands(b, c);
    if (b->locator != NULL)
        locator_close(b->locator);
    selection_close(&b->selection);
    uv_close((uv_handle_t *)&b->timer, session_on_handle_closed);
    assert(b->target.pending == 0);
    uv_close((uv_handle_t *)&b->target.timer, session_on_handle_closed);
    wait_group_close(&b->open_parts, session_free_backend, b, wait_group_on_done, &b->session->open_backends);
}

static int session_open_backend(struct redis_session *s, struct redis_config *config, bool seeks_replica,
                                struct backend **out)
{
    struct backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->session = s;
    b->config = config;
    b->seeks_replica = seeks_replica;
    b->endpoint = config->endpoint;
    b->seed = (unsigned)random_seed(b);
    selection_init(&b->selection, s->loop, &config->endpoint, s->options.stale_limit_ms);
    (void)redis_config_ref(config);
    list_init(&b->target.held);
    (void)uv_timer_init(s->loop, &b->timer); /* neither can fail */
    (void)uv_timer_init(s->loop, &b->target.timer);
    b->timer.data = b->target.timer.data = b;
    session_start_timer(b, seeks_replica ? session_pause_ms(b) : 0);
    wait_group_add(&b->open_parts, 2);
    wait_group_add(&s->open_backends, 1);
    *out = b;
    return 0;
}

static void session_drop_next(struct redis_session *s)
{
    if (s->next != NULL)
        session_close_backend(s->next);
    s->next = NULL;
}

static int session_open_next(struct redis_session *s, struct redis_config *config, bool seeks_replica)
{
    struct backend *next = NULL;
    int err = session_open_backend(s, config, seeks_replica, &next);
    if (err != 0)
        return err;
    session_drop_next(s);
    s->next = next;
    return 0;
}

/* --- which one is in use --- */

static void session_replace(struct redis_session *s)
{
    struct backend *old = s->current;
    s->options.on_replaced(s->options.arg);
    session_close_backend(old); /* its commands fail, and cannot be sent again before on_ready */
    s->current = s->next;
    s->next = NULL;
    if (s->current->seeks_replica)
        metric_add(&s->options.metrics->redis_failovers_total[REDIS_FAILOVER_REPLICAS], 1);
    s->current->seeks_replica = false;
}

/* A ready connection comes into use. */
static void session_take_over(struct backend *b)
{
    struct redis_session *s = b->session;
    if (b == s->next)
        session_replace(s);
    else if (s->next != NULL && s->next->config == b->config)
        session_drop_next(s); /* the name had moved, and was looked up for this connection as well */
    session_show(s, b);
    s->options.on_ready(s->options.arg);
}

int redis_session_use(struct redis_session *s, struct redis_config *config)
{
    if (s->current == NULL)
        return session_open_backend(s, config, false, &s->current);
    if (s->next != NULL && s->next->config == config)
        return 0;
    if (config != s->current->config)
        return session_open_next(s, config, false);
    session_drop_next(s);
    return 0;
}

/* --- beginning and end --- */

int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out)
{
    struct redis_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->shared = (struct redis_shared){.client_name = options->client_name, .loop_lag = options->loop_lag};
    s->loop = loop;
    s->turn = (unsigned)random_seed(s);
    *out = s;
    return 0;
}

void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg)
{
    session_drop_next(s);
    session_show(s, NULL);
    if (s->current != NULL)
        session_close_backend(s->current);
    wait_group_close(&s->open_backends, free, s, closed, arg);
}
