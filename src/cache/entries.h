/*
 * What a worker remembers of Redis: finished bodies, summaries, where links lead, verdicts on keys.
 *
 * The cache is a table bounded by bytes, as the allocator really spends them. It knows nothing of when an
 * entry is true: the store puts in what a reply says and drops what an invalidation names (see
 * invalidation.c). Entries that say "there is none" have a small budget of their own, so that bogus ids and
 * links cannot push out what exists.
 *
 * No call takes long, however much is cached. Dropping all pages, or everything, makes entries dead at once:
 * they are not found any more, but still counted among the bytes. They are freed in steps by entries_reclaim,
 * which is to be called until nothing is left, and before anything alive is evicted.
 */
#ifndef CACHE_ENTRIES_H
#define CACHE_ENTRIES_H

#include "base/blob.h"
#include "base/digest.h"
#include "base/table.h"
#include "cache/metrics.h"
#include "cache/sieve.h"
#include "model/document.h"

enum entry_kind {
    ENTRY_CARD,    /* by id: `body` is the finished card */
    ENTRY_SUMMARY, /* by id: `body` is the channel's JSON object in a page */
    ENTRY_LINK,    /* by link in stored shape: `value` is the id */
    ENTRY_AUTH,    /* by digest of a key: `value` is the epoch for which the verdict holds */
    ENTRY_PAGE     /* by number: `page`, and `body` while all of it is current */
};

/* Bytes that name an entry within its kind: an int64_t, a link, a digest. */
static inline struct span entries_key_of(const int64_t *number)
{
    return (struct span){(const char *)number, sizeof *number};
}

struct entry_page {
    struct list link; /* in the cache's list of pages, or of dead pages */
    struct entry *entry;
    uint64_t epoch; /* of the index that it shows; dead when that is over */
    struct page_info info;
    int member_count;
    int64_t member[]; /* channels, in the order of the page */
};

/*
 * What a hit looks at comes last, so that it is as close as can be to the body, where the entry lies in front
 * of it (see entries_put).
 */
struct entry {
    size_t cost; /* bytes */
    uint64_t hash;
    struct sieve_node node;
    bool negative; /* there is no such thing; `value` is the check of the catalogue that tells it for sure */
    bool in_front; /* the entry's own memory is the front of `body` */
    unsigned char kind;
    unsigned key_len;
    struct entry *peer; /* of a link: its card, once found; of a card: the link that found it */
    struct blob *body;  /* one reference, or NULL */
    union {
        int64_t value;
        struct entry_page *page; /* owned */
    };
    char key[];
};

/* The front that a body needs (see blob.h) for its entry to lie there, when its key is a number. */
enum { ENTRY_HEADROOM = BLOB_HEADROOM_ALIGN(sizeof(struct entry) + sizeof(int64_t)) };

struct entry_pool {
    struct sieve sieve;
    struct list dead;    /* entries that were cleared, by their nodes' links; in no table */
    size_t budget, used; /* bytes; those of what is dead count until it is freed */
};

struct entries {
    struct cache_metrics *metrics;
    struct entry_pool positive, negative;
    struct table table;
    struct table members; /* by a channel's id: the entries of the pages that show it */
    struct list pages;
    struct list dead_pages;              /* of an older index, still in the table */
    struct list cleared_pages;           /* nobody looks here: cleared pages are reached by their entries */
    struct table_segment *dead_segments; /* of both tables */
    unsigned freed;      /* entries since the allocator was last made to sort what it got back */
    uint64_t page_epoch; /* grows when all pages are dropped */
    uint64_t seed;       /* of the hash, by chance: keys come from clients */
};

/* The part of the budget that negative entries may use: one byte in so many. */
enum { ENTRIES_NEGATIVE_PART = 16 };

/* Returns 0 or -ENOMEM; entries_fini is due in both cases. A budget of 0 keeps nothing. */
int entries_init(struct entries *c, size_t budget, struct cache_metrics *metrics)
    __attribute__((warn_unused_result));

/*
 * Frees what there is, though not more than ENTRIES_FINI_STEPS entries: the cache ends with the process, and
 * the system takes the rest back at once, where freeing gigabytes entry by entry would hold up the exit for
 * seconds.
 */
enum { ENTRIES_FINI_STEPS = 500 * 1000 };
void entries_fini(struct entries *c);

/* The hash by which an entry is found; seeded, so that no client can choose keys whose hashes clash. */
uint64_t entries_hash(const struct entries *c, enum entry_kind kind, struct span key);

/* The same for tables by channel: no two ids have the same hash, so who finds it has found the id. */
uint64_t entries_hash_id(const struct entries *c, int64_t id);

/* The entry, marked as used; NULL when there is none. Borrowed until the cache is next changed. */
struct entry *entries_find(struct entries *c, enum entry_kind kind, struct span key);

/* The same without marking it: for who does not use it. */
const struct entry *entries_peek(const struct entries *c, enum entry_kind kind, struct span key);

/* The next entry in the order of the table, which is random; see table_walk. */
const struct entry *entries_walk(const struct entries *c, size_t *cursor, int steps);

/* The same for the card that `link`, a positive entry, leads to. The two remember each other: the next time
 * it is one step. */
struct entry *entries_find_linked(struct entries *c, struct entry *link);

/*
 * Puts an entry in, in the place of one with the same key. Takes a reference of `body`, which may be NULL.
 * What does not fit, or finds no memory, is not kept: a cache may forget. Making room for an entry takes at
 * most ENTRIES_ROOM_STEPS evictions; what is more than that is left to entries_reclaim, and while it is more
 * than a sixteenth of the budget nothing is put in: the bytes are never more than the budget, that part of it
 * and one entry. If `body` has a front that is free and large enough, the entry is made there: one block of
 * memory instead of two, and a hit finds the body right behind the entry.
 */
void entries_put(struct entries *c, enum entry_kind kind, struct span key, struct blob *body, int64_t value);
void entries_put_absent(struct entries *c, enum entry_kind kind, struct span key, int64_t value);
/* `ids` are all channels that the page depends on: those shown, and those that the index names but have no
 * card. */
void entries_put_page(struct entries *c, const struct page_info *info, const int64_t *ids, int id_count,
                      struct blob *body);

void entries_drop(struct entries *c, enum entry_kind kind, struct span key);

/* Takes the body off the page that shows channel `id`: its list of channels stays. */
void entries_invalidate_page_of(struct entries *c, int64_t id);

/* At once, whatever there is; entries_reclaim frees it. */
void entries_drop_pages(struct entries *c);
void entries_clear(struct entries *c);

/* The work of one call; each step frees or evicts one entry, or frees one segment of a table. */
enum { ENTRIES_ROOM_STEPS = 256 };

/* True while something is dead, or more is held than the budget allows: entries_reclaim has something to do.
 */
bool entries_has_excess(const struct entries *c);

/* Takes up to `steps` steps; returns how many there were to be taken. */
int entries_reclaim(struct entries *c, int steps);

#endif
