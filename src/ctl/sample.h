/* Generated channels as NDJSON, for channelctl sample, which prints them, and load, which loads them. */
#ifndef CTL_SAMPLE_H
#define CTL_SAMPLE_H

#include "ctl/command.h"

struct samples;

/*
 * A series of `count` channels (a number as the user wrote it) for the flag --seed; owned, borrows `o`.
 * Returns NULL after printing what is wrong, with the exit code in *code.
 */
struct samples *samples_new(const struct options *o, const char *count, int *code);

void samples_free(struct samples *s);

/* Appends the next lines, about 128 KiB, to `out`; nothing at the end. Returns 0 or -ENOMEM. */
int samples_next(struct samples *s, struct buf *out) __attribute__((warn_unused_result));

#endif
