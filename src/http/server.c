/* The server around its connections: accepting, ticking, ending. See server.h and connection.h. */
#include "http/server.h"

#include "base/clock.h"
#include "http/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Deadlines are looked at, and Date is brought up to date, this often. */
enum { TICK_MS = 100 };

/* Connections that are accepted before all other sockets are looked at: one for so many requests since the
 * last. */
enum { REQUESTS_PER_WELCOME = 4, WELCOME_MIN = 4, WELCOME_MAX = 64 };

/* How long a turn may take, but for what it ends with: then all sockets are looked at, before the next.
 * Connections whose deadline is over are few in it: the kernel frees what they hold when they are closed,
 * which is after the turn. */
enum { TURN_NS = 50 * 1000, EXPIRIES_PER_TURN = 2 };

/*
 * A deadline counts when it had passed at the tick before: since then all sockets have been read. When the
 * process was stopped and continued, what its clients sent in time may lie there.
 */
static void on_tick(uv_timer_t *tick)
{
    struct http_server *s = tick->data;
    http_date_refresh(&s->date);
    s->overdue_ms = s->ticked_ms;
    s->ticked_ms = uv_now(s->loop);
    if (http_deadlines_passed(&s->deadlines, s->overdue_ms) != NULL)
        http_server_schedule(s);
}

static bool expire_one(struct http_server *s)
{
    struct http_deadline *d = http_deadlines_passed(&s->deadlines, s->overdue_ms);
    if (d == NULL)
        return false;
    http_connection_expire(LIST_ENTRY(d, struct http_connection, deadline));
    return true;
}

static bool serve_one(struct http_server *s)
{
    if (list_empty(&s->waiting))
        return false;
    http_connection_resume(
        LIST_ENTRY(s->waiting.next, struct http_connection, turn)); /* goes to the end if it has more */
    return true;
}

/* Whoever has little to ask is served between two of these, and does not wait for those who have much. */
static void on_turn(uv_idle_t *turn)
{
    struct http_server *s = turn->data;
    uint64_t until_ns = clock_now_ns() + TURN_NS;
    bool more = false;
    for (int i = 0; i < EXPIRIES_PER_TURN && expire_one(s); i++)
        more = true;
    while (serve_one(s)) {
        more = true;
        if (clock_now_ns() >= until_ns)
            break;
    }
    if (!more)
        (void)uv_idle_stop(turn);
}

void http_server_schedule(struct http_server *s)
{
    (void)uv_idle_start(&s->turn, on_turn); /* fails without a callback only */
}

int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->loop = loop;
    s->options = *options;
    s->announcing_close = options->close_each;
    bool proxies = options->trusted_proxies != NULL && options->trusted_proxies->count > 0;
    s->limits = (struct http_limits){options->head_max, options->body_max, proxies};
    list_init(&s->conns);
    list_init(&s->waiting);
    http_deadlines_init(&s->deadlines);
    s->deadlines.timeout_ms[DEADLINE_HEAD] = options->head_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_IDLE] = options->idle_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_WRITE] = options->write_timeout_ms;
    s->deadlines.timeout_ms[DEADLINE_LINGER] = HTTP_LINGER_MS;
    s->deadlines.timeout_ms[DEADLINE_LAST_CALL] = HTTP_LAST_CALL_MS;
    http_date_refresh(&s->date);
    if (getrandom(&s->random, sizeof s->random, GRND_NONBLOCK) < 0)
        s->random = clock_now_ns();
    (void)uv_timer_init(loop, &s->tick); /* cannot fail, nor can the next */
    (void)uv_idle_init(loop, &s->turn);
    s->tick.data = s->turn.data = s;
    s->open_parts = 2;
    s->ticked_ms = uv_now(loop);
    (void)uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    *out = s;
    return 0;
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

/* In proportion to what is asked of us: those who only come keep nobody waiting, and those who ask much do
 * not keep others from coming. */
