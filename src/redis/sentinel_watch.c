/*
 * Asking Sentinels; see sentinel_watch.h.
 *
 *     PAUSING -> RESOLVING -> ASKING <-> LISTENING
 *        ^___________|__________|___________|
 *
 * Whatever fails goes on at once with the next address, then with the next Sentinel; after the last there is
 * a pause. ASKING begins with the connection; what is said is in sentinel_talk.c.
 */
#include "redis/sentinel_watch_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

static void connect_next(struct sentinel_watch *w);
static void on_timer(uv_timer_t *timer);

void sentinel_start_timer(struct sentinel_watch *w, uint64_t ms)
{
    (void)uv_timer_start(&w->timer, on_timer, ms, 0); /* fails only on a closing handle */
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
    if (l->next < l->resolver.count && !resolver_busy(&l->resolver)) {
        connect_next(w);
        return true;
    }
    w->current = (w->current + 1) % w->target->sentinels.count;
    bool more = ++w->refused < w->target->sentinels.count;
    if (!more)
        w->refused = 0;
    sentinel_enter(w, more ? WATCH_RESOLVING : WATCH_PAUSING);
    return more;
}

static void tell_silence(struct sentinel_watch *w, struct span who, const char *why)
{
    if (log_reason_is_due(&w->reasons, why, clock_now_ms()))
        log_refusal(w, LOG_WARN, "no sentinel can say where redis is", who, why);
    w->silent = true;
    w->events.on_silence(w->events.arg, why);
}

void sentinel_fail(struct sentinel_watch *w, const char *why)
{
    struct redis_endpoint sentinel = redis_endpoint_sentinel(w->target, w->current);
    struct buf who = BUF_INIT;
    why = redis_endpoint_redact(w->target, why);
    redis_endpoint_describe(&sentinel, &who);
    log_refusal(w, LOG_DEBUG, "sentinel has no answer", buf_span(&who), why);
    if (!turn_to_next(w))
        tell_silence(w, buf_span(&who), why);
    buf_fini(&who);
}

/* --- states --- */

static void on_failed(void *arg, const char *why)
{
    sentinel_fail(arg, why);
}

static void connect_next(struct sentinel_watch *w)
{
    const struct socket_events events = {sentinel_greet, sentinel_take, sentinel_take_push, on_failed, w};
    struct redis_endpoint sentinel = redis_endpoint_sentinel(w->target, w->current);
    struct lookup *l = &w->lookup[w->current];
    sentinel_enter(w, WATCH_ASKING);
    sentinel_start_timer(w, SENTINEL_TIMEOUT_MS);
    w->greeted = false;
    w->subscribing = true;
    int err =
        redis_socket_open(w->loop, &sentinel, w->tls, l->resolver.address[l->next++], &events, &w->socket);
    if (err != 0)
        sentinel_fail(w, strerror(-err));
    else
        redis_socket_limit(w->socket, SENTINEL_ANSWER_MAX, SENTINEL_ELEMENTS_MAX);
}

static void on_resolved(void *arg, const char *error)
{
    struct lookup *l = arg;
    struct sentinel_watch *w = l->watch;
    bool awaited = w->state == WATCH_RESOLVING && l == &w->lookup[w->current];
    l->late = !awaited && error == NULL; /* where names take long, the next attempt begins with this */
    if (!awaited)
        return;
    if (error != NULL)
        sentinel_fail(w, error);
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
    if (resolver_busy(&l->resolver)) /* with a look-up that outlived its attempt; this one waits for it */
        return;
    l->resolver.count = 0;
    int err = resolver_start(&l->resolver, w->loop, host, on_resolved, l);
    if (err != 0)
        sentinel_fail(w, uv_strerror(err));
}

static void on_timer(uv_timer_t *timer)
{
    struct sentinel_watch *w = timer->data;
    if (w->state == WATCH_PAUSING)
        sentinel_enter(w, WATCH_RESOLVING);
    else if (w->state == WATCH_LISTENING)
        sentinel_ask(w);
    else if (w->state == WATCH_RESOLVING)
        sentinel_fail(w, "its name was not resolved in time");
    else if (w->state == WATCH_ASKING)
        sentinel_fail(w, "no answer in time");
}

void sentinel_enter(struct sentinel_watch *w, enum watch_state next)
{
    w->state = next;
    if (next == WATCH_PAUSING || next == WATCH_LISTENING)
        sentinel_start_timer(w, SENTINEL_INTERVAL_MS);
    if (next != WATCH_RESOLVING)
        return;
    sentinel_start_timer(w, SENTINEL_TIMEOUT_MS);
    resolve(w);
}

int sentinel_watch_new(uv_loop_t *loop, const struct redis_endpoint *target, struct ssl_ctx_st *tls,
                       const char *client_name, struct redis_metrics *metrics,
                       const struct sentinel_events *events, struct sentinel_watch **out)
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
    if (w->state == WATCH_PAUSING)
        sentinel_enter(w, WATCH_RESOLVING);
    else if (w->state == WATCH_LISTENING)
        sentinel_ask(w);
}

void sentinel_watch_doubt(struct sentinel_watch *w)
{
    bool another = w->target->sentinels.count > 1 || w->lookup[0].resolver.count > 1;
    if (w->state != WATCH_LISTENING || !another)
        return;
    w->refused = -1; /* this one is asked again when no other answers */
    (void)turn_to_next(w);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct sentinel_watch *w = timer->data;
    void (*closed)(void *arg) = w->closed;
    void *arg = w->closed_arg;
    free(w);
    closed(arg);
}

void sentinel_watch_close(struct sentinel_watch *w, void (*closed)(void *arg), void *arg)
{
    w->closed = closed;
    w->closed_arg = arg;
    drop_socket(w);
    sentinel_enter(w, WATCH_CLOSED);
    for (int i = 0; i < w->target->sentinels.count; i++)
        resolver_cancel(&w->lookup[i].resolver);
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
