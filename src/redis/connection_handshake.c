/*
 * What a connection says for itself: the handshake and the heartbeat. See connection_internal.h.
 *
 * The handshake is HELLO (with authentication and name), SELECT and ROLE; then, with what those replied,
 * INFO replication at a replica, CLIENT TRACKING and PING. All but TRACKING must succeed: PING is what tells
 * that Redis has loaded its data and may be read. Where tracking is refused, or Redis too old to be relied
 * on, the connection serves without cache.
 *
 * ROLE and INFO come again with every heartbeat. A replica that has lost its master goes on answering, and a
 * server behind one address may be given another role: either is as good as a lost connection, from when it
 * was last known to be good. Where an ACL denies these commands, the connection does without that knowledge.
 * Where a later PING is refused (a script that does not end, a replica that is not to answer without its
 * master) Redis is as good as away too: the connection ends, and memory goes on for the stale limit.
 */
#include "redis/connection_internal.h"

#include "base/clock.h"

enum { SECOND_LOOK_MS = 10, DB_DIGITS_MAX = 16 };

/* What of a reply's silence is rounding. */
enum { SECOND_MS = 1000 };

/* --- role, and the link to the master --- */

void redis_connection_count_role(struct redis_connection *c, bool ready)
{
    struct redis_metrics *m = c->options.metrics;
    if (ready) {
        metric_add(&m->redis_role[c->role.kind], 1);
        return;
    }
    metric_sub(&m->redis_role[c->role.kind], 1);
    metric_set(&m->redis_replica_lag_seconds, 0);
}

static void log_denial(const struct redis_connection *c, bool *logged, const char *message,
                       const redisReply *error)
{
    if (!*logged)
        redis_connection_log(c, LOG_WARN, message, error->str);
    *logged = true;
}

static void forget_role(struct redis_connection *c)
{
    bool counted = c->state == REDIS_CONNECTION_READY;
    if (counted)
        redis_connection_count_role(c, false);
    c->role = (struct redis_role){.kind = REDIS_ROLE_UNKNOWN};
    c->good_ms = UINT64_MAX;
    if (counted)
        redis_connection_count_role(c, true);
}

/* Why this role will not do; NULL when it will. */
static const char *role_objection(const struct redis_connection *c, const struct redis_role *role)
{
    bool known = c->state == REDIS_CONNECTION_READY && c->role.kind != REDIS_ROLE_UNKNOWN;
    if (c->watch != NULL && c->at_master && role->kind != REDIS_ROLE_MASTER)
        return "it is not a master";
    if (c->watch != NULL && !c->at_master && role->kind != REDIS_ROLE_REPLICA)
        return "it is not a replica";
    if (known && role->kind != c->role.kind)
        return role->kind == REDIS_ROLE_MASTER ? "it was a replica and is a master now"
                                               : "it was a master and is a replica now";
    return role->kind == REDIS_ROLE_REPLICA && !role->linked ? "its link to the master is down" : NULL;
}

/* The replica heard its master then; but what it heard counts for as long as that is the right master. */
static void set_good(struct redis_connection *c, uint64_t ms)
{
    c->good_ms = c->doubted_ms != 0 && c->doubted_ms < ms ? c->doubted_ms : ms;
}

/* Returns NULL, or why the connection is of no use. */
static const char *take_role(struct redis_connection *c, const redisReply *reply)
{
    struct redis_role role;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (c->watch != NULL || !redis_is_denied(reply))
            return reply->str;
        c->role_denied = true;
        log_denial(c, &c->role_denial_logged, "redis denies ROLE: a replica without master is not noticed",
                   reply);
        forget_role(c);
        return NULL;
    }
    const char *objection = redis_read_role(reply, &role);
    if (objection == NULL)
        objection = role_objection(c, &role);
    if (objection != NULL)
        return objection;
    c->role = role;
    if (role.kind == REDIS_ROLE_REPLICA && c->link_denied)
        set_good(c, c->asked_ms);
    return redis_connection_discovery_check(c);
}

