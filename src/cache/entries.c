/*
 * The bounded table of entries; see entries.h.
 *
 * `members` leads from a channel to the pages that have its summary.
 */
#include "cache/entries.h"

#include "base/allocator.h"
#include "base/hash.h"
#include "model/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Steps between two polls of the loop. A page takes ten microseconds. */
enum { ENTRIES_IDLE_STEPS = 128 };

void entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics)
{
    *es = (struct entries){.metrics = metrics, .budget = budget, .index_epoch = 1, .index_size = -1};
    sieve_init(&es->sieve);
    list_init(&es->dead);
    es->seed = random_seed(es);
}

void entries_fini(struct entries *es)
{
    enum { MANY = 1024 };
    entries_clear(es);
    /* not covered: no test keeps so many */
    for (int steps = 0; steps < ENTRIES_FINI_STEPS && entries_has_excess(es); steps += MANY)
        (void)entries_reclaim(es, MANY);
}

static bool entries_keeps_anything(const struct entries *es)
{
    return es->budget > 0;
}

/* --- the table --- */

/* Small tables do not count, since a cache of a few KiB could hold nothing else. */
static size_t entries_table_bytes(const struct table *t)
{
    size_t bytes = table_bytes(t);
    return bytes > ENTRIES_TABLE_FREE ? bytes - ENTRIES_TABLE_FREE : 0;
}

static inline uint64_t entries_hash_of(const struct entries *es, enum entry_kind kind, int64_t number)
{
    return hash_int64(number, es->seed + ((uint64_t)kind << 62));
}

static inline uint64_t entries_hash_of_link(const struct entries *es, struct span link)
{
    return hash_bytes(link, es->seed);
}

/* The link of a card; empty if the card is not found by its link. */
static inline struct span entries_link_of(const struct entry *e)
{
    return (struct span){e->link, e->link_len};
}

/* Prefetches together the cache lines in which a card's entry ends and its body begins. */
static inline void entries_prefetch(const struct entry *e)
{
    enum { LINE = 64 };
    __builtin_prefetch((const char *)e + LINE);
    __builtin_prefetch((const char *)e + LINE + LINE);
}

static struct entry *entries_lookup(const struct entries *es, enum entry_kind kind, int64_t number)
{
    const struct table_slot *slot = table_find(&es->table, entries_hash_of(es, kind, number));
    while (slot != NULL) {
        struct entry *e = slot->entry;
        entries_prefetch(e);
        if (e->kind == kind && e->number == number) /* not covered: two numbers with the same 64-bit hash */
            return e;
        slot = table_find_next(&es->table, slot);
    }
    return NULL;
}

/* Adds to one of the tables, whose growth reduces the room of the entries. Returns 0 or -ENOMEM. */
static int entries_add_to(struct entries *es, struct table *t, uint64_t hash, struct entry *e)
{
    size_t bytes_before = entries_table_bytes(t);
    int err = table_add(t, hash, e);
    es->used += entries_table_bytes(t) - bytes_before;
    return err;
}

/* --- bytes --- */

static size_t entries_body_size(struct blob *body)
{
    return body == NULL ? 0 : allocator_block_size(blob_block(body));
}

/* The bytes of all coded bodies, and of the struct that holds them. */
static size_t entries_coded_size(struct entry_coded *coded)
{
    size_t bytes = allocator_block_size(coded);
    for (int i = 0; coded != NULL && i < CODINGS - 1; i++)
        bytes += entries_body_size(coded->body[i]);
    return bytes;
}

static void entries_set_cost(struct entries *es, struct entry *e)
{
    assert(es->used >= e->cost);
    es->used -= e->cost;
    e->cost = (e->in_headroom ? 0 : allocator_block_size(e)) + entries_body_size(e->body);
    if (e->kind == ENTRY_PAGE)
        e->cost += allocator_block_size(e->page);
    e->cost += entries_coded_size(entry_coded_of(e));
    es->used += e->cost;
}

