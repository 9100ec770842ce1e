/* The bounded table behind the store; see cache.h. Pages and their members are in cache_page.c. */
#include "store/cache.h"

#include "store/cache_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>

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
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): these are pointers */
    c->member_bucket = calloc(CACHE_MEMBER_BUCKETS, sizeof *c->member_bucket);
    return c->member_bucket == NULL ? -ENOMEM : table_init(&c->table);
}

void cache_fini(struct cache *c)
{
    cache_clear(c);
    table_fini(&c->table);
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

/* The lines of memory in which a card's entry ends and its body begins come together, not one by one. */
static inline void fetch_ahead(const struct cache_entry *e)
{
    enum { LINE = 64 };
    __builtin_prefetch((const char *)e + LINE);
    __builtin_prefetch((const char *)e + LINE + LINE);
}

static struct cache_entry *lookup(const struct cache *c, enum cache_kind kind, struct span key, uint64_t hash)
{
    const struct table_slot *slot = table_next(&c->table, hash, hash);
    while (slot != NULL) {
        struct cache_entry *e = slot->entry;
        fetch_ahead(e);
        if (e->kind == kind && span_equal((struct span){e->key, e->key_len}, key))
            return e;
        slot = table_next(&c->table, hash, table_index(&c->table, slot) + 1);
    }
    return NULL;
}

/* --- entries --- */

static struct cache_pool *pool_of(struct cache *c, const struct cache_entry *e)
{
    return e->negative ? &c->negative : &c->positive;
}

static void *block_of(struct cache_entry *e)
{
    return e->in_front ? NULL : e;
}

static size_t body_size(struct blob *body)
{
    return body == NULL ? 0 : cache_block_size(blob_block(body));
}

static void set_cost(struct cache *c, struct cache_entry *e)
{
    struct cache_pool *pool = pool_of(c, e);
    pool->used -= e->cost;
    e->cost = cache_block_size(block_of(e)) + body_size(e->body);
    if (e->kind == CACHE_PAGE)
        e->cost += cache_block_size(e->page);
    pool->used += e->cost;
}

/* An entry in front of its body goes with it, when the last connection has written it. */
static void free_entry(struct cache_entry *e)
{
    void *block = block_of(e);
    blob_unref(e->body);
    free(block);
}

/* Takes apart what cache_find_linked has brought together. */
static void part(struct cache_entry *e)
{
    if (e->peer != NULL)
        e->peer->peer = NULL;
    e->peer = NULL;
}

static void remove_entry(struct cache *c, struct cache_entry *e)
{
    struct cache_pool *pool = pool_of(c, e);
    table_remove(&c->table, e->hash, e);
    sieve_remove(&pool->sieve, &e->node);
    part(e);
    pool->used -= e->cost;
    if (e->kind == CACHE_PAGE)
        cache_page_free(c, e->page);
    free_entry(e);
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
    if (c->table.used == 0)
        return NULL;
    struct cache_entry *e = lookup(c, kind, key, hash_of(c, kind, key));
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

struct cache_entry *cache_find_linked(struct cache *c, struct cache_entry *link)
{
    struct cache_entry *card = link->peer;
    if (card != NULL) {
        fetch_ahead(card);
        sieve_hit(&card->node);
        return card;
    }
    card = cache_find(c, CACHE_CARD, cache_key_of(&link->value));
    if (card != NULL) {
        part(card);
        card->peer = link;
        link->peer = card;
    }
    return card;
}

static struct cache_entry *entry_new(const struct cache_draft *d)
{
    size_t size = sizeof(struct cache_entry) + d->key.len;
    void *front = d->body == NULL ? NULL : blob_take_front(d->body, size);
    struct cache_entry *e = front != NULL ? front : malloc(size);
    if (e == NULL)
        return NULL;
    *e = (struct cache_entry){
        .negative = d->negative, .in_front = front != NULL, .kind = (unsigned char)d->kind};
    e->key_len = (unsigned)d->key.len;
    e->body = d->body == NULL ? NULL : blob_ref(d->body);
    memcpy(e->key, d->key.data, d->key.len);
    return e;
}

struct cache_entry *cache_insert(struct cache *c, const struct cache_draft *draft)
{
    if (c->table.capacity == 0)
        return NULL;
    uint64_t hash = hash_of(c, draft->kind, draft->key);
    struct cache_entry *old = lookup(c, draft->kind, draft->key, hash);
    if (old != NULL)
        cache_remove(c, old);
    struct cache_entry *e = entry_new(draft);
    if (e == NULL)
        return NULL;
    size_t table_before = table_bytes(&c->table);
    e->hash = hash;
    if (table_add(&c->table, hash, e) != 0) {
        free_entry(e);
        return NULL;
    }
    /* As it grows the table takes room from what it holds. */
    c->positive.used += table_bytes(&c->table) - table_before;
    sieve_add(&pool_of(c, e)->sieve, &e->node);
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
    const struct cache_draft draft = {kind, false, key, body};
    struct cache_entry *e = cache_insert(c, &draft);
    if (e == NULL)
        return;
    e->value = value;
    cache_settle(c, e);
}

void cache_put_absent(struct cache *c, enum cache_kind kind, struct span key)
{
    const struct cache_draft draft = {kind, true, key, NULL};
    struct cache_entry *e = cache_insert(c, &draft);
    if (e != NULL)
        cache_settle(c, e);
}

void cache_drop(struct cache *c, enum cache_kind kind, struct span key)
{
    if (c->table.used == 0)
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
