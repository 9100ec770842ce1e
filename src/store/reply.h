/*
 * Replies built by hiredis' parser without a malloc for each of their parts.
 *
 * hiredis lets its reader's owner make the reply objects: here they come, texts and all, from a pool of
 * memory that is emptied when the reply has been dealt with. They have the shape of hiredis' own, so whoever
 * reads a `const redisReply *` sees no difference; but they are never given to freeReplyObject().
 *
 * What a server announces is not yet there, and what it sends may never end: a reply is bounded in all it
 * takes.
 */
#ifndef STORE_REPLY_H
#define STORE_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

struct reply_chunk;

/* Zero is a pool that holds nothing. Embedded; must outlive the reader it serves. */
struct reply_pool {
    struct reply_chunk *chunk; /* owned; the newest first, the one that is kept last */
    size_t left;               /* bytes at the end of the newest that are free */
    size_t size;               /* of all chunks */
    size_t bytes_max;          /* that one reply may be; REPLY_BYTES_MAX until it is set */
    bool exceeded;             /* a reply wanted more than it may have */
};

enum {
    REPLY_CHUNK = 16 * 1024
}; /* what a pool keeps between replies; larger ones take more, and give it back */

/*
 * The most that one reply may be: of the members of each array in it, of the memory it takes (and of a text
 * that has not come to its end, or is announced), and of a line. The largest that is needed is a push that
 * names all channels of a transaction.
 */
enum { REPLY_ELEMENTS_MAX = 1 << 20, REPLY_BYTES_MAX = 64 << 20, REPLY_LINE_MAX = 64 << 10 };

/*
 * Makes `reader` build its replies in `pool`. To be called before it has read anything. What the system has
 * no memory for, or what is too large, is an error of the reader, REDIS_ERR_OOM.
 */
void reply_pool_serve(struct reply_pool *pool, redisReader *reader);

/*
 * True when the reply that `reader` is at is too large. To be asked when the reader has no complete one: then
 * all of its input belongs to that one.
 */
bool reply_pool_exceeded(const struct reply_pool *pool, const redisReader *reader);

/* Ends the life of all replies of the pool. Not while the reader is within one. */
void reply_pool_clear(struct reply_pool *pool);

/* Gives all memory back. The reader must have been freed before, or never be used again. */
void reply_pool_fini(struct reply_pool *pool);

#endif
