/* The bounded table behind the store; see cache.h. Pages and their members are in entry_page.c. */
#include "cache/entries.h"

#include "cache/entries_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>

/* What malloc spends on a block: what it can use of it, and its header. */
size_t entries_block_size(void *block)
{
    return block == NULL ? 0 : malloc_usable_size(block) + sizeof(size_t);
}

static void pool_init(struct entry_pool *pool, size_t budget)
{
    sieve_init(&pool->sieve);
    list_init(&pool->dead);
    pool->budget = budget;
}

int entries_init(struct entries *c, size_t budget, struct cache_metrics *metrics)
{
    *c = (struct entries){.metrics = metrics};
    pool_init(&c->negative, budget / ENTRIES_NEGATIVE_PART);
    pool_init(&c->positive, budget - c->negative.budget);
    list_init(&c->pages);
    list_init(&c->dead_pages);
    list_init(&c->cleared_pages);
    if (budget == 0)
        return 0;
    if (getrandom(&c->seed, sizeof c->seed, GRND_NONBLOCK) < 0)
        c->seed = (uint64_t)(uintptr_t)c;
    int err = table_init(&c->table);
    return err != 0 ? err : table_init(&c->members);
}

void entries_fini(struct entries *c)
{
    enum { MANY = 1024 };
    entries_clear(c);
    for (int steps = 0; steps < ENTRIES_FINI_STEPS && entries_has_excess(c); steps += MANY)
        (void)entries_reclaim(c, MANY);
    table_fini(&c->table);
    table_fini(&c->members);
}

static bool keeps_anything(const struct entries *c)
{
    return c->members.directory != NULL;
}

/* --- the table --- */

/* Multiplies to 128 bits and folds: each bit of the input reaches each bit of the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t word_at(const char *data)
{
    uint64_t word = 0;
    memcpy(&word, data, sizeof word);
    return word;
}

static inline uint64_t hash_of(const struct entries *c, enum entry_kind kind, struct span key)
{
    uint64_t h = c->seed ^ ((uint64_t)kind + 1) * 0x9E3779B97F4A7C15U ^ key.len;
    for (; key.len >= sizeof(uint64_t); key = span_skip(key, sizeof(uint64_t)))
        h = fold(h ^ word_at(key.data), 0xA0761D6478BD642FU ^ c->seed);
    if (key.len > 0) {
        uint64_t word = 0;
        memcpy(&word, key.data, key.len);
        h = fold(h ^ word, 0xA0761D6478BD642FU ^ c->seed);
    }
    return fold(h, 0xE7037ED1A0B428DBU);
}

uint64_t entries_hash(const struct entries *c, enum entry_kind kind, struct span key)
{
    return hash_of(c, kind, key);
}

/* The lines of memory in which a card's entry ends and its body begins come together, not one by one. */
static inline void fetch_ahead(const struct entry *e)
{
    enum { LINE = 64 };
    __builtin_prefetch((const char *)e + LINE);
    __builtin_prefetch((const char *)e + LINE + LINE);
}

/* Most keys are numbers. */
static inline bool has_key(const struct entry *e, struct span key)
{
    if (e->key_len == sizeof(uint64_t) && key.len == sizeof(uint64_t))
        return word_at(e->key) == word_at(key.data);
    return span_equal((struct span){e->key, e->key_len}, key);
}

static struct entry *lookup(const struct entries *c, enum entry_kind kind, struct span key, uint64_t hash)
{
    const struct table_slot *slot = table_find(&c->table, hash);
    while (slot != NULL) {
        struct entry *e = slot->entry;
        fetch_ahead(e);
        if (e->kind == kind && has_key(e, key))
            return e;
        slot = table_find_next(&c->table, slot);
    }
    return NULL;
}

/* --- entries --- */

static struct entry_pool *pool_of(struct entries *c, const struct entry *e)
{
    return e->negative ? &c->negative : &c->positive;
}

static void *block_of(struct entry *e)
{
    return e->in_front ? NULL : e;
}

static size_t body_size(struct blob *body)
{
    return body == NULL ? 0 : entries_block_size(blob_block(body));
}

static void set_cost(struct entries *c, struct entry *e)
{
    struct entry_pool *pool = pool_of(c, e);
    pool->used -= e->cost;
    e->cost = entries_block_size(block_of(e)) + body_size(e->body);
    if (e->kind == ENTRY_PAGE)
        e->cost += entries_block_size(e->page);
    pool->used += e->cost;
}

/* An entry in front of its body goes with it, when the last connection has written it. */
static void free_entry(struct entry *e)
{
    void *block = block_of(e);
    blob_unref(e->body);
    free(block);
}

