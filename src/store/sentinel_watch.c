/*
 * Asking Sentinels; see sentinel_watch.h.
 *
 *     PAUSING -> RESOLVING -> ASKING <-> LISTENING
 *        ^___________|__________|___________|       (whatever fails goes on at once with the next address,
 * then with the next Sentinel; after the last there is a pause)
 *
 * ASKING begins with the connection: greeting, subscription and the first question leave together. A
 * subscription is confirmed by a push, so an error in its place is its own: then we ask and are not told.
 */
#include "store/sentinel_watch.h"

#include "base/log.h"
#include "store/command.h"
#include "store/resolve.h"
#include "store/socket.h"

#include <errno.h>
#include <stdlib.h>

enum watch_state { PAUSING, RESOLVING, ASKING, LISTENING, CLOSED };

enum { ANSWER_ELEMENTS_MAX = 1024 };

/* One look-up a Sentinel: one that cannot be recalled must not hold up those of the others. */
struct lookup {
    struct sentinel_watch *watch;
    struct resolver resolver;
    int next;  /* of its addresses, to be tried */
    bool late; /* they came when nobody waited for them any more */
};

struct sentinel_watch {
    uv_loop_t *loop;
    const struct redis_target *target;
    struct ssl_ctx_st *tls;
    const char *client_name;
    struct metrics *metrics;
    struct sentinel_events events;
    enum watch_state state;
    int current; /* the Sentinel that is, or will be, spoken to */
    int refused; /* how many had no answer, in a row */
    bool silent; /* none had an answer the last time that all were asked */
    uv_timer_t timer;
    bool timer_closed;
    struct redis_socket *socket;                      /* NULL but in ASKING and LISTENING */
    bool greeted, subscribing, master_known, counted; /* of this conversation; the last: in the metric */
    struct sentinel_answer answer;
    void (*closed)(void *arg);
    void *closed_arg;
    struct lookup lookup[REDIS_SENTINELS_MAX];
};

static void enter(struct sentinel_watch *w, enum watch_state next);
static void connect_next(struct sentinel_watch *w);
static void on_timer(uv_timer_t *timer);

static void start_timer(struct sentinel_watch *w, uint64_t ms)
{
    (void)uv_timer_start(&w->timer, on_timer, ms,
                         0); /* fails only without a callback or on a closing handle */
}

static void drop_socket(struct sentinel_watch *w)
{
    if (w->socket == NULL)
        return;
    if (w->counted)
        metric_sub(&w->metrics->sentinels_connected, 1);
    w->counted = false;
    redis_socket_close(w->socket);
    w->socket = NULL;
}

/* --- whom to ask --- */

static void log_refusal(const struct sentinel_watch *w, enum log_level level, const char *message,
                        struct span who, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    log_str(&line, "sentinel", who);
    log_str(&line, "client", span_of(w->client_name));
    log_str(&line, "reason", span_of(why));
    log_end(&line);
}

/* Goes on with the next address of this Sentinel, or with the next Sentinel; false when all were asked. */
static bool turn_to_next(struct sentinel_watch *w)
{
    struct lookup *l = &w->lookup[w->current];
    drop_socket(w);
    if (l->next < l->resolver.count && !l->resolver.busy) {
        connect_next(w);
        return true;
    }
    w->current = (w->current + 1) % w->target->sentinels.count;
    bool more = ++w->refused < w->target->sentinels.count;
    if (!more)
        w->refused = 0;
    enter(w, more ? RESOLVING : PAUSING);
    return more;
}

static void tell_silence(struct sentinel_watch *w, struct span who, const char *why)
{
    if (!w->silent)
        log_refusal(w, LOG_WARN, "no sentinel can say where redis is", who, why);
    w->silent = true;
    w->events.on_silence(w->events.arg, why);
}

/* This Sentinel has no answer; `why` may be what it said. */
static void fail(struct sentinel_watch *w, const char *why)
{
    struct redis_target sentinel = redis_target_sentinel(w->target, w->current);
    struct buf who = BUF_INIT;
    why = redis_target_discreet(w->target, why);
    redis_target_describe(&sentinel, &who);
    log_refusal(w, LOG_DEBUG, "sentinel has no answer", buf_span(&who), why);
    if (!turn_to_next(w))
        tell_silence(w, buf_span(&who), why);
    buf_fini(&who);
}

/* --- what is said --- */

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
        fail(w, "out of memory");
}

static void on_connected(void *arg)
{
    struct sentinel_watch *w = arg;
    struct redis_target sentinel = redis_target_sentinel(w->target, w->current);
    const char *hello[REDIS_HELLO_ARGS_MAX];
    int err = say(w, redis_target_hello(&sentinel, w->client_name, hello), hello);
    if (err == 0)
        err = say(w, 2, (const char *[]){"SUBSCRIBE", "+switch-master"});
    if (err == 0)
        err = put_question(w);
    send_off(w, err);
}

static void ask_again(struct sentinel_watch *w)
{
    enter(w, ASKING);
    start_timer(w, SENTINEL_PATIENCE_MS);
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
    w->refused = 0;
    enter(w, LISTENING);
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
        fail(w, objection);
        return;
    }
    bool complete = w->master_known || !w->target->sentinels.replica;
    w->master_known = true;
    if (complete)
        have_answer(w);
}

