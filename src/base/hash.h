/*
 * The hash of all hash tables: XXH3 with a seed.
 *
 * Keys come from clients and from Redis. With a random seed nobody can construct keys whose hashes collide.
 * Entity tags have no seed, since they must be the same in every process (blob.h).
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/span.h"

#include <sys/random.h>
#include <xxhash.h>

/* A seed from the kernel's generator; from an address, where there are no random numbers yet. */
static inline uint64_t hash_new_seed(const void *address)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)(uintptr_t)address;
    return seed;
}

static inline uint64_t hash_bytes(struct span bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, seed);
}

#endif