/* Takes apart what entries_find_linked has brought together. */
static void part(struct entry *e)
{
    if (e->peer != NULL)
        e->peer->peer = NULL;
    e->peer = NULL;
}

/*
 * glibc's malloc keeps what is given back in one list, until somebody asks for memory and sorts all of it:
 * who came next waited for 10 ms when 100,000 cards had changed. So it is asked now and then, for a size that
 * is hardly in the list as it is.
 */
static void let_allocator_sort(struct entries *c)
{
    enum { FREED_MAX = 512, UNUSUAL_SIZE = 20011 };
    if (++c->freed < FREED_MAX)
        return;
    c->freed = 0;
    void *volatile block = malloc(UNUSUAL_SIZE); /* volatile: or the compiler would leave both out */
    free(block);
}

/* The last of it, when it is in no list and no table any more. */
static void release(struct entries *c, struct entry *e)
{
    part(e);
    pool_of(c, e)->used -= e->cost;
    if (e->kind == ENTRY_PAGE)
        entries_page_free(c, e->page);
    free_entry(e);
    let_allocator_sort(c);
    metric_sub(&c->metrics->cache_entries, 1);
}

static void remove_entry(struct entries *c, struct entry *e)
{
    table_remove(&c->table, e->hash, e);
    sieve_remove(&pool_of(c, e)->sieve, &e->node);
    release(c, e);
}

static void publish_size(struct entries *c)
{
    metric_set(&c->metrics->cache_bytes, c->positive.used + c->negative.used);
}

/* --- what is dead, and what is too much --- */

/* Frees one of what was cleared of this pool. False when there is nothing. */
static bool free_cleared(struct entries *c, struct entry_pool *pool)
{
    if (list_empty(&pool->dead))
        return false;
    struct sieve_node *node = LIST_ENTRY(pool->dead.prev, struct sieve_node, link);
    list_remove(&node->link);
    release(c, LIST_ENTRY(node, struct entry, node));
    return true;
}

/* Frees one thing that is dead and counts among the bytes of this pool. False when there is nothing. */
static bool free_dead(struct entries *c, struct entry_pool *pool)
{
    if (free_cleared(c, pool))
        return true;
    if (pool != &c->positive)
        return false;
    if (!list_empty(&c->dead_pages)) {
        remove_entry(c, LIST_ENTRY(c->dead_pages.next, struct entry_page, link)->entry);
        return true;
    }
    if (c->dead_segments == NULL)
        return false;
    table_free_dead(&c->dead_segments);
    c->positive.used -= sizeof(struct table_segment);
    return true;
}

static bool evict(struct entries *c, struct entry_pool *pool)
{
    struct sieve_node *victim = sieve_victim(&pool->sieve);
    if (victim == NULL)
        return false;
    remove_entry(c, LIST_ENTRY(victim, struct entry, node));
    metric_add(&c->metrics->cache_evictions_total, 1);
    return true;
}

static void make_room(struct entries *c, struct entry_pool *pool)
{
    for (int i = 0; i < ENTRIES_ROOM_STEPS && pool->used > pool->budget; i++)
        if (!free_dead(c, pool) && !evict(c, pool))
            break;
    publish_size(c);
}

static bool is_over_budget(const struct entry_pool *pool)
{
    return pool->used > pool->budget && !list_empty(&pool->sieve.queue);
}

bool entries_has_excess(const struct entries *c)
{
    return !list_empty(&c->dead_pages) || c->dead_segments != NULL || !list_empty(&c->positive.dead) ||
           !list_empty(&c->negative.dead) || is_over_budget(&c->positive) || is_over_budget(&c->negative);
}

static bool reclaim_one(struct entries *c, struct entry_pool *pool)
{
    return free_dead(c, pool) || (is_over_budget(pool) && evict(c, pool));
}

int entries_reclaim(struct entries *c, int steps)
{
    int done = 0;
    while (done < steps && (reclaim_one(c, &c->positive) || reclaim_one(c, &c->negative)))
        done++;
    publish_size(c);
    return done;
}

/* --- looking up --- */

static inline struct entry *find(const struct entries *c, enum entry_kind kind, struct span key)
{
    if (c->table.used == 0)
        return NULL;
    struct entry *e = lookup(c, kind, key, hash_of(c, kind, key));
    return e != NULL && kind == ENTRY_PAGE && !entries_page_is_current(c, e->page) ? NULL : e;
}

