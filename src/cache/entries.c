/* The bounded table of entries; see entries.h. `members` leads from a channel to the pages that show it. */
#include "cache/entries.h"

#include "base/allocator.h"
#include "base/hash.h"
#include "model/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics)
{
    *es = (struct entries){.metrics = metrics, .budget = budget};
    es->index_epoch = es->cleared_epoch = 1;
    sieve_init(&es->sieve);
    list_init(&es->dead);
    es->seed = random_seed(es);
}

static bool entries_keeps_anything(const struct entries *es)
{
    return es->budget > 0;
}

/* --- the table --- */

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

/* --- bytes --- */

static size_t entries_body_size(struct blob *body)
{
    return body == NULL ? 0 : allocator_block_size(blob_block(body));
}

static size_t entries_coded_size(const struct entry *e)
{
    size_t bytes = 0;
    for (int i = 0; i < CODINGS - 1; i++)
        bytes += entries_body_size(e->coded[i]);
    return bytes;
}

/* A table is half full on average. */
static size_t entries_cost_of(struct entry *e)
{
    size_t slots = e->kind == ENTRY_PAGE ? (size_t)entry_page(e)->member_count + 1 : 2;
    return (e->in_headroom ? 0 : allocator_block_size(e)) + entries_body_size(e->body) +
           entries_coded_size(e) + slots * 2 * sizeof(struct table_slot);
}

static void entries_set_used(struct entries *es, size_t used)
{
    es->used = used;
    metric_set(&es->metrics->cache_bytes, used);
}

/* --- pages and their channels --- */

/* The first `count` channels do not lead to the page any more. */
static void entries_unlink_members(struct entries *es, const struct entry *e, int count)
{
    for (int i = 0; i < count; i++)
        table_remove(&es->members, hash_int64(entry_page(e)->member[i].id, es->seed), e);
}

/* Returns 0, or -ENOMEM; then no member is linked. */
static int entries_link_members(struct entries *es, struct entry *e)
{
    const struct entry_page *page = entry_page(e);
    for (int i = 0; i < page->member_count; i++) {
        int err = table_add(&es->members, hash_int64(page->member[i].id, es->seed), e);
        if (err == 0)
            continue;
        entries_unlink_members(es, e, i); /* not covered: out of memory */
        return err;
    }
    return 0;
}

struct entry *entries_new_page(struct entries *es, int64_t number, const struct page_member *members,
                               int count)
{
    size_t size = sizeof(struct entry) + sizeof(struct entry_page);
    struct entry *e = calloc(1, size + (size_t)count * sizeof(struct page_member));
    if (e == NULL)
        return NULL;
    e->kind = ENTRY_PAGE;
    e->number = number;
    struct entry_page *page = entries_page_of(e);
    page->member_count = count;
    for (int i = 0; i < count; i++)
        page->member[i] = (struct page_member){.id = members[i].id};
    if (!entries_keeps_anything(es))
        return e;
    page->index_epoch = es->index_epoch;
    if (entries_link_members(es, e) == 0)
        return e;
    free(e);
    return NULL;
}

/* --- coded bodies --- */

static void entries_drop_coded(struct entries *es, struct entry *e)
{
    metric_sub(&es->metrics->cache_coded_bytes, entries_coded_size(e));
    for (int i = 0; i < CODINGS - 1; i++)
        blob_unref(e->coded[i]);
}

/* --- the end of an entry --- */

/* An entry in the headroom of its body is freed with the body, when the last connection has written it. */
static void entries_free_entry(struct entry *e)
{
    void *block = e->in_headroom ? NULL : e;
    blob_unref(e->body);
    free(block);
}

/* The channels of a page that was cleared do not lead to it any more. */
void entries_free_page(struct entries *es, struct entry *page)
{
    if (page == NULL)
        return;
    if (!entries_was_cleared(es, entry_page(page)->index_epoch))
        entries_unlink_members(es, page, entry_page(page)->member_count);
    entries_free_entry(page);
}

