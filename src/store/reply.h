/*
 * Replies built by hiredis' parser without a malloc for each of their parts.
 *
 * hiredis lets its reader's owner make the reply objects: here they come, texts and all, from a pool of
 * memory that is emptied when the reply has been dealt with. They have the shape of hiredis' own, so whoever
 * reads a `const redisReply *` sees no difference; but they are never given to freeReplyObject().
 */
#ifndef STORE_REPLY_H
#define STORE_REPLY_H

#include <hiredis/hiredis.h>

struct reply_chunk;

/* Zero is a pool that holds nothing. Embedded; must outlive the reader it serves. */
struct reply_pool {
    struct reply_chunk *chunk; /* owned; the newest first, the one that is kept last */
    size_t left;               /* bytes at the end of the newest that are free */
};

enum {
    REPLY_CHUNK = 16 * 1024
}; /* what a pool keeps between replies; larger ones take more, and give it back */

/*
 * Makes `reader` build its replies in `pool`. To be called before it has read anything. What the system has
 * no memory for is an error of the reader, REDIS_ERR_OOM.
 */
void reply_pool_serve(struct reply_pool *pool, redisReader *reader);

/* Ends the life of all replies of the pool. Not while the reader is within one. */
void reply_pool_clear(struct reply_pool *pool);

/* Gives all memory back. The reader must have been freed before, or never be used again. */
void reply_pool_fini(struct reply_pool *pool);

#endif
