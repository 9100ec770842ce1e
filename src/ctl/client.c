/* The connection to Redis and the reads of the catalogue; see client.h. */
#include "ctl/client.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "ctl/terminal.h"
#include "redis/cluster.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/param.h>

enum {
    CONNECT_MS = 5000,
    REPLY_MS = 30000,
    REOPEN_MS = 2000,                 /* both of these, after a failure */
    LOCATE_MS = 2 * LOCATOR_LIMIT_MS, /* of a server that knows the master, with its answer */
    PAUSE_MS = 500                    /* between the attempts of --wait */
};

/* --- Failures --- */

int client_fail(struct client *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!c->failed)
        buf_set_message(&c->error, format, args);
    va_end(args);
    c->failed = true;
    return -EIO;
}

void client_explain(struct client *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_set_message(&c->error, format, args);
    va_end(args);
}

int client_fail_type(struct client *c, struct span key, const char *type)
{
    return client_fail(c, "%s in Redis is not a %s: channelctl verify says what to do", EXCERPT(key), type);
}

/* --- Commands --- */

struct span client_card_key(struct client *c, int64_t id)
{
    buf_clear(&c->key);
    keyspace_card(c->keys, &c->key, id);
    return buf_span(&c->key);
}

struct span client_link_key(struct client *c, struct span link)
{
    buf_clear(&c->key);
    keyspace_link(c->keys, &c->key, link);
    return buf_span(&c->key);
}

static void client_send_text(struct client *c, redis_reply_fn fn)
{
    if (buf_error(&c->text) != 0 ||
        redis_connection_send(c->connection, buf_span(&c->text), true, fn, c) != 0)
        redis_connection_fail(c->connection, "out of memory");
}

/* `reply` is NULL if the connection was lost, for which there is a reason. */
static void client_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct client *c = arg;
    (void)origin;
    if (reply == NULL)
        return;
    void *copy = reply_copy(reply);
    if (copy != NULL && buf_reserve(&c->replies, sizeof copy) == 0) {
        buf_append(&c->replies, &copy, sizeof copy);
    } else {
        free(copy);
        redis_connection_fail(c->connection, "out of memory");
    }
}

void client_send(struct client *c, size_t count, const struct span *words)
{
    if (buf_error(&c->key) != 0)
        (void)client_fail_memory(c);
    if (c->failed || c->connection == NULL)
        return;
    buf_clear(&c->text);
    command_begin(&c->text, count);
    for (size_t i = 0; i < count; i++)
        command_add(&c->text, words[i]);
    client_send_text(c, client_on_reply);
}

/* --- Replies --- */

static const struct redis_reply NIL = {.type = REPLY_NIL};

/* `reply` becomes that of the oldest command, if it has arrived. */
static void client_take_reply(struct client *c)
{
    free(c->reply);
    c->reply = NULL;
    if (c->replies.len == 0)
        return;
    c->reply = *(struct redis_reply *const *)(const void *)c->replies.data;
    buf_consume(&c->replies, sizeof(void *));
}

static void client_on_alarm(uv_timer_t *alarm)
{
    (void)alarm;
}

/*
 * Runs the loop until a reply has arrived. When the time has passed the socket is read once more: the process
 * may have been stopped.
 */
