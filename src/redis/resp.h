/*
 * RESP3, the protocol of Redis: a parser of replies and pushes, and the encoding of commands.
 *
 * The parser is given input in pieces of any size and returns each reply when it is complete. A reply lives
 * in memory of the parser, which is reused for the next one: its parts need no allocations of their own. A
 * bulk string stays in the input if it is in one piece with the end of its reply, and has no NUL behind it.
 *
 * A server can announce any length, and a reply may never end, so all memory is bounded. A reply beyond the
 * bound is parsed to its end without being kept, and an error reply takes its place (resp_is_oversize): later
 * replies are not affected. A push is never built as a whole: its elements are returned one by one as they
 * arrive, and there may be any number of them.
 */
#ifndef REDIS_RESP_H
#define REDIS_RESP_H

#include "base/buf.h"
#include "redis/reply.h"

struct resp_chunk;
struct resp_text;

/*
 * Bounds of one reply, or of one element of a push: bytes of memory, elements of each array, depth of nested
 * arrays. A longer line (everything but the content of bulk strings) is an error.
 */
enum {
    RESP_BYTES_MAX = 64 << 20,
    RESP_ELEMENTS_MAX = 1 << 20,
    RESP_DEPTH_MAX = 32,
    RESP_LINE_MAX = 64 << 10
};

enum {
    RESP_CHUNK = 16 * 1024, /* memory that is kept between replies */
    RESP_KIND_MAX = 32      /* a longer name of a push is cut off here */
};

enum resp_result {
    RESP_INCOMPLETE,   /* all input has been taken, and more is needed */
    RESP_REPLY,        /* a complete reply */
    RESP_PUSH_ELEMENT, /* one element of a push, see resp_push_kind */
    RESP_ERROR         /* invalid, or out of memory: see `error`; nothing more can be parsed */
};

/* Embedded; private but for the first three. */
struct resp_parser {
    size_t bytes_max; /* these two may be lowered before the first input */
    uint64_t elements_max;
    const char *error; /* why, after RESP_ERROR */

    struct resp_chunk *chunk; /* owned; the newest first, the one that is kept at the end */
    size_t pool_left;         /* free bytes at the end of the newest */
    size_t pool_size;         /* the size of all chunks */
    bool exceeded;            /* the last allocation was refused because of bytes_max */

    struct buf line;            /* the beginning of a line that is not complete */
    struct redis_reply *bulk;   /* the bulk string that is being read; NULL: none */
    struct resp_text *in_input; /* bulk strings of the reply whose text is in the current input; a list */
    uint64_t bulk_left;         /* bytes of it, and of its line end, that have not arrived */

    enum resp_mode { RESP_BUILDING, RESP_SKIPPING, RESP_PUSHING } mode;
    int depth; /* entries in `level` */
    struct resp_level {
        struct redis_reply *array;
        size_t filled;
    } level[RESP_DEPTH_MAX]; /* arrays that are being built, the outermost first */
    uint64_t items_left;     /* in a reply that is skipped, or in a push; an array is one and adds its own */

    uint64_t pushes; /* that have begun */
    bool kind_known; /* the first element of the push has been parsed */
    size_t kind_len;
    char kind[RESP_KIND_MAX];

    enum resp_result result; /* resp_parse returns it */
    const struct redis_reply *item;
};

void resp_init(struct resp_parser *p);
void resp_fini(struct resp_parser *p);

/*
 * Parses up to the next result and moves *input on over what was parsed. *reply is the reply or the element
 * of a push, borrowed until the next call, and while the input is there. Neither the name of a push nor its
 * arrays are among its elements, but the elements of those arrays are.
 */
enum resp_result resp_parse(struct resp_parser *p, struct span *input, const struct redis_reply **reply);

/* The name of the push that the last element belongs to ("invalidate"); empty where it is not a string. */
struct span resp_push_kind(const struct resp_parser *p);

/* True between the first and the last byte of a reply, not of a push. */
bool resp_in_reply(const struct resp_parser *p);

/* The number of the push whose elements are arriving, from 1 on; 0 when there is none. */
uint64_t resp_in_push(const struct resp_parser *p);

/* The error reply in place of an oversize reply, or of such an element of a push. */
extern const struct redis_reply resp_oversize;

static inline bool resp_is_oversize(const struct redis_reply *reply)
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

/* A whole command of texts. */
void command_write(struct buf *out, int argc, const char **argv);

#endif
