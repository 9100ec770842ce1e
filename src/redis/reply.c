/* The content of replies, and copies of them; see reply.h. */
#include "redis/reply.h"

#include <stdlib.h>

/* --- The content of a reply --- */

struct span reply_member(const struct redis_reply *map, struct span name)
{
    if (map->type != REPLY_ARRAY && map->type != REPLY_MAP)
        return SPAN_ABSENT;
    for (size_t i = 0; i + 1 < map->elements; i += 2)
        if (span_equal(reply_text(map->element[i]), name))
            return reply_text(map->element[i + 1]);
    return SPAN_ABSENT;
}

static bool reply_is_nil_or_zero(const struct redis_reply *reply)
{
    return reply->type == REPLY_NIL || (reply->type == REPLY_INTEGER && reply->integer == 0);
}

bool reply_is_absent(const struct redis_reply *reply)
{
    size_t i = 0;
    if (reply->type != REPLY_ARRAY && reply->type != REPLY_SET)
        return reply_is_nil_or_zero(reply);
    while (i < reply->elements && reply_is_nil_or_zero(reply->element[i]))
        i++;
    return i == reply->elements;
}

/* --- Copies: the reply, the array of its elements, their content, its text; each part is aligned --- */

static size_t reply_align(size_t size)
{
    size_t unit = _Alignof(struct redis_reply);
    return (size + unit - 1) / unit * unit;
}

/* The size of the reply and of all replies in it. */
static size_t reply_size(const struct redis_reply *reply)
{
    size_t size = sizeof *reply + reply->elements * sizeof(struct redis_reply *);
    for (size_t i = 0; i < reply->elements; i++)
        size += reply_size(reply->element[i]);
    return size + (reply->str != NULL ? reply_align(reply->len + 1) : 0);
}

static void *reply_carve(char **free, size_t size)
{
    char *at = *free;
    *free += size;
    return at;
}

/* Copies into a block; *free is its free rest. */
static struct redis_reply *reply_copy_to(char **free, const struct redis_reply *reply)
{
    struct redis_reply *copy = reply_carve(free, sizeof *copy);
    *copy = *reply;
    if (reply->str != NULL) {
        copy->str = reply_carve(free, reply_align(reply->len + 1));
        *span_put((struct span){reply->str, reply->len}, copy->str) = '\0';
    }
    if (reply->elements > 0)
        copy->element = reply_carve(free, reply->elements * sizeof(struct redis_reply *));
    for (size_t i = 0; i < reply->elements; i++)
        copy->element[i] = reply_copy_to(free, reply->element[i]);
    return copy;
}

struct redis_reply *reply_copy(const struct redis_reply *reply)
{
    void *block = malloc(reply_size(reply));
    char *free = block;
    if (block != NULL)
        (void)reply_copy_to(&free, reply);
    return block;
}
