/*
 * What the cache's unit tests have for a Redis: replies made from text, and a queue of the commands that were
 * sent, which the test answers one by one. Commands come there by fixtures/cache_parts.h or by
 * fixtures/cache_connection.h, in place of redis/session.h.
 */
#ifndef TEST_UNIT_FAKE_REDIS_H
#define TEST_UNIT_FAKE_REDIS_H

#include "base/digest.h"
#include "model/channel.h"
#include "redis/session.h"

#include <errno.h>

#include "unit/reply.h"

enum { FAKE_REDIS_COMMANDS = 512, FAKE_REDIS_TEXT = 64 * 1024 };

struct fake_redis_sent {
    char text[8 * 1024]; /* its words with a space between them, cut off where they are too many */
    const void *sender;
    redis_reply_fn fn;
    void *arg;
    unsigned how;             /* as in redis_session_send() */
    enum redis_origin origin; /* of the reply */
};

static struct fake_redis {
    struct fake_redis_sent sent[FAKE_REDIS_COMMANDS];
    size_t first, count;
    int sends_left;  /* before sending fails; -1: it does not */
    bool is_replica; /* of a cluster: another node has to answer for what is not here */
    /* Whether another node has to answer instead, to which the command is sent; NULL: none has. */
    bool (*redirect)(struct fake_redis_sent *sent, const struct redis_reply *reply);
    char text[FAKE_REDIS_TEXT];
} fake_redis;

static inline const struct redis_reply *reply_integer(int64_t value)
{
    (void)snprintf(fake_redis.text, sizeof fake_redis.text, ":%lld\r\n", (long long)value);
    return reply_of(fake_redis.text);
}

static inline const struct redis_reply *reply_string(const char *value)
{
    (void)snprintf(fake_redis.text, sizeof fake_redis.text, "$%zu\r\n%s\r\n", strlen(value), value);
    return reply_of(fake_redis.text);
}

/* The words, separated by spaces, as an array of strings. */
static inline const struct redis_reply *reply_words(const char *words)
{
    char copy[4096];
    size_t count = 0;
    struct buf out = BUF_INIT;
    struct buf body = BUF_INIT;
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest)) != NULL; count++)
        buf_printf(&body, "$%zu\r\n%s\r\n", strlen(word), word);
    buf_printf(&out, "*%zu\r\n", count);
    buf_append_span(&out, buf_span(&body));
    (void)snprintf(fake_redis.text, sizeof fake_redis.text, "%.*s", (int)out.len, out.data);
    buf_fini(&out);
    buf_fini(&body);
    return reply_of(fake_redis.text);
}

/* The fields of a channel; NULL: it has none of that name. */
struct row_values {
    const char *id, *title, *updated_at, *link;
};

static inline const char *row_value(const struct row_values *values, enum channel_field field)
{
    switch ((int)field) {
    case CHANNEL_FIELD_max_channel_id:
        return values->id;
    case CHANNEL_FIELD_title:
        return values->title;
    case CHANNEL_FIELD_updated_at:
        return values->updated_at;
    case CHANNEL_FIELD_link:
        return values->link;
    default:
        return NULL;
    }
}

/* What an HMGET of a channel replies. */
static inline const struct redis_reply *reply_values(enum channel_shape shape,
                                                     const struct row_values *values)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    size_t len = (size_t)snprintf(fake_redis.text, sizeof fake_redis.text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        const char *value = row_value(values, fields[i]);
        char *at = fake_redis.text + len;
        size_t room = sizeof fake_redis.text - len;
        if (value != NULL)
            len += (size_t)snprintf(at, room, "$%zu\r\n%s\r\n", strlen(value), value);
        else
            len += (size_t)snprintf(at, room, "_\r\n");
    }
    return reply_of(fake_redis.text);
}

/* Without id: no channel. */
static inline const struct redis_reply *reply_row(enum channel_shape shape, const char *id, const char *title,
                                                  const char *updated_at)
{
    const struct row_values values = {id, title, updated_at, NULL};
    return reply_values(shape, id != NULL ? &values : &(struct row_values){0});
}

static inline const struct redis_reply *reply_card(const char *id, const char *title)
{
    return reply_row(CHANNEL_CARD, id, title, NULL);
}

static inline const struct redis_reply *reply_linked_card(const char *id, const char *title, const char *link)
{
    return reply_values(CHANNEL_CARD, &(struct row_values){id, title, NULL, link});
}

static inline const struct redis_reply *reply_summary(const char *id, const char *title)
{
    return reply_row(CHANNEL_SUMMARY, id, title, NULL);
}

/* The digest of an API key of the test, by its number. */
static inline struct digest digest_of(int number)
{
    struct digest d;
    digest_sha256((struct span){(const char *)&number, sizeof number}, &d);
    return d;
}

static inline void fake_redis_init(void)
{
    fake_redis.first = fake_redis.count = 0;
    fake_redis.sends_left = -1;
    fake_redis.is_replica = false;
    fake_redis.redirect = NULL;
}

/* The i-th of those that are not answered. */
static inline struct fake_redis_sent *fake_redis_at(size_t i)
{
    return &fake_redis.sent[(fake_redis.first + i) % FAKE_REDIS_COMMANDS];
}

