/* The lines of a file (or of what is made up on the way), read in pieces: memory stays bounded by the longest
 * line that is accepted. */
#ifndef CTL_LINES_H
#define CTL_LINES_H

#include "base/buf.h"

enum { LINE_BYTES_MAX = 1024 * 1024, LINES_WAIT_MS = 1000 };

/* Appends the next bytes to `out`, none at the end. Returns 0 or a negative errno. */
typedef int (*lines_source)(void *arg, struct buf *out);

struct lines {
    int fd;
    lines_source source; /* instead of fd, or NULL */
    void *source_arg;
    bool skipping;   /* within a line that is too long */
    bool ended;      /* the file has no more bytes */
    size_t at;       /* where the next line begins in `read` */
    size_t searched; /* no newline stands before this place */
    int64_t number;  /* of the line given last, from 1 */
    int64_t bytes;   /* read so far */
    struct buf read;
};

/* Opens `path`; "-" is standard input. Returns 0 or a negative errno. lines_close is due in every case. */
int lines_open(struct lines *l, const char *path) __attribute__((warn_unused_result));

/* Lines that `source` makes; `arg` is borrowed until lines_close. */
void lines_open_source(struct lines *l, lines_source source, void *arg);

void lines_close(struct lines *l);

/* The size of the file in bytes; 0 when it is none that has a size. */
int64_t lines_total(const struct lines *l);

/*
 * The next line without its newline, borrowed until the next call; a last line without newline counts.
 * Returns 1, 0 at the end, -EMSGSIZE for a line above LINE_BYTES_MAX (it is skipped, go on), -EINTR when a
 * signal came, -EAGAIN when nothing came for LINES_WAIT_MS (call again after both), or another negative
 * errno.
 */
int lines_next(struct lines *l, struct span *line) __attribute__((warn_unused_result));

#endif
