/*
 * The input of channelctl load: a file of channels, one per line, each the JSON of a card as the API returns
 * it, or a whole response with one. Every field is checked: channeld shows each value of a card that passes
 * as it was in the file.
 */
#ifndef CTL_LOAD_H
#define CTL_LOAD_H

#include "ctl/terminal.h"
#include "ctl/writer.h"
#include "model/link.h"

/* --- Lines: read in pieces, so that memory is bounded by the longest line that is accepted --- */

enum { LINE_BYTES_MAX = 1024 * 1024, LINES_WAIT_MS = 1000 };

/* Appends the next bytes to `out`, none at the end. Returns 0 or a negative errno. */
typedef int (*lines_source)(void *arg, struct buf *out);

struct lines {
    int fd;
    lines_source source; /* instead of fd, or NULL */
    void *source_arg;
    bool begun;       /* the first line was seen whole, and the input may be NDJSON */
    const char *form; /* after -EILSEQ: what the input is, and what to do about it */
    bool skipping;    /* the rest of a line that is too long */
    bool ended;       /* the input has no more bytes */
    size_t at;        /* where the next line begins in `read` */
    size_t searched;  /* there is no newline before this place */
    int64_t number;   /* the last line's, from 1 */
    int64_t bytes;    /* read so far */
    struct buf read;
};

/* Lines from `source`; `arg` is borrowed until lines_close, which is due. */
static inline void lines_open_source(struct lines *l, lines_source source, void *arg)
{
    *l = (struct lines){.fd = -1, .source = source, .source_arg = arg};
}

void lines_close(struct lines *l);

/*
 * The next line without its newline, borrowed until the next call; the last line may lack the newline.
 * A byte order mark at the beginning is skipped. Returns 1, 0 at the end, -EILSEQ when the input has another
 * form than lines of JSON, by its first line, -EMSGSIZE for a line above LINE_BYTES_MAX (it is skipped),
 * -EINTR after a signal, or when more input was read, -EAGAIN when no input came for LINES_WAIT_MS, or
 * another negative errno. After -EMSGSIZE, -EINTR and -EAGAIN the next call goes on.
 */
int lines_next(struct lines *l, struct span *line) __attribute__((warn_unused_result));

/* --- Cards --- */

/* Where a line comes from, for messages: "FILE:LINE: FIELD: what is wrong". */
struct card_source {
    const char *file;
    int64_t line;
    struct report *report;
};

/*
 * Reads the card of a line. Its texts are appended to `texts`, which must have room for line.len bytes, so
 * that it does not move. Returns 0, -EINVAL after reporting everything that is wrong with the line, or
 * -ENOMEM.
 */
int card_read(const struct card_source *from, const struct link_hosts *hosts, struct span line,
              struct buf *texts, struct card *out) __attribute__((warn_unused_result));

#endif
