/*
 * The audit (docs/design.md, "Coherence"): reads a card, or one summary or the list of a page, again with
 * each heartbeat, in the random order of the table.
 *
 * One difference proves nothing: the invalidation may still be behind the reply on the stream. So the next
 * heartbeat reads the same once more. Records of API keys are contradicted in the same way (keys.h).
 */
#ifndef CACHE_AUDIT_H
#define CACHE_AUDIT_H

#include "cache/parts.h"

/* Embedded in the cache, zeros but for `parts`; private to audit.c. */
struct audit {
    const struct cache_parts *parts;
    bool reading;    /* an entry is being read again */
    struct audited { /* what is being read, or was read last */
        enum entry_kind kind;
        int64_t number; /* of the entry */
        bool is_list;   /* the list of a page */
        int64_t id;     /* otherwise: the channel of the card or the summary */
    } audited;
    struct blob *differed; /* the body of the entry that differed; one reference; NULL: none did */
    size_t cursor;         /* the cursor of entries_walk */
    unsigned page_cursor;  /* chooses what is read of a page */
};

static inline void audit_fini(struct audit *a)
{
    blob_unref(a->differed);
}

/* To be called every second. */
void audit_heartbeat(struct audit *a);

#endif
