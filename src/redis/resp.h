/*
 * RESP3, the protocol of Redis: a parser of replies and pushes, and the encoding of commands.
 *
 * The parser has the buffer of the input, and returns each reply when it is complete. A reply is an array of
 * items in the order of their arrival (reply.h). Texts stay where they have arrived, and get a NUL in place
 * of their line end. The memory is used again for the next reply.
 *
 * A server can announce any length, and a reply may never end, so all memory is bounded. A reply or push
 * beyond the bound is parsed to its end without being kept, and an error reply replaces it
 * (resp_is_oversize). Later replies are not affected.
 */
#ifndef REDIS_RESP_H
#define REDIS_RESP_H

#include "base/buf.h"
#include "redis/reply.h"

/*
 * The limit of one reply or push, in bytes of memory. A longer line than RESP_LINE_MAX (everything but the
 * content of bulk strings) is an error.
 */
enum { RESP_BYTES_MAX = 64 << 20, RESP_LINE_MAX = 64 << 10 };

enum { RESP_KEPT = 64 * 1024 }; /* bytes of memory of each kind that are kept between replies */

enum resp_result {
    RESP_INCOMPLETE, /* all input has been taken, and more is needed */
    RESP_REPLY,      /* a complete reply */
    RESP_PUSH,       /* a complete push */
    RESP_ERROR       /* invalid, or out of memory: see `error`; nothing more can be parsed */
};

/* The reason when there is no memory; any other is invalid input. */
extern const char resp_no_memory[];

/* Embedded; all but the first two members are private. */
struct resp_parser {
    size_t bytes_max;  /* the limit of a reply, which may be changed before the first input */
    const char *error; /* the reason, after RESP_ERROR */

    struct buf input;   /* from the beginning of the reply on */
    size_t start;       /* where that begins; the bytes before it are not needed any more */
    size_t parsed;      /* how far the input was parsed */
    uint64_t skip_left; /* bytes of a bulk string that is skipped, with its line end; 0: there is none */

    struct redis_reply *item; /* owned; what has begun of the reply */
    size_t count;
    size_t capacity;
    size_t size;    /* bytes of the items and their texts */
    bool kept;      /* false: the reply is oversize, and skipped */
    bool pushed;    /* it is a push */
    uint64_t left;  /* items of it that have not ended, as far as they are announced */
    uint64_t begun; /* its number, from 1 on */

    enum resp_result result; /* the result of resp_parse */
};

void resp_init(struct resp_parser *p);
void resp_fini(struct resp_parser *p);

/*
 * Room for `n` more bytes of input, borrowed until the next call; NULL when out of memory. resp_received says
 * how many have arrived there. Not between a result and the next call of resp_parse.
 */
char *resp_reserve(struct resp_parser *p, size_t n);
void resp_received(struct resp_parser *p, size_t n);

/* Parses up to the next result. *reply is the reply or push, borrowed until the next call. */
enum resp_result resp_parse(struct resp_parser *p, const struct redis_reply **reply);

/* The number of the reply or push of which a part has arrived, after RESP_INCOMPLETE; 0: there is none. */
uint64_t resp_arriving(const struct resp_parser *p);

/* The error reply that replaces an oversize reply or push. */
extern const struct redis_reply resp_oversize;

static inline bool resp_is_oversize(const struct redis_reply *reply)
{
    return reply == &resp_oversize;
}

/*
 * Commands: arrays of bulk strings, appended to a buffer. Lack of memory is the sticky error of the buffer. A
 * buffer in error must not be sent.
 */

/* Appends the beginning of a command of `count` words, including its name. */
void command_begin(struct buf *out, size_t count);

/* Replaces `out` with the beginning of a command: its name and a key, which `words` more follow. */
void command_begin_with_key(struct buf *out, struct span name, const struct buf *key, size_t words);

/* Append the next word. */
void command_add(struct buf *out, struct span word);
void command_add_int(struct buf *out, int64_t number);

/* Appends the next word. A lack of memory in `word` becomes an error of `out`. */
void command_add_buf(struct buf *out, const struct buf *word);

/* Appends a whole command of texts. */
void command_write(struct buf *out, int argc, const char **argv);

#endif
