/* The bounded table behind the store; see cache.h. Pages and their members are in cache_page.c. */
#include "store/cache.h"

#include "store/cache_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>

enum { FIRST_BUCKETS = 1024 };

/* What malloc spends on a block: what it can use of it, and its header. */
size_t cache_block_size(void *block)
{
    return block == NULL ? 0 : malloc_usable_size(block) + sizeof(size_t);
}

int cache_init(struct cache *c, size_t budget, struct metrics *metrics)
{
    *c = (struct cache){.metrics = metrics};
    sieve_init(&c->positive.sieve);
    sieve_init(&c->negative.sieve);
    list_init(&c->pages);
    c->negative.budget = budget / CACHE_NEGATIVE_PART;
    c->positive.budget = budget - c->negative.budget;
    if (budget == 0)
        return 0;
    if (getrandom(&c->seed, sizeof c->seed, GRND_NONBLOCK) < 0)
        c->seed = (uint64_t)(uintptr_t)c;
    c->bucket = calloc(FIRST_BUCKETS, sizeof *c->bucket);
    c->member_bucket = calloc(CACHE_MEMBER_BUCKETS, sizeof *c->member_bucket);
    if (c->bucket == NULL || c->member_bucket == NULL)
        return -ENOMEM;
    c->bucket_count = FIRST_BUCKETS;
    return 0;
}

void cache_fini(struct cache *c)
{
    cache_clear(c);
    free(c->bucket);
    free(c->member_bucket);
}

/* --- the table --- */

/* Multiplies to 128 bits and folds: each bit of the input reaches each bit of the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(const struct cache *c, enum cache_kind kind, struct span key)
{
    uint64_t h = c->seed ^ ((uint64_t)kind + 1) * 0x9E3779B97F4A7C15U ^ key.len;
    while (key.len > 0) {
        uint64_t word = 0;
        size_t n = key.len < sizeof word ? key.len : sizeof word;
        memcpy(&word, key.data, n);
        h = fold(h ^ word, 0xA0761D6478BD642FU ^ c->seed);
        key = span_skip(key, n);
    }
    return fold(h, 0xE7037ED1A0B428DBU);
}

static struct cache_entry **slot_of(struct cache *c, uint64_t hash)
{
    return &c->bucket[hash & (c->bucket_count - 1)];
}

static struct cache_entry *lookup(struct cache *c, enum cache_kind kind, struct span key, uint64_t hash)
{
    struct cache_entry *e = *slot_of(c, hash);
    while (e != NULL &&
           !(e->hash == hash && e->kind == kind && span_equal((struct span){e->key, e->key_len}, key)))
        e = e->chain;
    return e;
}

/* A table that cannot grow gets slower, not wrong. Its own bytes count with the positive entries. */
static void grow(struct cache *c)
{
    size_t count = c->bucket_count * 2;
    struct cache_entry **bucket = calloc(count, sizeof *bucket);
    if (bucket == NULL)
        return;
    for (size_t i = 0; i < c->bucket_count; i++) {
        struct cache_entry *next = NULL;
        for (struct cache_entry *e = c->bucket[i]; e != NULL; e = next) {
            next = e->chain;
            e->chain = bucket[e->hash & (count - 1)];
            bucket[e->hash & (count - 1)] = e;
        }
    }
    free(c->bucket);
    c->positive.used += (count - c->bucket_count) * sizeof *bucket;
    c->bucket = bucket;
    c->bucket_count = count;
}

/* --- entries --- */

static struct cache_pool *pool_of(struct cache *c, const struct cache_entry *e)
{
    return e->negative ? &c->negative : &c->positive;
}

static void set_cost(struct cache *c, struct cache_entry *e)
{
    struct cache_pool *pool = pool_of(c, e);
    pool->used -= e->cost;
    e->cost = cache_block_size(e) + cache_block_size(e->body);
    if (e->kind == CACHE_PAGE)
        e->cost += cache_block_size(e->page);
    pool->used += e->cost;
}

