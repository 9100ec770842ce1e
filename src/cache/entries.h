/*
 * The entries of a worker's cache: cards and pages. A table bounded by bytes, as the allocator counts them.
 *
 * A page has the list of its channels, and its body has their summaries. When a channel changes, its summary
 * is not current any more, and the page is outdated. When the index changes, no list is current, by a number.
 * A page whose summaries are still being read is an entry that only its channels lead to, so their changes
 * are noted in the same way.
 *
 * No call takes long, however much is cached. Dropping everything makes entries dead at once: they are not
 * found any more, but count among the bytes until they are freed. They are freed in steps (entries_reclaim),
 * before any live entry is evicted.
 *
 * Invariant: `used` is the sum of the costs of all entries, including dead ones.
 */
#ifndef CACHE_ENTRIES_H
#define CACHE_ENTRIES_H

#include "base/blob.h"
#include "base/sieve.h"
#include "base/table.h"
#include "cache/lifetime.h"
#include "cache/metrics.h"
#include "model/channel.h"
#include "model/keyspace.h"

enum entry_kind {
    ENTRY_CARD, /* by id, and by the card's link */
    ENTRY_PAGE  /* by number */
};

/* A member of the index, and its summary: in the body, or the text of a read (page.h). `len` 0: none. */
struct page_member {
    int64_t id;
    uint32_t offset, len;
};

/* What the entry of a page has behind the struct entry. */
struct entry_page {
    uint64_t
        index_epoch; /* entries.index_epoch when its channels were set: the list is current while it is */
    uint64_t outdated_ms; /* the body was current then, by the boot clock, and may not be now; 0: it is */
    struct page_info info;
    int64_t index_size; /* members of the index when the list was read */
    uint64_t
        changed[2]; /* a bit for each channel that has changed since the members were set, by its place */
    int member_count;
    struct page_member member[]; /* in the order of the page */
};

/* Whether the page has the summary of the member at a place, and it is current. */
static inline bool page_has_current(const struct entry_page *page, int at)
{
    return page->member[at].len > 0 && (page->changed[at / 64] >> at % 64 & 1) == 0;
}

/* The place of channel `id`, or -1. The search begins at place `from`, modulo `count`. */
static inline int page_member_find(const struct page_member *members, int count, int64_t id, int from)
{
    for (int i = 0; i < count; i++) {
        int at = (from + i) % count;
        if (members[at].id == id)
            return at;
    }
    return -1;
}

/*
 * Changed in entries.c only; others read `kind`, `number`, `lifetime`, `body` and entry_page(). The members
 * that a hit reads come last, next to the body in whose headroom the entry may be.
 */
struct entry {
    struct sieve_node node;
    bool in_headroom; /* the entry's own memory is the headroom of `body` */
    unsigned char kind;
    unsigned char coding_bits; /* the codings of the body that were requested, and those that were begun */
    unsigned short link_len;   /* set for a card; 0: it cannot be found by link */
    struct lifetime lifetime;
    struct blob *body;               /* one reference; NULL while a page is read */
    struct blob *coded[CODINGS - 1]; /* the same in each coding but identity: one reference, or NULL */
    int64_t number;                  /* the id of the channel, or the number of the page */
    char link[];                     /* a card's own link, or a struct entry_page */
};

_Static_assert(offsetof(struct entry, link) == sizeof(struct entry), "the link is aligned for a page");

static inline const struct entry_page *entry_page(const struct entry *e)
{
    return (const struct entry_page *)(const void *)e->link;
}

/* Of a page that is being read, whose owner sets the places of its summaries. */
static inline struct entry_page *entries_page_of(struct entry *e)
{
    return (struct entry_page *)(void *)e->link;
}

static inline bool entry_is_alive(const struct entry *e, uint64_t now_ms)
{
    return now_ms < e->lifetime.until_ms;
}

/* The body of a card or page in a coding other than identity, or NULL. Borrowed like the entry. */
static inline struct blob *entry_coded_body(const struct entry *e, enum coding coding)
{
    return e->coded[coding - 1];
}

/* The headroom of a card's body (blob.h) that its entry needs. */
size_t entries_card_headroom(struct span link);

/* Embedded in the cache; private to entries.c. */
struct entries {
    struct cache_metrics *metrics;
    struct sieve sieve;  /* all entries that can be evicted */
    struct list dead;    /* entries that were cleared, by their nodes' links; they are in no table */
    size_t budget, used; /* bytes; the bytes of dead entries count until they are freed */
    struct table table;
    struct table links;     /* cards, by their links */
    struct table members;   /* by a channel's id: the entries of the pages that show it */
    unsigned freed;         /* freed entries; see allocator_sort_freed */
    uint64_t index_epoch;   /* grows when the index has changed, from 1 */
    uint64_t cleared_epoch; /* pages that were added in an earlier one were cleared */
    uint64_t seed;          /* the seed of the hashes */
};

