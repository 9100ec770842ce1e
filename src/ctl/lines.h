/*
 * The lines of an input, which is a regular file: they are read by their places, more than once. An input
 * that can be read once, such as a pipe, is copied to an unlinked file in $TMPDIR, by default /tmp. Sample
 * channels are in no file: each line is made when it is read.
 */
#ifndef CTL_LINES_H
#define CTL_LINES_H

#include "base/buf.h"

#include <stdio.h>

enum { LINE_BYTES_MAX = 1024 * 1024 };

struct lines {
    FILE *file;              /* the file or the copy; NULL: samples */
    const char *sample_host; /* the host of their links; borrowed */
    int64_t samples;         /* their number */
    int64_t start;           /* where the first line begins, behind a byte order mark */
    struct buf text;         /* the last line */
};

/* Opens a file; "-" is standard input. Returns EXIT_OK, or prints what is wrong and returns the exit code.
 * Call lines_close in every case. */
int lines_open(struct lines *l, const char *path) __attribute__((warn_unused_result));

/* The same for as many samples as this text says; `host` is borrowed. */
int lines_open_samples(struct lines *l, const char *host, const char *count)
    __attribute__((warn_unused_result));

void lines_close(struct lines *l);

/*
 * The line that begins at *at, without its newline, borrowed until another one is read; *at becomes the
 * beginning of the next one. A place is an offset in the file, or the number of a sample. Returns 1, 0 at the
 * end, -EMSGSIZE for a line above LINE_BYTES_MAX, or another negative errno.
 */
int lines_read(struct lines *l, int64_t *at, struct span *line) __attribute__((warn_unused_result));

#endif