static void unlink_entry(struct cache *c, struct cache_entry *e)
{
    struct cache_entry **at = slot_of(c, e->hash);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
}

static void remove_entry(struct cache *c, struct cache_entry *e)
{
    struct cache_pool *pool = pool_of(c, e);
    unlink_entry(c, e);
    sieve_remove(&pool->sieve, &e->node);
    pool->used -= e->cost;
    c->entries--;
    if (e->kind == CACHE_PAGE)
        cache_page_free(c, e->page);
    blob_unref(e->body);
    free(e);
    metric_sub(&c->metrics->cache_entries, 1);
}

static void publish_size(struct cache *c)
{
    metric_set(&c->metrics->cache_bytes, c->positive.used + c->negative.used);
}

static void make_room(struct cache *c, struct cache_pool *pool)
{
    while (pool->used > pool->budget) {
        struct sieve_node *victim = sieve_victim(&pool->sieve);
        if (victim == NULL)
            break;
        remove_entry(c, LIST_ENTRY(victim, struct cache_entry, node));
        metric_add(&c->metrics->cache_evictions_total, 1);
    }
    publish_size(c);
}

struct cache_entry *cache_find(struct cache *c, enum cache_kind kind, struct span key)
{
    if (c->entries == 0)
        return NULL;
    struct cache_entry *e = lookup(c, kind, key, hash_of(c, kind, key));
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

struct cache_entry *cache_insert(struct cache *c, enum cache_kind kind, struct span key, bool negative)
{
    if (c->bucket == NULL)
        return NULL;
    cache_drop(c, kind, key);
    struct cache_entry *e = calloc(1, sizeof *e + key.len);
    if (e == NULL)
        return NULL;
    e->kind = (unsigned char)kind;
    e->negative = negative;
    e->hash = hash_of(c, kind, key);
    e->key_len = (unsigned)key.len;
    memcpy(e->key, key.data, key.len);
    if (c->entries >= c->bucket_count)
        grow(c);
    struct cache_entry **slot = slot_of(c, e->hash);
    e->chain = *slot;
    *slot = e;
    sieve_add(&pool_of(c, e)->sieve, &e->node);
    c->entries++;
    metric_add(&c->metrics->cache_entries, 1);
    return e;
}

/* An entry larger than the whole budget would push out everything and then itself. */
void cache_settle(struct cache *c, struct cache_entry *e)
{
    set_cost(c, e);
    struct cache_pool *pool = pool_of(c, e);
    if (e->cost > pool->budget)
        remove_entry(c, e);
    make_room(c, pool);
}

void cache_put(struct cache *c, enum cache_kind kind, struct span key, struct blob *body, int64_t value)
{
    struct cache_entry *e = cache_insert(c, kind, key, false);
    if (e == NULL)
        return;
    e->body = body == NULL ? NULL : blob_ref(body);
    e->value = value;
    cache_settle(c, e);
}

void cache_put_absent(struct cache *c, enum cache_kind kind, struct span key)
{
    struct cache_entry *e = cache_insert(c, kind, key, true);
    if (e != NULL)
        cache_settle(c, e);
}

void cache_drop(struct cache *c, enum cache_kind kind, struct span key)
{
    if (c->entries == 0)
        return;
    struct cache_entry *e = lookup(c, kind, key, hash_of(c, kind, key));
    if (e == NULL)
        return;
    remove_entry(c, e);
    publish_size(c);
}

void cache_remove(struct cache *c, struct cache_entry *e)
{
    remove_entry(c, e);
    publish_size(c);
}

void cache_recount(struct cache *c, struct cache_entry *e)
{
    set_cost(c, e);
    publish_size(c);
}

static void clear_pool(struct cache *c, struct cache_pool *pool)
{
    struct sieve_node *n = NULL;
    while ((n = sieve_victim(&pool->sieve)) != NULL)
        remove_entry(c, LIST_ENTRY(n, struct cache_entry, node));
}

void cache_clear(struct cache *c)
{
    clear_pool(c, &c->positive);
    clear_pool(c, &c->negative);
    publish_size(c);
}
