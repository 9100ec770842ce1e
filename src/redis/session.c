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
 *
 * Evidence against the server in use counts from the last moment at which it was known to be the right
 * one: a master was named, or a replica was listed as up and followed the master that is named.
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
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

enum {
    /* Attempts with the answer of one Sentinel or node, before another one is queried. */
    ATTEMPTS_PER_ANSWER = 2,
    /* What failovers in a row count for: a pause of up to 400 ms, which a request survives. */
    FAILURES_OF_FAILOVERS = 4,
    /* The replicas that have failed, in turn, before the master stands in for the others. */
    REPLICAS_BEFORE_MASTER = 2,
    /*
     * How long, in milliseconds, a replica may be used that follows another master or is not listed as up,
     * unless the stale limit is shorter. In a failover replicas take a moment to follow. For the same time
     * other nodes may still name a master whose successor MOVED has named.
     */
    GRACE_MS = 5000,
    /* How long, in milliseconds, a connection to one address of the target may take. */
    TARGET_LIMIT_MS = 1000
};

enum backend_state { PAUSING, QUERYING, CONNECTING, READY, CLOSED };

/* clang-format off */
static const unsigned NEXT[] = {
    [PAUSING] = STATE(QUERYING) | STATE(CONNECTING) | STATE(CLOSED),
    [QUERYING] = STATE(CONNECTING) | STATE(PAUSING) | STATE(CLOSED),
    [CONNECTING] = STATE(READY) | STATE(PAUSING) | STATE(CLOSED),
    [READY] = STATE(PAUSING) | STATE(CLOSED),
    [CLOSED] = 0,
};
/* clang-format on */

/* The node to which the slot migrates. It executes the commands to which the node in use replies ASK. */
struct target {
    struct redis_address address;        /* named by the last ASK */
    struct redis_endpoint endpoint;      /* borrows `address` */
    struct redis_connection *connection; /* NULL: none, before the first command and after a loss */
    bool is_lost; /* since the last heartbeat of the node in use: it is connected to behind the next one */
    unsigned pending; /* commands that were sent to it, and these: */
    struct list held; /* oldest first: until the connection is ready, or the next heartbeat */
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
    struct locator locator;              /* unless the address is known */
    struct redis_endpoint endpoint;      /* of the connection; borrows from the settings or `address` */
    struct redis_connection *connection; /* NULL in PAUSING and QUERYING */

    /* The server that was selected, where it has to be discovered. Times are by the boot clock. */
    struct redis_address address;
    bool is_master;
    struct redis_address master; /* the master that was named */
    uint64_t owner_ms;           /* when MOVED has named it; 0: it did not, or the node could not be used */
    uint64_t confirmed_ms;       /* when it was last known to be the right one; 0: never */
    uint64_t trusted_until_ms;   /* until then, while there is evidence against it; otherwise UINT64_MAX */

    /* Since a connection has stayed. */
    unsigned failures; /* in a row, for the pause; a failover begins anew */
    unsigned misses;   /* servers that could not be used, or were lost */

    struct log_reasons reasons;       /* the reasons logged since a connection was ready */
    bool is_failover;                 /* the connection is left because another server is named */
    uint64_t failover_ms;             /* when that was last so, by the monotonic clock; 0: never */
    enum redis_role_kind last_role;   /* of a server in use, as far as it was known */
    struct redis_address last_master; /* that was named then */
    bool migrates;                    /* the slot has begun to leave it */
    unsigned seed;

    struct target target;         /* in a cluster: other nodes may have to execute commands */
    struct wait_group open_parts; /* the timer, the locator and connections */
};

struct redis_session {
    struct redis_session_options options;
    uv_loop_t *loop;
    struct backend *current; /* in use */
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
    uint64_t valid_ms = redis_connection_status(b->connection)->server.valid_until_ms;
    return valid_ms < b->trusted_until_ms ? valid_ms : b->trusted_until_ms;
}

static bool session_is_discovered(const struct backend *b)
{
    return redis_endpoint_is_discovered(&b->config->endpoint);
}

static bool session_stands_in(const struct backend *b)
{
    return b->is_master && b->config->endpoint.discovery.replica;
}

/* --- commands that the target of a migration executes --- */

static void session_end_command(struct session_command *command, const struct redis_reply *reply,
                                enum redis_origin origin)
{
    command->fn(command->arg, reply, origin);
    free(command);
}

