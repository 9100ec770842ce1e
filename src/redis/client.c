/* Blocking calls: a loop that runs until there is what the caller waits for; see client.h. */
#include "redis/client.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "redis/cluster.h"
#include "redis/connection.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* Replies of any size are accepted: the program asked for them. */
static const size_t BYTES_MAX = SIZE_MAX / 4;

/* A reply that has arrived and was not received yet. */
struct client_reply {
    struct list link;
    struct redis_reply *reply; /* owned */
};

struct redis_client {
    struct redis_config *config; /* one reference; NULL: none yet */
    uint64_t reply_ms;

    uv_loop_t loop;
    uv_timer_t alarm; /* wakes the loop when the time for a reply has passed */
    struct resolver resolver;
    struct redis_address master;         /* the last one that was named */
    struct redis_endpoint server;        /* of the connection; borrows the settings or `master` */
    struct redis_connection *connection; /* NULL: not connected, or lost */
    bool ready;                          /* it can be used */
    struct redis_shared shared;
    struct wait_group open; /* connections */

    struct buf text;           /* scratch: the command that is being composed */
    struct list replies;       /* oldest first */
    struct redis_reply *reply; /* owned: the last one that was received */
    bool connecting;           /* in redis_client_connect */
    bool failed, rejected;     /* see redis_client_status, redis_client_is_rejected */
    struct buf error;
};

static const struct redis_reply NIL = {.type = REPLY_NIL};

const struct redis_endpoint *redis_client_endpoint(const struct redis_client *c)
{
    return &c->config->endpoint;
}

/* --- failures --- */

int redis_client_status(const struct redis_client *c)
{
    return c->failed ? -EIO : 0;
}

const char *redis_client_error(struct redis_client *c)
{
    return buf_message(&c->error);
}

bool redis_client_is_rejected(const struct redis_client *c)
{
    return c->rejected;
}

bool redis_client_is_lost(const struct redis_client *c)
{
    return c->connection == NULL;
}

/* Names the server of an attempt where there may be others: one that was discovered, or one of many
 * addresses. */
static void redis_client_name_server(struct redis_client *c)
{
    char address[RESOLVE_ADDRESS_SIZE];
    struct redis_endpoint server = c->server;
    const struct redis_attempts *attempts =
        c->connection != NULL ? redis_connection_attempts(c->connection) : NULL;
    bool is_one_of_many = attempts != NULL && attempts->addresses > 1;
    if (!is_one_of_many && !redis_endpoint_is_discovered(redis_client_endpoint(c)))
        return;
    if (is_one_of_many) {
        (void)snprintf(address, sizeof address, "%s", attempts->address);
        server.host = address;
    }
    redis_endpoint_describe(&server, &c->error);
    buf_append_str(&c->error, ": ");
}

int redis_client_explain(struct redis_client *c, const char *format, va_list args)
{
    struct buf why = BUF_INIT;
    buf_set_message(&why, format, args);
    buf_clear(&c->error);
    if (c->connecting)
        redis_client_name_server(c);
    buf_append_str(&c->error, buf_message(&why));
    buf_fini(&why);
    c->failed = true;
    return -EIO;
}

int redis_client_fail(struct redis_client *c, const char *format, va_list args)
{
    return c->failed ? -EIO : redis_client_explain(c, format, args);
}

/* The same, but a permanent reason remains while other servers and addresses are tried. */
__attribute__((format(printf, 3, 4))) static int redis_client_fail_for(struct redis_client *c, bool rejected,
                                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (c->rejected)
        c->failed = true;
    else
        (void)redis_client_fail(c, format, args);
    va_end(args);
    c->rejected = c->rejected || rejected;
    return -EIO;
}

static int redis_client_fail_memory(struct redis_client *c)
{
    return redis_client_fail_for(c, false, "out of memory");
}

/* `error` is the text of an error reply. */
static int redis_client_fail_refused(struct redis_client *c, const char *error)
{
    return redis_client_fail_for(c, !redis_server_is_unavailable(span_of(error)), "Redis refused: %s",
                                 redis_endpoint_redact(redis_client_endpoint(c), error));
}

/* --- the connection --- */

static void redis_client_drop_connection(struct redis_client *c)
{
    struct redis_connection *connection = c->connection;
    c->connection = NULL;
    if (connection != NULL)
        redis_connection_close(connection);
}

/* `reply` becomes that of the oldest command, if it has arrived. */
static void redis_client_take_reply(struct redis_client *c)
{
    free(c->reply);
    c->reply = NULL;
    if (list_empty(&c->replies))
        return;
    struct client_reply *oldest = LIST_ENTRY(c->replies.next, struct client_reply, link);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before was removed from the list */
    c->reply = oldest->reply;
    list_remove(&oldest->link);
    free(oldest);
}