/* `metrics` is borrowed. With a budget of 0 nothing is kept. */
void entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics);

/* Frees at most ENTRIES_FINI_STEPS entries: to free gigabytes would delay the exit for seconds. */
enum { ENTRIES_FINI_STEPS = 500 * 1000 };
void entries_fini(struct entries *es);

/*
 * Frees dead entries, and evicts others while the bytes exceed the budget, at most `steps` in all. Returns
 * how many. Each addition takes up to ENTRIES_ROOM_STEPS, in microseconds each, and each heartbeat some more.
 */
enum { ENTRIES_ROOM_STEPS = 256, ENTRIES_HEARTBEAT_STEPS = 4096 };
int entries_reclaim(struct entries *es, int steps);

/* The entry, marked as used, whose lifetime may have ended; or NULL. Borrowed until the next change. */
const struct entry *entries_find(struct entries *es, enum entry_kind kind, int64_t number);

/* As entries_find, but does not mark the entry as used. */
const struct entry *entries_peek(const struct entries *es, enum entry_kind kind, int64_t number);

/* The next entry in the order of the table, which is random; see table_walk. */
const struct entry *entries_walk(const struct entries *es, size_t *cursor, int steps);

/* The card whose own link this is, as entries_find. Of several such cards it is the last that was added. */
const struct entry *entries_find_link(struct entries *es, struct span link);

/*
 * Adds a card, whose own link is `link` (absent: it has none), in place of any with the same id. Takes a
 * reference of `body`. Nothing is kept if the lifetime is LIFETIME_NONE, if the card does not fit, or without
 * memory.
 *
 * While the bytes exceed the budget by more than a sixteenth, nothing is added. So they never exceed it by
 * more than this part and one entry.
 *
 * If `body` has free headroom that is large enough, the entry is made there: in one block of memory.
 */
void entries_put_card(struct entries *es, struct lifetime lifetime, int64_t id, struct span link,
                      struct blob *body);

/*
 * A page that is being read. `members` are all channels on which it depends: those that it will show, and
 * index members without a card. From now on their changes are noted. Owned by the caller (entries_put_page,
 * entries_free_page); NULL when out of memory.
 */
struct entry *entries_new_page(struct entries *es, int64_t number, const struct page_member *members,
                               int count);

/* Adds a page that was read, as entries_put_card; its list must be current. */
void entries_put_page(struct entries *es, struct lifetime lifetime, struct entry *page,
                      const struct page_info *info, struct blob *body);

/* Frees a page that is not added. NULL is allowed. */
void entries_free_page(struct entries *es, struct entry *page);

/*
 * A request wants the body of card or page `number` in `coding`, which the entry does not have. True when the
 * body must be made now: it was wanted before, and `can_make`. That happens once for each body, and if the
 * attempt fails the body stays plain. The bodies of cards are coded only while they evict nothing.
 */
bool entries_want_coded(struct entries *es, enum entry_kind kind, int64_t number, enum coding coding,
                        bool can_make);

/*
 * Adds a reference of `coded`, which was made from `plain`. False when it is not kept: the entry is gone or
 * has another body, or it does not fit. Room is made as by entries_put_card.
 */
bool entries_put_coded(struct entries *es, enum entry_kind kind, int64_t number, const struct blob *plain,
                       struct blob *coded);

void entries_drop(struct entries *es, enum entry_kind kind, int64_t number);

/* Pages that show channel `id`, or will, are outdated since after `current_ms`, by the boot clock. */
void entries_drop_summary(struct entries *es, int64_t id, uint64_t current_ms);

/* The same, of the summary at a place of a page that is being read. */
void entries_drop_member(struct entry *page, int at, uint64_t current_ms);

/* The index has changed: no list of channels is current any more. */
static inline void entries_drop_lists(struct entries *es)
{
    es->index_epoch++;
}

static inline uint64_t entries_index_epoch(const struct entries *es)
{
    return es->index_epoch;
}

/* Whether everything was cleared since that epoch. What was noted of a page since then is not all. */
static inline bool entries_was_cleared(const struct entries *es, uint64_t since_epoch)
{
    return since_epoch < es->cleared_epoch;
}

static inline bool entries_has_list(const struct entries *es, const struct entry_page *page)
{
    return page->index_epoch == es->index_epoch;
}

/* Drops all entries at once, and counts the flush; they are dead. */
void entries_clear(struct entries *es);

#endif