static void client_await_reply(struct client *c)
{
    const uint64_t end_ms = clock_now_ms() + c->reply_ms;
    bool is_late = false;
    uv_update_time(c->loop);
    (void)uv_timer_start(&c->alarm, client_on_alarm, c->reply_ms, 0); /* cannot fail */
    while (c->replies.len == 0 && c->connection != NULL && !is_late) {
        is_late = clock_now_ms() >= end_ms;
        (void)uv_run(c->loop, is_late ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&c->alarm);
    if (c->replies.len > 0 || c->connection == NULL)
        return;
    client_explain(c, "no reply in time");
    redis_connection_close(&c->connection);
}

const struct redis_reply *client_receive_any(struct client *c)
{
    if (!c->failed && c->replies.len == 0)
        client_await_reply(c);
    client_take_reply(c);
    c->failed = c->failed || c->reply == NULL;
    if (!c->failed && redis_endpoint_is_cluster(&c->config->endpoint) && cluster_is_migrating(c->reply))
        (void)client_fail(c, "the keys are migrating to another node of the cluster: try again when that has "
                             "ended");
    return c->failed ? &NIL : c->reply;
}

/* Returns the reply; if it is an error or contains one, fails for that and returns nil. */
static const struct redis_reply *client_refuse_error(struct client *c, const struct redis_reply *reply)
{
    const struct redis_reply *end = reply_next(reply);
    const struct redis_reply *error = reply;
    while (error < end && error->type != REPLY_ERROR)
        error++;
    if (error == end)
        return reply;
    c->full = c->full || reply_is_error(error, SPAN("OOM "));
    (void)client_fail(c, "Redis refused: %s", redis_endpoint_redact(&c->config->endpoint, error->str));
    return &NIL;
}

const struct redis_reply *client_receive_or_wrongtype(struct client *c)
{
    const struct redis_reply *reply = client_receive_any(c);
    return reply_is_error(reply, SPAN("WRONGTYPE ")) ? reply : client_refuse_error(c, reply);
}

const struct redis_reply *client_receive(struct client *c)
{
    return client_refuse_error(c, client_receive_any(c));
}

const struct redis_reply *client_receive_of(struct client *c, struct span key, const char *type)
{
    const struct redis_reply *reply = client_receive_or_wrongtype(c);
    if (reply->type != REPLY_ERROR)
        return reply;
    (void)client_fail_type(c, key, type);
    return &NIL;
}

int64_t client_receive_integer(struct client *c)
{
    const struct redis_reply *reply = client_receive(c);
    if (reply->type != REPLY_INTEGER)
        (void)client_fail_unexpected(c);
    return reply->integer;
}

struct redis_reply *client_own_reply(struct client *c)
{
    struct redis_reply *reply = c->reply;
    if (c->failed)
        return NULL;
    c->reply = NULL;
    return reply;
}

bool reply_is_id(const struct redis_reply *reply, int64_t id)
{
    return reply_is_text(reply, DIGITS(id));
}

/* --- The connection --- */

/*
 * An attempt has failed. A permanent reason remains while other servers and addresses are tried. The server
 * is named where there may be others: one that was discovered, or one of many addresses.
 */
static void client_on_address_failed(void *arg, const char *why)
{
    struct client *c = arg;
    const struct redis_endpoint *endpoint = &c->config->endpoint;
    const struct redis_status *status = redis_connection_status(c->connection);
    struct redis_endpoint server = c->server;
    struct buf where = BUF_INIT;
    bool is_refused = status->failure == REDIS_FAILURE_REFUSED;
    bool is_invalid = status->failure == REDIS_FAILURE_INVALID;
    if (c->rejected)
        return;
    if (status->addresses > 1)
        server.host = (char *)(uintptr_t)status->address; /* it is only read */
    if (status->addresses > 1 || redis_endpoint_is_discovered(endpoint)) {
        redis_endpoint_describe(&server, &where);
        buf_append_str(&where, ": ");
    }
    client_explain(c, "%s%s%s", buf_message(&where),
                   is_refused   ? "Redis refused: "
                   : is_invalid ? "this is not a Redis server: it has sent "
                                : "",
                   redis_endpoint_redact(endpoint, why));
    buf_fini(&where);
    c->rejected =
        is_refused ? !redis_server_is_unavailable(span_of(why)) : status->failure != REDIS_FAILURE_PASSING;
}

/* What has arrived before is received first. */
static void client_on_lost(void *arg, const char *why)
{
    struct client *c = arg;
    if (!c->ready)
        client_on_address_failed(c, why);
    else if (!c->failed)
        client_explain(c, "the connection to Redis was lost: %s", why);
    redis_connection_close(&c->connection);
}

/* A node that no longer has the slot: later replies on this connection would be no better. */
static const char *client_check_error(void *arg, const struct redis_reply *error)
{
    const struct client *c = arg;
    return redis_endpoint_is_cluster(&c->config->endpoint) && cluster_is_left(error) ? error->str : NULL;
}

/* The master that a Sentinel or a node of a cluster names. The answer is a part of the handshake: the next
 * address is tried without one. */
static void client_on_located(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct client *c = arg;
    const struct redis_endpoint *endpoint = &c->config->endpoint;
    struct locator_answer answer;
    (void)origin;
    if (reply == NULL)
        return;
    const char *problem = reply->type == REPLY_ERROR
                              ? reply->str
                              : locator_protocol_of(endpoint)->read(endpoint, &c->server, 0, reply, &answer);
    if (problem != NULL) {
        redis_connection_fail(c->connection, problem);
        return;
    }
    c->master = answer.master;
    c->ready = true;
}

static void client_on_handshake_done(void *arg)
{
    struct client *c = arg;
    const struct redis_endpoint *endpoint = &c->config->endpoint;
    if (c->is_locator) {
        buf_clear(&c->text);
        (void)locator_protocol_of(endpoint)->compose(endpoint, 0, &c->text);
        client_send_text(c, client_on_located);
    } else {
        c->ready = true;
        redis_connection_accept(c->connection);
    }
}

/* Forgets the commands whose replies were not received. */
static void client_disconnect(struct client *c)
{
    redis_connection_close(&c->connection);
    do
        client_take_reply(c);
    while (c->reply != NULL);
}

/* Connects in place of any earlier connection. `limit_ms` is for each address. */
static int client_connect_to(struct client *c, const struct redis_endpoint *server, bool is_locator,
                             uint64_t limit_ms)
{
    bool is_master = !is_locator && redis_endpoint_is_discovered(&c->config->endpoint);
    const struct redis_connection_options options = {
        .endpoint = &c->server,
        .shared = &c->shared,
        .open = &c->open,
        .limit_ms = limit_ms,
        .queries_only = true,
        .role = is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_UNKNOWN,
        .bytes_max = SIZE_MAX / 4, /* of any size: the command asked for it */
        .on_address_failed = client_on_address_failed,
        .on_handshake_done = client_on_handshake_done,
        .on_lost = client_on_lost,
        .check_error = client_check_error,
        .arg = c};
    client_disconnect(c);
    c->server = *server;
    c->is_locator = is_locator;
    c->ready = false;
    if (redis_connection_new(c->loop, &options, &c->connection) != 0)
        client_explain(c, "out of memory");
    while (c->connection != NULL && !c->ready)
        (void)uv_run(c->loop, UV_RUN_ONCE);
    c->failed = c->connection == NULL;
    return client_status(c);
}

static int client_connect(struct client *c, uint64_t limit_ms)
{
    const struct redis_endpoint *endpoint = &c->config->endpoint;
    int err = -EIO;
    c->rejected = false;
    c->reply_ms = limit_ms;
    if (!redis_endpoint_is_discovered(endpoint))
        err = client_connect_to(c, endpoint, false, limit_ms);
    for (int i = 0; i < endpoint->discovery.count && err != 0; i++) {
        struct redis_endpoint server = redis_endpoint_server(endpoint, i);
        err = client_connect_to(c, &server, true, LOCATE_MS);
        server = redis_endpoint_at(endpoint, c->master.host, c->master.port);
        if (err == 0)
            err = client_connect_to(c, &server, false, limit_ms);
    }
    c->rejected = c->rejected && err != 0;
    return err;
}

/* --- Opening and closing --- */

/* Connects by the settings from now on. `again`: their files are read again, since the password may have been
 * changed, and after a failure those in use stay. */
static int client_use_settings(struct client *c, bool again)
{
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    int code = EXIT_OK;
    int err = again ? settings_read_files(&c->options->args, true, &error) : 0;
    if (err == 0)
        err = redis_config_new(&c->options->redis, keyspace_prefix(c->keys), 1, &config, &error, &setting);
    if (err == 0) {
        client_disconnect(c);
        redis_config_unref(c->config);
        c->config = config;
    } else if (!again) {
        code =
            err == -EINVAL ? setting_error(c->options, setting, buf_message(&error)) : FAIL("out of memory");
    }
    buf_fini(&error);
    return code;
}

int client_reopen(struct client *c)
{
    (void)client_use_settings(c, true);
    return client_connect(c, REOPEN_MS);
}

static void client_name_keys(struct client *c)
{
    const struct {
        struct span *key, name;
    } names[] = {{&c->index, KEYSPACE_INDEX},       {&c->index_next, KEYSPACE_INDEX_NEXT},
                 {&c->api_keys, KEYSPACE_API_KEYS}, {&c->api_key_info, KEYSPACE_API_KEY_INFO},
                 {&c->loader, KEYSPACE_LOADER},     {&c->samples, KEYSPACE_SAMPLES}};
    char *end = c->names;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        names[i].key->data = end;
        end = span_put(names[i].name, span_put(keyspace_prefix(c->keys), end));
        names[i].key->len = (size_t)(end - names[i].key->data);
    }
}

