/*
 * Queries to Sentinels, and the choice of a server; see sentinel.h.
 *
 * The connection to a Sentinel:
 */
/* clang-format off */
/*
 *     PAUSING -> RESOLVING -> QUERYING <-> LISTENING
 *        ^           |  ^        |  ^        |
 *        |           v  |        v  |        v
 *        +------- a failure: at once the next address (QUERYING), then the next Sentinel
 *                 (RESOLVING); after the last of them the pause
 */
/* clang-format on */
#include "redis/sentinel.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "redis/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum {
    /* The time in milliseconds after which a replica is tried again while the master stands in for one. */
    STAND_IN_MS = 30000,
    /* Attempts to connect with one Sentinel's answer, before another Sentinel is queried. */
    ATTEMPTS_PER_SENTINEL = 2,
    /*
     * How long, in milliseconds, a replica may be used that follows another master or that Sentinel reports
     * as down, unless the stale limit is shorter: in a failover replicas take a moment to follow.
     */
    GRACE_MS = 5000,
    /* How long the result of a comparison of two names is kept, in milliseconds. */
    COMPARISON_MS = 10000
};

enum sentinel_state { PAUSING, RESOLVING, QUERYING, LISTENING, CLOSED };

/* The states that may follow each, as a set of bits; see the drawing above. */
/* clang-format off */
#define BIT(state) (1U << (state))
static const unsigned NEXT[] = {
    [PAUSING] = BIT(RESOLVING) | BIT(CLOSED),
    [RESOLVING] = BIT(RESOLVING) | BIT(QUERYING) | BIT(PAUSING) | BIT(CLOSED),
    [QUERYING] = BIT(LISTENING) | BIT(QUERYING) | BIT(RESOLVING) | BIT(PAUSING) | BIT(CLOSED),
    [LISTENING] = BIT(QUERYING) | BIT(RESOLVING) | BIT(PAUSING) | BIT(CLOSED),
    [CLOSED] = 0,
};
#undef BIT
/* clang-format on */

/* One look-up per Sentinel, so that a slow one does not delay the others. */
struct lookup {
    struct sentinel *sentinel;
    struct resolver resolver;
    int next;  /* of its addresses, to be tried */
    bool late; /* it ended after its attempt had failed */
};

/* Whether two names have a common address. */
struct comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int lookups_due; /* look-ups that have not ended */
    bool equal;
    uint64_t made_ms; /* by the boot clock; 0: never */
};

struct sentinel {
    uv_loop_t *loop;
    struct sentinel_options options;

    /* The connection to a Sentinel. */
    enum sentinel_state state;
    int current;                /* the Sentinel that is, or will be, queried */
    int failed_sentinels;       /* in a row that had no answer */
    bool unreachable;           /* none had an answer the last time that all were asked */
    struct log_reasons reasons; /* since one had an answer */
    uv_timer_t timer;
    struct redis_socket *socket;                    /* NULL but in QUERYING and LISTENING */
    bool hello_answered, subscribing, master_known; /* of this connection */
    bool counted;                                   /* it is in the metric */
    struct sentinel_answer answer;
    struct lookup lookup[REDIS_SENTINELS_MAX];

    /* The Redis that was found. */
    enum { NOT_IN_USE, DISCOVERING, IN_USE } discovery;
    struct redis_endpoint endpoint; /* borrows `address` */
    struct redis_address address;
    struct redis_address master; /* the master that Sentinel names */
    bool is_master;              /* the address is the master's, also in place of a replica */
    struct comparison masters;   /* that one, and the one that the replica follows */
    unsigned first_replica;      /* the choice begins with this one */
    unsigned failures;           /* attempts in a row that failed */
    uint64_t ready_ms;           /* since when it is in use, by the monotonic clock */
    /* By the boot clock; 0: not so. */
    uint64_t confirmed_ms; /* when Sentinel last named this master, or the replica last followed it */
    uint64_t mismatch_ms;  /* since when the replica follows another or an unknown master */
    uint64_t down_ms;      /* since when Sentinel reports the replica as down */
    uint64_t failover_ms;  /* until when it was known to be the right one, where Sentinel now names another */

    void (*closed)(void *arg);
    void *closed_arg;
};

/* --- the reply to SENTINEL REPLICAS --- */

static bool has_flag(struct span flags, struct span flag)
{
    while (flags.len > 0) {
        struct span one = {flags.data, span_find(flags, ',')};
        if (span_equal(one, flag))
            return true;
        flags = span_skip(flags, one.len < flags.len ? one.len + 1 : one.len);
    }
    return false;
}

