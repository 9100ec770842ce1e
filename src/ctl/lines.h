/*
 * The lines of a file, which are read twice: from the beginning to the end, and then those that were kept.
 * They are read in pieces, so that memory is bounded by the longest line that is accepted.
 *
 * A regular file is read twice itself. Of an input that cannot be read twice, such as a pipe, the lines that
 * are kept are copied to an unlinked file in $TMPDIR, by default /tmp.
 */
#ifndef CTL_LINES_H
#define CTL_LINES_H

#include "base/buf.h"

enum { LINE_BYTES_MAX = 1024 * 1024, LINES_WAIT_MS = 1000 };

/* Appends the next bytes to `out`, none at the end. Returns 0 or a negative errno. */
typedef int (*lines_source)(void *arg, struct buf *out);

struct lines {
    int fd;
    int copy;            /* the unlinked file, or -1 */
    lines_source source; /* instead of fd, or NULL */
    void *source_arg;
    bool begun;       /* the first line was seen whole, and the input may be NDJSON */
    const char *form; /* after -EILSEQ: what the input is, and what to do about it */
    bool skipping;    /* the rest of a line that is too long */
    bool ended;       /* the input has no more bytes */
    size_t at;        /* where the next line begins in `read` */
    size_t searched;  /* there is no newline before this place */
    int64_t number;   /* the last line's, from 1 */
    int64_t offset;   /* where the last line begins */
    int64_t bytes;    /* read so far */
    int64_t first;    /* the offset in the file of its first byte; -1: it cannot be read twice */
    struct buf read;
    struct buf kept; /* the end of the copy, which is not written yet */
    int64_t copied;  /* bytes of the copy, with those */
};

/* Lines from `source`; `arg` is borrowed until lines_close, which the caller must call. */
static inline void lines_open_source(struct lines *l, lines_source source, void *arg)
{
    *l = (struct lines){.fd = -1, .copy = -1, .source = source, .source_arg = arg};
}

/* "-" is standard input. Returns 0 or a negative errno. Call lines_close in every case. */
int lines_open(struct lines *l, const char *path) __attribute__((warn_unused_result));

void lines_close(struct lines *l);

/* The size of the file in bytes; 0: unknown, because it is not a regular file. */
int64_t lines_total(const struct lines *l);

/*
 * The next line without its newline, borrowed until the next call; the last line may lack the newline.
 * A byte order mark at the beginning is skipped. Returns 1, 0 at the end, -EILSEQ when the input has another
 * form than lines of JSON, by its first line, -EMSGSIZE for a line above LINE_BYTES_MAX (it is skipped),
 * -EINTR after a signal, or when more input was read, -EAGAIN when no input came for LINES_WAIT_MS, or
 * another negative errno. After -EMSGSIZE, -EINTR and -EAGAIN the next call goes on.
 */
int lines_next(struct lines *l, struct span *line) __attribute__((warn_unused_result));

/* The line without the blanks around it. */
struct span lines_trim(struct span line);

/* Keeps the last line for the second reading. *offset: where it begins then. Returns 0 or a negative errno.
 */
int lines_keep(struct lines *l, struct span line, int64_t *offset) __attribute__((warn_unused_result));

/* Begins the second reading. A source must have been set to its beginning. Returns 0 or a negative errno. */
int lines_rewind(struct lines *l) __attribute__((warn_unused_result));

/* Makes the line at an offset of lines_keep the next one; of a source, lines that follow each other. Returns
 * 0 or a negative errno. */
int lines_seek(struct lines *l, int64_t offset) __attribute__((warn_unused_result));

/* Where the copy is, for messages. */
const char *lines_copy_folder(void);

#endif