static void client_show_state(struct client *c, const char *before)
{
    struct buf where = BUF_INIT;
    redis_endpoint_describe(&c->config->endpoint, &where);
    show_message("%sRedis at %s: %s", before, buf_message(&where), client_error(c));
    buf_fini(&where);
}

/* A server that loads its data accepts connections, but rejects reads. Any other error is left to the
 * command. */
static int client_attempt(struct client *c, enum client_subject subject)
{
    if (client_connect(c, CONNECT_MS) != 0)
        return -EIO;
    if (subject == CLIENT_CATALOGUE)
        CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    else
        CLIENT_SEND(c, SPAN("TYPE"), c->api_keys);
    const struct redis_reply *reply = client_receive_any(c);
    if (reply->type == REPLY_ERROR && redis_server_is_unavailable(span_of(reply->str)))
        return client_fail(c, "Redis refused: %s", reply->str);
    return client_status(c);
}

int client_open(struct client *c, const struct options *o, enum client_subject subject)
{
    const uint64_t end_ms = clock_now_ms() + (uint64_t)o->wait;
    struct buf shown = BUF_INIT; /* the reason to wait: it is shown whenever it changes */
    *c = (struct client){.keys = &o->keys, .options = o, .shared.client_name = "channelctl"};
    client_name_keys(c);
    (void)uv_replace_allocator(malloc, allocator_realloc_or_exit, calloc, free); /* cannot fail */
    c->loop = uv_default_loop();
    if (c->loop == NULL)
        return FAIL("out of memory");
    (void)uv_timer_init(c->loop, &c->alarm); /* cannot fail */
    int code = client_use_settings(c, false);
    if (code != EXIT_OK)
        return code;
    while (client_attempt(c, subject) != 0 && !c->rejected && clock_now_ms() < end_ms) {
        if (!span_equal(buf_span(&shown), span_of(client_error(c))))
            client_show_state(c, "waiting for ");
        buf_clear(&shown);
        buf_append_str(&shown, client_error(c));
        (void)poll(NULL, 0, PAUSE_MS);
        (void)client_use_settings(c, true);
    }
    buf_fini(&shown);
    c->reply_ms = REPLY_MS;
    if (c->failed)
        client_show_state(c, "");
    return c->failed ? EXIT_FAILED : EXIT_OK;
}

