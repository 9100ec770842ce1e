/* Look-ups of the name of a server in use; see name_watch.h. */
#include "redis/name_watch.h"

#include "base/hash.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static void name_watch_on_timer(uv_timer_t *timer);

static void name_watch_wait(struct name_watch *w)
{
    uint64_t ms = NAME_WATCH_INTERVAL_MS * 3 / 4 + (uint64_t)rand_r(&w->seed) % (NAME_WATCH_INTERVAL_MS / 2);
    (void)uv_timer_start(&w->timer, name_watch_on_timer, ms, 0); /* it fails only on a closing handle */
}

static bool name_watch_has(const struct resolver *r, const char *address)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->address[i], address) == 0)
            return true;
    return false;
}

/* In any order. */
static bool name_watch_are_same(const struct resolver *a, const struct resolver *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++)
        same = name_watch_has(b, a->address[i]);
    return same;
}

static void name_watch_log(const struct name_watch *w)
{
    struct buf to = BUF_INIT;
    struct log_line line;
    for (int i = 0; i < w->elsewhere.count; i++)
        buf_printf(&to, "%s%s", i > 0 ? " " : "", w->elsewhere.address[i]);
    if (log_begin(&line, LOG_WARN, "the name of a server in use leads to another address")) {
        log_str(&line, "name", span_of(w->host));
        log_str(&line, "client", span_of(w->client_name));
        log_str(&line, "from", span_of(w->address));
        log_str(&line, "to", buf_span(&to));
        log_end(&line);
    }
    buf_fini(&to);
}

/* Returns whether the name has moved. */
static bool name_watch_take_answer(struct name_watch *w)
{
    int needed = w->at_once ? 1 : NAME_WATCH_ANSWERS;
    if (name_watch_has(&w->resolver, w->address)) {
        w->answers = 0;
        w->logged = false;
        return false;
    }
    if (w->answers == 0 || !name_watch_are_same(&w->resolver, &w->elsewhere)) {
        w->answers = 0;
        w->logged = false;
        w->elsewhere.count = w->resolver.count;
        memcpy(w->elsewhere.address, w->resolver.address, sizeof w->elsewhere.address);
    }
    return ++w->answers >= needed;
}

static void name_watch_on_resolved(void *arg, const char *error)
{
    struct name_watch *w = arg;
    bool moved = error == NULL && name_watch_take_answer(w);
    w->at_once = false;
    name_watch_wait(w);
    if (!moved)
        return;
    if (!w->logged)
        name_watch_log(w);
    w->logged = true;
    w->on_moved(w->arg);
}

static void name_watch_on_timer(uv_timer_t *timer)
{
    struct name_watch *w = timer->data;
    resolver_start(&w->resolver, timer->loop, w->host, name_watch_on_resolved, w);
}

void name_watch_init(struct name_watch *w, uv_loop_t *loop, const char *client_name,
                     void (*on_moved)(void *arg), void *arg)
{
    *w = (struct name_watch){
        .client_name = client_name, .on_moved = on_moved, .arg = arg, .seed = (unsigned)random_seed(w)};
    (void)uv_timer_init(loop, &w->timer); /* cannot fail */
    w->timer.data = w;
}

static void name_watch_on_closed(uv_handle_t *timer)
{
    struct name_watch *w = timer->data;
    w->closed(w->closed_arg);
}

void name_watch_close(struct name_watch *w, void (*closed)(void *arg), void *arg)
{
    name_watch_stop(w);
    w->closed = closed;
    w->closed_arg = arg;
    uv_close((uv_handle_t *)&w->timer, name_watch_on_closed);
}

void name_watch_start(struct name_watch *w, const char *host, const char *address)
{
    if (strcmp(w->host, host) == 0 && strcmp(w->address, address) == 0)
        return;
    name_watch_stop(w);
    if (resolver_is_numeric(host) || strlen(host) >= sizeof w->host)
        return;
    *span_put(span_of(host), w->host) = '\0';
    *span_put(span_of(address), w->address) = '\0';
    name_watch_wait(w);
}

void name_watch_stop(struct name_watch *w)
{
    resolver_cancel(&w->resolver);
    (void)uv_timer_stop(&w->timer); /* cannot fail */
    w->host[0] = w->address[0] = '\0';
    w->answers = 0;
    w->at_once = w->logged = false;
}

/* A look-up in progress may have the answer of before. */
void name_watch_look(struct name_watch *w)
{
    if (w->host[0] == '\0')
        return;
    resolver_cancel(&w->resolver);
    w->at_once = true;
    (void)uv_timer_start(&w->timer, name_watch_on_timer, 0, 0); /* it fails only on a closing handle */
}
