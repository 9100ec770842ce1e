/*
 * What is said to a Sentinel, and what of its words is taken. See sentinel_watch_internal.h.
 *
 * Greeting, subscription and the first question leave together. A subscription is confirmed by a push, so an
 * error in its place is its own: then we ask and are not told.
 */
#include "redis/sentinel_watch_internal.h"

#include "base/log.h"
#include "redis/command.h"

static int say(struct sentinel_watch *w, int argc, const char **argv)
{
    struct buf command = BUF_INIT;
    command_write(&command, argc, argv, NULL);
    int err = buf_error(&command);
    if (err == 0)
        err = redis_socket_send(w->socket, buf_span(&command));
    buf_fini(&command);
    return err;
}

static int put_question(struct sentinel_watch *w)
{
    const char *master = w->target->sentinels.master;
    w->master_known = false;
    int err = say(w, 3, (const char *[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master});
    if (err == 0 && w->target->sentinels.replica)
        err = say(w, 3, (const char *[]){"SENTINEL", "REPLICAS", master});
    return err;
}

static void send_off(struct sentinel_watch *w, int err)
{
    if (err == 0)
        redis_socket_flush(w->socket);
    else
        sentinel_fail(w, "out of memory");
}

void sentinel_greet(void *arg)
{
    struct sentinel_watch *w = arg;
    struct redis_endpoint sentinel = redis_endpoint_sentinel(w->target, w->current);
    const char *hello[REDIS_HELLO_ARGS_MAX];
    int err = say(w, redis_endpoint_hello(&sentinel, w->client_name, hello), hello);
    if (err == 0)
        err = say(w, 2, (const char *[]){"SUBSCRIBE", "+switch-master"});
    if (err == 0)
        err = put_question(w);
    send_off(w, err);
}

void sentinel_ask(struct sentinel_watch *w)
{
    sentinel_enter(w, WATCH_ASKING);
    sentinel_start_timer(w, SENTINEL_TIMEOUT_MS);
    send_off(w, put_question(w));
}

static void have_answer(struct sentinel_watch *w)
{
    if (!w->counted)
        metric_add(&w->metrics->sentinels_connected, 1);
    w->counted = true;
    if (w->silent)
        log_text(LOG_INFO, "sentinel answers again", "client", w->client_name);
    w->silent = false;
    w->reasons = (struct log_reasons){0};
    w->refused = 0;
    sentinel_enter(w, WATCH_LISTENING);
    w->events.on_answer(w->events.arg, &w->answer);
}

static void take_answer(struct sentinel_watch *w, const redisReply *reply)
{
    const char *objection = NULL;
    if (reply->type == REDIS_REPLY_ERROR)
        objection = reply->str;
    else if (w->master_known)
        objection = sentinel_read_replicas(reply, &w->answer);
    else
        objection = sentinel_read_master(reply, &w->answer.master);
    if (objection != NULL) {
        sentinel_fail(w, objection);
        return;
    }
    bool complete = w->master_known || !w->target->sentinels.replica;
    w->master_known = true;
    if (complete)
        have_answer(w);
}

/* "subscribe" confirms; whatever is published is a reason to ask, once for all the elements of the push. */
void sentinel_take_push(void *arg, struct span kind, const redisReply *element)
{
    struct sentinel_watch *w = arg;
    (void)element;
    if (span_equal(kind, SPAN("subscribe")))
        w->subscribing = false;
    else if (span_equal(kind, SPAN("message")) && w->state == WATCH_LISTENING)
        sentinel_ask(w);
}

void sentinel_take(void *arg, const redisReply *reply)
{
    struct sentinel_watch *w = arg;
    bool error = reply->type == REDIS_REPLY_ERROR;
    if (w->state != WATCH_ASKING)
        sentinel_fail(w, error ? reply->str : "a reply that nobody asked for");
    else if (!w->greeted && error)
        sentinel_fail(w, reply->str);
    else if (!w->greeted)
        w->greeted = true;
    else if (w->subscribing && error)
        w->subscribing = false;
    else
        take_answer(w, reply);
}