void client_close(struct client *c)
{
    client_disconnect(c);
    redis_config_unref(c->config);
    if (c->loop != NULL) {
        uv_close((uv_handle_t *)&c->alarm, NULL);
        (void)uv_run(c->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(c->loop);
    }
    buf_fini(&c->error);
    buf_fini(&c->key);
    buf_fini(&c->text);
    buf_fini(&c->replies);
}

int client_run(const struct options *o, enum client_subject subject,
               void (*work)(struct client *c, void *arg), void *arg)
{
    struct client c;
    int code = client_open(&c, o, subject);
    if (code == EXIT_OK) {
        work(&c, arg);
        code = client_status(&c) == 0 ? output_finish() : FAIL("%s", client_error(&c));
    }
    client_close(&c);
    return code;
}

/* --- Cards --- */

void client_send_card_read(struct client *c, int64_t id)
{
    struct span words[2 + CHANNEL_FIELD_COUNT] = {SPAN("HMGET"), client_card_key(c, id)};
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        words[2 + f] = channel_field_name((enum channel_field)f);
    client_send(c, sizeof words / sizeof words[0], words);
}

bool client_receive_card(struct client *c, struct channel_row *out)
{
    const struct redis_reply *reply = client_receive_or_wrongtype(c);
    bool is_card = reply->elements == CHANNEL_FIELD_COUNT;
    *out = (struct channel_row){0};
    if (!is_card && reply->type != REPLY_ERROR)
        (void)client_fail_unexpected(c);
    for (size_t f = 0; is_card && f < CHANNEL_FIELD_COUNT; f++)
        out->value[f] = reply_text(&reply[1 + f]);
    return is_card;
}

/* --- Scans --- */

/* How many elements Redis examines per command: few, so that other clients do not have to wait. */
static const struct span SCAN_COUNT = {"1000", 4};

static void client_send_scan(struct client *c, const struct client_scan *s, struct span cursor)
{
    if (s->key.data != NULL) {
        CLIENT_SEND(c, s->command, s->key, cursor, SPAN("COUNT"), SCAN_COUNT);
        return;
    }
    buf_clear(&c->key);
    keyspace_pattern(c->keys, &c->key, s->kind);
    const struct span words[] = {SPAN("SCAN"),  cursor,     SPAN("MATCH"), buf_span(&c->key),
                                 SPAN("COUNT"), SCAN_COUNT, SPAN("TYPE"),  s->type};
    client_send(c, s->type.data != NULL ? 8 : 6, words);
}

/* True for a cursor and a flat array. */
static bool client_is_batch(const struct redis_reply *reply)
{
    return reply->elements == 2 && reply[1].elements == 0 &&
           reply_next(&reply[2]) == &reply[3] + reply[2].elements;
}

bool client_scan_next(struct client *c, struct client_scan *s)
{
    struct span cursor = s->reply != NULL ? reply_text(reply_first(s->reply)) : SPAN("0");
    bool is_end = s->reply != NULL && span_equal(cursor, SPAN("0"));
    if (!is_end) {
        client_send_scan(c, s, cursor);
        if (!client_is_batch(client_receive(c)))
            (void)client_fail_unexpected(c);
        else if (interrupt_signal() != 0)
            (void)client_fail(c, "interrupted");
    }
    free(s->reply);
    s->reply = is_end ? NULL : client_own_reply(c);
    if (s->reply == NULL)
        return false;
    s->names = &s->reply[3]; /* behind the cursor */
    s->count = s->reply[2].elements;
    return true;
}

/* --- Link owners --- */

struct link_owner *client_find_owners(struct client *c, const struct redis_reply *keys, size_t count)
{
    struct link_owner *o = calloc(count + 1, sizeof *o);
    if (o == NULL) {
        (void)client_fail_memory(c);
        return NULL;
    }
    CLIENT_PIPELINE(i, count, true, CLIENT_SEND(c, SPAN("GET"), reply_text(&keys[i])),
                    o[i].found = parse_int64(reply_text(client_receive_or_wrongtype(c)), &o[i].id) == 0);
    for (size_t i = 0; i < count; i++)
        o[i].link = keyspace_rest(c->keys, reply_text(&keys[i]), KEYSPACE_LINK);
    CLIENT_PIPELINE(
        i, count, o[i].found,
        CLIENT_SEND(c, SPAN("HGET"), client_card_key(c, o[i].id), channel_field_name(CHANNEL_FIELD_link)),
        o[i].agrees = reply_is_text(client_receive_or_wrongtype(c), o[i].link));
    return o;
}
