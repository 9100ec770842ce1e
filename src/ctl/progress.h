/*
 * The progress of a load: on a terminal one line on stderr, drawn again at most ten times a second.
 *
 *     [###########.............]  46%  46,203 channels  38,414/s  1 s left
 *
 * Elsewhere nothing is drawn. The rate is that of the whole run.
 */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include "base/buf.h"

/* Back to the start of the line, and clear it. */
#define PROGRESS_WIPE "\r\033[K"

struct progress {
    bool drawn;          /* stderr is a terminal */
    int64_t total_bytes; /* of the file; 0 when unknown */
    uint64_t started_ns;
    uint64_t drawn_ns; /* when the line was drawn last */
    struct buf line;
};

void progress_start(struct progress *p, int64_t total_bytes);

/* Draws the line when it is time to. */
void progress_show(struct progress *p, int64_t channels, int64_t bytes);

/* Wipes the line. */
void progress_end(struct progress *p);

/* Seconds since the start, never 0. */
double progress_seconds(const struct progress *p);

/* What the line says, without control characters. */
void progress_write(const struct progress *p, struct buf *out, int64_t channels, int64_t bytes);

#endif
