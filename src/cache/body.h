/*
 * Response bodies: the commands that read their parts, and the bodies that are composed of the replies. A
 * body is the card of a channel, its summary, or a page of the list. A page is composed of the members of the
 * index and the summaries of their channels. This module also counts and logs stored values that cannot be
 * served.
 *
 * It does not depend on connections: commands are text, replies are struct redis_reply.
 */
#ifndef CACHE_BODY_H
#define CACHE_BODY_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/digest.h"
#include "cache/entries.h"
#include "cache/metrics.h"
#include "model/channel.h"
#include "model/keyspace.h"
#include "redis/resp.h"

#include <assert.h>

/*
 * --- commands ---
 *
 * One command at a time. Most commands are the same but for the key, and are composed once.
 */

/* Embedded; private to body.c. */
struct commands {
    const struct keyspace *keyspace;
    struct buf key; /* scratch */
    struct buf command;
    struct {
        struct buf text; /* the HMGET of a shape without its key */
        size_t head;     /* bytes before the key */
    } hmget[2];
    struct buf sismember, hget;      /* about an API key and its info; `digest` follows as their last word */
    char digest[DIGEST_HEX_LEN + 2]; /* the digest of the key in hex, with the end of the line */
};

/* Returns 0 or -ENOMEM; call commands_fini in both cases. */
int commands_init(struct commands *c, const struct keyspace *keyspace) __attribute__((warn_unused_result));

static inline void commands_fini(struct commands *c)
{
    buf_fini(&c->key);
    buf_fini(&c->command);
    buf_fini(&c->hmget[CHANNEL_CARD].text);
    buf_fini(&c->hmget[CHANNEL_SUMMARY].text);
    buf_fini(&c->sismember);
    buf_fini(&c->hget);
}

/* The following results are borrowed until the next call; without memory the buffer is in error. */

/* Reads what an entry is made from: HMGET or ZRANGE. */
const struct buf *commands_read(struct commands *c, const struct entry_source *source);

/* GET of the id of a link, in stored shape. */
const struct buf *commands_link(struct commands *c, struct span link);

/* ZCARD of the index. */
const struct buf *commands_index_size(struct commands *c);

/* HGET of the info of an API key, and SISMEMBER of the set of keys; both for the key that was set last. */
void commands_set_key(struct commands *c, const struct digest *key);
const struct buf *commands_key_info(struct commands *c);
const struct buf *commands_auth(struct commands *c);

/* --- channels and links --- */

/* The memory that a buffer for bodies may keep between two bodies. */
enum { BODY_TEXT_KEPT = 256 * 1024 };

/* VALUE_INVALID: the reply has another type than the command's. */
enum value_state { VALUE_INVALID, VALUE_ABSENT, VALUE_PRESENT };

/*
 * Parses the reply to an HMGET of all fields of a shape; *row borrows from it. A channel is present when it
 * has at least one field of a summary.
 */
enum value_state body_parse_row(const struct redis_reply *reply, enum channel_shape shape,
                                struct channel_row *row);

/*
 * Parses the reply to the GET of a link. A value that is not an id counts as absent. Then *malformed is set,
 * and *id is unchanged.
 */
enum value_state body_parse_link(const struct redis_reply *reply, int64_t *id, bool *malformed);

/*
 * Replaces `text` with the body of a card, or with the JSON object of a summary in a page. Returns the set of
 * fields whose value did not parse, as channel_write.
 */
unsigned body_write(struct buf *text, const struct channel_row *row, enum channel_shape shape);

/* --- reports of values that are served as absent --- */

enum { VALUE_REPORTS = 1024 };

enum value_report { VALUE_REPORT_NONE, VALUE_REPORT_INVALID, VALUE_REPORT_LEFT_OUT, VALUE_REPORT_OVERSIZE };

/* Embedded, zeros but for `metrics`; private to body.c. */
struct value_reports {
    struct cache_metrics *metrics; /* borrowed */
    /*
     * What was logged last, by the hash of the channel's id or of the key: nothing is logged twice in a row.
     */
    struct {
        enum value_report kind;
        int64_t id;
    } logged[VALUE_REPORTS];
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */
    uint64_t error_logged_ms;         /* when an error reply was last logged */
};

/* Counts an error reply, and logs it if none was logged within a second. */
void value_reports_error(struct value_reports *r, const struct redis_reply *reply);