/* Forgets the commands whose replies were not received. */
static void redis_client_disconnect(struct redis_client *c)
{
    redis_client_drop_connection(c);
    do
        redis_client_take_reply(c);
    while (c->reply != NULL);
}

/* The next one is tried. */
static void redis_client_on_address_failed(void *arg, const char *why)
{
    struct redis_client *c = arg;
    enum redis_failure failure = redis_connection_attempts(c->connection)->failure;
    if (failure == REDIS_FAILURE_REFUSED)
        (void)redis_client_fail_refused(c, why);
    else
        (void)redis_client_fail_for(
            c, failure != REDIS_FAILURE_PASSING, "%s%s",
            failure == REDIS_FAILURE_INVALID ? "this is not a Redis server: it has sent " : "", why);
    c->failed = false;
}

static void redis_client_on_handshake_done(void *arg)
{
    struct redis_client *c = arg;
    c->ready = true;
    redis_connection_accept(c->connection);
}

static void redis_client_on_lost(void *arg, const char *why)
{
    struct redis_client *c = arg;
    if (c->ready)
        (void)redis_client_fail_for(c, false, "the connection to Redis was lost: %s", why);
    else
        redis_client_on_address_failed(c, why);
    c->failed = true;
    redis_client_drop_connection(c);
}

/* A node that no longer has the slot: later replies on this connection would be no better. */
static const char *redis_client_check_error(void *arg, const struct redis_reply *error)
{
    const struct redis_client *c = arg;
    return redis_endpoint_is_cluster(redis_client_endpoint(c)) && cluster_is_left(error) ? error->str : NULL;
}

static int redis_client_connect_to(struct redis_client *c, const struct redis_endpoint *server,
                                   enum redis_role_kind role, int limit_ms)
{
    const struct redis_connection_options options = {.endpoint = &c->server,
                                                     .shared = &c->shared,
                                                     .open = &c->open,
                                                     .resolver = &c->resolver,
                                                     .limit_ms = (uint64_t)limit_ms,
                                                     .queries_only = true,
                                                     .role = role,
                                                     .bytes_max = BYTES_MAX,
                                                     .elements_max = UINT32_MAX,
                                                     .on_address_failed = redis_client_on_address_failed,
                                                     .on_handshake_done = redis_client_on_handshake_done,
                                                     .on_lost = redis_client_on_lost,
                                                     .check_error = redis_client_check_error,
                                                     .arg = c};
    redis_client_disconnect(c);
    c->server = *server;
    c->failed = c->ready = false;
    if (redis_connection_new(&c->loop, &options, &c->connection) != 0)
        return redis_client_fail_memory(c);
    while (c->connection != NULL && !c->ready)
        (void)uv_run(&c->loop, UV_RUN_ONCE);
    return redis_client_status(c);
}

/* --- commands and replies --- */

/* `reply` is NULL if the connection was lost, for which there is a reason. */
static void redis_client_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redis_client *c = arg;
    (void)origin;
    if (reply == NULL)
        return;
    struct client_reply *arrived = malloc(sizeof *arrived);
    struct redis_reply *copy = arrived != NULL ? reply_copy(reply) : NULL;
    if (copy == NULL) {
        free(arrived);
        (void)redis_client_fail_memory(c);
        return;
    }
    arrived->reply = copy;
    list_append(&c->replies, &arrived->link);
}

/* Queues the command in `text`. */
static void redis_client_send_text(struct redis_client *c)
{
    if (!c->failed &&
        (buf_error(&c->text) != 0 ||
         redis_connection_send(c->connection, buf_span(&c->text), true, redis_client_on_reply, c) != 0))
        (void)redis_client_fail_memory(c);
}

void redis_client_send(struct redis_client *c, size_t count, const struct span *words)
{
    buf_clear(&c->text);
    command_begin(&c->text, count);
    for (size_t i = 0; i < count; i++)
        command_add(&c->text, words[i]);
    redis_client_send_text(c);
}

int redis_client_flush(struct redis_client *c)
{
    if (!c->failed)
        (void)uv_run(&c->loop, UV_RUN_NOWAIT);
    return redis_client_status(c);
}

static void redis_client_on_alarm(uv_timer_t *alarm)
{
    (void)alarm;
}

/*
 * Runs the loop until a reply has arrived, at most `reply_ms`. When this time has passed the socket is read
 * once more: the process may have been stopped.
 */
