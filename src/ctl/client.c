/* The connection to Redis; see client.h. */
#include "ctl/client.h"

#include "model/channel.h"
#include "redis/tls.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>

static const struct client_limits LIMITS = {.connect = {.tv_sec = 5}, .command = {.tv_sec = 30}};

/* For a second connection, after the first one failed. */
static const struct client_limits AGAIN_LIMITS = {.connect = {.tv_sec = 2}, .command = {.tv_sec = 2}};

static const char CLIENT_NAME[] = "channelctl";

int client_fail(struct client *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_clear(&c->error);
    buf_append_str(&c->error, text);
    return -EIO;
}

const char *client_error(struct client *c)
{
    const char *text = buf_c_str(&c->error);
    return text != NULL ? text : "out of memory";
}

bool client_is_lost(const struct client *c)
{
    return c->redis == NULL || c->redis->err != 0;
}

int client_complain(struct client *c)
{
    (void)fprintf(stderr, "channelctl: %s\n", client_error(c));
    return EXIT_FAILED;
}

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

/* One number and a line end of the protocol. */
static void send_count(struct buf *out, char kind, size_t count)
{
    buf_append_char(out, kind);
    buf_append_int(out, (int64_t)count);
    buf_append_str(out, "\r\n");
}

void client_send(struct client *c, size_t count, const struct span *words)
{
    send_count(&c->out, '*', count);
    for (size_t i = 0; i < count; i++) {
        send_count(&c->out, '$', words[i].len);
        buf_append_span(&c->out, words[i]);
        buf_append_str(&c->out, "\r\n");
    }
    /* A key that could not be made must not go out cut short. */
    if (buf_error(&c->key) != 0)
        c->out.error = buf_error(&c->key);
}

static int flush(struct client *c)
{
    if (buf_error(&c->out) != 0)
        return client_fail(c, "out of memory");
    if (c->out.len > 0 && redisAppendFormattedCommand(c->redis, c->out.data, c->out.len) != REDIS_OK)
        return client_fail(c, "%s", c->redis->errstr);
    buf_clear(&c->out);
    return 0;
}

static int explain_loss(struct client *c)
{
    if (errno == EAGAIN)
        return client_fail(c, "no answer in time");
    if (c->tls != NULL)
        redis_tls_explain(c->redis);
    return client_fail(c, "the connection to Redis was lost: %s", c->redis->errstr);
}

int client_push(struct client *c)
{
    int err = flush(c);
    int done = err != 0;
    errno = 0;
    while (done == 0)
        if (redisBufferWrite(c->redis, &done) != REDIS_OK)
            return explain_loss(c);
    return err;
}

redisReply *client_receive_any(struct client *c)
{
    if (flush(c) != 0)
        return NULL;
    void *reply = NULL;
    errno = 0;
    if (redisGetReply(c->redis, &reply) == REDIS_OK)
        return reply;
    (void)explain_loss(c);
    return NULL;
}

static const redisReply *find_error(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return reply;
    if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++)
            if (reply->element[i]->type == REDIS_REPLY_ERROR)
                return reply->element[i];
    return NULL;
}

/* Turns a reply that is, or has, an error into a failure; frees it. */
static redisReply *refuse(struct client *c, redisReply *reply)
{
    (void)client_fail(c, "Redis refused: %s", redis_endpoint_redact(&c->target, find_error(reply)->str));
    freeReplyObject(reply);
    return NULL;
}

redisReply *client_receive_or_wrongtype(struct client *c)
{
    redisReply *reply = client_receive_any(c);
    if (reply == NULL || find_error(reply) == NULL)
        return reply;
    return reply_is_wrongtype(reply) ? reply : refuse(c, reply);
}

redisReply *client_receive(struct client *c)
{
    redisReply *reply = client_receive_any(c);
    return reply == NULL || find_error(reply) == NULL ? reply : refuse(c, reply);
}

int client_receive_done(struct client *c)
{
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    freeReplyObject(reply);
    return 0;
}

int client_take_integer(struct client *c, redisReply *reply, int64_t *out)
{
    if (reply == NULL)
        return -EIO;
    int err =
        reply->type == REDIS_REPLY_INTEGER ? 0 : client_fail(c, "Redis answered with something unexpected");
    *out = reply->integer;
    freeReplyObject(reply);
    return err;
}

int client_receive_integer(struct client *c, int64_t *out)
{
    return client_take_integer(c, client_receive(c), out);
}

struct span reply_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

bool reply_has_ttl(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer >= 0; /* -1: it has none, -2: there is no such key or field */
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_INTEGER && reply->element[i]->integer >= 0)
            return true;
    return false;
}

bool reply_is_wrongtype(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE ", 10) == 0;
}

bool reply_is_id(const redisReply *reply, int64_t id)
{
    char digits[INT64_DIGITS_MAX];
    struct span text = {digits, format_int64(id, digits)};
    return reply->type == REDIS_REPLY_STRING && span_equal(reply_text(reply), text);
}

void client_send_field_ttls(struct client *c, int64_t id)
{
    char digits[INT64_DIGITS_MAX];
    struct span words[4 + CHANNEL_FIELD_COUNT] = {SPAN("HPEXPIRETIME"), client_card_key(c, id),
                                                  SPAN("FIELDS")};
    words[3] = (struct span){digits, format_int64(CHANNEL_FIELD_COUNT, digits)};
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        words[4 + f] = channel_field_name((enum channel_field)f);
    client_send(c, sizeof words / sizeof words[0], words);
}

