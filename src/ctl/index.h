/*
 * The index, whose order is the order of the pages, and the next index that a replacing load builds beside
 * it.
 *
 * All return 0, or -EIO with the reason in client_error().
 */
#ifndef CTL_INDEX_H
#define CTL_INDEX_H

#include "ctl/client.h"
#include "ctl/lock.h"

/* The lowest score that puts a channel behind all that are in the index. */
int index_next_score(struct client *c, int64_t *out) __attribute__((warn_unused_result));

/* Queues the command that puts `id` into the index or the next index, unless it is in there. */
void index_send_add(struct client *c, bool next, int64_t score, int64_t id);

/* Begins a next index: drops what a load that was killed has left. */
int index_begin_next(struct client *c) __attribute__((warn_unused_result));

/*
 * Makes the next index, which must have `members` members, the index, in one step. The former one is
 * unlinked: Redis frees it in the background, where RENAME would free it at once, however large it is.
 */
int index_swap(struct client *c, struct lock *lock, int64_t members) __attribute__((warn_unused_result));

/* Gives up the next index: what it has and the index lacks goes to the end of the index, in its order. */
int index_merge_next(struct client *c, struct lock *lock) __attribute__((warn_unused_result));

#endif