static void entries_publish_size(struct entries *es)
{
    metric_set(&es->metrics->cache_bytes, es->used);
}

/* --- pages and their channels --- */

static void entries_unlink_members(struct entries *es, const struct entry_page *page, int count)
{
    for (int i = 0; i < count; i++)
        table_remove(&es->members, hash_int64(page->member[i].id, es->seed), page->entry);
}

/* Returns 0, or -ENOMEM; then no member is linked. */
static int entries_link_members(struct entries *es, const struct entry_page *page)
{
    for (int i = 0; i < page->member_count; i++) {
        int err = entries_add_to(es, &es->members, hash_int64(page->member[i].id, es->seed), page->entry);
        if (err == 0)
            continue;
        entries_unlink_members(es, page, i); /* not covered: out of memory */
        return err;
    }
    return 0;
}

/* Frees a page whose entry is still whole. A page that was cleared is linked no more. NULL is allowed. */
static void entries_page_free(struct entries *es, struct entry_page *page)
{
    if (page != NULL && page->index_epoch >= es->cleared_epoch)
        entries_unlink_members(es, page, page->member_count);
    free(page);
}

static struct entry_page *entries_page_new(struct entries *es, struct entry *e, const struct page_info *info,
                                           const struct page_member *members, int count)
{
    struct entry_page *page = calloc(1, sizeof *page + (size_t)count * sizeof page->member[0]);
    if (page == NULL)
        return NULL;
    page->entry = e;
    page->index_epoch = es->index_epoch;
    page->info = *info;
    page->member_count = count;
    if (count > 0)
        memcpy(page->member, members, (size_t)count * sizeof page->member[0]);
    if (entries_link_members(es, page) == 0)
        return page;
    free(page);
    return NULL;
}

/* --- coded bodies --- */

/* The place of the coded bodies in a complete entry. */
static struct entry_coded **entries_coded_place(struct entry *e)
{
    return e->kind == ENTRY_PAGE ? &e->page->coded : &e->coded;
}

/* The caller must call entries_set_cost(), unless the entry ends. */
static void entries_drop_coded(struct entries *es, struct entry *e)
{
    e->coding_bits = 0;
    if (entry_coded_of(e) == NULL)
        return;
    struct entry_coded **coded = entries_coded_place(e);
    metric_sub(&es->metrics->cache_coded_bytes, entries_coded_size(*coded));
    for (int i = 0; i < CODINGS - 1; i++)
        blob_unref((*coded)->body[i]);
    free(*coded);
    *coded = NULL;
}

/* --- the end of an entry --- */

/* An entry in the headroom of its body is freed with the body, when the last connection has written it. */
static void entries_free_entry(struct entry *e)
{
    void *block = e->in_headroom ? NULL : e;
    blob_unref(e->body);
    free(block);
}

/* Frees an entry that is in no queue and no table any more. */
static void entries_release(struct entries *es, struct entry *e)
{
    assert(es->used >= e->cost);
    es->used -= e->cost;
    entries_drop_coded(es, e);
    if (e->kind == ENTRY_PAGE)
        entries_page_free(es, e->page); /* NOLINT(clang-analyzer-unix.Malloc): as in entries_free_dead() */
    entries_free_entry(e);
    allocator_sort_freed(&es->freed);
    metric_sub(&es->metrics->cache_entries, 1);
}

/* From now on the card is found by its id only. */
static void entries_remove_link(struct entries *es, struct entry *e)
{
    if (e->link_len > 0)
        table_remove(&es->links, entries_hash_of_link(es, entries_link_of(e)), e);
    e->link_len = 0;
}

static void entries_remove_entry(struct entries *es, struct entry *e)
{
    assert(!list_empty(&e->node.link));
    table_remove(&es->table, entries_hash_of(es, (enum entry_kind)e->kind, e->number), e);
    entries_remove_link(es, e);
    sieve_remove(&es->sieve, &e->node);
    entries_release(es, e);
}