int client_probe_field_ttls(struct client *c, enum field_ttls *out)
{
    client_send_field_ttls(c, 0);
    redisReply *reply = client_receive_any(c);
    if (reply == NULL)
        return -EIO;
    *out = FIELD_TTLS_KNOWN;
    if (reply->type == REDIS_REPLY_ERROR && !reply_is_wrongtype(reply))
        *out = strncmp(reply->str, "NOPERM", 6) == 0 ? FIELD_TTLS_DENIED : FIELD_TTLS_NONE;
    freeReplyObject(reply);
    return 0;
}

static int start_tls(struct client *c, const char *host)
{
    errno = 0;
    if (redis_tls_start(c->redis, c->tls, host) == 0)
        return 0;
    if (errno == EAGAIN)
        return explain_loss(c);
    return client_fail(c, "%s", c->redis->errstr);
}

static int dial(struct client *c, const struct redis_endpoint *t, const struct client_limits *limits)
{
    c->redis = t->transport == REDIS_TRANSPORT_UNIX
                   ? redisConnectUnixWithTimeout(t->path, limits->connect)
                   : redisConnectWithTimeout(t->host, t->port, limits->connect);
    if (c->redis == NULL)
        return client_fail(c, "out of memory");
    if (c->redis->err != 0)
        return client_fail(c, "%s", c->redis->errstr);
    if (redisSetTimeout(c->redis, limits->command) != REDIS_OK)
        return client_fail(c, "%s", c->redis->errstr);
    return c->tls != NULL ? start_tls(c, t->host) : 0;
}

static int greet(struct client *c, const struct redis_endpoint *t)
{
    const char *hello[REDIS_HELLO_ARGS_MAX];
    struct span words[REDIS_HELLO_ARGS_MAX];
    int count = redis_endpoint_hello(t, CLIENT_NAME, hello);
    for (int i = 0; i < count; i++)
        words[i] = span_of(hello[i]);
    client_send(c, (size_t)count, words);
    int err = client_receive_done(c);
    if (c->out.data != NULL)
        explicit_bzero(c->out.data, c->out.cap); /* the password was in there */
    if (err != 0 || t->db == 0)
        return err;
    char digits[INT64_DIGITS_MAX];
    CLIENT_SEND(c, SPAN("SELECT"), (struct span){digits, format_int64(t->db, digits)});
    return client_receive_done(c);
}

int client_dial(struct client *c, const struct redis_endpoint *t, const struct client_limits *limits)
{
    client_hang_up(c);
    int err = dial(c, t, limits);
    return err != 0 ? err : greet(c, t);
}

void client_hang_up(struct client *c)
{
    if (c->redis != NULL)
        redisFree(c->redis);
    c->redis = NULL;
    buf_clear(&c->out);
}

static int connect_within(struct client *c, const struct client_limits *limits)
{
    bool told = c->target.sentinels.count == 0;
    return told ? client_dial(c, &c->target, limits) : client_dial_master(c, limits);
}

int client_reopen(struct client *c)
{
    return connect_within(c, &AGAIN_LIMITS);
}

static int connect_to_target(struct client *c)
{
    if (connect_within(c, &LIMITS) == 0)
        return EXIT_FINE;
    struct buf where = BUF_INIT;
    redis_endpoint_describe(&c->target, &where);
    (void)fprintf(stderr, "channelctl: Redis at %s: %s\n", buf_c_str(&where), client_error(c));
    buf_fini(&where);
    return EXIT_FAILED;
}

static int configure(struct client *c, const struct options *o)
{
    int err = redis_endpoint_init(&c->target, &o->redis, &c->error);
    if (err == -EINVAL)
        return settings_error(o, "redis-url", client_error(c));
    if (err == 0)
        err = redis_tls_new(&c->target, &o->redis, &c->tls, &c->error);
    if (err == -EINVAL)
        return usage_error("%s", client_error(c));
    keyspace_index(c->keys, &c->index);
    keyspace_index_next(c->keys, &c->index_next);
    keyspace_api_keys(c->keys, &c->api_keys);
    keyspace_loader(c->keys, &c->loader);
    bool whole = buf_error(&c->index) == 0 && buf_error(&c->index_next) == 0 &&
                 buf_error(&c->api_keys) == 0 && buf_error(&c->loader) == 0;
    if (err == 0 && whole)
        return EXIT_FINE;
    (void)client_fail(c, "out of memory");
    return client_complain(c);
}

int client_open(struct client *c, const struct options *o)
{
    *c = (struct client){.keys = &o->keys};
    int code = configure(c, o);
    return code == EXIT_FINE ? connect_to_target(c) : code;
}

void client_close(struct client *c)
{
    client_hang_up(c);
    redis_tls_free(c->tls);
    redis_endpoint_fini(&c->target);
    buf_fini(&c->index);
    buf_fini(&c->index_next);
    buf_fini(&c->api_keys);
    buf_fini(&c->loader);
    buf_fini(&c->key);
    buf_fini(&c->out);
    buf_fini(&c->error);
}
