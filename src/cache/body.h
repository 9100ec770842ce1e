/*
 * From Redis' replies to bodies: what a reply holds of a channel, of a link or of the index; what is counted
 * and logged of values that cannot be served; and a page that is put together from the summaries of its
 * channels.
 *
 * Knows nothing of commands and connections: replies are redisReply as hiredis defines it.
 */
#ifndef CACHE_BODY_H
#define CACHE_BODY_H

#include "base/blob.h"
#include "cache/entries.h"
#include "model/channel.h"
#include "model/datetime.h"
#include "model/document.h"
#include "redis/resp.h"

#include <assert.h>

/* --- single replies --- */

enum reply_state { REPLY_INVALID, REPLY_ABSENT, REPLY_PRESENT };

/*
 * The reply of an HMGET of all fields of a shape. *row borrows from it. A channel is there when it has at
 * least one field of a summary.
 */
enum reply_state body_parse_row(const redisReply *reply, enum channel_shape shape, struct channel_row *row);

/* The reply of the GET of a link. REPLY_ABSENT with *id untouched also where the value is not an id: then
 * *malformed is set. */
enum reply_state body_parse_link(const redisReply *reply, int64_t *id, bool *malformed);

/*
 * Writes the body of a card, or a summary's part of a page, in place of what is in `text`. Returns the fields
 * whose value did not parse, as channel_write.
 */
unsigned body_write(struct buf *text, const struct channel_row *row, enum channel_shape shape);

/* --- reports of what is served as absent --- */

enum { BODY_REPORTED = 1024 };

/* What was logged of a channel. */
enum body_report { BODY_REPORT_NONE, BODY_REPORT_INVALID_VALUE, BODY_REPORT_LEFT_OUT, BODY_REPORT_OVERSIZE };

/* Embedded, zeros but for `metrics`; private to body.c. */
struct body_reports {
    struct cache_metrics *metrics; /* borrowed */
    /* Channels (or hashes of keys) that something was logged of, by hash: each only once, and bounded. */
    struct {
        enum body_report what;
        int64_t id;
    } reported[BODY_REPORTED];
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */
};

/* The newest updated_at that was read is a metric: it tells when the loader last did something. */
void body_note_update(struct body_reports *r, const struct channel_row *row);

/* Counts the fields of a channel whose value did not parse, as body_write returns them. */
void body_report_invalid(struct body_reports *r, int64_t id, unsigned fields);

/* The reply of a key was too large to be read. */
void body_report_oversize(struct body_reports *r, struct span key);

/* --- pages --- */

/* The members of the index that a page shows. */
struct page_members {
    int64_t id[PAGE_SIZE];
    int count;
    int invalid;   /* members that are not ids */
    bool has_next; /* the reply had one member more than fits on a page */
};

/* The reply of the ZRANGE of a page and one member more; false when it is none. */
bool page_members_parse(struct page_members *m, const redisReply *reply);

/* Why an index member is left out of its page. */
enum page_gap { PAGE_GAP_NONE, PAGE_GAP_ABSENT, PAGE_GAP_WRONG_TYPE, PAGE_GAP_OVERSIZE };

/* Private to body.c, but for the functions below. */
struct page_builder {
    int64_t number;
    int64_t index_size;
    struct page_members members;
    enum page_gap gap[PAGE_SIZE];
    struct blob *summary[PAGE_SIZE]; /* one reference each; NULL where not there yet, or never */
};

/* A page of which only the number is known. Owned by the caller; NULL when out of memory. */
struct page_builder *page_builder_new(int64_t number);
void page_builder_free(struct page_builder *p);

/* Back to that. */
void page_builder_reset(struct page_builder *p);

static inline void page_builder_set_index_size(struct page_builder *p, int64_t size)
{
    p->index_size = size;
}

/* The members as a reply has them; false when the reply is none of that kind. */
static inline bool page_builder_set_members(struct page_builder *p, const redisReply *reply)
{
    assert(p->members.count == 0);
    return page_members_parse(&p->members, reply);
}

/* The members of a cached page whose body is not current any more. */
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

/* The summary at that place has come (takes a reference), or never will. */
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

/* True when it is incomplete, or empty where the index should have had something, if there is an index. */
bool page_builder_lacks_something(const struct page_builder *p);

/* Counts the index members that are left out. */
void page_builder_report_gaps(const struct page_builder *p, struct body_reports *r);

/*
 * The finished body (one reference, for the caller), written by way of `text`, and what it says of itself.
 * NULL when out of memory.
 */
struct blob *page_builder_compose(const struct page_builder *p, struct buf *text, struct page_info *info);

#endif
