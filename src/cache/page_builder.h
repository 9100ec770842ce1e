/*
 * A page being put together: its channels in order, and the summaries that are there so far.
 *
 * While that goes on, invalidations may name the index or one of the channels. Then the page is overtaken: it
 * is still a true answer for those who asked before, but it is not remembered, and nobody else may join.
 */
#ifndef CACHE_PAGE_BUILDER_H
#define CACHE_PAGE_BUILDER_H

#include "base/blob.h"
#include "model/document.h"

struct cache;

/* Why a channel of the index is left out of its page. */
enum page_gap {
    PAGE_GAP_NONE,
    PAGE_GAP_ABSENT /* there is no such channel */,
    PAGE_GAP_WRONG_TYPE,
    PAGE_GAP_OVERSIZE
};

struct page_builder {
    struct cache *cache;
    bool invalidated;     /* one of its channels was named */
    int watched;          /* channels, from the first on, by which the store finds it */
    uint64_t index_epoch; /* the store's, when the index was read */
    int64_t number;
    int64_t entries; /* members of the index */
    bool has_next;
    int count;     /* channels below */
    int next;      /* where to look for the next one without summary */
    int strangers; /* members of the index that are no ids */
    int64_t id[PAGE_SIZE];
    enum page_gap gap[PAGE_SIZE];
    struct blob *item[PAGE_SIZE]; /* summaries, one reference each; NULL where not there yet, or absent */
};

struct page_builder *page_builder_new(struct cache *s, int64_t number);
void page_builder_free(struct page_builder *p);

/* Back to a page of which nothing is known but its number; its index is about to be read. */
void page_builder_reset(struct page_builder *p);

/* From here on it is found when one of its channels is named. */
void page_builder_watch(struct page_builder *p);

bool page_builder_is_overtaken(const struct page_builder *p);

/* Takes what is remembered of the summaries; returns how many are still needed. */
int page_builder_gather(struct page_builder *p);

/* The place of the next channel whose summary is needed, or -1. Moves on. */
int page_builder_next(struct page_builder *p);

/* True when a member of the index has no channel: when both were read, a loader may have been at work. */
bool page_builder_is_incomplete(const struct page_builder *p);

/* True when it is incomplete, or empty where the index should have had something, if there is an index. */
bool page_builder_lacks_something(const struct page_builder *p);

/*
 * Writes the body of a complete page and remembers it, unless it was overtaken. Returns the body (one
 * reference, for the caller) or NULL when out of memory; *last is the number of the last page.
 */
struct blob *page_builder_compose(struct page_builder *p, int64_t *last);

#endif
