/* Made-up titles, descriptions and numbers for sample channels: the same ones for the same seed, on every
 * machine. */
#ifndef CTL_SAMPLE_TEXT_H
#define CTL_SAMPLE_TEXT_H

#include "base/buf.h"

/* A generator of pseudo-random numbers (splitmix64, public domain, Sebastiano Vigna). */
struct prng {
    uint64_t state;
};

uint64_t prng_next(struct prng *p);

/* A number from 0 to `bound` - 1; `bound` is at least 1. */
uint64_t prng_below(struct prng *p, uint64_t bound);

/* True in `percent` of a hundred cases. */
bool prng_chance(struct prng *p, unsigned percent);

/* Each appends one text, in the writing system that `script` (any number) chooses. */
void sample_title(struct prng *p, uint64_t script, struct buf *out);
void sample_description(struct prng *p, uint64_t script, struct buf *out);

/* A word of [a-z] for a link. */
void sample_slug(struct prng *p, struct buf *out);

/* A category's name. */
void sample_category(struct prng *p, struct buf *out);

/* `count` characters of base64url. */
void sample_token(struct prng *p, size_t count, struct buf *out);

#endif
