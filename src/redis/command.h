/*
 * Commands in the form in which they travel to Redis: an array of bulk strings.
 *
 * Lack of memory is the buffer's sticky error: what is in it then must not be sent.
 */
#ifndef REDIS_COMMAND_H
#define REDIS_COMMAND_H

#include "base/buf.h"

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