struct entry *entries_find(struct entries *c, enum entry_kind kind, struct span key)
{
    struct entry *e = find(c, kind, key);
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

const struct entry *entries_peek(const struct entries *c, enum entry_kind kind, struct span key)
{
    return find(c, kind, key);
}

const struct entry *entries_walk(const struct entries *c, size_t *cursor, int steps)
{
    const struct entry *e = table_walk(&c->table, cursor, steps);
    bool dead = e != NULL && e->kind == ENTRY_PAGE && !entries_page_is_current(c, e->page);
    return dead ? NULL : e;
}

struct entry *entries_find_linked(struct entries *c, struct entry *link)
{
    struct entry *card = link->peer;
    if (card != NULL) {
        fetch_ahead(card);
        sieve_hit(&card->node);
        return card;
    }
    card = entries_find(c, ENTRY_CARD, entries_key_of(&link->value));
    if (card != NULL) {
        part(card);
        card->peer = link;
        link->peer = card;
    }
    return card;
}

/* --- putting in and dropping --- */

static struct entry *entry_new(const struct insert_params *d)
{
    size_t size = sizeof(struct entry) + d->key.len;
    void *front = d->body == NULL ? NULL : blob_take_headroom(d->body, size);
    struct entry *e = front != NULL ? front : malloc(size);
    if (e == NULL)
        return NULL;
    *e = (struct entry){.negative = d->negative, .in_front = front != NULL, .kind = (unsigned char)d->kind};
    e->key_len = (unsigned)d->key.len;
    e->body = d->body == NULL ? NULL : blob_ref(d->body);
    memcpy(e->key, d->key.data, d->key.len);
    return e;
}

struct entry *entries_insert(struct entries *c, const struct insert_params *draft)
{
    if (!keeps_anything(c))
        return NULL;
    uint64_t hash = hash_of(c, draft->kind, draft->key);
    struct entry *old = lookup(c, draft->kind, draft->key, hash);
    if (old != NULL)
        entries_remove(c, old);
    struct entry *e = entry_new(draft);
    if (e == NULL)
        return NULL;
    size_t table_before = table_bytes(&c->table);
    e->hash = hash;
    if (table_add(&c->table, hash, e) != 0) {
        free_entry(e);
        return NULL;
    }
    entries_count_growth(c, &c->table, table_before);
    sieve_add(&pool_of(c, e)->sieve, &e->node);
    metric_add(&c->metrics->cache_entries, 1);
    return e;
}

/* An entry larger than the whole budget would push out everything and then itself. */
void entries_settle(struct entries *c, struct entry *e)
{
    enum { EXCESS_PART = 16 };
    struct entry_pool *pool = pool_of(c, e);
    bool behind = pool->used > pool->budget + pool->budget / EXCESS_PART;
    set_cost(c, e);
    if (behind || e->cost > pool->budget)
        remove_entry(c, e);
    make_room(c, pool);
}

void entries_put(struct entries *c, enum entry_kind kind, struct span key, struct blob *body, int64_t value)
{
    const struct insert_params draft = {kind, false, key, body};
    struct entry *e = entries_insert(c, &draft);
    if (e == NULL)
        return;
    e->value = value;
    entries_settle(c, e);
}

void entries_put_absent(struct entries *c, enum entry_kind kind, struct span key, int64_t value)
{
    const struct insert_params draft = {kind, true, key, NULL};
    struct entry *e = entries_insert(c, &draft);
    if (e == NULL)
        return;
    e->value = value;
    entries_settle(c, e);
}

void entries_drop(struct entries *c, enum entry_kind kind, struct span key)
{
    if (c->table.used == 0)
        return;
    struct entry *e = lookup(c, kind, key, hash_of(c, kind, key));
    if (e == NULL)
        return;
    remove_entry(c, e);
    publish_size(c);
}

void entries_remove(struct entries *c, struct entry *e)
{
    remove_entry(c, e);
    publish_size(c);
}

void entries_recount(struct entries *c, struct entry *e)
{
    set_cost(c, e);
    publish_size(c);
}

/* The segments of a table count among the bytes until they are freed, its directory does no more. */
static void clear_table(struct entries *c, struct table *t)
{
    size_t before = table_bytes(t);
    size_t segments = t->segment_count;
    table_clear(t, &c->dead_segments);
    size_t dead = (segments - t->segment_count) * sizeof(struct table_segment);
    c->positive.used -= before - dead - table_bytes(t);
}

void entries_drop_pages(struct entries *c)
{
    if (list_empty(&c->pages))
        return;
    c->page_epoch++;
    list_splice(&c->dead_pages, &c->pages);
    clear_table(c, &c->members);
}

void entries_clear(struct entries *c)
{
    if (!keeps_anything(c))
        return;
    entries_drop_pages(c);
    list_splice(&c->cleared_pages, &c->dead_pages);
    sieve_take_all(&c->positive.sieve, &c->positive.dead);
    sieve_take_all(&c->negative.sieve, &c->negative.dead);
    clear_table(c, &c->table);
}
