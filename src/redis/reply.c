/* The content of replies, and copies of them; see reply.h. */
#include "redis/reply.h"

#include <stdlib.h>

const struct redis_reply *reply_element(const struct redis_reply *array, size_t index)
{
    const struct redis_reply *element = reply_first(array);
    for (size_t i = 0; i < index; i++)
        element = reply_next(element);
    return element;
}

struct span reply_member(const struct redis_reply *map, struct span name)
{
    if (map->type != REPLY_ARRAY && map->type != REPLY_MAP)
        return SPAN_ABSENT;
    const struct redis_reply *element = reply_first(map);
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        const struct redis_reply *value = reply_next(element);
        if (span_equal(reply_text(element), name))
            return reply_text(value);
        element = reply_next(value);
    }
    return SPAN_ABSENT;
}

static bool reply_is_nil_or_zero(const struct redis_reply *reply)
{
    return reply->type == REPLY_NIL || (reply->type == REPLY_INTEGER && reply->integer == 0);
}

bool reply_is_absent(const struct redis_reply *reply)
{
    if (reply->type != REPLY_ARRAY && reply->type != REPLY_SET)
        return reply_is_nil_or_zero(reply);
    size_t i = 1;
    while (i <= reply->elements && reply_is_nil_or_zero(&reply[i]))
        i++;
    return i > reply->elements;
}

struct redis_reply *reply_copy(const struct redis_reply *reply)
{
    size_t count = (size_t)(reply_next(reply) - reply);
    size_t size = count * sizeof *reply;
    for (size_t i = 0; i < count; i++)
        size += reply[i].len + 1;
    struct redis_reply *copy = malloc(size);
    char *text = copy == NULL ? NULL : (char *)(copy + count);
    for (size_t i = 0; i < count && copy != NULL; i++) {
        copy[i] = reply[i];
        if (reply[i].str == NULL)
            continue;
        copy[i].str = text;
        text = span_put((struct span){reply[i].str, reply[i].len}, text);
        *text++ = '\0';
    }
    return copy;
}
