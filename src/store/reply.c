/*
 * Replies in a pool; see reply.h. The functions do what hiredis' own do (hiredis.c, create*Object): the
 * parser has checked what it hands over, NULL means that there is no memory, and an object that has a parent
 * is put in its place there. An array's places are not cleared: only complete replies are seen by anybody.
 */
#include "store/reply.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reply_chunk {
    struct reply_chunk *older;
    size_t size;
    alignas(redisReply) char bytes[];
};

enum { VERBATIM_HEAD = 4 }; /* "txt:" before the text of a verbatim string */

static struct reply_chunk *add_chunk(struct reply_pool *pool, size_t needed)
{
    size_t size = needed > REPLY_CHUNK ? needed : REPLY_CHUNK;
    pool->exceeded = size > pool->bytes_max - pool->size;
    struct reply_chunk *chunk = pool->exceeded ? NULL : malloc(sizeof *chunk + size);
    if (chunk == NULL)
        return NULL;
    pool->size += size;
    chunk->older = pool->chunk;
    chunk->size = size;
    pool->chunk = chunk;
    pool->left = size;
    return chunk;
}

/* Aligned for all that replies are made of; NULL when out of memory. */
static void *take(struct reply_pool *pool, size_t size)
{
    size_t align = alignof(redisReply);
    if (size > SIZE_MAX - align)
        return NULL;
    size = (size + align - 1) / align * align;
    if (size > pool->left && add_chunk(pool, size) == NULL)
        return NULL;
    char *at = pool->chunk->bytes + (pool->chunk->size - pool->left);
    pool->left -= size;
    return at;
}

/* A reply with `extra` bytes behind it. */
static redisReply *make(const redisReadTask *task, int type, size_t extra)
{
    redisReply *reply = extra > SIZE_MAX - sizeof *reply ? NULL : take(task->privdata, sizeof *reply + extra);
    if (reply == NULL)
        return NULL;
    *reply = (redisReply){.type = type};
    if (task->parent != NULL) {
        redisReply *parent = task->parent->obj;
        parent->element[task->idx] = reply;
    }
    return reply;
}

static redisReply *make_text(const redisReadTask *task, int type, const char *text, size_t len)
{
    redisReply *reply = len == SIZE_MAX ? NULL : make(task, type, len + 1);
    if (reply == NULL)
        return NULL;
    reply->str = (char *)(reply + 1);
    reply->len = len;
    memcpy(reply->str, text, len);
    reply->str[len] = '\0';
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    if (task->type != REDIS_REPLY_VERB)
        return make_text(task, task->type, text, len);
    redisReply *reply = make_text(task, REDIS_REPLY_VERB, text + VERBATIM_HEAD, len - VERBATIM_HEAD);
    if (reply != NULL)
        memcpy(reply->vtype, text, VERBATIM_HEAD - 1);
    return reply;
}

static void *create_array(const redisReadTask *task, size_t elements)
{
    if (elements > SIZE_MAX / 2 / sizeof(redisReply *))
        return NULL;
    redisReply *reply = make(task, task->type, elements * sizeof(redisReply *));
    if (reply == NULL)
        return NULL;
    reply->elements = elements;
    reply->element = elements == 0 ? NULL : (redisReply **)(void *)(reply + 1);
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *reply = make(task, REDIS_REPLY_INTEGER, 0);
    if (reply != NULL)
        reply->integer = value;
    return reply;
}

static void *create_double(const redisReadTask *task, double value, char *text, size_t len)
{
    redisReply *reply = make_text(task, REDIS_REPLY_DOUBLE, text, len);
    if (reply != NULL)
        reply->dval = value;
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    return make(task, REDIS_REPLY_NIL, 0);
}

static void *create_bool(const redisReadTask *task, int value)
{
    redisReply *reply = make(task, REDIS_REPLY_BOOL, 0);
    if (reply != NULL)
        reply->integer = value != 0;
    return reply;
}

/* A reply that is given up halfway: the pool has its memory. */
static void free_object(void *reply)
{
    (void)reply;
}

void reply_pool_serve(struct reply_pool *pool, redisReader *reader)
{
    static redisReplyObjectFunctions functions = {create_string, create_array, create_integer, create_double,
                                                  create_nil,    create_bool,  free_object};
    reader->fn = &functions;
    reader->privdata = pool;
    reader->maxelements = REPLY_ELEMENTS_MAX;
    pool->bytes_max = REPLY_BYTES_MAX;
}

/* The reader is at the length of a text. Above the limit it does not matter how far. */
static size_t announced(const redisReader *reader, size_t limit)
{
    size_t length = 0;
    for (size_t i = reader->pos; i < reader->len && length <= limit; i++) {
        char c = reader->buf[i];
        if (c < '0' || c > '9')
            break;
        length = length * 10 + (size_t)(c - '0');
    }
    return length;
}

/* A text is counted out; a line is searched for its end anew with each piece that comes. */
bool reply_pool_exceeded(const struct reply_pool *pool, const redisReader *reader)
{
    int type = reader->ridx >= 0 ? reader->task[reader->ridx]->type : -1;
    bool text = type == REDIS_REPLY_STRING || type == REDIS_REPLY_VERB;
    if (pool->exceeded || reader->len - reader->pos > (text ? pool->bytes_max : REPLY_LINE_MAX))
        return true;
    return text && announced(reader, pool->bytes_max) > pool->bytes_max;
}

static void drop_newest(struct reply_pool *pool)
{
    struct reply_chunk *chunk = pool->chunk;
    pool->chunk = chunk->older;
    pool->size -= chunk->size;
    free(chunk);
}

void reply_pool_clear(struct reply_pool *pool)
{
    while (pool->chunk != NULL && (pool->chunk->older != NULL || pool->chunk->size > REPLY_CHUNK))
        drop_newest(pool);
    pool->left = pool->size;
}

void reply_pool_fini(struct reply_pool *pool)
{
    while (pool->chunk != NULL)
        drop_newest(pool);
    pool->left = 0;
}
