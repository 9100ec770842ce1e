/* The server around its connections: accepting, ticking, ending. See server.h and conn.h. */
#include "http/server.h"

#include "http/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Deadlines are looked at, and Date is brought up to date, this often. When thousands have passed at once,
 * others get their turn in between. */
enum { TICK_MS = 100, EXPIRIES_PER_TURN = 200 };

/*
 * A deadline counts when it had passed at the tick before: since then all sockets have been read. When the
 * process was stopped and continued, what its clients sent in time may lie there.
 */
static void on_tick(uv_timer_t *tick)
{
    struct http_server *s = tick->data;
    struct http_deadline *d = NULL;
    http_date_refresh(&s->date);
    int turn = 0;
    while (turn < EXPIRIES_PER_TURN && (d = http_deadlines_passed(&s->deadlines, s->ticked_ms)) != NULL) {
        http_conn_expire(LIST_ENTRY(d, struct http_conn, deadline));
        turn++;
    }
    s->ticked_ms = uv_now(s->loop);
    (void)uv_timer_start(tick, on_tick, turn == EXPIRIES_PER_TURN ? 1 : TICK_MS, 0);
}

void http_server_on_turn(uv_idle_t *next_turn)
{
    struct http_server *s = next_turn->data;
    struct list turn;
    list_init(&turn);
    list_splice(&turn, &s->waiting); /* who is not through after it waits for the one after */
    (void)uv_idle_stop(next_turn);
    while (!list_empty(&turn))
        http_conn_resume(LIST_ENTRY(turn.next, struct http_conn, turn));
}

int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->loop = loop;
    s->options = *options;
    s->limits = (struct http_limits){options->head_max, options->body_max};
    list_init(&s->conns);
    list_init(&s->waiting);
    http_deadlines_init(&s->deadlines);
    s->deadlines.timeout_ms[DEADLINE_HEAD] = options->head_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_IDLE] = options->idle_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_WRITE] = options->write_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_LINGER] = HTTP_LINGER_MS;
    s->deadlines.timeout_ms[DEADLINE_LAST_CALL] = HTTP_LAST_CALL_MS;
    http_date_refresh(&s->date);
    (void)uv_timer_init(loop, &s->tick); /* cannot fail, nor can the next */
    (void)uv_idle_init(loop, &s->next_turn);
    s->tick.data = s->next_turn.data = s;
    s->open_parts = 2;
    s->ticked_ms = uv_now(loop);
    (void)uv_timer_start(&s->tick, on_tick, TICK_MS, 0);
    *out = s;
    return 0;
}

static void on_connection(void *arg, int fd)
{
    struct http_server *s = arg;
    struct metrics *m = s->options.metrics;
    int open = atomic_load_explicit(s->options.open_connections, memory_order_relaxed);
    bool over_limit = open >= s->options.max_connections;
    metric_add(over_limit ? &m->connections_refused_total : &m->connections_accepted_total, 1);
    if (over_limit && s->refusals >= s->options.max_refusals)
        close(fd);
    else
        http_conn_open(s, fd, over_limit);
}

int http_server_listen(struct http_server *s, const struct addr *address)
{
    int err = http_listener_open(&s->listener, s->loop, address, s->options.reuse_port, on_connection, s);
    if (err != 0)
        return err;
    s->listening = true;
    s->open_parts++;
    return 0;
}

void http_server_announce_close(struct http_server *s)
{
    s->announcing_close = true;
}

static void free_server(struct http_server *s)
{
    http_exchange_free_spares(s);
    http_output_fini(&s->output);
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    free(s);
    closed(arg);
}

static void on_part_closed(struct http_server *s)
{
    s->open_parts--;
    if (s->finished != NULL && list_empty(&s->conns)) {
        void (*finished)(void *arg) = s->finished;
        s->finished = NULL;
        finished(s->finished_arg);
    }
    if (s->closed != NULL && s->open_parts == 0)
        free_server(s);
}

void http_server_conn_closed(struct http_server *s, struct http_conn *c)
{
    list_remove(&c->link);
    s->refusals -= c->over_limit;
    atomic_fetch_sub_explicit(s->options.open_connections, c->over_limit ? 0 : 1, memory_order_relaxed);
    metric_sub(&s->options.metrics->connections_open, 1);
    on_part_closed(s);
}

static void on_listener_closed(void *arg)
{
    on_part_closed(arg);
}

void http_server_stop_listening(struct http_server *s)
{
    if (!s->listening)
        return;
    s->listening = false;
    http_listener_accept_all(&s->listener);
    http_listener_close(&s->listener, on_listener_closed);
}

void http_server_finish(struct http_server *s, void (*finished)(void *arg), void *arg)
{
    if (list_empty(&s->conns)) {
        finished(arg);
        return;
    }
    s->finished = finished;
    s->finished_arg = arg;
    struct list *next = NULL;
    for (struct list *l = s->conns.next; l != &s->conns; l = next) {
        next = l->next;
        http_conn_finish(LIST_ENTRY(l, struct http_conn, link));
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void http_server_close(struct http_server *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    s->finished = NULL;
    if (s->listening) {
        s->listening = false;
        http_listener_close(&s->listener, on_listener_closed);
    }
    struct list *next = NULL;
    for (struct list *l = s->conns.next; l != &s->conns; l = next) {
        next = l->next;
        http_conn_close(LIST_ENTRY(l, struct http_conn, link));
    }
    uv_close((uv_handle_t *)&s->tick, on_handle_closed);
    uv_close((uv_handle_t *)&s->next_turn, on_handle_closed);
}
