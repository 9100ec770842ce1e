/* The door: who waits for what, until when. See store.h; how a question is put to Redis is in fetch.c. */
#include "store/store.h"

#include "base/clock.h"
#include "store/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct store {
    struct store_options options;
    struct fetch_context context;
    struct list waiting;     /* fetches for which there is no connection, oldest first */
    struct list by_deadline; /* all for which somebody waits: one timeout for all, so in order of arrival */
    uv_timer_t timer;        /* runs until the first deadline */
    int open_parts;          /* the timer and the connection, while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

static void on_deadline(uv_timer_t *timer);

static void arm_timer(struct store *s)
{
    if (list_empty(&s->by_deadline)) {
        (void)uv_timer_stop(&s->timer);
        return;
    }
    const struct fetch *first = LIST_ENTRY(s->by_deadline.next, struct fetch, deadline);
    uint64_t now = clock_now_ms();
    uv_update_time(s->timer.loop); /* its own idea of now may be as old as the turn of the loop */
    (void)uv_timer_start(&s->timer, on_deadline, first->deadline_ms > now ? first->deadline_ms - now : 0, 0);
}

/* Takes the request off the fetch and gives it its answer. The fetch may live on, waiting for replies. */
static void answer(struct fetch *f, const struct store_answer *a)
{
    struct store_request *request = f->request;
    assert(request != NULL);
    f->request = NULL;
    list_remove(&f->deadline);
    request->fetch = NULL;
    request->done(request->arg, a);
}

static void on_deadline(uv_timer_t *timer)
{
    struct store *s = timer->data;
    uint64_t now = clock_now_ms();
    while (!list_empty(&s->by_deadline)) {
        struct fetch *f = LIST_ENTRY(s->by_deadline.next, struct fetch, deadline);
        if (f->deadline_ms > now)
            break;
        metric_add(&s->options.metrics->request_timeouts_total, 1);
        bool sent = list_empty(&f->link);
        answer(f, &(struct store_answer){.status = STORE_UNAVAILABLE});
        if (!sent)
            fetch_free(f);
    }
    arm_timer(s);
}

static struct store *store_of(struct fetch *f)
{
    return LIST_ENTRY(f->context, struct store, context);
}

/* Sends it, or leaves it waiting for a connection. */
static void dispatch(struct store *s, struct fetch *f)
{
    list_remove(&f->link);
    if (rconn_is_ready(s->context.rconn) && fetch_start(f) == 0)
        return;
    list_append(&s->waiting, &f->link);
}

static void on_fetch_ended(struct fetch *f)
{
    if (f->request != NULL && f->lost) { /* still wanted: it waits for the next connection */
        dispatch(store_of(f), f);
        return;
    }
    if (f->request != NULL)
        answer(f, &f->answer);
    else
        blob_unref(f->answer.body);
    fetch_free(f);
}

static void on_ready(void *arg)
{
    struct store *s = arg;
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &s->waiting);
    while (!list_empty(&waiting))
        dispatch(s, LIST_ENTRY(waiting.next, struct fetch, link));
    s->options.on_connection(s->options.arg, true);
}

static void on_lost(void *arg)
{
    struct store *s = arg;
    s->options.on_connection(s->options.arg, false);
}

int store_new(uv_loop_t *loop, const struct store_options *options, struct store **out)
{
    struct store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->context.keyspace = options->keyspace;
    s->context.metrics = options->metrics;
    list_init(&s->waiting);
    list_init(&s->by_deadline);
    const struct rconn_options connection = {options->target, options->tls, options->client_name, options->metrics,
                                             on_ready,        on_lost,      s};
    int err = rconn_new(loop, &connection, &s->context.rconn);
    if (err != 0) {
        free(s);
        return err;
    }
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
    *out = s;
    return 0;
}

static void on_part_closed(struct store *s)
{
    if (--s->open_parts > 0)
        return;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    buf_fini(&s->context.key);
    free(s);
    closed(arg);
}

static void on_timer_closed(uv_handle_t *timer)
{
    on_part_closed(timer->data);
}

static void on_rconn_closed(void *arg)
{
    on_part_closed(arg);
}

void store_close(struct store *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    s->open_parts = 2;
    rconn_close(s->context.rconn, on_rconn_closed, s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

bool store_ask(struct store *s, struct store_request *request, const struct store_question *question,
               struct store_answer *answer_now)
{
    struct fetch *f = fetch_new(&s->context, question);
    if (f == NULL) {
        *answer_now = (struct store_answer){.status = STORE_OUT_OF_MEMORY};
        return true;
    }
    f->request = request;
    f->ended = on_fetch_ended;
    f->deadline_ms = clock_now_ms() + s->options.request_timeout_ms;
    request->fetch = f;
    bool first = list_empty(&s->by_deadline);
    list_append(&s->by_deadline, &f->deadline);
    dispatch(s, f);
    if (first)
        arm_timer(s);
    return false;
}

void store_forget(struct store_request *request)
{
    struct fetch *f = request->fetch;
    if (f == NULL)
        return;
    request->fetch = NULL;
    f->request = NULL;
    list_remove(&f->deadline);
    if (list_empty(&f->link))
        return; /* its replies are on their way; the last of them frees it */
    fetch_free(f);
}