/* "subscribe" confirms; whatever is published is a reason to ask. */
static void take_push(struct sentinel_watch *w, const redisReply *push)
{
    const redisReply *kind = push->elements > 0 ? push->element[0] : push;
    if (kind->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(kind->str, "subscribe") == 0)
        w->subscribing = false;
    else if (strcmp(kind->str, "message") == 0 && w->state == LISTENING)
        ask_again(w);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct sentinel_watch *w = arg;
    bool error = reply->type == REDIS_REPLY_ERROR;
    if (reply->type == REDIS_REPLY_PUSH)
        take_push(w, reply);
    else if (w->state != ASKING)
        fail(w, error ? reply->str : "a reply that nobody asked for");
    else if (!w->greeted && error)
        fail(w, reply->str);
    else if (!w->greeted)
        w->greeted = true;
    else if (w->subscribing && error)
        w->subscribing = false;
    else
        take_answer(w, reply);
}

static void on_failed(void *arg, const char *why)
{
    fail(arg, why);
}

/* --- states --- */

static void connect_next(struct sentinel_watch *w)
{
    const struct socket_events events = {on_connected, on_reply, on_failed, w};
    struct redis_target sentinel = redis_target_sentinel(w->target, w->current);
    struct lookup *l = &w->lookup[w->current];
    enter(w, ASKING);
    start_timer(w, SENTINEL_PATIENCE_MS);
    w->greeted = false;
    w->subscribing = true;
    int err =
        redis_socket_open(w->loop, &sentinel, w->tls, l->resolver.address[l->next++], &events, &w->socket);
    if (err != 0)
        fail(w, strerror(-err));
    else
        redis_socket_limit(w->socket, SENTINEL_ANSWER_MAX, ANSWER_ELEMENTS_MAX);
}

/* The timer's and the look-ups' ends are awaited. */
static void free_when_closed(struct sentinel_watch *w)
{
    bool busy = !w->timer_closed;
    for (int i = 0; i < w->target->sentinels.count; i++)
        busy = busy || w->lookup[i].resolver.busy;
    if (busy)
        return;
    void (*closed)(void *arg) = w->closed;
    void *arg = w->closed_arg;
    free(w);
    closed(arg);
}

static void on_resolved(void *arg, int err)
{
    struct lookup *l = arg;
    struct sentinel_watch *w = l->watch;
    if (w->state == CLOSED) {
        free_when_closed(w);
        return;
    }
    bool awaited = w->state == RESOLVING && l == &w->lookup[w->current];
    l->late = !awaited && err == 0; /* where names take long, the next attempt begins with this */
    if (!awaited)
        return;
    if (err != 0)
        fail(w, uv_strerror(err));
    else
        connect_next(w);
}

static void resolve(struct sentinel_watch *w)
{
    struct lookup *l = &w->lookup[w->current];
    const char *host = w->target->sentinels.at[w->current].host;
    l->next = 0;
    if (l->late || resolver_take_numeric(&l->resolver, host)) {
        l->late = false;
        connect_next(w);
        return;
    }
    if (l->resolver.busy) /* with a look-up that outlived its attempt; this one waits for it */
        return;
    l->resolver.count = 0;
    int err = resolver_start(&l->resolver, w->loop, host, on_resolved, l);
    if (err != 0)
        fail(w, uv_strerror(err));
}

static void on_timer(uv_timer_t *timer)
{
    struct sentinel_watch *w = timer->data;
    if (w->state == PAUSING)
        enter(w, RESOLVING);
    else if (w->state == LISTENING)
        ask_again(w);
    else if (w->state == RESOLVING)
        fail(w, "its name was not resolved in time");
    else if (w->state == ASKING)
        fail(w, "no answer in time");
}

/* Every change of state passes here. */
static void enter(struct sentinel_watch *w, enum watch_state next)
{
    w->state = next;
    if (next == PAUSING || next == LISTENING)
        start_timer(w, SENTINEL_INTERVAL_MS);
    if (next != RESOLVING)
        return;
    start_timer(w, SENTINEL_PATIENCE_MS);
    resolve(w);
}

int sentinel_watch_new(uv_loop_t *loop, const struct redis_target *target, struct ssl_ctx_st *tls,
                       const char *client_name, struct metrics *metrics, const struct sentinel_events *events,
                       struct sentinel_watch **out)
{
    struct sentinel_watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->loop = loop;
    w->target = target;
    w->tls = tls;
    w->client_name = client_name;
    w->metrics = metrics;
    w->events = *events;
    for (int i = 0; i < REDIS_SENTINELS_MAX; i++)
        w->lookup[i].watch = w;
    (void)uv_timer_init(loop, &w->timer); /* cannot fail */
    w->timer.data = w;
    *out = w;
    return 0;
}

void sentinel_watch_ask(struct sentinel_watch *w)
{
    if (w->state == PAUSING)
        enter(w, RESOLVING);
    else if (w->state == LISTENING)
        ask_again(w);
}

void sentinel_watch_doubt(struct sentinel_watch *w)
{
    bool another = w->target->sentinels.count > 1 || w->lookup[0].resolver.count > 1;
    if (w->state != LISTENING || !another)
        return;
    w->refused = -1; /* this one is asked again when no other answers */
    (void)turn_to_next(w);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct sentinel_watch *w = timer->data;
    w->timer_closed = true;
    free_when_closed(w);
}

void sentinel_watch_close(struct sentinel_watch *w, void (*closed)(void *arg), void *arg)
{
    w->closed = closed;
    w->closed_arg = arg;
    drop_socket(w);
    enter(w, CLOSED);
    for (int i = 0; i < w->target->sentinels.count; i++)
        resolver_cancel(&w->lookup[i].resolver);
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
