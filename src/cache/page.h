/*
 * A page of the list that is being composed: the members of the index on it, and the summaries of their
 * channels.
 *
 * Summaries may be added in any order. When the members are set, those of a cached page are taken from its
 * body. Changes of the channels are noted from then on, in an entry. The body of the page is written when it
 * is complete.
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

/* Those of a cached page. */
void page_members_copy(struct page_members *m, const struct entry_page *page);

/* Why an index member is left out of its page. */
enum page_gap { PAGE_GAP_NONE, PAGE_GAP_ABSENT, PAGE_GAP_WRONG_TYPE, PAGE_GAP_OVERSIZE };

/* The read of a summary. Set by the owner. */
struct page_read {
    void *owner;
    enum page_gap gap; /* why there is none */
};

struct page_builder {
    struct entries *entries;
    int64_t number;
    int64_t index_size;                /* set by the owner */
    struct page_members members;       /* the places of their summaries are those in `text` */
    struct entry *entry;               /* owned; NULL: the members are not set */
    struct page_read reads[PAGE_SIZE]; /* by the place of the member */
    struct buf text;                   /* private */
};

/* A page without members. Owned by the caller (page_builder_free); NULL when out of memory. */
struct page_builder *page_builder_new(struct entries *entries, int64_t number);
void page_builder_free(struct page_builder *p);

/* Drops the members and summaries. */
void page_builder_reset(struct page_builder *p);

/*
 * Sets the members. Summaries that were read earlier, and those of the cached page `e` (NULL: there is none),
 * are taken as far as they are current. Gaps must be read again. Returns 0 or -ENOMEM.
 */
int page_builder_set_members(struct page_builder *p, const struct page_members *members,
                             const struct entry *e) __attribute__((warn_unused_result));

/*
 * The place of the first summary from `from` on that is neither there nor left out, or -1. Without memory
 * none is missing.
 */
int page_builder_next_missing(const struct page_builder *p, int from);

/*
 * Writes the summary at a place. Returns the set of fields whose value did not parse, as channel_write does;
 * lack of memory is reported by page_builder_compose.
 */
unsigned page_builder_write(struct page_builder *p, int at, const struct channel_row *row);

/*
 * The gap that a reply to the HMGET of a summary leaves; `reply` is NULL if there is none. An invalid card is
 * left out of its page and does not make it fail.
 */
static inline enum page_gap page_gap_of(const struct redis_reply *reply)
{
    if (reply == NULL)
        return PAGE_GAP_NONE;
    if (resp_is_oversize(reply))
        return PAGE_GAP_OVERSIZE;
    return reply_is_error(reply, SPAN("WRONGTYPE ")) ? PAGE_GAP_WRONG_TYPE : PAGE_GAP_NONE;
}

/*
 * What the page lacks, as a number; 0: nothing. A page lacks the members of the index that have no channel,
 * since a loader may have been writing between the two reads. A page without members lacks all of them, if
 * the index is empty or has a page with this number.
 */
uint64_t page_builder_lack(const struct page_builder *p);

/* Counts, and logs, the index members that are left out. */
void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r);

/*
 * Completes the page, once. Returns its body (one reference, for the caller), its pagination, and in
 * `members` the places of its summaries. NULL when out of memory.
 */
struct blob *page_builder_compose(struct page_builder *p, struct page_info *info);

#endif