/* --- freeing dead entries, and evicting --- */

/* Frees one dead entry. False when there is none. */
static bool entries_free_dead(struct entries *es)
{
    if (list_empty(&es->dead))
        return false;
    struct sieve_node *node = LIST_ENTRY(es->dead.prev, struct sieve_node, link);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the last node freed has left the list */
    assert(node->link.next == &es->dead);
    list_remove(&node->link);
    entries_release(es, LIST_ENTRY(node, struct entry, node));
    return true;
}

static bool entries_evict(struct entries *es)
{
    struct sieve_node *victim = sieve_victim(&es->sieve);
    if (victim == NULL)
        return false;
    entries_remove_entry(es, LIST_ENTRY(victim, struct entry, node));
    metric_add(&es->metrics->cache_evictions_total, 1);
    return true;
}

static bool entries_is_over_budget(const struct entries *es)
{
    /* not covered: the tables alone, without an entry, are smaller than the budget */
    return es->used > es->budget && !list_empty(&es->sieve.queue);
}

bool entries_has_excess(const struct entries *es)
{
    return !list_empty(&es->dead) || entries_is_over_budget(es);
}

int entries_reclaim(struct entries *es, int steps)
{
    int done = 0;
    /* not covered: entries_evict() fails only without an entry */
    while (done < steps && (entries_free_dead(es) || (entries_is_over_budget(es) && entries_evict(es))))
        done++;
    entries_publish_size(es);
    return done;
}

static void entries_on_idle(uv_idle_t *idle)
{
    struct entries *es = idle->data;
    (void)entries_reclaim(es, ENTRIES_IDLE_STEPS);
    if (!entries_has_excess(es))
        (void)uv_idle_stop(idle);
}

/* To be called when entries were added or dropped. */
static void entries_schedule(struct entries *es)
{
    if (es->is_open && entries_has_excess(es))
        (void)uv_idle_start(&es->idle, entries_on_idle); /* it fails only without a callback */
}

static void entries_make_room(struct entries *es)
{
    for (int i = 0; i < ENTRIES_ROOM_STEPS && es->used > es->budget; i++)
        if (!entries_free_dead(es) && !entries_evict(es)) /* not covered: as in entries_is_over_budget() */
            break;
    entries_publish_size(es);
    entries_schedule(es);
}

void entries_open(struct entries *es, uv_loop_t *loop)
{
    (void)uv_idle_init(loop, &es->idle); /* cannot fail */
    es->idle.data = es;
    es->is_open = true;
}

static void entries_on_closed(uv_handle_t *idle)
{
    wait_group_done(idle->data);
}

void entries_close(struct entries *es, struct wait_group *closing)
{
    es->is_open = false;
    es->idle.data = closing;
    wait_group_add(closing, 1);
    uv_close((uv_handle_t *)&es->idle, entries_on_closed);
}

/* --- looking up --- */

static inline struct entry *entries_find_entry(const struct entries *es, enum entry_kind kind, int64_t number)
{
    return table_used(&es->table) == 0 ? NULL : entries_lookup(es, kind, number);
}

