/*
 * What a connection says for itself: the greeting and the heartbeat. See rconn_internal.h.
 *
 * HELLO (with authentication and name), SELECT and PING must all succeed: PING is what tells that Redis has
 * loaded its data and may be read. Where Sentinel has named it, ROLE must be what was looked for. Where a
 * later PING is refused (a script that does not end, a replica that has lost its master) Redis is as good as
 * away: the connection has ended, and memory goes on for the stale limit. Tracking is asked for before the
 * PING; when it is refused the connection serves without.
 */
#include "store/rconn_internal.h"

#include "base/clock.h"
#include "base/log.h"

enum { SECOND_LOOK_MS = 10, DB_DIGITS_MAX = 16 };

static void count_greeting(struct rconn *c)
{
    if (--c->greetings_owed == 0)
        rconn_greeted(c);
}

/* A master that cannot save to its disk answers every PING with MISCONF, but may be read as ever. */
static bool refuses(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "MISCONF ", 8) != 0;
}

static void on_greeted(void *arg, const redisReply *reply)
{
    struct rconn *c = arg;
    if (reply == NULL || c->state != RCONN_GREETING)
        return;
    if (refuses(reply))
        rconn_fail(c, reply->str);
    else
        count_greeting(c);
}

static void on_tracking(void *arg, const redisReply *reply)
{
    struct rconn *c = arg;
    if (reply == NULL || c->state != RCONN_GREETING)
        return;
    c->tracking = reply->type != REDIS_REPLY_ERROR;
    if (!c->tracking) {
        metric_add(&c->options.metrics->redis_tracking_refused_total, 1);
        log_text(LOG_WARN, "redis refuses tracking: nothing is cached on this connection", "reason",
                 redis_target_discreet(c->options.target, reply->str));
    }
    count_greeting(c);
}

/* In the greeting and with every heartbeat. */
static void on_role(void *arg, const redisReply *reply)
{
    struct rconn *c = arg;
    if (reply == NULL)
        return;
    const char *objection = rconn_role_objection(c, reply);
    if (objection != NULL)
        rconn_fail(c, objection);
    else if (c->state == RCONN_GREETING)
        count_greeting(c);
}

static int say(struct rconn *c, int argc, const char **argv, rconn_reply_fn fn)
{
    c->greetings_owed++;
    return rconn_send_now(c, argc, argv, NULL, fn, c);
}

static int ask_for_tracking(struct rconn *c)
{
    struct span prefix = c->options.tracking_prefix;
    if (prefix.data == NULL)
        return 0;
    const char *argv[] = {"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix.data};
    const size_t lengths[] = {6, 8, 2, 5, 6, prefix.len};
    c->greetings_owed++;
    return rconn_send_now(c, 6, argv, lengths, on_tracking, c);
}

static int say_all(struct rconn *c)
{
    const char *hello[REDIS_HELLO_ARGS_MAX];
    char db[DB_DIGITS_MAX];
    int err = say(c, redis_target_hello(c->options.target, c->options.client_name, hello), hello, on_greeted);
    (void)snprintf(db, sizeof db, "%d", c->options.target->db);
    if (err == 0 && c->options.target->db != 0)
        err = say(c, 2, (const char *[]){"SELECT", db}, on_greeted);
    if (err == 0 && c->watch != NULL)
        err = say(c, 1, (const char *[]){"ROLE"}, on_role);
    if (err == 0)
        err = ask_for_tracking(c);
    c->proven_ms = clock_now_ms();
    return err != 0 ? err : say(c, 1, (const char *[]){"PING"}, on_greeted);
}

void rconn_greet(struct rconn *c)
{
    c->greetings_owed = 0;
    c->tracking = false;
    if (say_all(c) != 0)
        rconn_fail(c, "out of memory");
}

static void on_pong(void *arg, const redisReply *reply)
{
    struct rconn *c = arg;
    c->ping_owed = false;
    if (reply == NULL)
        return;
    if (refuses(reply))
        rconn_fail(c, reply->str);
    else
        c->proven_ms = c->ping_sent_ms;
}

static int ping(struct rconn *c)
{
    if (c->ping_owed)
        return 0;
    c->ping_owed = true;
    c->ping_sent_ms = clock_now_ms();
    int err = 0;
    if (c->watch != NULL) /* first: the answer to PING prolongs the trust in memory */
        err = rconn_send_now(c, 1, (const char *[]){"ROLE"}, NULL, on_role, c);
    return err != 0 ? err : rconn_send_now(c, 1, (const char *[]){"PING"}, NULL, on_pong, c);
}

void rconn_heartbeat(struct rconn *c)
{
    const struct expected_reply *oldest = expected_oldest(&c->expected);
    uint64_t silence = oldest == NULL ? 0 : (clock_now_ns() - oldest->sent_ns) / 1000000;
    bool silent = silence >= RCONN_SILENCE_MAX_MS;
    if (silent && c->suspect && !c->socket->more) {
        rconn_fail(c, "no reply in time");
        return;
    }
    c->suspect = silent;
    if (silent) {
        rconn_start_timer(c, SECOND_LOOK_MS);
        return;
    }
    if (ping(c) != 0) {
        rconn_fail(c, "out of memory");
        return;
    }
    uint64_t left = RCONN_SILENCE_MAX_MS - silence;
    rconn_start_timer(c, left < RCONN_HEARTBEAT_MS ? left : RCONN_HEARTBEAT_MS);
}