static inline int fake_redis_queue(const void *sender, struct span command)
{
    if (fake_redis.sends_left == 0)
        return -ENOMEM;
    fake_redis.sends_left -= fake_redis.sends_left > 0;
    struct fake_redis_sent *sent = fake_redis_at(fake_redis.count++);
    assert_true(fake_redis.count <= FAKE_REDIS_COMMANDS);
    char *text = sent->text;
    const struct redis_reply *words = reply_parse(command);
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < words->elements && len < sizeof sent->text; i++)
        len += (size_t)snprintf(text + len, sizeof sent->text - len, "%s%.*s", i == 0 ? "" : " ",
                                (int)words[1 + i].len, words[1 + i].str);
    sent->sender = sender;
    return 0;
}

/* Puts a word in front of the command that was sent last: how it was sent. */
static inline void fake_redis_mark(const char *mark)
{
    char text[sizeof fake_redis.sent[0].text];
    char *sent = fake_redis_at(fake_redis.count - 1)->text;
    (void)snprintf(text, sizeof text, "%s", sent);
    (void)snprintf(sent, sizeof text, "%s %.*s", mark, (int)(sizeof text - strlen(mark) - 2), text);
}

/* The same command again, at the end, with a word in front in place of how it was sent. */
static inline void fake_redis_repeat(const struct fake_redis_sent *sent, const char *mark)
{
    static const char untracked[] = "UNTRACKED ";
    struct fake_redis_sent *again = fake_redis_at(fake_redis.count++);
    assert_true(fake_redis.count <= FAKE_REDIS_COMMANDS);
    *again = *sent;
    if ((sent->how & REDIS_SEND_UNTRACKED) != 0)
        memmove(again->text, again->text + sizeof untracked - 1, sizeof again->text - sizeof untracked);
    fake_redis_mark(mark);
}

/* As redis_session_send(). */
static inline int fake_redis_send(void *sender, struct span command, unsigned how, redis_reply_fn fn,
                                  void *arg)
{
    int err = fake_redis_queue(sender, command);
    if (err != 0)
        return err;
    struct fake_redis_sent *sent = fake_redis_at(fake_redis.count - 1);
    sent->fn = fn;
    sent->arg = arg;
    sent->how = how;
    sent->origin = REDIS_ORIGIN_STREAM;
    if ((how & REDIS_SEND_UNTRACKED) != 0)
        fake_redis_mark("UNTRACKED");
    return 0;
}

/* The oldest command that is not answered; "" where there is none. */
static inline const char *fake_redis_next(void)
{
    return fake_redis.count == 0 ? "" : fake_redis_at(0)->text;
}

/* The i-th of those that are not answered will not be. */
static inline struct fake_redis_sent fake_redis_remove(size_t i)
{
    assert_true(i < fake_redis.count);
    struct fake_redis_sent sent = *fake_redis_at(i);
    for (; i > 0; i--)
        *fake_redis_at(i) = *fake_redis_at(i - 1);
    fake_redis.first = (fake_redis.first + 1) % FAKE_REDIS_COMMANDS;
    fake_redis.count--;
    return sent;
}

static inline void fake_redis_call(struct fake_redis_sent *sent, const struct redis_reply *reply)
{
    if (fake_redis.redirect != NULL && fake_redis.redirect(sent, reply))
        return;
    bool elsewhere = fake_redis.is_replica && reply != NULL && reply_is_absent(reply);
    sent->fn(sent->arg, reply, elsewhere ? REDIS_ORIGIN_OUTSIDE : sent->origin);
}

/* Answers the oldest; NULL: the connection was lost. */
static inline void fake_redis_answer(const struct redis_reply *reply)
{
    struct fake_redis_sent sent = fake_redis_remove(0);
    fake_redis_call(&sent, reply);
}

/* Answers the oldest of that sender; returns whether there was one. */
static inline bool fake_redis_answer_to(const void *sender, const struct redis_reply *reply)
{
    for (size_t i = 0; i < fake_redis.count; i++)
        if (fake_redis_at(i)->sender == sender) {
            struct fake_redis_sent sent = fake_redis_remove(i);
            fake_redis_call(&sent, reply);
            return true;
        }
    return false;
}

static inline void fake_redis_fail_all(const void *sender)
{
    while (fake_redis_answer_to(sender, NULL))
        ;
}

/* The oldest command begins so; it is answered. */
#define answer(command, reply)                                              \
    do {                                                                    \
        assert_memory_equal(fake_redis_next(), (command), strlen(command)); \
        fake_redis_answer(reply);                                           \
    } while (0)

/* The reads that show whether the user may do what requests need: it may. */
static inline void answer_permissions(void)
{
    answer("HMGET test:card:0 ", reply_card(NULL, NULL));
    answer("GET test:link:x", reply_of("_\r\n"));
    answer("ZRANGE test:index 214748364600 214748364700", reply_of("*0\r\n"));
    answer("ZCARD test:index", reply_integer(0));
    answer("SISMEMBER test:api_keys 0000", reply_integer(0));
    answer("HGET test:api_key_info 0000", reply_of("_\r\n"));
}

#endif
