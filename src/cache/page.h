/*
 * A page of the list, put together from the members of the index and the summaries of their channels.
 */
#ifndef CACHE_PAGE_H
#define CACHE_PAGE_H

#include "base/blob.h"
#include "cache/entries.h"
#include "cache/values.h"
#include "model/channel.h"
#include "redis/resp.h"

#include <assert.h>

/* The members of the index that a page shows. */
struct page_members {
    int64_t id[PAGE_SIZE];
    int count;
    int invalid;   /* members that are not ids */
    bool has_next; /* the reply had more members than a page */
};

/* Parses the reply to a ZRANGE of a page and one more member; false when it is not a list of strings. */
bool page_members_parse(struct page_members *m, const redisReply *reply);

/* Why an index member is left out of its page. */
enum page_gap { PAGE_GAP_NONE, PAGE_GAP_ABSENT, PAGE_GAP_WRONG_TYPE, PAGE_GAP_OVERSIZE };

/* Private to page.c, but for the functions below. */
struct page_builder {
    int64_t number;
    int64_t index_size;
    struct page_members members;
    enum page_gap gap[PAGE_SIZE];
    struct blob *summary[PAGE_SIZE]; /* one reference each; NULL where not there yet, or never */
};

/* An empty page. Owned by the caller (page_builder_free); NULL when out of memory. */
struct page_builder *page_builder_new(int64_t number);
void page_builder_free(struct page_builder *p);

/* Drops the members and summaries. */
void page_builder_reset(struct page_builder *p);

static inline void page_builder_set_index_size(struct page_builder *p, int64_t size)
{
    p->index_size = size;
}

/* Sets the members from the reply to ZRANGE; false when it is not a list of strings. */
static inline bool page_builder_set_members(struct page_builder *p, const redisReply *reply)
{
    assert(p->members.count == 0);
    return page_members_parse(&p->members, reply);
}

/* Sets the members from a cached page whose body was invalidated. */
void page_builder_set_known(struct page_builder *p, const struct entry_page *page);

static inline const struct page_members *page_builder_members(const struct page_builder *p)
{
    return &p->members;
}

/* Takes the summaries that are cached; returns how many are still missing. */
int page_builder_gather(struct page_builder *p, struct entries *entries);

/* The place of the first missing summary from `from` on, or -1. */
static inline int page_builder_next_missing(const struct page_builder *p, int from)
{
    while (from < p->members.count && p->summary[from] != NULL)
        from++;
    return from < p->members.count ? from : -1;
}

/* Sets the summary at a place (takes a reference), or why there is none. */
static inline void page_builder_set_summary(struct page_builder *p, int at, struct blob *summary)
{
    assert(at >= 0 && at < p->members.count && p->summary[at] == NULL);
    p->summary[at] = blob_ref(summary);
}

static inline void page_builder_set_gap(struct page_builder *p, int at, enum page_gap gap)
{
    assert(at >= 0 && at < p->members.count);
    p->gap[at] = gap;
}

/* True when an index member has no channel: a loader may have been at work between the two reads. */
bool page_builder_is_incomplete(const struct page_builder *p);

/* True when it is incomplete, or empty although the index is empty or has such a page. */
bool page_builder_lacks_something(const struct page_builder *p);

/* Counts the index members that are left out. */
void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r);

/*
 * The body (one reference, for the caller) and its pagination; `text` is scratch. NULL when out of memory.
 */
struct blob *page_builder_compose(const struct page_builder *p, struct buf *text, struct page_info *info);

#endif
