/* The two indexes; see index.h. */
#include "ctl/index.h"

#include <errno.h>

enum { MERGE_STEP = 1000 };

/* Scores are doubles: above 2^53 they cannot be told from their neighbours. */
static const double SCORE_MAX = 9007199254740992.0;

static struct span digits_of(int64_t value, char out[INT64_DIGITS_MAX])
{
    return (struct span){out, format_int64(value, out)};
}

/* ZREVRANGE WITHSCORES in RESP3: a list of [member, score] pairs, of which there is one or none. */
static double last_score(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return -1;
    const redisReply *pair = reply->element[0];
    bool known = pair->type == REDIS_REPLY_ARRAY && pair->elements == 2 &&
                 pair->element[1]->type == REDIS_REPLY_DOUBLE;
    return known ? pair->element[1]->dval : SCORE_MAX;
}

int index_next_score(struct client *c, int64_t *out)
{
    CLIENT_SEND(c, SPAN("ZREVRANGE"), buf_span(&c->index), SPAN("0"), SPAN("0"), SPAN("WITHSCORES"));
    redisReply *reply = client_receive_or_wrongtype(c);
    if (reply == NULL)
        return -EIO;
    double last = last_score(reply);
    bool sorted = !reply_is_wrongtype(reply);
    freeReplyObject(reply);
    if (!sorted)
        return client_fail(c, "%.*s is not a sorted set: delete it, or load with --replace",
                           (int)c->index.len, c->index.data);
    if (!(last >= -SCORE_MAX && last < SCORE_MAX))
        return client_fail(
            c, "the index ends with a score above 2^53, nothing fits behind it: load with --replace");
    *out = (int64_t)last + 1;
    return 0;
}

void index_send_add(struct client *c, bool next, int64_t score, int64_t id)
{
    char score_digits[INT64_DIGITS_MAX];
    char id_digits[INT64_DIGITS_MAX];
    CLIENT_SEND(c, SPAN("ZADD"), buf_span(next ? &c->index_next : &c->index), SPAN("NX"),
                digits_of(score, score_digits), digits_of(id, id_digits));
}

int index_begin_next(struct client *c)
{
    CLIENT_SEND(c, SPAN("UNLINK"), buf_span(&c->index_next));
    return client_receive_done(c);
}

/* EXEC says nil when what is watched has changed. */
static int receive_exec(struct client *c)
{
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    int err =
        reply->type == REDIS_REPLY_NIL ? client_fail(c, "another load is at work on the same index") : 0;
    freeReplyObject(reply);
    return err;
}

/* Watched and counted, so that no load installs a part that another one, or a loader without lock, has left.
 */
static int watch_next(struct client *c, struct lock *lock, int64_t members)
{
    int64_t found = 0;
    int err = lock_watch(lock);
    if (err != 0)
        return err;
    CLIENT_SEND(c, SPAN("WATCH"), buf_span(&c->index_next));
    CLIENT_SEND(c, SPAN("ZCARD"), buf_span(&c->index_next));
    err = client_receive_done(c);
    if (err == 0)
        err = client_receive_integer(c, &found);
    if (err == 0 && found != members)
        err = client_fail(c, "another load is at work on the same index");
    return err;
}

int index_swap(struct client *c, struct lock *lock, int64_t members)
{
    int err = watch_next(c, lock, members);
    if (err != 0)
        return err;
    CLIENT_SEND(c, SPAN("MULTI"));
    CLIENT_SEND(c, SPAN("UNLINK"), buf_span(&c->index));
    CLIENT_SEND(c, SPAN("RENAME"), buf_span(&c->index_next), buf_span(&c->index));
    CLIENT_SEND(c, SPAN("EXEC"));
    for (int i = 0; i < 3 && err == 0; i++)
        err = client_receive_done(c);
    return err == 0 ? receive_exec(c) : err;
}

/* One step of the merge: the members from `rank` on. *members says how many there were. */
static int merge_step(struct client *c, int64_t rank, int64_t score, size_t *members)
{
    char first[INT64_DIGITS_MAX];
    char last[INT64_DIGITS_MAX];
    CLIENT_SEND(c, SPAN("ZRANGE"), buf_span(&c->index_next), digits_of(rank, first),
                digits_of(rank + MERGE_STEP - 1, last));
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    *members = reply->elements;
    for (size_t i = 0; i < reply->elements; i++) {
        CLIENT_SEND(c, SPAN("ZADD"), buf_span(&c->index), SPAN("NX"), digits_of(score + (int64_t)i, first),
                    reply_text(reply->element[i]));
    }
    int err = 0;
    for (size_t i = 0; i < reply->elements && err == 0; i++)
        err = client_receive_done(c);
    freeReplyObject(reply);
    return err;
}

int index_merge_next(struct client *c, struct lock *lock)
{
    int64_t score = 0;
    int err = index_next_score(c, &score);
    size_t members = MERGE_STEP;
    for (int64_t rank = 0; members == MERGE_STEP && err == 0; rank += MERGE_STEP) {
        err = lock_renew(lock);
        if (err == 0)
            err = merge_step(c, rank, score + rank, &members);
    }
    return err == 0 ? index_begin_next(c) : err;
}
