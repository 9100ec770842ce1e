/*
 * The input of a load: channels, a card per line. It is a set: of several lines about one channel the last
 * counts, in the place of the first, and of several channels with the same link the first keeps it. So it is
 * read twice: to note and check the lines, and to read the cards of those that count.
 *
 * A file is read by the places of its lines. One that can be read once, such as a pipe, is copied to an
 * unlinked file in $TMPDIR, by default /tmp. Sample channels are in no file: each line is made when it is
 * read.
 */
#ifndef CTL_INPUT_H
#define CTL_INPUT_H

#include "ctl/card.h"
#include "ctl/command.h"

enum { LINE_BYTES_MAX = 1024 * 1024 };

struct input_line {
    int64_t id;     /* of its channel */
    int64_t at;     /* its place, if it counts */
    int64_t number; /* in the file, from 1 */
    uint64_t link;  /* the hash of its link, 0: it has none; of LINK_TAKEN the id of the other channel */
};

struct input_channel {
    struct input_line *line;
};

struct input {
    /* Read-only. */
    const char *name; /* for messages */
    FILE *file;       /* the file or the copy; NULL: samples */
    size_t channels;
    int64_t repeated, refused; /* lines */

    /* Private from here on. */
    const struct link_hosts *hosts;
    struct report report;
    int64_t samples;               /* their number */
    int64_t start;                 /* where the first line begins, behind a byte order mark */
    struct buf text;               /* the last line */
    uint64_t seed;                 /* of the hashes */
    struct buf index;              /* the lines with an id, in the order of the file */
    struct input_line *next, *end; /* of these the next one that is read again, and the end */
    struct input_channel *channel; /* owned: the line of each channel, by id */
};

/* Opens the file of this path, "-" is standard input; or, if it is NULL, samples. Returns an exit code.
 * Call input_close in every case. */
int input_open(struct input *in, const struct options *o, const char *path)
    __attribute__((warn_unused_result));

void input_close(struct input *in);

/* Reads all lines, and reports those that are refused. Returns an exit code: of the whole input. */
int input_examine(struct input *in) __attribute__((warn_unused_result));

/* True when it has the channel with the id of this text. */
bool input_has(const struct input *in, struct span id_text);

/*
 * Reads the card of the next channel, in the order of the file; *card is owned (card_fini). Returns 1, 0 at
 * the end, -ESTALE if the file has been changed since it was examined, or another negative errno.
 */
int input_next(struct input *in, struct card *card) __attribute__((warn_unused_result));

/*
 * The line that begins at *at, without its newline, borrowed until another one is read; *at becomes the
 * beginning of the next one. A place is an offset in the file, or the number of a sample. Returns 1, 0 at the
 * end, -EMSGSIZE for a line above LINE_BYTES_MAX, or another negative errno.
 */
int input_read_line(struct input *in, int64_t *at, struct span *line) __attribute__((warn_unused_result));

#endif
