#ifndef SOAK_VERDICT_H
#define SOAK_VERDICT_H

#include "soak/witness.h"

/*
 * Whether channeld was as well at the end as at the beginning. Memory may have grown by a fiftieth and a few
 * megabytes between the second quarter of the time and the last (not judged under sanitizers, which keep what
 * was freed); the median p99 of calm intervals may have trebled; once all clients have gone, descriptors and
 * threads are as many as before the first came.
 *
 * Prints what it finds; true when all is well.
 */
bool verdict_reach(const struct witness *witness, const struct sample *before, const struct sample *after);

#endif