/* Sets the metric of the newest updated_at that was read, which shows when the loader last wrote. */
void value_reports_note_update(struct value_reports *r, const struct channel_row *row);

/* Counts, and logs, the fields of a channel whose value did not parse, as body_write returns them. */
void value_reports_invalid(struct value_reports *r, int64_t id, unsigned fields);

/* Logs that the reply about a key was too large to be read. */
void value_reports_oversize(struct value_reports *r, struct span key);

/* --- pages --- */

/* The members of the index that a page shows. */
struct page_members {
    int64_t id[PAGE_SIZE];
    int count;
    int invalid;   /* members that are not ids */
    bool has_next; /* the reply had more members than a page */
};

/* Parses the reply to a ZRANGE of a page and one more member. False when it is not a list of strings. */
bool page_members_parse(struct page_members *m, const struct redis_reply *reply);

/* Why an index member is left out of its page. */
enum page_gap { PAGE_GAP_NONE, PAGE_GAP_ABSENT, PAGE_GAP_WRONG_TYPE, PAGE_GAP_OVERSIZE };

/*
 * A page that is being composed. Its body is written once, from the first summary to the last. Cached
 * summaries are held until their predecessors are written. Private to body.c, but for the functions below.
 */
struct page_builder {
    int64_t number;
    int64_t index_size;
    struct page_members members;
    enum page_gap gap[PAGE_SIZE];
    struct blob *cached[PAGE_SIZE]; /* summaries that are not in the body yet: one reference each */
    struct buf body;                /* becomes the blob of the page */
    size_t expected;                /* the estimated length of the body */
    int written;                    /* members before this one are in the body, or left out of it */
    int count;                      /* summaries in the body */
};

/* An empty page. Owned by the caller (page_builder_free); NULL when out of memory. */
struct page_builder *page_builder_new(int64_t number);
void page_builder_free(struct page_builder *p);

/* Drops the members and summaries. */
void page_builder_reset(struct page_builder *p);

/* Sets the estimated length of the body, which is allocated at the beginning. */
static inline void page_builder_expect(struct page_builder *p, size_t length)
{
    p->expected = length;
}

static inline void page_builder_set_index_size(struct page_builder *p, int64_t size)
{
    p->index_size = size;
}

/* Sets the members from the reply to ZRANGE; false when it is not a list of strings. */
static inline bool page_builder_set_members(struct page_builder *p, const struct redis_reply *reply)
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

/* Takes the summaries that are cached, before any is written. Returns how many are still missing. */
int page_builder_gather(struct page_builder *p, struct entries *entries);

/* The place of the first summary from `from` on that is neither there nor left out, or -1. */
static inline int page_builder_next_missing(const struct page_builder *p, int from)
{
    assert(from >= p->written);
    while (from < p->members.count && (p->cached[from] != NULL || p->gap[from] != PAGE_GAP_NONE))
        from++;
    return from < p->members.count ? from : -1;
}

/* Whether the summary at this place can be written: no earlier one is missing. */
static inline bool page_builder_is_next(const struct page_builder *p, int at)
{
    return page_builder_next_missing(p, p->written) == at;
}

/*
 * Writes the summary at a place, behind those of earlier places. *summary is its text, borrowed until the
 * next call, and absent when out of memory. Returns the set of fields whose value did not parse, as
 * channel_write does.
 */
unsigned page_builder_write_summary(struct page_builder *p, int at, const struct channel_row *row,
                                    struct span *summary);

/* Holds a summary (takes a reference) until its predecessors are written. */
static inline void page_builder_hold_summary(struct page_builder *p, int at, struct blob *summary)
{
    assert(at >= p->written && at < p->members.count && p->cached[at] == NULL);
    p->cached[at] = blob_ref(summary);
}

/* Sets why there is no summary at a place. */
static inline void page_builder_set_gap(struct page_builder *p, int at, enum page_gap gap)
{
    assert(at >= 0 && at < p->members.count);
    p->gap[at] = gap;
}

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

/* Counts the index members that are left out. */
void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r);

/*
 * Completes the page, once. Returns its body (one reference, for the caller) and its pagination, or NULL when
 * out of memory.
 */
struct blob *page_builder_compose(struct page_builder *p, struct page_info *info);

#endif
