/* What link keys lead to: a link key is right when it names a channel whose card has that link. */
#ifndef CTL_LINKS_H
#define CTL_LINKS_H

#include "ctl/client.h"

struct link_owner {
    bool named; /* the key holds an id: this one */
    int64_t id;
    bool agrees; /* the card of that channel has the key's link */
};

/*
 * Looks up `count` link keys. Fills out[0..count-1]; returns 0, or -EIO with the reason in client_error().
 */
int links_check(struct client *c, redisReply *const *keys, size_t count, struct link_owner *out)
    __attribute__((warn_unused_result));

#endif