/* Frees an entry that is in no queue and no table any more. */
static void entries_release(struct entries *es, struct entry *e)
{
    assert(es->used >= entries_cost_of(e));
    entries_set_used(es, es->used - entries_cost_of(e));
    entries_drop_coded(es, e);
    if (e->kind == ENTRY_PAGE)
        entries_free_page(es, e); /* NOLINT(clang-analyzer-unix.Malloc): as in entries_free_dead() */
    else
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

/* Evicts one entry if the bytes exceed the budget. */
static bool entries_evict(struct entries *es)
{
    struct sieve_node *victim = es->used > es->budget ? sieve_victim(&es->sieve) : NULL;
    if (victim == NULL)
        return false;
    entries_remove_entry(es, LIST_ENTRY(victim, struct entry, node));
    metric_add(&es->metrics->cache_evictions_total, 1);
    return true;
}

int entries_reclaim(struct entries *es, int steps)
{
    int done = 0;
    while (done < steps && (entries_free_dead(es) || entries_evict(es)))
        done++;
    return done;
}

void entries_fini(struct entries *es)
{
    entries_clear(es);
    /* not covered: no test keeps so many */
    for (int i = 0; i < ENTRIES_FINI_STEPS && entries_free_dead(es); i++)
        continue;
}

/* --- looking up --- */

const struct entry *entries_find(struct entries *es, enum entry_kind kind, int64_t number)
{
    struct entry *e = entries_lookup(es, kind, number);
    if (e != NULL)
        sieve_hit(&e->node);
    return e;
}

const struct entry *entries_peek(const struct entries *es, enum entry_kind kind, int64_t number)
{
    return entries_lookup(es, kind, number);
}

const struct entry *entries_walk(const struct entries *es, size_t *cursor, int steps)
{
    return table_walk(&es->table, cursor, steps);
}

static inline struct entry *entries_lookup_link(const struct entries *es, struct span link)
{
    const struct table_slot *slot = table_find(&es->links, entries_hash_of_link(es, link));
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
    struct entry *e = entries_lookup_link(es, link);
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

static struct entry *entries_new_card(int64_t id, struct span link, struct blob *body)
{
    size_t size = sizeof(struct entry) + link.len;
    void *headroom = blob_claim_headroom(body, size);
    struct entry *e = headroom != NULL ? headroom : malloc(size);
    if (e == NULL)
        return NULL;
    *e = (struct entry){.in_headroom = headroom != NULL, .kind = ENTRY_CARD};
    e->number = id;
    e->link_len = (unsigned short)link.len;
    if (link.len > 0)
        memcpy(e->link, link.data, link.len);
    return e;
}

/* A link is in the table only once. Without memory for it the card is found by its id only. */
static void entries_add_link(struct entries *es, struct entry *e)
{
    if (e->link_len == 0)
        return;
    struct entry *other = entries_lookup_link(es, entries_link_of(e));
    if (other != NULL)
        entries_remove_link(es, other);
    if (table_add(&es->links, entries_hash_of_link(es, entries_link_of(e)), e) != 0)
        e->link_len = 0;
}

/* The dead entries and the excess are so large that nothing is added. */
static bool entries_is_behind(const struct entries *es)
{
    enum { EXCESS_PART = 16 };
    return es->used > es->budget + es->budget / EXCESS_PART;
}

/* False when it is not added: one larger than the budget would evict everything and then itself. */
static bool entries_add(struct entries *es, struct lifetime lifetime, struct entry *e, struct blob *body)
{
    e->lifetime = lifetime;
    e->body = blob_ref(body);
    entries_drop(es, (enum entry_kind)e->kind, e->number);
    size_t cost = entries_cost_of(e);
    bool is_added = !entries_is_behind(es) && cost <= es->budget &&
                    table_add(&es->table, entries_hash_of(es, (enum entry_kind)e->kind, e->number), e) == 0;
    if (is_added) {
        entries_add_link(es, e);
        sieve_add(&es->sieve, &e->node);
        metric_add(&es->metrics->cache_entries, 1);
        entries_set_used(es, es->used + cost);
    }
    (void)entries_reclaim(es, ENTRIES_ROOM_STEPS);
    return is_added;
}

static bool entries_keeps(const struct entries *es, struct lifetime lifetime)
{
    return entries_keeps_anything(es) && !lifetime_is_none(lifetime);
}

void entries_put_card(struct entries *es, struct lifetime lifetime, int64_t id, struct span link,
                      struct blob *body)
{
    struct entry *e =
        entries_keeps(es, lifetime) ? entries_new_card(id, entries_kept_link(link), body) : NULL;
    if (e != NULL && !entries_add(es, lifetime, e, body))
        entries_free_entry(e);
}

void entries_put_page(struct entries *es, struct lifetime lifetime, struct entry *page,
                      const struct page_info *info, struct blob *body)
{
    struct entry_page *p = entries_page_of(page);
    assert(!entries_keeps_anything(es) || entries_has_list(es, p));
    p->info = *info;
    if (!entries_keeps(es, lifetime) || !entries_add(es, lifetime, page, body))
        entries_free_page(es, page);
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
    struct entry *e = entries_lookup(es, kind, number);
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
    struct entry *e = entries_lookup(es, kind, number);
    if (e == NULL || e->body != plain)
        return false;
    size_t size = entries_body_size(coded);
    if (entries_is_behind(es) || entries_cost_of(e) + size > es->budget)
        return false;
    assert(e->coded[coded->coding - 1] == NULL);
    e->coded[coded->coding - 1] = blob_ref(coded);
    metric_add(&es->metrics->cache_coded_bytes, size);
    entries_set_used(es, es->used + size);
    (void)entries_reclaim(es, ENTRIES_ROOM_STEPS);
    return true;
}

/* --- dropping --- */

void entries_drop(struct entries *es, enum entry_kind kind, int64_t number)
{
    struct entry *e = entries_lookup(es, kind, number);
    if (e != NULL)
        entries_remove_entry(es, e);
}

void entries_drop_member(struct entry *page, int at, uint64_t current_ms)
{
    struct entry_page *p = entries_page_of(page);
    p->changed[at / 64] |= UINT64_C(1) << at % 64;
    p->outdated_ms = p->outdated_ms != 0 ? p->outdated_ms : current_ms;
}

void entries_drop_summary(struct entries *es, int64_t id, uint64_t current_ms)
{
    const struct table_slot *slot = table_find(&es->members, hash_int64(id, es->seed));
    for (; slot != NULL; slot = table_find_next(&es->members, slot)) {
        const struct entry_page *page = entry_page(slot->entry);
        int at = page_member_find(page->member, page->member_count, id, 0);
        if (at >= 0)
            entries_drop_member(slot->entry, at, current_ms);
    }
}

void entries_clear(struct entries *es)
{
    metric_add(&es->metrics->cache_flushes_total, 1);
    entries_drop_lists(es);
    es->cleared_epoch = es->index_epoch;
    sieve_drain(&es->sieve, &es->dead);
    table_clear(&es->table);
    table_clear(&es->links);
    table_clear(&es->members);
}