static const char *take_link(struct redis_connection *c, const redisReply *reply)
{
    struct redis_link link;
    if (c->role.kind != REDIS_ROLE_REPLICA) /* ROLE was denied meanwhile */
        return NULL;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (!redis_is_denied(reply))
            return reply->str;
        c->link_denied = true;
        log_denial(c, &c->link_denial_logged, "redis denies INFO: a master that is silent is not noticed",
                   reply);
        set_good(c, c->asked_ms);
        return NULL;
    }
    const char *objection = redis_read_link(reply, &link);
    if (objection == NULL)
        objection = redis_link_check(&link);
    if (objection != NULL)
        return objection;
    uint64_t silent_ms = (uint64_t)(link.silent_s + 1) * SECOND_MS; /* it is rounded */
    set_good(c, c->asked_ms > silent_ms ? c->asked_ms - silent_ms : 0);
    metric_set(&c->options.metrics->redis_replica_lag_seconds, (uint64_t)link.silent_s);
    return NULL;
}

/* --- the handshake --- */

static void next_step(struct redis_connection *c);

static void count_greeting(struct redis_connection *c)
{
    if (--c->handshake_owed == 0)
        next_step(c);
}

/* A master that cannot save to its disk answers every PING with MISCONF, but may be read as ever. */
static bool refuses(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "MISCONF ", 8) != 0;
}

static void on_handshake_done(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    if (reply == NULL || c->state != REDIS_CONNECTION_HANDSHAKE)
        return;
    if (refuses(reply))
        redis_connection_fail(c, reply->str);
    else
        count_greeting(c);
}

static void on_hello(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    if (reply != NULL && reply->type != REDIS_REPLY_ERROR)
        c->untrackable = redis_hello_check(reply);
    on_handshake_done(arg, reply);
}

/* What counts of a reply to ROLE or INFO, in the handshake and with every heartbeat. */
static void conclude(struct redis_connection *c, const char *objection)
{
    if (objection == NULL) {
        if (c->state == REDIS_CONNECTION_HANDSHAKE)
            count_greeting(c);
        return;
    }
    if (c->last_pong_ms < c->good_ms)
        c->good_ms = c->last_pong_ms;
    redis_connection_fail(c, objection);
}

static void on_role(void *arg, const redisReply *reply)
{
    if (reply != NULL)
        conclude(arg, take_role(arg, reply));
}

static void on_link(void *arg, const redisReply *reply)
{
    if (reply != NULL)
        conclude(arg, take_link(arg, reply));
}

static void go_untracked(struct redis_connection *c, const char *message, const char *why)
{
    metric_add(&c->options.metrics->redis_tracking_refused_total, 1);
    redis_connection_log(c, LOG_WARN, message, why);
}

static void on_tracking(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    if (reply == NULL || c->state != REDIS_CONNECTION_HANDSHAKE)
        return;
    c->tracking = reply->type != REDIS_REPLY_ERROR;
    if (!c->tracking)
        go_untracked(c, "redis refuses tracking: nothing is cached on this connection", reply->str);
    count_greeting(c);
}

static int say(struct redis_connection *c, int argc, const char **argv, redis_connection_reply_fn fn)
{
    c->handshake_owed++;
    return redis_connection_send_now(c, argc, argv, NULL, fn, c);
}

static int ask_role(struct redis_connection *c)
{
    return redis_connection_send_now(c, 1, (const char *[]){"ROLE"}, NULL, on_role, c);
}

static int ask_link(struct redis_connection *c)
{
    return redis_connection_send_now(c, 2, (const char *[]){"INFO", "replication"}, NULL, on_link, c);
}