static bool is_down(struct span flags)
{
    return has_flag(flags, SPAN("s_down")) || has_flag(flags, SPAN("o_down")) ||
           has_flag(flags, SPAN("disconnected"));
}

static void add_address(const struct redis_address *address, struct redis_address *list, int *count)
{
    if (*count < SENTINEL_REPLICAS_MAX)
        list[(*count)++] = *address;
}

static void read_replica(const redisReply *replica, struct sentinel_answer *out)
{
    int64_t port = 0;
    struct redis_address address;
    struct span flags = resp_member(replica, SPAN("flags"));
    if (!has_flag(flags, SPAN("slave")) || parse_int64(resp_member(replica, SPAN("port")), &port) != 0 ||
        !redis_address_set(&address, resp_member(replica, SPAN("ip")), port))
        return;
    if (is_down(flags))
        add_address(&address, out->down, &out->downs);
    else if (span_equal(resp_member(replica, SPAN("master-link-status")), SPAN("ok")))
        add_address(&address, out->replica, &out->replicas);
}

const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out)
{
    out->replicas = out->downs = 0;
    if (reply->type != REDIS_REPLY_ARRAY)
        return "its answer is no list of replicas";
    for (size_t i = 0; i < reply->elements; i++)
        read_replica(reply->element[i], out);
    return NULL;
}

/* --- the Redis that was found --- */

static bool address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Replicas in turn, beginning with any, so that they share the load; after all of them the master. */
static void select_server(struct sentinel *s)
{
    const struct sentinel_answer *a = &s->answer;
    unsigned replicas = (unsigned)a->replicas;
    unsigned step = s->failures % (replicas + 1); /* no replicas: the master */
    s->master = a->master;
    s->confirmed_ms = clock_boot_ms();
    s->is_master = step == replicas;
    s->address = s->is_master ? a->master : a->replica[(s->first_replica + step) % replicas];
    s->endpoint = redis_endpoint_at(s->options.endpoint, s->address.host, s->address.port);
}

static bool is_superseded(const struct sentinel *s)
{
    if (!s->is_master) /* a replica is checked with the heartbeat */
        return false;
    if (!address_equal(&s->answer.master, &s->address))
        return true;
    return s->answer.replicas > 0 && clock_now_ms() - s->ready_ms >= STAND_IN_MS;
}

static bool is_reported_down(const struct sentinel *s)
{
    for (int i = 0; !s->is_master && i < s->answer.downs; i++)
        if (address_equal(&s->answer.down[i], &s->address))
            return true;
    return false;
}

static void fail_over(struct sentinel *s)
{
    s->failures = 0;
    s->options.on_failover(s->options.arg);
}

/* What the answer means for the Redis in use. */
static void check_server(struct sentinel *s)
{
    uint64_t now = clock_boot_ms();
    if (s->is_master && address_equal(&s->answer.master, &s->address))
        s->confirmed_ms = now;
    if (!is_reported_down(s))
        s->down_ms = 0;
    else if (s->down_ms == 0)
        s->down_ms = now;
    if (!s->is_master)
        s->master = s->answer.master;
    if (!is_superseded(s))
        return;
    s->failover_ms = s->confirmed_ms;
    fail_over(s);
}

static void handle_answer(struct sentinel *s)
{
    if (s->discovery == DISCOVERING) {
        select_server(s);
        s->discovery = NOT_IN_USE;
        s->options.on_found(s->options.arg, &s->endpoint);
    } else if (s->discovery == IN_USE) {
        check_server(s);
    } else if (!address_equal(&s->answer.master, &s->master)) {
        fail_over(s);
    }
}

enum redis_role_kind sentinel_wanted_role(const struct sentinel *s)
{
    return s->is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_REPLICA;
}

/* --- the master that a replica follows --- */

static bool share_address(const struct resolver *a, const struct resolver *b)
{
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++)
            if (strcmp(a->address[i], b->address[k]) == 0)
                return true;
    return false;
}

static void on_compared(void *arg, const char *error)
{
    struct comparison *m = &((struct sentinel *)arg)->masters;
    (void)error; /* then there are no addresses */
    assert(m->lookups_due > 0);
    if (--m->lookups_due > 0)
        return;
    m->equal = share_address(&m->side[0], &m->side[1]);
    m->made_ms = clock_boot_ms();
}

static void look_up_both(struct sentinel *s, const struct redis_address *named,
                         const struct redis_address *followed)
{
    struct comparison *m = &s->masters;
    m->of[0] = *named;
    m->of[1] = *followed;
    m->lookups_due = 1;
    for (int i = 0; i < 2; i++) {
        m->side[i].count = 0;
        if (resolver_take_numeric(&m->side[i], m->of[i].host))
            continue;
        if (resolver_start(&m->side[i], s->loop, m->of[i].host, on_compared, s) == 0)
            m->lookups_due++;
    }
    on_compared(s, NULL);
}

