/* The connection to Redis and the reads of the catalogue; see client.h. */
#include "ctl/client.h"

#include "base/clock.h"
#include "ctl/terminal.h"
#include "redis/server.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/param.h>

/* The time limits, in milliseconds, of connecting and of each reply; of both after a failure. */
enum { CONNECT_MS = 5000, REPLY_MS = 30000, REOPEN_MS = 2000 };

/* While it waits for Redis: the time limits of an attempt, of which the last one has the shorter, too, and
 * the pause before the next. */
enum { ATTEMPT_MIN_MS = 500, ATTEMPT_MAX_MS = 5000, PAUSE_MS = 500 };

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

int client_explain(struct client *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_set_message(&c->error, format, args);
    va_end(args);
    c->failed = true;
    return -EIO;
}

int client_fail_type(struct client *c, struct span key, const char *type)
{
    return client_fail(c, "%s in Redis is not a %s: channelctl verify says what to do", EXCERPT(key), type);
}

int client_print_error(struct client *c)
{
    return FAIL("%s", client_error(c));
}

/* --- Commands and replies --- */

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

void client_send(struct client *c, size_t count, const struct span *words)
{
    if (buf_error(&c->key) != 0)
        (void)client_fail_memory(c);
    if (!c->failed)
        redis_client_send(c->redis, count, words);
}

static const struct redis_reply NIL = {.type = REPLY_NIL};

const struct redis_reply *client_receive_any(struct client *c)
{
    const struct redis_reply *reply = c->failed ? NULL : redis_client_receive(c->redis, c->reply_ms);
    if (reply != NULL)
        return reply;
    (void)client_fail(c, "%s", redis_client_error(c->redis));
    return &NIL;
}

static const struct redis_reply *client_find_error(const struct redis_reply *reply)
{
    const struct redis_reply *end = reply_next(reply);
    for (const struct redis_reply *item = reply; item < end; item++)
        if (item->type == REPLY_ERROR)
            return item;
    return NULL;
}

/* Returns the reply; if it has an error, fails for that and returns nil. */
static const struct redis_reply *client_refuse_error(struct client *c, const struct redis_reply *reply)
{
    const struct redis_reply *error = client_find_error(reply);
    if (error == NULL)
        return reply;
    c->full = c->full || reply_is_error(error, SPAN("OOM "));
    (void)client_fail(c, "Redis refused: %s",
                      redis_endpoint_redact(redis_client_endpoint(c->redis), error->str));
    return &NIL;
}

const struct redis_reply *client_receive_or_wrongtype(struct client *c)
{
    const struct redis_reply *reply = client_receive_any(c);
    return reply_is_wrongtype(reply) ? reply : client_refuse_error(c, reply);
}

const struct redis_reply *client_receive(struct client *c)
{
    return client_refuse_error(c, client_receive_any(c));
}

