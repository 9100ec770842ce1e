/* Following link keys; see links.h. */
#include "ctl/links.h"

#include "base/parse.h"
#include "model/channel.h"

#include <errno.h>

static int receive_owner(struct client *c, struct link_owner *out)
{
    redisReply *reply = client_receive_or_wrongtype(c);
    if (reply == NULL)
        return -EIO;
    *out = (struct link_owner){0};
    out->named = reply->type == REDIS_REPLY_STRING && parse_int64(reply_text(reply), &out->id) == 0;
    freeReplyObject(reply);
    return 0;
}

static int receive_link(struct client *c, struct span link, struct link_owner *out)
{
    redisReply *reply = client_receive_or_wrongtype(c);
    if (reply == NULL)
        return -EIO;
    out->agrees = reply->type == REDIS_REPLY_STRING && span_equal(reply_text(reply), link);
    freeReplyObject(reply);
    return 0;
}

int links_check(struct client *c, redisReply *const *keys, size_t count, struct link_owner *out)
{
    int err = 0;
    for (size_t i = 0; i < count; i++)
        CLIENT_SEND(c, SPAN("GET"), reply_text(keys[i]));
    for (size_t i = 0; i < count && err == 0; i++)
        err = receive_owner(c, &out[i]);
    for (size_t i = 0; i < count && err == 0; i++)
        if (out[i].named)
            CLIENT_SEND(c, SPAN("HGET"), client_card_key(c, out[i].id),
                        channel_field_name(CHANNEL_FIELD_link));
    for (size_t i = 0; i < count && err == 0; i++)
        if (out[i].named)
            err = receive_link(c, keyspace_link_of(c->keys, reply_text(keys[i])), &out[i]);
    return err;
}
