/* Seeds of what must differ between processes but is no secret: hash tables, jitter, ids. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/clock.h"

#include <sys/random.h>
#include <unistd.h>

/*
 * A seed from the kernel's generator. Where that has no random numbers yet: from the time, the process and
 * `address`, which is of what is seeded.
 */
static inline uint64_t random_seed(const void *address)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = clock_now_ns() ^ (uint64_t)getpid() << 32 ^ (uintptr_t)address;
    return seed;
}

#endif
