/*
 * A parser of RESP3, the protocol of Redis: replies and pushes.
 *
 * It is given what was read from a connection, in pieces of any size, and returns what is complete. A reply
 * has the shape of hiredis' redisReply and lives in memory of the parser's own, which is used again for the
 * next one: no allocation for each of its parts.
 *
 * What a server announces has not come yet, and what it sends may never end, so all memory is bounded. A
 * reply that would take too much is parsed to its end without being kept, and an error reply takes its place
 * (resp_is_oversize): those behind it are parsed as ever. A push is never put together: its elements are
 * returned one by one as they arrive, and there may be any number of them.
 */
#ifndef REDIS_RESP_H
#define REDIS_RESP_H

#include "base/buf.h"

#include <hiredis/hiredis.h>

struct resp_chunk;

/*
 * The most that one reply, or one element of a push, may take: bytes of memory, elements of each array,
 * arrays within each other. A line (everything but the content of bulk strings) is bounded as well; a longer
 * one is an error.
 */
enum {
    RESP_BYTES_MAX = 64 << 20,
    RESP_ELEMENTS_MAX = 1 << 20,
    RESP_DEPTH_MAX = 32,
    RESP_LINE_MAX = 64 << 10
};

enum {
    RESP_CHUNK = 16 * 1024, /* memory that is kept between replies */
    RESP_KIND_MAX = 32      /* the name of a push that is longer is cut off here */
};

enum resp_result {
    RESP_INCOMPLETE,   /* all input has been taken, and more is needed */
    RESP_REPLY,        /* a complete reply */
    RESP_PUSH_ELEMENT, /* one element of a push, see resp_push_kind */
    RESP_ERROR         /* no RESP3, or out of memory: `error` says which, and nothing more can be parsed */
};

/* Embedded; private but for what is said to be otherwise. */
struct resp_parser {
    size_t bytes_max; /* these two may be lowered before anything is parsed */
    uint64_t elements_max;
    const char *error; /* to be read after RESP_ERROR */

    struct resp_chunk *chunk; /* owned; the newest first, the one that is kept last */
    size_t pool_left;         /* bytes at the end of the newest that are free */
    size_t pool_size;         /* of all chunks */
    bool exceeded;            /* the last allocation was refused because of bytes_max */

    struct buf line;    /* the beginning of a line whose end has not come */
    redisReply *bulk;   /* the bulk string whose content is being read; NULL: none */
    uint64_t bulk_left; /* bytes of it that have not come, with the line end behind it */

    enum resp_mode { RESP_BUILDING, RESP_SKIPPING, RESP_PUSHING } mode;
    int depth; /* of `level`; the arrays that are being built, the outermost first */
    struct resp_level {
        redisReply *array;
        size_t filled;
    } level[RESP_DEPTH_MAX];
    uint64_t items_left; /* of what is skipped or pushed, where each array counts as one and adds its own */

    bool kind_known; /* the first element of the push has been parsed */
    size_t kind_len;
    char kind[RESP_KIND_MAX];

    enum resp_result result; /* what resp_parse returns */
    const redisReply *item;
};

void resp_init(struct resp_parser *p);
void resp_fini(struct resp_parser *p);

/*
 * Parses from the front of *input, which is moved on over all that was taken, up to the next result. *reply
 * is the reply or the element of a push, borrowed until the next call. The elements of a push are all that is
 * in it but arrays and its name.
 */
enum resp_result resp_parse(struct resp_parser *p, struct span *input, const redisReply **reply);

/* The name of the push that the last element belongs to ("invalidate"); empty where it is not a string. */
struct span resp_push_kind(const struct resp_parser *p);

/* True between the first and the last byte of a reply; a push is none. */
bool resp_in_reply(const struct resp_parser *p);

/* The error reply that stands for one that was too large, or for such an element of a push. */
extern const redisReply resp_oversize;

static inline bool resp_is_oversize(const redisReply *reply)
{
    return reply == &resp_oversize;
}

/*
 * Commands: arrays of bulk strings, appended to a buffer. Lack of memory is the buffer's sticky error, and
 * what is in the buffer then must not be sent.
 */

/* Appends the beginning of a command of `count` words, its name included. */
void command_begin(struct buf *out, size_t count);

/* Appends the next word. */
void command_add(struct buf *out, struct span word);

/* The same for a number. */
void command_add_int(struct buf *out, int64_t number);

/* The same; a lack of memory in `word` becomes that of `out`. */
void command_add_buf(struct buf *out, const struct buf *word);

/* A whole command; `lengths` may be NULL: then the words end with a NUL. */
void command_write(struct buf *out, int argc, const char **argv, const size_t *lengths);

#endif