enum comparison_result { SAME, DIFFERENT, NOT_KNOWN_YET };

/* The same address, or names of the same. */
static enum comparison_result compare(struct sentinel *s, const struct redis_address *named,
                                      const struct redis_address *followed)
{
    struct comparison *m = &s->masters;
    if (named->port != followed->port)
        return DIFFERENT;
    if (strcasecmp(named->host, followed->host) == 0)
        return SAME;
    bool begun = address_equal(named, &m->of[0]) && address_equal(followed, &m->of[1]);
    bool fresh = begun && m->made_ms != 0 && clock_boot_ms() - m->made_ms < COMPARISON_MS;
    if (!fresh && m->lookups_due == 0) {
        m->made_ms = begun ? m->made_ms : 0;
        look_up_both(s, named, followed);
        begun = true;
    }
    if (!begun || m->made_ms == 0)
        return NOT_KNOWN_YET;
    return m->equal ? SAME : DIFFERENT;
}

const char *sentinel_check_replica(struct sentinel *s, const struct redis_address *master,
                                   uint64_t role_sent_ms)
{
    uint64_t limit = s->options.stale_limit_ms;
    uint64_t grace = limit < GRACE_MS ? limit : GRACE_MS;
    if (s->is_master)
        return NULL;
    if (s->down_ms != 0 && clock_boot_ms() - s->down_ms >= grace)
        return "Sentinel calls it down";
    enum comparison_result result = compare(s, &s->master, master);
    if (result == SAME) {
        s->confirmed_ms = role_sent_ms;
        s->mismatch_ms = 0;
        return NULL;
    }
    bool confirmed = s->confirmed_ms != 0;
    if (s->mismatch_ms == 0)
        s->mismatch_ms = confirmed ? s->confirmed_ms : role_sent_ms;
    if ((confirmed || result == NOT_KNOWN_YET) && clock_boot_ms() - s->mismatch_ms < grace)
        return NULL;
    return "it follows another master than Sentinel names";
}

uint64_t sentinel_trusted_until_ms(const struct sentinel *s)
{
    uint64_t until = UINT64_MAX;
    if (s->failover_ms != 0)
        until = s->failover_ms;
    if (s->mismatch_ms != 0 && s->mismatch_ms < until)
        until = s->mismatch_ms;
    return until;
}

/* --- the connection to a Sentinel --- */

static void resolve(struct sentinel *s);
static void on_timer(uv_timer_t *timer);

static void start_timer(struct sentinel *s, uint64_t ms)
{
    (void)uv_timer_start(&s->timer, on_timer, ms, 0); /* fails only on a closing handle */
}

/* Every change of state passes here. */
static void set_state(struct sentinel *s, enum sentinel_state next)
{
    assert((NEXT[s->state] & 1U << next) != 0);
    s->state = next;
    switch (next) {
    case PAUSING:
    case LISTENING:
        start_timer(s, SENTINEL_INTERVAL_MS);
        break;
    case RESOLVING:
        start_timer(s, SENTINEL_TIMEOUT_MS);
        resolve(s);
        break;
    case QUERYING:
        start_timer(s, SENTINEL_TIMEOUT_MS);
        break;
    case CLOSED:
        break;
    }
}

static void drop_socket(struct sentinel *s)
{
    if (s->socket == NULL)
        return;
    if (s->counted)
        metric_sub(&s->options.metrics->sentinels_connected, 1);
    s->counted = false;
    redis_socket_close(s->socket);
    s->socket = NULL;
}

static void connect_next(struct sentinel *s);

/* Tries the next address of this Sentinel, or the next Sentinel; false when all have been tried. */
static bool try_next(struct sentinel *s)
{
    struct lookup *l = &s->lookup[s->current];
    drop_socket(s);
    if (l->next < l->resolver.count && !resolver_busy(&l->resolver)) {
        connect_next(s);
        return true;
    }
    s->current = (s->current + 1) % s->options.endpoint->sentinels.count;
    bool more = ++s->failed_sentinels < s->options.endpoint->sentinels.count;
    if (!more)
        s->failed_sentinels = 0;
    set_state(s, more ? RESOLVING : PAUSING);
    return more;
}

static void log_failure(const struct sentinel *s, enum log_level level, const char *message, struct span name,
                        const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    log_str(&line, "sentinel", name);
    log_str(&line, "client", span_of(s->options.client_name));
    log_str(&line, "reason", span_of(why));
    log_end(&line);
}

