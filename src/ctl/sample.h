/* Sample channels as NDJSON, for channelctl sample, which prints them, and load, which loads them. */
#ifndef CTL_SAMPLE_H
#define CTL_SAMPLE_H

#include "ctl/command.h"

struct samples {
    const char *host; /* the host of their links; borrowed */
    int64_t made, count;
};

/* `count` channels, a number as the user wrote it. Returns EXIT_OK, or EXIT_USAGE after printing what is
 * wrong. */
int samples_init(struct samples *s, const struct options *o, const char *count);

/* Appends the next lines of the struct samples, about 128 KiB, to `out`; nothing at the end. Returns 0 or
 * -ENOMEM. */
int samples_next(void *samples, struct buf *out) __attribute__((warn_unused_result));

#endif