static int ask_for_tracking(struct redis_connection *c)
{
    struct span prefix = c->options.tracking_prefix;
    if (prefix.data == NULL)
        return 0;
    if (c->untrackable != NULL) {
        go_untracked(c, "redis cannot be relied on to tell of changes: nothing is cached on this connection",
                     c->untrackable);
        return 0;
    }
    const char *argv[] = {"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix.data};
    const size_t lengths[] = {6, 8, 2, 5, 6, prefix.len};
    c->handshake_owed++;
    return redis_connection_send_now(c, 6, argv, lengths, on_tracking, c);
}

static int introduce(struct redis_connection *c)
{
    const char *hello[REDIS_HELLO_ARGS_MAX];
    char db[DB_DIGITS_MAX];
    int err = say(c, redis_endpoint_hello(c->options.target, c->options.client_name, hello), hello, on_hello);
    (void)snprintf(db, sizeof db, "%d", c->options.target->db);
    if (err == 0 && c->options.target->db != 0)
        err = say(c, 2, (const char *[]){"SELECT", db}, on_handshake_done);
    c->handshake_owed++;
    return err != 0 ? err : ask_role(c);
}

static int subscribe(struct redis_connection *c)
{
    int err = 0;
    c->asked_ms = c->last_pong_ms = clock_boot_ms();
    if (c->role.kind == REDIS_ROLE_REPLICA) {
        c->handshake_owed++;
        err = ask_link(c);
    }
    if (err == 0)
        err = ask_for_tracking(c);
    return err != 0 ? err : say(c, 1, (const char *[]){"PING"}, on_handshake_done);
}

/* Each step begins when the one before has been answered. */
static void next_step(struct redis_connection *c)
{
    static int (*const steps[])(struct redis_connection * c) = {introduce, subscribe};
    if (c->step == sizeof steps / sizeof steps[0])
        redis_connection_handshake_done(c);
    else if (steps[c->step++](c) != 0)
        redis_connection_fail(c, "out of memory");
}

void redis_connection_handshake(struct redis_connection *c)
{
    c->step = c->handshake_owed = 0;
    c->tracking = c->role_denied = c->link_denied = false;
    c->untrackable = NULL;
    c->role = (struct redis_role){.kind = REDIS_ROLE_UNKNOWN};
    c->good_ms = UINT64_MAX;
    c->asked_ms = clock_boot_ms();
    redis_connection_discovery_reset(c);
    next_step(c);
}

/* --- the heartbeat --- */

static void on_pong(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    c->ping_owed = false;
    if (reply == NULL)
        return;
    if (refuses(reply)) {
        redis_connection_fail(c, reply->str);
        return;
    }
    c->last_pong_ms = c->asked_ms;
    if (c->options.on_heartbeat != NULL)
        c->options.on_heartbeat(c->options.arg);
}

/* PING comes last: its answer prolongs the trust in memory. */
static int ping(struct redis_connection *c)
{
    if (c->ping_owed)
        return 0;
    c->ping_owed = true;
    c->asked_ms = clock_boot_ms();
    int err = c->role_denied ? 0 : ask_role(c);
    if (err == 0 && c->role.kind == REDIS_ROLE_REPLICA && !c->link_denied)
        err = ask_link(c);
    return err != 0 ? err : redis_connection_send_now(c, 1, (const char *[]){"PING"}, NULL, on_pong, c);
}

/* How long the oldest command has waited for its reply, or for more of it. */
static uint64_t silence_ms(const struct redis_connection *c)
{
    const struct pending_command *oldest = pending_oldest(&c->pending);
    if (oldest == NULL)
        return 0;
    uint64_t progress_ns = c->socket->progress_ns;
    uint64_t since_ns = progress_ns > oldest->sent_ns ? progress_ns : oldest->sent_ns;
    return (clock_now_ns() - since_ns) / 1000000;
}

/* A large reply may take longer than the limit while it makes progress, but not for ever. */
static bool reply_takes_too_long(struct redis_connection *c)
{
    if (pending_oldest(&c->pending) == NULL || !resp_in_reply(&c->socket->parser))
        return false;
    return ++c->reply_heartbeats > REDIS_CONNECTION_REPLY_HEARTBEATS_MAX;
}

void redis_connection_heartbeat(struct redis_connection *c)
{
    uint64_t silence = silence_ms(c);
    bool silent = silence >= REDIS_CONNECTION_REPLY_TIMEOUT_MS;
    if (silent && c->timeout_pending && !c->socket->more) {
        redis_connection_fail(c, "no reply in time");
        return;
    }
    c->timeout_pending = silent;
    if (silent) {
        redis_connection_start_timer(c, SECOND_LOOK_MS);
        return;
    }
    if (reply_takes_too_long(c)) {
        redis_connection_fail_reply(c);
        return;
    }
    if (ping(c) != 0) {
        redis_connection_fail(c, "out of memory");
        return;
    }
    uint64_t left = REDIS_CONNECTION_REPLY_TIMEOUT_MS - silence;
    redis_connection_start_timer(c,
                                 left < REDIS_CONNECTION_HEARTBEAT_MS ? left : REDIS_CONNECTION_HEARTBEAT_MS);
}