const struct redis_reply *client_receive_of(struct client *c, struct span key, const char *type)
{
    const struct redis_reply *reply = client_receive_or_wrongtype(c);
    if (!reply_is_wrongtype(reply))
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

struct redis_reply *client_copy_reply(struct client *c, const struct redis_reply *reply)
{
    struct redis_reply *copy = reply_copy(reply);
    if (copy == NULL)
        (void)client_fail_memory(c);
    return copy;
}

bool reply_is_id(const struct redis_reply *reply, int64_t id)
{
    return reply_is_text(reply, DIGITS(id));
}

/* --- Opening and closing --- */

/* Connects by these settings from now on. *setting: with -EINVAL, the setting of the error in `error`. */
static int client_use_options(struct client *c, const struct redis_options *options, struct buf *error,
                              const char **setting)
{
    struct redis_config *config = NULL;
    int err = redis_config_new(options, keyspace_prefix(c->keys), 1, &config, error, setting);
    if (err == 0)
        redis_client_use(c->redis, config);
    return err;
}

/* The password may have been changed since. After a failure those in use stay. */
static void client_read_settings_again(struct client *c)
{
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    if (settings_read_files(&c->options->args, true, &error) == 0)
        (void)client_use_options(c, &c->options->redis, &error, &setting);
    buf_fini(&error);
}

static int client_connect(struct client *c, int limit_ms)
{
    c->failed = false;
    c->reply_ms = limit_ms;
    if (redis_client_connect(c->redis, limit_ms) == 0)
        return 0;
    return client_fail(c, "%s", redis_client_error(c->redis));
}

int client_reopen(struct client *c)
{
    client_read_settings_again(c);
    return client_connect(c, REOPEN_MS);
}

static int client_name_keys(struct client *c)
{
    enum { NAMES_BYTES_MAX = 1024 };
    const struct {
        struct span *key, name;
    } names[] = {{&c->index, KEYSPACE_INDEX},       {&c->index_next, KEYSPACE_INDEX_NEXT},
                 {&c->api_keys, KEYSPACE_API_KEYS}, {&c->api_key_info, KEYSPACE_API_KEY_INFO},
                 {&c->loader, KEYSPACE_LOADER},     {&c->samples, KEYSPACE_SAMPLES}};
    if (buf_reserve(&c->names, NAMES_BYTES_MAX) != 0) /* so that the texts do not move */
        return -ENOMEM;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t at = c->names.len;
        keyspace_append(c->keys, &c->names, names[i].name);
        *names[i].key = span_skip(buf_span(&c->names), at);
    }
    return 0;
}

static int client_configure(struct client *c, const struct options *o)
{
    struct buf error = BUF_INIT;
    const char *setting = NULL;
    int err = redis_client_new("channelctl", &c->redis);
    if (err == 0)
        err = client_use_options(c, &o->redis, &error, &setting);
    int code = err == -EINVAL ? setting_error(o, setting, buf_message(&error)) : EXIT_OK;
    if (code == EXIT_OK && (err != 0 || client_name_keys(c) != 0))
        code = memory_error();
    buf_fini(&error);
    return code;
}

/* --- Waiting for Redis --- */

static const char *client_describe(const struct client *c, struct buf *out)
{
    redis_endpoint_describe(redis_client_endpoint(c->redis), out);
    return buf_message(out);
}

/* A server that loads its data accepts connections, but rejects reads. Any other error is left to the
 * command.
 */
static int client_try_read(struct client *c, enum client_subject subject)
{
    if (subject == CLIENT_CATALOGUE)
        CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    else
        CLIENT_SEND(c, SPAN("TYPE"), c->api_keys);
    const struct redis_reply *reply = client_receive_any(c);
    if (reply->type == REPLY_ERROR && redis_server_is_unavailable(span_of(reply->str)))
        return client_fail(c, "Redis refused: %s", reply->str);
    return client_status(c);
}

static int client_attempt(struct client *c, enum client_subject subject, uint64_t end_ms)
{
    uint64_t now_ms = clock_now_ms();
    uint64_t left_ms = end_ms > now_ms ? end_ms - now_ms : 0;
    int err = client_connect(c, (int)MIN(MAX(left_ms, ATTEMPT_MIN_MS), ATTEMPT_MAX_MS));
    return err == 0 ? client_try_read(c, subject) : err;
}

/* *reason: the one that was printed last. */
static void client_print_wait(struct client *c, struct buf *reason)
{
    struct buf where = BUF_INIT;
    if (span_equal(buf_span(reason), span_of(client_error(c))))
        return;
    buf_clear(reason);
    buf_append_str(reason, client_error(c));
    show_message("waiting for Redis at %s: %s", client_describe(c, &where), client_error(c));
    buf_fini(&where);
}

static int client_wait_for_redis(struct client *c, enum client_subject subject)
{
    const uint64_t end_ms = clock_now_ms() + (uint64_t)c->options->wait;
    struct buf reason = BUF_INIT;
    int err = client_attempt(c, subject, end_ms);
    while (err != 0 && !redis_client_is_rejected(c->redis) && clock_now_ms() < end_ms) {
        client_print_wait(c, &reason);
        (void)poll(NULL, 0, (int)MIN(PAUSE_MS, end_ms - MIN(clock_now_ms(), end_ms)));
        client_read_settings_again(c);
        err = client_attempt(c, subject, end_ms);
    }
    buf_fini(&reason);
    return err;
}