static void session_end_at_target(struct session_command *command, const struct redis_reply *reply)
{
    command->backend->target.pending--;
    list_remove(&command->link);
    session_end_command(command, reply, REDIS_ORIGIN_OUTSIDE);
}

/* A command that has failed ends with the next heartbeat, since its owner sends it again at once. */
static void session_on_target_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    (void)origin;        /* the stream of that connection, which tracks no keys */
    if (command == NULL) /* ASKING; if it fails, so does the command behind it */
        return;
    if (reply == NULL || cluster_is_left(reply) || cluster_is_migrating(reply))
        list_append(&command->backend->target.held, &command->link);
    else
        session_end_at_target(command, reply);
}

/* Without ASKING the target would refer back to the node in use. Only while its connection is ready. */
static void session_send_to_target(struct session_command *command)
{
    struct redis_connection *c = command->backend->target.connection;
    const struct span text = {command->text, command->len};
    if (redis_connection_send(c, SPAN("*1\r\n$6\r\nASKING\r\n"), true, session_on_target_reply, NULL) != 0 ||
        redis_connection_send(c, text, true, session_on_target_reply, command) != 0)
        session_end_at_target(command, NULL); /* out of memory */
}

static struct session_command *session_first_held(const struct target *t)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the end of a command has removed it */
    return LIST_ENTRY(t->held.next, struct session_command, link);
}

static void session_on_target_handshake_done(void *arg)
{
    struct target *t = &((struct backend *)arg)->target;
    redis_connection_accept(t->connection);
    while (!list_empty(&t->held)) {
        struct session_command *command = session_first_held(t);
        list_remove(&command->link);
        session_send_to_target(command);
    }
}

static void session_on_target_lost(void *arg, const char *why)
{
    struct target *t = &((struct backend *)arg)->target;
    (void)why;
    t->is_lost = true;
    redis_connection_close(&t->connection);
}

static void session_connect_to_target(struct backend *b)
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
    b->target.is_lost = redis_connection_new(s->loop, &options, &b->target.connection) != 0;
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
    if (!redis_address_equal(&t->address, address)) {
        redis_connection_close(&t->connection);
        t->address = *address;
        t->endpoint = redis_endpoint_at(&b->config->endpoint, t->address.host, t->address.port);
    }
    if (redis_connection_is_ready(t->connection)) {
        session_send_to_target(command);
        return;
    }
    list_append(&t->held, &command->link);
    if (t->connection == NULL && !t->is_lost)
        session_connect_to_target(b);
}

/* Their owners may send them again, to the node in use. */
static void session_end_held(struct target *t)
{
    while (!list_empty(&t->held))
        session_end_at_target(session_first_held(t), NULL);
}

/* With each heartbeat of the node in use. */
static void session_tend_target(struct target *t)
{
    t->is_lost = false;
    session_end_held(t);
}

static void session_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    struct redis_address target;
    bool is_elsewhere =
        reply != NULL && cluster_read_redirection(reply, SPAN("ASK "), &command->backend->address, &target);
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
    const struct redis_server *server = b != NULL ? &redis_connection_status(b->connection)->server : NULL;
    metric_set(&m->redis_connected, server != NULL);
    for (int kind = 0; kind < REDIS_ROLE_KINDS; kind++)
        metric_set(&m->redis_role[kind], server != NULL && (int)server->role.kind == kind);
    metric_set(&m->redis_stand_ins, b != NULL && session_stands_in(b));
    metric_set(&m->redis_replica_lag_seconds, server != NULL ? server->lag_s : 0);
}

/* Another master has come into use, or, where none is named, a server of another role. */
static void session_count_failover(struct backend *b)
{
    enum redis_role_kind before = b->last_role;
    enum redis_role_kind now = redis_connection_status(b->connection)->server.role.kind;
    bool is_named = session_is_discovered(b);
    bool is_other = is_named ? !redis_address_is_same(&b->last_master, &b->master) : now != before;
    enum redis_failover kind = b->migrates ? REDIS_FAILOVER_SLOT : REDIS_FAILOVER_MASTER;
    if (now == REDIS_ROLE_UNKNOWN)
        return;
    kind = is_named ? kind : REDIS_FAILOVER_ROLE;
    b->last_role = now;
    b->last_master = b->master;
    b->migrates = b->migrates && !is_other;
    if (before != REDIS_ROLE_UNKNOWN && is_other)
        metric_add(&b->session->options.metrics->redis_failovers_total[kind], 1);
}

