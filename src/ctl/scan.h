/* Walks over all cards, all links, the whole index or all API keys, a piece at a time, while others may
 * write. */
#ifndef CTL_SCAN_H
#define CTL_SCAN_H

#include "ctl/client.h"

enum scan_what { SCAN_CARDS, SCAN_LINKS, SCAN_INDEX, SCAN_API_KEYS };

/*
 * Called with each piece: `count` names of keys, or members of the index or the set, as string replies,
 * borrowed for the call. It may use the client, but must have received all it asked for when it returns: 0,
 * or what ends the walk.
 */
typedef int (*scan_visit)(void *arg, redisReply *const *names, size_t count);

/* What is there all the time is visited at least once. Returns 0, -EIO, or what `visit` returned. */
int scan_walk(struct client *c, enum scan_what what, scan_visit visit, void *arg)
    __attribute__((warn_unused_result));

#endif
