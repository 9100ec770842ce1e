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
    *es = (struct entries){.metrics = metrics, .budget = budget, .index_size = -1};
    es->index_epoch = es->cleared_epoch = 1;
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

/* Adds to a table of entries, whose growth reduces the room of the entries. Returns 0 or -ENOMEM. */
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
    e->cost += entries_coded_size(e->coded);
    if (e->kind == ENTRY_PAGE) /* a table is half full on average */
        e->cost += (size_t)entry_page(e)->member_count * 2 * sizeof(struct table_slot);
    es->used += e->cost;
}

static void entries_publish_size(struct entries *es)
{
    metric_set(&es->metrics->cache_bytes, es->used);
}

/* --- pages and their channels --- */

static struct entry_page *entries_page_of(struct entry *e)
{
    assert(e->kind == ENTRY_PAGE);
    return (struct entry_page *)(void *)e->link;
}

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
        page->member[i] = (struct page_member){.id = members[i].id, .len = 1};
    if (!entries_keeps_anything(es))
        return e;
    page->index_epoch = es->index_epoch;
    if (entries_link_members(es, e) == 0)
        return e;
    free(e);
    return NULL;
}

/* --- coded bodies --- */

/* The caller must call entries_set_cost(), unless the entry ends. */
static void entries_drop_coded(struct entries *es, struct entry *e)
{
    e->coding_bits = 0;
    if (e->coded == NULL)
        return;
    metric_sub(&es->metrics->cache_coded_bytes, entries_coded_size(e->coded));
    for (int i = 0; i < CODINGS - 1; i++)
        blob_unref(e->coded->body[i]);
    free(e->coded);
    e->coded = NULL;
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
    assert(es->used >= e->cost);
    es->used -= e->cost;
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

/* Adds an entry with a reference of `body`, in place of any old one. False when it cannot be added. */
static bool entries_add(struct entries *es, struct lifetime lifetime, struct entry *e, struct blob *body)
{
    uint64_t hash = entries_hash_of(es, (enum entry_kind)e->kind, e->number);
    e->lifetime = lifetime;
    e->body = blob_ref(body);
    entries_drop(es, (enum entry_kind)e->kind, e->number);
    if (entries_add_to(es, &es->table, hash, e) != 0)
        return false;
    entries_add_link(es, e);
    sieve_add(&es->sieve, &e->node);
    metric_add(&es->metrics->cache_entries, 1);
    entries_charge(es, e);
    return true;
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
                      const struct page_info *info, const struct page_member *members, struct blob *body)
{
    struct entry_page *p = entries_page_of(page);
    assert(!entries_keeps_anything(es) || entries_has_list(es, p));
    p->info = *info;
    for (int i = 0; i < p->member_count; i++)
        if (p->member[i].len > 0)
            p->member[i] = members[i];
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
    if (entries_is_behind(es) || e->cost + entries_body_size(coded) + sizeof *e->coded > es->budget)
        return false;
    size_t before = entries_coded_size(e->coded);
    if (e->coded == NULL)
        e->coded = calloc(1, sizeof *e->coded);
    if (e->coded == NULL) /* ANALYZER(malloc-leak): the entry, which is in the table, owns it */
        return false;
    assert(e->coded->body[coded->coding - 1] == NULL);
    e->coded->body[coded->coding - 1] = blob_ref(coded);
    metric_add(&es->metrics->cache_coded_bytes, entries_coded_size(e->coded) - before);
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

void entries_drop_member(struct entry *page, int at, uint64_t current_ms)
{
    struct entry_page *p = entries_page_of(page);
    p->member[at].len = 0;
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
    table_clear(&es->members);
    entries_schedule(es);
}
