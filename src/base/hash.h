/*
 * The hashes of all hash tables, with a random seed, so that clients cannot construct keys whose hashes
 * collide; and pseudo-random numbers for values that need not be secret.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/clock.h"
#include "base/span.h"

#include <sys/random.h>
#include <unistd.h>
#include <xxhash.h>

static inline uint64_t hash_bytes(struct span bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, seed);
}

/* The finalizer of SplitMix64 (public domain, Sebastiano Vigna): different numbers remain different. */
static inline uint64_t mix_bits(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline uint64_t hash_int64(int64_t number, uint64_t seed)
{
    return mix_bits((uint64_t)number ^ seed);
}

/* From the kernel's generator, or if that has no random numbers yet, of the time, the process and `address`,
 * that of the seeded object. */
static inline uint64_t random_seed(const void *address)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = clock_now_ns() ^ (uint64_t)getpid() << 32 ^ (uintptr_t)address;
    return seed;
}

/* The next number of a series that begins with any *state: SplitMix64. */
static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    return mix_bits(*state);
}

#endif