/* --- the end of an attempt, or of a connection --- */

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

static uint64_t session_pause_ms(struct backend *b)
{
    if (b->seeks_replica)
        return backoff_ms(1, REDIS_SESSION_TRIAL_MS, REDIS_SESSION_TRIAL_MS, &b->seed);
    return backoff_ms(b->failures, REDIS_SESSION_BACKOFF_MIN_MS, REDIS_SESSION_BACKOFF_MAX_MS, &b->seed);
}

/* Another server, or address, should be tried before this one. One that has stayed may be back soon. */
static void session_count_miss(struct backend *b)
{
    bool has_stayed = b->state == READY && uv_is_active((const uv_handle_t *)&b->timer) == 0;
    if (b->state == QUERYING || has_stayed)
        return;
    b->session->turn += !b->is_master;
    b->misses++;
    b->owner_ms = 0;
    if (session_is_discovered(b) && b->misses % ATTEMPTS_PER_ANSWER == 0)
        locator_rotate(&b->locator);
}

/* All pending commands fail, those at other nodes as well. */
static void session_close_connection(struct backend *b)
{
    redis_connection_close(&b->connection);
    redis_connection_close(&b->target.connection);
    session_end_held(&b->target);
}

static void session_take_over(struct backend *b);
static void session_drop_next(struct redis_session *s);

/* Two servers may refer to each other, so failovers that follow each other have pauses: short ones. */
static void session_fail(struct backend *b, const char *why)
{
    struct redis_session *s = b->session;
    uint64_t now = clock_now_ms();
    bool was_used = b == s->current && b->state == READY;
    if (b->is_failover) {
        session_log(b, LOG_INFO, "closing the redis connection for a failover", why);
        bool is_again = now - b->failover_ms < REDIS_SESSION_BACKOFF_MAX_MS;
        b->failures = is_again ? MIN(b->failures + 1, FAILURES_OF_FAILOVERS) : 0;
        b->failover_ms = now;
    } else {
        b->failures++;
        session_log_failure(b, why);
        session_count_miss(b);
    }
    b->is_failover = false;
    if (was_used) {
        session_show(s, NULL);
        s->options.on_lost(s->options.arg);
    }
    session_enter(b, PAUSING);
    session_close_connection(b);
    if (b == s->current && s->next != NULL && s->next->state == READY) {
        session_take_over(s->next);
        return;
    }
    if (b == s->current && s->next != NULL && s->next->seeks_replica) /* no master stands in any more */
        session_drop_next(s);
    session_start_timer(b, b->failures > 0 ? session_pause_ms(b) : 0);
}

/* --- is it still the right server? --- */

/* As a replica that is up. */
static bool session_is_listed(const struct backend *b)
{
    const struct locator_answer *answer = &b->locator.answer;
    for (int i = 0; i < answer->replicas; i++)
        if (redis_address_equal(&answer->replica[i], &b->address))
            return true;
    return false;
}

/* The reason against a replica, by an INFO that was sent at `sent_ms`; NULL: none, or not for long. */
static const char *session_check_role(void *arg, const struct redis_server *server, uint64_t sent_ms)
{
    struct backend *b = arg;
    if (b->is_master)
        return NULL;
    bool follows = redis_address_equal(&server->role.master, &b->locator.answer.master);
    if (follows && session_is_listed(b)) {
        b->confirmed_ms = sent_ms;
        b->trusted_until_ms = UINT64_MAX;
        return NULL;
    }
    b->trusted_until_ms = b->confirmed_ms;
    uint64_t limit_ms = MIN(b->session->options.stale_limit_ms, GRACE_MS);
    if (b->confirmed_ms != 0 && clock_boot_ms() - b->confirmed_ms < limit_ms)
        return NULL;
    return follows ? "it is not listed as up" : "it follows another master than the one that is named";
}

/* MOVED has named the node within the last seconds, and it could be used. */
static bool session_has_owner(const struct backend *b)
{
    return b->owner_ms != 0 && clock_boot_ms() - b->owner_ms < GRACE_MS;
}

/* A replica is checked with its INFO. */
static void session_check_master(struct backend *b)
{
    if (redis_address_is_same(&b->locator.answer.master, &b->master)) {
        b->confirmed_ms = clock_boot_ms();
    } else if (!session_has_owner(b)) { /* otherwise the other nodes do not know yet that it has changed */
        b->is_failover = true;
        b->trusted_until_ms = b->confirmed_ms;
        session_fail(b, "another server is named in its place");
    }
}