static void report_unreachable(struct sentinel *s, struct span name, const char *why)
{
    if (log_reason_is_due(&s->reasons, why, clock_now_ms()))
        log_failure(s, LOG_WARN, "no sentinel has the address of redis", name, why);
    s->unreachable = true;
    if (s->discovery != DISCOVERING)
        return;
    s->discovery = NOT_IN_USE;
    s->options.on_not_found(s->options.arg, why);
}

/* The current Sentinel has failed: tries the next one. */
static void fail(struct sentinel *s, const char *why)
{
    struct redis_endpoint sentinel = redis_endpoint_sentinel(s->options.endpoint, s->current);
    struct buf name = BUF_INIT;
    why = redis_endpoint_redact(s->options.endpoint, why);
    redis_endpoint_describe(&sentinel, &name);
    log_failure(s, LOG_DEBUG, "sentinel has no answer", buf_span(&name), why);
    if (!try_next(s))
        report_unreachable(s, buf_span(&name), why);
    buf_fini(&name);
}

/* --- commands and replies --- */

static void add_query(struct sentinel *s, struct buf *out)
{
    const char *master = s->options.endpoint->sentinels.master;
    s->master_known = false;
    command_write(out, 3, (const char *[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master}, NULL);
    if (s->options.endpoint->sentinels.replica)
        command_write(out, 3, (const char *[]){"SENTINEL", "REPLICAS", master}, NULL);
}

static void send_commands(struct sentinel *s, struct buf *commands)
{
    int err = buf_error(commands);
    if (err == 0)
        err = redis_socket_send(s->socket, buf_span(commands));
    buf_fini(commands);
    if (err == 0)
        redis_socket_flush(s->socket);
    else
        fail(s, "out of memory");
}

/* HELLO, SUBSCRIBE and the first query leave together. */
static void on_connected(void *arg)
{
    struct sentinel *s = arg;
    struct redis_endpoint sentinel = redis_endpoint_sentinel(s->options.endpoint, s->current);
    struct buf commands = BUF_INIT;
    redis_endpoint_hello(&sentinel, s->options.client_name, &commands);
    command_write(&commands, 2, (const char *[]){"SUBSCRIBE", "+switch-master"}, NULL);
    add_query(s, &commands);
    send_commands(s, &commands);
}

/* Repeats the query, in LISTENING. */
static void query(struct sentinel *s)
{
    struct buf commands = BUF_INIT;
    set_state(s, QUERYING);
    add_query(s, &commands);
    send_commands(s, &commands);
}

static void on_answered(struct sentinel *s)
{
    if (!s->counted)
        metric_add(&s->options.metrics->sentinels_connected, 1);
    s->counted = true;
    if (s->unreachable)
        log_text(LOG_INFO, "sentinel answers again", "client", s->options.client_name);
    s->unreachable = false;
    s->reasons = (struct log_reasons){0};
    s->failed_sentinels = 0;
    set_state(s, LISTENING);
    handle_answer(s);
}

static void handle_reply(struct sentinel *s, const redisReply *reply)
{
    const char *problem = NULL;
    if (reply->type == REDIS_REPLY_ERROR)
        problem = reply->str;
    else if (s->master_known)
        problem = sentinel_read_replicas(reply, &s->answer);
    else
        problem = redis_address_read(reply, &s->answer.master);
    if (problem != NULL) {
        fail(s, problem);
        return;
    }
    bool complete = s->master_known || !s->options.endpoint->sentinels.replica;
    s->master_known = true;
    if (complete)
        on_answered(s);
}

/* A subscription is confirmed by a push, so an error reply in its place means that it was refused. */
static void on_reply(void *arg, const redisReply *reply, uint64_t read_ns)
{
    struct sentinel *s = arg;
    bool error = reply->type == REDIS_REPLY_ERROR;
    (void)read_ns;
    if (s->state != QUERYING)
        fail(s, error ? reply->str : "a reply without a command");
    else if (!s->hello_answered && error)
        fail(s, reply->str);
    else if (!s->hello_answered)
        s->hello_answered = true;
    else if (s->subscribing && error)
        s->subscribing = false;
    else
        handle_reply(s, reply);
}

/* "subscribe" confirms the subscription; a message causes one query, whatever it says. */
static void on_push(void *arg, struct span kind, const redisReply *element)
{
    struct sentinel *s = arg;
    (void)element;
    if (span_equal(kind, SPAN("subscribe")))
        s->subscribing = false;
    else if (span_equal(kind, SPAN("message")) && s->state == LISTENING)
        query(s);
}

static void on_failed(void *arg, const char *why)
{
    fail(arg, why);
}

/* --- states --- */

static void connect_next(struct sentinel *s)
{
    const struct redis_socket_options options = {
        .on_connected = on_connected,
        .on_reply = on_reply,
        .on_push = on_push,
        .on_failed = on_failed,
        .arg = s,
        .bytes_max = SENTINEL_ANSWER_MAX,
        .elements_max = SENTINEL_ELEMENTS_MAX,
    };
    struct redis_endpoint sentinel = redis_endpoint_sentinel(s->options.endpoint, s->current);
    struct lookup *l = &s->lookup[s->current];
    const char *address = l->resolver.address[l->next++];
    set_state(s, QUERYING);
    s->hello_answered = false;
    s->subscribing = true;
    int err = redis_socket_open(s->loop, &sentinel, s->options.tls, address, &options, &s->socket);
    if (err != 0)
        fail(s, strerror(-err));
}

static void on_resolved(void *arg, const char *error)
{
    struct lookup *l = arg;
    struct sentinel *s = l->sentinel;
    bool awaited = s->state == RESOLVING && l == &s->lookup[s->current];
    l->late = !awaited && error == NULL; /* the next attempt begins with what a slow look-up has found */
    if (!awaited)
        return;
    if (error != NULL)
        fail(s, error);
    else
        connect_next(s);
}

static void resolve(struct sentinel *s)
{
    struct lookup *l = &s->lookup[s->current];
    const char *host = s->options.endpoint->sentinels.at[s->current].host;
    l->next = 0;
    if (l->late || resolver_take_numeric(&l->resolver, host)) {
        l->late = false;
        connect_next(s);
        return;
    }
    if (resolver_busy(&l->resolver)) /* waits for the look-up of an earlier attempt */
        return;
    l->resolver.count = 0;
    int err = resolver_start(&l->resolver, s->loop, host, on_resolved, l);
    if (err != 0)
        fail(s, uv_strerror(err));
}

static void on_timer(uv_timer_t *timer)
{
    struct sentinel *s = timer->data;
    switch (s->state) {
    case PAUSING:
        set_state(s, RESOLVING);
        break;
    case RESOLVING:
        fail(s, "its name was not resolved in time");
        break;
    case QUERYING:
        fail(s, "no answer in time");
        break;
    case LISTENING:
        query(s);
        break;
    case CLOSED:
        break;
    }
}

int sentinel_new(uv_loop_t *loop, const struct sentinel_options *options, struct sentinel **out)
{
    struct sentinel *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->loop = loop;
    s->options = *options;
    s->first_replica = options->seed;
    for (int i = 0; i < REDIS_SENTINELS_MAX; i++)
        s->lookup[i].sentinel = s;
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
    *out = s;
    return 0;
}

void sentinel_discover(struct sentinel *s)
{
    s->discovery = DISCOVERING;
    if (s->state == PAUSING)
        set_state(s, RESOLVING);
    else if (s->state == LISTENING)
        query(s);
}

static void reset_trust(struct sentinel *s)
{
    s->mismatch_ms = s->down_ms = s->failover_ms = 0;
    if (!s->is_master)
        s->confirmed_ms = 0;
}

/* The next command goes to another address or Sentinel, where there is one; else to this one again. */
static void rotate_sentinel(struct sentinel *s)
{
    bool another = s->options.endpoint->sentinels.count > 1 || s->lookup[0].resolver.count > 1;
    if (s->state != LISTENING || !another)
        return;
    s->failed_sentinels = -1; /* this one is asked again when no other answers */
    (void)try_next(s);
}

void sentinel_report(struct sentinel *s, enum sentinel_report report)
{
    switch (report) {
    case SENTINEL_REPORT_CONNECTED:
        reset_trust(s);
        break;
    case SENTINEL_REPORT_READY:
        s->discovery = IN_USE;
        s->failures = 0;
        s->ready_ms = clock_now_ms();
        break;
    case SENTINEL_REPORT_LOST:
        s->discovery = NOT_IN_USE;
        break;
    case SENTINEL_REPORT_FAILED:
        if (++s->failures % ATTEMPTS_PER_SENTINEL == 0)
            rotate_sentinel(s);
        break;
    }
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct sentinel *s = timer->data;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    free(s);
    closed(arg);
}

void sentinel_close(struct sentinel *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    drop_socket(s);
    set_state(s, CLOSED);
    resolver_cancel(&s->masters.side[0]);
    resolver_cancel(&s->masters.side[1]);
    for (int i = 0; i < s->options.endpoint->sentinels.count; i++)
        resolver_cancel(&s->lookup[i].resolver);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