int client_open(struct client *c, const struct options *o, enum client_subject subject)
{
    *c = (struct client){.keys = &o->keys, .options = o};
    int code = client_configure(c, o);
    if (code != EXIT_OK)
        return code;
    int err = o->wait > 0 ? client_wait_for_redis(c, subject) : client_connect(c, CONNECT_MS);
    c->reply_ms = REPLY_MS;
    if (err == 0)
        return EXIT_OK;
    struct buf where = BUF_INIT;
    show_message("Redis at %s: %s", client_describe(c, &where), client_error(c));
    buf_fini(&where);
    return EXIT_FAILED;
}

void client_close(struct client *c)
{
    redis_client_free(c->redis);
    buf_fini(&c->error);
    buf_fini(&c->names);
    buf_fini(&c->key);
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
    if (!is_card && !reply_is_wrongtype(reply))
        (void)client_fail_unexpected(c);
    for (size_t f = 0; is_card && f < CHANNEL_FIELD_COUNT; f++)
        out->value[f] = reply_text(&reply[1 + f]);
    return is_card;
}

/* --- Scans --- */

/* COUNT: the number of elements that Redis examines per command. It is small, so that other clients do not
 * have to wait. */
static const struct span SCAN_COUNT = {"1000", 4};

static void client_send_scan_of_keys(struct client *c, enum client_scanned what, struct span cursor)
{
    bool is_typed = what == SCAN_CARD_HASHES || what == SCAN_LINK_STRINGS;
    bool is_card = what == SCAN_CARDS || what == SCAN_CARD_HASHES;
    buf_clear(&c->key);
    keyspace_pattern(c->keys, &c->key, is_card ? KEYSPACE_CARD : KEYSPACE_LINK);
    const struct span words[] = {
        SPAN("SCAN"),  cursor,     SPAN("MATCH"), buf_span(&c->key),
        SPAN("COUNT"), SCAN_COUNT, SPAN("TYPE"),  is_card ? SPAN("hash") : SPAN("string")};
    size_t count = sizeof words / sizeof words[0];
    client_send(c, is_typed ? count : count - 2, words);
}

static void client_send_scan(struct client *c, enum client_scanned what, struct span cursor)
{
    const struct {
        struct span command, key;
    } sets[] = {[SCAN_INDEX] = {SPAN("ZSCAN"), c->index},
                [SCAN_API_KEYS] = {SPAN("SSCAN"), c->api_keys},
                [SCAN_API_KEY_INFO] = {SPAN("HSCAN"), c->api_key_info}};
    if (what < SCAN_INDEX)
        client_send_scan_of_keys(c, what, cursor);
    else
        CLIENT_SEND(c, sets[what].command, sets[what].key, cursor, SPAN("COUNT"), SCAN_COUNT);
}

bool client_scan_next(struct client *c, struct client_scan *s)
{
    struct span cursor = s->reply != NULL ? reply_text(reply_first(s->reply)) : SPAN("0");
    bool is_end = s->reply != NULL && span_equal(cursor, SPAN("0"));
    if (!is_end)
        client_send_scan(c, s->what, cursor);
    free(s->reply);
    s->reply = is_end ? NULL : client_copy_reply(c, client_receive(c));
    if (is_end)
        return false;
    bool is_batch = s->reply != NULL && s->reply->elements == 2 && s->reply[1].elements == 0 &&
                    reply_next(&s->reply[2]) == &s->reply[3] + s->reply[2].elements; /* no array in it */
    if (is_batch && interrupt_signal() == 0) {
        s->names = &s->reply[3]; /* behind the cursor */
        s->count = s->reply[2].elements;
        return true;
    }
    (void)(is_batch ? client_fail(c, "interrupted") : client_fail_unexpected(c));
    free(s->reply);
    return false;
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