static int accept_budget(void *arg)
{
    struct http_server *s = arg;
    unsigned share = s->requests / REQUESTS_PER_WELCOME;
    s->requests = 0;
    if (share < WELCOME_MIN)
        return WELCOME_MIN;
    return share > WELCOME_MAX ? WELCOME_MAX : (int)share;
}

/* The oldest connection that waits for a request or for the client to close; or the oldest whose client does
 * not take its answer. */
static struct http_connection *oldest_idle(const struct http_server *s)
{
    struct http_connection *writing = NULL;
    for (struct list *l = s->conns.next; l != &s->conns; l = l->next) {
        struct http_connection *c = LIST_ENTRY(l, struct http_connection, link);
        if (c->state == HTTP_CONNECTION_CLOSING || c->state == HTTP_CONNECTION_HANDLING)
            continue;
        if (c->writing == 0)
            return c;
        if (writing == NULL)
            writing = c;
    }
    return writing;
}

static bool evict_one(struct http_server *s)
{
    struct http_connection *c = oldest_idle(s);
    if (c != NULL)
        http_connection_close(c);
    return c != NULL;
}

static void on_connection(void *arg, int fd, const struct sockaddr_storage *peer)
{
    struct http_server *s = arg;
    struct http_metrics *m = s->options.metrics;
    loop_lag_begin(s->options.loop_lag);
    int open = atomic_load_explicit(s->options.open_connections, memory_order_relaxed);
    bool over_limit = open >= s->options.max_connections;
    if (over_limit && s->options.evict_idle)
        over_limit = !evict_one(s);
    metric_add(over_limit ? &m->connections_rejected_total : &m->connections_accepted_total, 1);
    if (over_limit && s->refusals >= s->options.max_refusals)
        close(fd);
    else
        http_connection_open(s, fd, ip_from_sockaddr(peer), over_limit);
}

static void on_listener_closed(void *arg)
{
    on_part_closed(arg);
}

int http_server_listen(struct http_server *s, const struct addr *address)
{
    const struct http_listener_owner self = {accept_budget, on_connection, on_listener_closed, s};
    int err = http_listener_open(&s->listener, s->loop, address, s->options.reuse_port, &self);
    if (err != 0)
        return err;
    s->listening = true;
    s->open_parts++;
    return 0;
}

/* Connections that came together, after a restart for one, do not end together: their ages spread over a
 * fifth. */
uint64_t http_server_retire_ms(struct http_server *s)
{
    uint64_t age = s->options.max_connection_age_ms;
    if (age == 0)
        return UINT64_MAX;
    s->random =
        s->random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX: its high bits are good */
    return uv_now(s->loop) + age - age / 10 + (s->random >> 32) % (age / 5 + 1);
}

void http_server_announce_close(struct http_server *s)
{
    s->announcing_close = true;
}

void http_server_conn_closed(struct http_server *s, struct http_connection *c)
{
    list_remove(&c->link);
    s->refusals -= c->over_limit;
    atomic_fetch_sub_explicit(s->options.open_connections, c->over_limit ? 0 : 1, memory_order_relaxed);
    metric_sub(&s->options.metrics->connections_open, 1);
    on_part_closed(s);
}

void http_server_stop_listening(struct http_server *s)
{
    if (!s->listening)
        return;
    s->listening = false;
    http_listener_accept_all(&s->listener);
    http_listener_close(&s->listener);
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
        http_connection_finish(LIST_ENTRY(l, struct http_connection, link));
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
        http_listener_close(&s->listener);
    }
    struct list *next = NULL;
    for (struct list *l = s->conns.next; l != &s->conns; l = next) {
        next = l->next;
        http_connection_close(LIST_ENTRY(l, struct http_connection, link));
    }
    uv_close((uv_handle_t *)&s->tick, on_handle_closed);
    uv_close((uv_handle_t *)&s->turn, on_handle_closed);
}
