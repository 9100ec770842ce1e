/*
 * A page of the list that is being read: the members of the index on it, and the summaries of their channels.
 *
 * The members are an entry that is in no table yet, so changes of their channels are noted. The summaries are
 * in one text, in any order, and those of a cached page are copied there when the members are set. The body
 * of the page is written when it is complete.
 */
#ifndef CACHE_PAGE_H
#define CACHE_PAGE_H

#include "cache/body.h"
#include "cache/entries.h"

/* The members of the index on a page. */
struct page_members {
    struct page_member member[PAGE_SIZE];
    int count;
    int invalid;   /* members that are not ids */
    bool has_next; /* the reply had more members than a page */
};

/* Parses the reply to a ZRANGE of a page and one more member. False when it is not a list of strings. */
bool page_members_parse(struct page_members *m, const struct redis_reply *reply);

/* Why an index member is left out of its page. */
enum page_gap { PAGE_GAP_NONE, PAGE_GAP_ABSENT, PAGE_GAP_WRONG_TYPE, PAGE_GAP_OVERSIZE };

struct page_builder {
    struct entries *entries;
    int64_t number;
    int64_t index_size; /* set by the owner */
    int invalid;        /* as in page_members */
    bool has_next;
    struct entry *entry; /* owned; its summaries are in `text`; NULL: the members are not set */
    struct buf text;     /* private */
    struct page_read {   /* by the place of the member; set by the owner */
        void *owner;
        enum page_gap gap; /* why there is no summary */
    } reads[PAGE_SIZE];
};

/* A page without members. Owned by the caller (page_builder_free); NULL when out of memory. */
struct page_builder *page_builder_new(struct entries *entries, int64_t number);
void page_builder_free(struct page_builder *p);

/*
 * Sets the members: those of a reply to ZRANGE, or those of the cached page `e`. Summaries that were read
 * earlier, and those of `e` (NULL: there is none), are taken as far as they are current. Gaps must be read
 * again. Returns 0, -EINVAL for a reply that is no list of strings, or -ENOMEM.
 */
int page_builder_read_list(struct page_builder *p, const struct redis_reply *reply, const struct entry *e)
    __attribute__((warn_unused_result));
int page_builder_take_list(struct page_builder *p, const struct entry *e) __attribute__((warn_unused_result));

static inline int64_t page_builder_id(const struct page_builder *p, int at)
{
    return entry_page(p->entry)->member[at].id;
}

/* The place of the first summary from `from` on that is neither there nor left out, or -1. */
int page_builder_next_missing(const struct page_builder *p, int from);

/* Writes a summary. Returns the fields that did not parse; page_builder_compose reports lack of memory. */
unsigned page_builder_write(struct page_builder *p, int at, const struct channel_row *row);

/* The gap that a reply to the HMGET of a summary leaves. An invalid card does not make its page fail. */
static inline enum page_gap page_gap_of(const struct redis_reply *reply)
{
    if (resp_is_oversize(reply))
        return PAGE_GAP_OVERSIZE;
    return reply_is_error(reply, SPAN("WRONGTYPE ")) ? PAGE_GAP_WRONG_TYPE : PAGE_GAP_NONE;
}

/*
 * What the page lacks, as a number; 0: nothing. A page lacks the members of the index that were not read, or
 * have no channel, since a loader may have been writing between the two reads. A page without members lacks
 * all of them, if the index is empty or has a page with this number.
 */
uint64_t page_builder_lack(const struct page_builder *p);

/* Counts, and logs, the index members that are left out. */
void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r);

/*
 * Completes the page, once. Returns its body (one reference, for the caller), to which the places of the
 * summaries lead from now on, and its pagination. NULL when out of memory.
 */
struct blob *page_builder_compose(struct page_builder *p, struct page_info *info);

#endif