const struct entry *entries_find(struct entries *es, enum entry_kind kind, int64_t number)
{
    struct entry *e = entries_find_entry(es, kind, number);
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

const struct entry *entries_peek(const struct entries *es, enum entry_kind kind, int64_t number)
{
    return entries_find_entry(es, kind, number);
}

const struct entry *entries_walk(const struct entries *es, size_t *cursor, int steps)
{
    return table_walk(&es->table, cursor, steps);
}

static inline struct entry *entries_find_by_link(const struct entries *es, struct span link, uint64_t hash)
{
    const struct table_slot *slot = table_find(&es->links, hash);
    for (; slot != NULL; slot = table_find_next(&es->links, slot)) {
        struct entry *e = slot->entry;
        entries_prefetch(e);
        if (span_equal(entries_link_of(e), link))
            return e;
    }
    return NULL;
}

const struct entry *entries_find_link(struct entries *es, struct span link)
{
    if (table_used(&es->links) == 0)
        return NULL;
    struct entry *e = entries_find_by_link(es, link, entries_hash_of_link(es, link));
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

/* --- adding --- */

/* A link that is longer than any link that is looked up is not kept. */
static struct span entries_kept_link(struct span link)
{
    return link.len <= LINK_MAX ? link : SPAN_ABSENT;
}

size_t entries_card_headroom(struct span link)
{
    return BLOB_HEADROOM_ALIGN(sizeof(struct entry) + entries_kept_link(link).len);
}

static struct entry *entry_new(enum entry_kind kind, int64_t number, struct span link, struct blob *body)
{
    size_t size = sizeof(struct entry) + link.len;
    void *headroom = blob_claim_headroom(body, size);
    struct entry *e = headroom != NULL ? headroom : malloc(size);
    if (e == NULL)
        return NULL;
    *e = (struct entry){.in_headroom = headroom != NULL, .kind = (unsigned char)kind};
    e->number = number;
    e->link_len = (unsigned short)link.len;
    e->body = blob_ref(body);
    if (link.len > 0)
        memcpy(e->link, link.data, link.len);
    return e;
}

/*
 * A link is in the table only once. If there is no memory for its link, the card is found by its id only.
 */
static void entries_add_link(struct entries *es, struct entry *e)
{
    if (e->link_len == 0)
        return;
    uint64_t hash = entries_hash_of_link(es, entries_link_of(e));
    struct entry *other = entries_find_by_link(es, entries_link_of(e), hash);
    if (other != NULL)
        entries_remove_link(es, other);
    if (entries_add_to(es, &es->links, hash, e) != 0)
        e->link_len = 0;
}

/*
 * A new entry in place of any old one, with a reference of `body`; NULL when nothing can be kept. The caller
 * must call entries_charge().
 */
static struct entry *entries_insert(struct entries *es, struct lifetime lifetime, enum entry_kind kind,
                                    int64_t number, struct span link, struct blob *body)
{
    if (!entries_keeps_anything(es) || lifetime_is_none(lifetime))
        return NULL;
    entries_drop(es, kind, number);
    struct entry *e = entry_new(kind, number, link, body);
    if (e == NULL)
        return NULL;
    if (entries_add_to(es, &es->table, entries_hash_of(es, kind, number), e) != 0) {
        entries_free_entry(e);
        return NULL;
    }
    e->lifetime = lifetime;
    entries_add_link(es, e);
    sieve_add(&es->sieve, &e->node);
    metric_add(&es->metrics->cache_entries, 1);
    return e;
}

/* The dead entries and the excess are so large that nothing is added. */
static bool entries_is_behind(const struct entries *es)
{
    enum { EXCESS_PART = 16 };
    return es->used > es->budget + es->budget / EXCESS_PART;
}

/*
 * Counts the bytes of a filled entry and makes room for them; the entry may be gone afterwards. An entry
 * larger than the whole budget would evict everything and then itself.
 */
static void entries_charge(struct entries *es, struct entry *e)
{
    bool behind = entries_is_behind(es);
    entries_set_cost(es, e);
    if (behind || e->cost > es->budget)
        entries_remove_entry(es, e);
    entries_make_room(es);
}

void entries_put_card(struct entries *es, struct lifetime lifetime, int64_t id, struct span link,
                      struct blob *body)
{
    struct entry *e = entries_insert(es, lifetime, ENTRY_CARD, id, entries_kept_link(link), body);
    if (e != NULL)
        entries_charge(es, e);
}

void entries_put_page(struct entries *es, struct lifetime lifetime, const struct page_info *info,
                      const struct page_member *members, int count, uint64_t outdated_ms, struct blob *body)
{
    struct entry *e = entries_insert(es, lifetime, ENTRY_PAGE, info->page, SPAN_ABSENT, body);
    if (e == NULL)
        return;
    e->page = entries_page_new(es, e, info, members, count);
    if (e->page == NULL) { /* ANALYZER(malloc-leak): its entry owns the page */
        entries_remove_entry(es, e);
        entries_publish_size(es);
        return;
    }
    e->page->outdated_ms = outdated_ms;
    entries_charge(es, e);
}

/* The coded body of a card would only evict other cards, and a miss costs more than the saved bytes. */
static bool entries_has_room_for_coded(const struct entries *es, const struct entry *e)
{
    return e->kind != ENTRY_CARD || es->used + e->body->len <= es->budget;
}

bool entries_want_coded(struct entries *es, enum entry_kind kind, int64_t number, enum coding coding,
                        bool can_make)
{
    enum { WANTED = 1, BEGUN = 1 << CODINGS };
    struct entry *e = entries_find_entry(es, kind, number);
    assert(coding != CODING_IDENTITY);
    if (e == NULL)
        return false;
    unsigned wanted = (unsigned)WANTED << coding;
    unsigned begun = (unsigned)BEGUN << coding;
    bool make = can_make && entries_has_room_for_coded(es, e) && (e->coding_bits & wanted) != 0 &&
                (e->coding_bits & begun) == 0;
    e->coding_bits = (unsigned char)(e->coding_bits | wanted | (make ? begun : 0));
    return make;
}

bool entries_put_coded(struct entries *es, enum entry_kind kind, int64_t number, const struct blob *plain,
                       struct blob *coded)
{
    struct entry *e = entries_find_entry(es, kind, number);
    if (e == NULL || e->body != plain)
        return false;
    struct entry_coded **place = entries_coded_place(e);
    if (entries_is_behind(es) || e->cost + entries_body_size(coded) + sizeof **place > es->budget)
        return false;
    size_t before = entries_coded_size(*place);
    if (*place == NULL)
        *place = calloc(1, sizeof **place);
    if (*place == NULL) /* ANALYZER(malloc-leak): the entry, which is in the table, owns it */
        return false;
    assert((*place)->body[coded->coding - 1] == NULL);
    (*place)->body[coded->coding - 1] = blob_ref(coded);
    metric_add(&es->metrics->cache_coded_bytes, entries_coded_size(*place) - before);
    entries_set_cost(es, e);
    entries_make_room(es);
    return true;
}

/* --- dropping --- */

void entries_drop(struct entries *es, enum entry_kind kind, int64_t number)
{
    struct entry *e = entries_find_entry(es, kind, number);
    if (e == NULL)
        return;
    entries_remove_entry(es, e);
    entries_publish_size(es);
}

static void entries_page_drop_summary(struct entry_page *page, int64_t id, uint64_t current_ms)
{
    for (int i = 0; i < page->member_count; i++) {
        if (page->member[i].id != id)
            continue;
        page->member[i].len = 0;
        page->outdated_ms = page->outdated_ms != 0 ? page->outdated_ms : current_ms;
    }
}

void entries_drop_summary(struct entries *es, int64_t id, uint64_t current_ms)
{
    const struct table_slot *slot = table_find(&es->members, hash_int64(id, es->seed));
    for (; slot != NULL; slot = table_find_next(&es->members, slot))
        entries_page_drop_summary(((struct entry *)slot->entry)->page, id, current_ms);
}

static void entries_clear_table(struct entries *es, struct table *t)
{
    es->used -= entries_table_bytes(t);
    table_clear(t);
}

void entries_clear(struct entries *es)
{
    entries_drop_lists(es);
    if (!entries_keeps_anything(es))
        return;
    es->cleared_epoch = es->index_epoch;
    sieve_drain(&es->sieve, &es->dead);
    entries_clear_table(es, &es->table);
    entries_clear_table(es, &es->links);
    entries_clear_table(es, &es->members);
    entries_schedule(es);
}