static void redis_client_await(struct redis_client *c)
{
    const uint64_t end_ms = clock_now_ms() + c->reply_ms;
    bool is_late = false;
    uv_update_time(&c->loop);
    (void)uv_timer_start(&c->alarm, redis_client_on_alarm, c->reply_ms, 0); /* cannot fail */
    while (list_empty(&c->replies) && !c->failed && !is_late) {
        is_late = clock_now_ms() >= end_ms;
        (void)uv_run(&c->loop, is_late ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&c->alarm);
    if (list_empty(&c->replies) && !c->failed) {
        (void)redis_client_fail_for(c, false, "no reply in time");
        redis_client_drop_connection(c);
    }
}

const struct redis_reply *redis_client_receive(struct redis_client *c)
{
    if (list_empty(&c->replies) && !c->failed)
        redis_client_await(c);
    redis_client_take_reply(c);
    if (!c->failed && redis_endpoint_is_cluster(redis_client_endpoint(c)) && cluster_is_migrating(c->reply))
        (void)redis_client_fail_for(
            c, false, "the keys are migrating to another node of the cluster: try again when that has ended");
    return c->failed ? &NIL : c->reply;
}

void redis_client_limit_replies(struct redis_client *c, int limit_ms)
{
    c->reply_ms = (uint64_t)limit_ms;
}

/* --- the master that Sentinels or the nodes of a cluster name --- */

static int redis_client_query_server(struct redis_client *c, const struct redis_endpoint *server)
{
    const struct locator_protocol *protocol = locator_protocol_of(redis_client_endpoint(c));
    struct redis_endpoint of_master = *redis_client_endpoint(c);
    struct locator_answer answer;
    of_master.discovery.replica = false;
    if (redis_client_connect_to(c, server, REDIS_ROLE_UNKNOWN, LOCATOR_LIMIT_MS) != 0)
        return -EIO;
    buf_clear(&c->text);
    (void)protocol->compose(&of_master, 0, &c->text);
    redis_client_send_text(c);
    const struct redis_reply *reply = redis_client_receive(c);
    if (c->failed)
        return -EIO;
    if (reply->type == REPLY_ERROR) /* ANALYZER(null-dereference): there is one unless it has failed */
        return redis_client_fail_refused(c, reply->str);
    const char *problem = protocol->read(&of_master, server, 0, reply, &answer);
    if (problem != NULL)
        return redis_client_fail_for(c, false, "%s", problem);
    c->master = answer.master;
    return 0;
}

int redis_client_connect(struct redis_client *c, int limit_ms)
{
    const struct redis_endpoint *endpoint = redis_client_endpoint(c);
    int err = -EIO;
    c->rejected = false;
    c->connecting = true;
    c->reply_ms = LOCATOR_LIMIT_MS;
    if (!redis_endpoint_is_discovered(endpoint))
        err = redis_client_connect_to(c, endpoint, REDIS_ROLE_UNKNOWN, limit_ms);
    for (int i = 0; i < endpoint->discovery.count && err != 0; i++) {
        const struct redis_endpoint server = redis_endpoint_server(endpoint, i);
        err = redis_client_query_server(c, &server);
        if (err != 0)
            continue;
        const struct redis_endpoint at = redis_endpoint_at(endpoint, c->master.host, c->master.port);
        err = redis_client_connect_to(c, &at, REDIS_ROLE_MASTER, limit_ms);
    }
    c->connecting = false;
    c->reply_ms = (uint64_t)limit_ms;
    c->rejected = c->rejected && err != 0;
    return err;
}

/* --- beginning and end --- */

/* libuv reports every lack of memory but that of realloc, and would abort. */
static void *redis_client_realloc(void *old, size_t size)
{
    static const char message[] = "channelctl: out of memory\n";
    void *block = realloc(old, size);
    if (block != NULL)
        return block;
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(EXIT_FAILURE);
}

void redis_client_use(struct redis_client *c, struct redis_config *config)
{
    redis_client_disconnect(c);
    redis_config_unref(c->config);
    c->config = config;
}

int redis_client_new(const char *client_name, struct redis_client **out)
{
    struct redis_client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->shared.client_name = client_name;
    list_init(&c->replies);
    int err = uv_replace_allocator(malloc, redis_client_realloc, calloc, free);
    if (err == 0)
        err = uv_loop_init(&c->loop);
    if (err != 0) {
        free(c);
        return -ENOMEM;
    }
    (void)uv_timer_init(&c->loop, &c->alarm); /* cannot fail */
    *out = c;
    return 0;
}

void redis_client_free(struct redis_client *c)
{
    if (c == NULL)
        return;
    redis_client_use(c, NULL);
    resolver_cancel(&c->resolver);
    uv_close((uv_handle_t *)&c->alarm, NULL);
    (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&c->loop);
    buf_fini(&c->text);
    buf_fini(&c->error);
    free(c);
}
