/*
 * Open addressing over digests; see api_keys.h.
 *
 * Digests are as good as random numbers, but whoever fills the set may write anything that looks like one:
 * where one lies is hashed with a seed, so that none can be made to lie where all others do.
 */
#include "cache/api_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

void api_keys_init(struct api_keys *k)
{
    *k = (struct api_keys){0};
    if (getrandom(&k->seed, sizeof k->seed, GRND_NONBLOCK) < 0)
        k->seed = (uint64_t)(uintptr_t)k;
}

void api_keys_fini(struct api_keys *k)
{
    api_keys_clear(k);
}

void api_keys_clear(struct api_keys *k)
{
    free(k->slot);
    free(k->taken);
    *k = (struct api_keys){.seed = k->seed};
}

/* Where `key` is, or the free place where it would be. */
static size_t place_of(const struct api_keys *k, const struct digest *key)
{
    size_t at = XXH3_64bits_withSeed(key->bytes, DIGEST_LEN, k->seed) & (k->capacity - 1);
    while (k->taken[at] && memcmp(k->slot[at].bytes, key->bytes, DIGEST_LEN) != 0)
        at = (at + 1) & (k->capacity - 1);
    return at;
}

int api_keys_begin(struct api_keys *k, size_t size)
{
    api_keys_clear(k);
    if (size > API_KEYS_MAX)
        return -E2BIG;
    k->room = size;
    k->capacity = 16;
    while (k->capacity < 2 * size)
        k->capacity *= 2;
    k->slot = calloc(k->capacity, sizeof *k->slot);
    k->taken = calloc(k->capacity, sizeof *k->taken);
    if (k->slot != NULL && k->taken != NULL)
        return 0;
    api_keys_clear(k);
    return -ENOMEM;
}

static int add_one(struct api_keys *k, const struct digest *d)
{
    size_t at = place_of(k, d);
    if (k->taken[at])
        return 0;
    if (k->room == 0)
        return -E2BIG;
    k->room--;
    k->slot[at] = *d;
    k->taken[at] = true;
    return 0;
}

static int add_all(struct api_keys *k, const redisReply *members, uint64_t *unreadable)
{
    if (members->type != REDIS_REPLY_SET && members->type != REDIS_REPLY_ARRAY)
        return -EINVAL;
    for (size_t i = 0; i < members->elements; i++) {
        const redisReply *member = members->element[i];
        struct digest d;
        if (member->type != REDIS_REPLY_STRING ||
            !digest_from_hex((struct span){member->str, member->len}, &d))
            (*unreadable)++;
        else if (add_one(k, &d) != 0)
            return -E2BIG;
    }
    return 0;
}

int api_keys_add(struct api_keys *k, const redisReply *members, uint64_t *unreadable)
{
    int err = add_all(k, members, unreadable);
    if (err != 0)
        api_keys_clear(k);
    return err;
}

void api_keys_seal(struct api_keys *k)
{
    k->loaded = true;
}

enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key)
{
    if (!k->loaded)
        return AUTH_RESULT_UNKNOWN;
    return k->taken[place_of(k, key)] ? AUTH_RESULT_VALID : AUTH_RESULT_INVALID;
}
