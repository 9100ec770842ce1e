/* Sample channels as JSON, for channelctl sample, which prints them, and load, which loads them. */
#ifndef CTL_SAMPLE_H
#define CTL_SAMPLE_H

#include "base/buf.h"

/* Reads the number of channels as the user wrote it. Returns EXIT_OK, or EXIT_USAGE after printing what is
 * wrong. */
int sample_parse_count(const char *text, int64_t *out);

/* Appends the n-th channel, from 0, without a newline; its link has this host. */
void sample_write(struct buf *out, const char *host, int64_t n);

#endif