/* The command of such an error counts as lost, so that it is sent again on the next connection. */
static const char *session_check_error(void *arg, const struct redis_reply *error)
{
    struct backend *b = arg;
    b->migrates |= cluster_is_migrating(error);
    if (!cluster_is_left(error))
        return NULL;
    b->trusted_until_ms = b->confirmed_ms;
    b->is_failover = cluster_read_redirection(error, SPAN("MOVED "), &b->address, &b->master);
    b->owner_ms = b->is_failover ? clock_boot_ms() : 0;
    return b->is_failover ? "the slot has moved to another node" : error->str;
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
    b->is_failover = false; /* it may have been one to another address of the name */
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
    session_fail(b, why);
}

static void session_on_heartbeat(void *arg)
{
    struct backend *b = arg;
    struct redis_session *s = b->session;
    session_tend_target(&b->target);
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

static int session_open_next(struct redis_session *s, struct redis_config *config, bool seeks_replica);

/* A connection that has not come into use looks its name up with each attempt. */
static void session_on_moved(void *arg)
{
    const struct backend *b = arg;
    struct redis_session *s = b->session;
    if (b == s->current && (s->next == NULL || s->next->seeks_replica))
        (void)session_open_next(s, b->config, false); /* without memory it is tried again, as below */
}

/* The time limit of the next attempt. A replica has half of it, since the master may have to wait for two. */
static uint64_t session_limit_ms(const struct backend *b)
{
    unsigned attempts =
        b->config->endpoint.discovery.replica ? REPLICAS_BEFORE_MASTER + 1 : ATTEMPTS_PER_ANSWER;
    uint64_t limit_ms =
        backoff_doubled_ms(b->misses / attempts, REDIS_SESSION_LIMIT_MS, REDIS_SESSION_LIMIT_MAX_MS);
    return b->is_master ? limit_ms : limit_ms / 2;
}

static void session_connect(struct backend *b)
{
    struct redis_session *s = b->session;
    enum redis_role_kind role = b->is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA;
    session_enter(b, CONNECTING);
    const struct redis_connection_options options = {
        .endpoint = &b->endpoint,
        .shared = &s->shared,
        .open = &b->open_parts,
        .first_address = b->misses,
        .limit_ms = session_limit_ms(b),
        .metrics = s->options.metrics,
        .role = session_is_discovered(b) ? role : REDIS_ROLE_UNKNOWN,
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

/* To that replica of the master; NULL: to the master itself. */
static void session_connect_to(struct backend *b, const struct redis_address *replica)
{
    b->is_master = replica == NULL;
    b->address = b->is_master ? b->master : *replica;
    b->endpoint = redis_endpoint_at(&b->config->endpoint, b->address.host, b->address.port);
    b->confirmed_ms = b->is_master ? clock_boot_ms() : 0;
    b->trusted_until_ms = UINT64_MAX;
    session_connect(b);
}

/* The master stands in after some replicas, and where none is listed. Then one is sought in addition. */
static void session_select(struct backend *b)
{
    const struct locator_answer *answer = &b->locator.answer;
    unsigned replicas = (unsigned)answer->replicas;
    bool takes_replica = replicas > 0 && b->misses % (REPLICAS_BEFORE_MASTER + 1) < REPLICAS_BEFORE_MASTER;
    if (b->seeks_replica && replicas == 0) /* a later answer may list one */
        return;
    takes_replica = takes_replica || b->seeks_replica;
    b->master = answer->master;
    session_connect_to(b, takes_replica ? &answer->replica[b->session->turn % replicas] : NULL);
}

/* In a pause the next attempt has an answer of its own. */
static void session_on_answer(void *arg, const char *why)
{
    struct backend *b = arg;
    struct redis_session *s = b->session;
    if (b->state == QUERYING && why != NULL)
        session_fail(b, why);
    else if (b->state == QUERYING)
        session_select(b);
    else if (b->state != PAUSING && why == NULL && b->is_master)
        session_check_master(b);
    if (b == s->current && b->state == READY && s->next == NULL && session_stands_in(b) &&
        b->locator.answer.replicas > 0)
        (void)session_open_next(s, b->config, true);
}

static void session_begin(struct backend *b)
{
    if (!session_is_discovered(b)) {
        session_connect(b);
    } else if (session_has_owner(b)) {
        session_connect_to(b, NULL);
    } else {
        session_enter(b, QUERYING);
        locator_query(&b->locator);
    }
}

static void session_on_timer(uv_timer_t *timer)
{
    struct backend *b = timer->data;
    if (b->state != READY) {
        session_begin(b);
        return;
    }
    b->failures = b->misses = 0;
    if (b == b->session->next)
        session_take_over(b);
}

/* --- backends --- */

static void session_free_backend(void *arg)
{
    struct backend *b = arg;
    redis_config_unref(b->config);
    free(b);
}

static void session_on_timer_closed(uv_handle_t *timer)
{
    struct backend *b = timer->data;
    wait_group_done(&b->open_parts);
}

/* Its connection ends without on_lost; pending commands fail. */
static void session_close_backend(struct backend *b)
{
    session_enter(b, CLOSED);
    session_close_connection(b);
    if (session_is_discovered(b))
        locator_close(&b->locator);
    uv_close((uv_handle_t *)&b->timer, session_on_timer_closed);
    wait_group_close(&b->open_parts, session_free_backend, b, wait_group_on_done, &b->session->open_backends);
}

static void session_init_locator(struct backend *b)
{
    const struct locator_options options = {.endpoint = &b->config->endpoint,
                                            .shared = &b->session->shared,
                                            .open = &b->open_parts,
                                            .metrics = b->session->options.metrics,
                                            .seed = b->seed,
                                            .on_answer = session_on_answer,
                                            .on_moved = session_on_moved,
                                            .arg = b};
    locator_init(&b->locator, b->session->loop, &options);
}

/* NULL without memory. */
static struct backend *session_new_backend(struct redis_session *s, struct redis_config *config,
                                           bool seeks_replica)
{
    struct backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->session = s;
    b->config = redis_config_ref(config);
    b->seeks_replica = seeks_replica;
    b->endpoint = config->endpoint;
    b->is_master = true;
    b->trusted_until_ms = UINT64_MAX;
    b->seed = (unsigned)random_seed(b);
    list_init(&b->target.held);
    (void)uv_timer_init(s->loop, &b->timer); /* cannot fail */
    b->timer.data = b;
    session_start_timer(b, seeks_replica ? session_pause_ms(b) : 0);
    wait_group_add(&b->open_parts, 1);
    if (session_is_discovered(b))
        session_init_locator(b);
    wait_group_add(&s->open_backends, 1);
    return b;
}

static void session_drop_next(struct redis_session *s)
{
    if (s->next != NULL)
        session_close_backend(s->next);
    s->next = NULL;
}

static int session_open_next(struct redis_session *s, struct redis_config *config, bool seeks_replica)
{
    struct backend *next = session_new_backend(s, config, seeks_replica);
    if (next == NULL)
        return -ENOMEM;
    session_drop_next(s);
    s->next = next;
    return 0;
}

/* --- which one is in use --- */

static void session_take_over(struct backend *b)
{
    struct redis_session *s = b->session;
    struct backend *old = s->current;
    if (b == s->next) {
        s->options.on_replaced(s->options.arg);
        session_close_backend(old); /* its commands fail, and cannot be sent again before on_ready */
        s->current = b;
        s->next = NULL;
        metric_add(&s->options.metrics->redis_failovers_total[REDIS_FAILOVER_REPLICAS], b->seeks_replica);
        b->seeks_replica = false;
    } else if (s->next != NULL && s->next->config == b->config) {
        session_drop_next(s); /* the name had moved, and was looked up for this connection as well */
    }
    session_show(s, b);
    s->options.on_ready(s->options.arg);
}

int redis_session_use(struct redis_session *s, struct redis_config *config)
{
    if (s->next != NULL && s->next->config == config)
        return 0;
    if (config != s->current->config)
        return session_open_next(s, config, false);
    session_drop_next(s);
    return 0;
}

/* --- beginning and end --- */

int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_config *config, struct redis_session **out)
{
    struct redis_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->shared = (struct redis_shared){.client_name = options->client_name};
    s->loop = loop;
    s->turn = (unsigned)random_seed(s);
    s->current = session_new_backend(s, config, false);
    if (s->current == NULL) {
        free(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg)
{
    session_drop_next(s);
    session_show(s, NULL);
    session_close_backend(s->current);
    wait_group_close(&s->open_backends, free, s, closed, arg);
}
