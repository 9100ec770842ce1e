/*
 * The hash of all hash tables: XXH3 with a seed.
 *
 * Keys come from clients and from Redis. With a random seed (random.h) nobody can construct keys whose hashes
 * collide. Entity tags have no seed, since they must be the same in every process (blob.h).
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/span.h"

#include <xxhash.h>

static inline uint64_t hash_bytes(struct span bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, seed);
}

static inline uint64_t hash_int64(int64_t number, uint64_t seed)
{
    return hash_bytes((struct span){(const char *)&number, sizeof number}, seed);
}

#endif
