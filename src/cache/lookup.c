/*
 * Answers from memory, and when memory may speak at all. See store_internal.h.
 *
 * FRESH: connected, tracking, and the stream is proven whole within the lease. STALE: the connection was
 * lost, but not for long enough. NONE: Redis has to be asked. A fetch that was begun without asking about the
 * key rests on a fresh verdict: while the connection is away, or the lease has run out, each question asks
 * for its own.
 */
#include "cache/page_builder.h"
#include "cache/cache_internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum freshness { NONE, STALE, FRESH };

/* Redis has told that it changed, and it is not known yet whether there is anything left. */
static bool is_doubted(const struct store *s, unsigned changes)
{
    return (s->catalogue.changes & changes) != 0;
}

static enum freshness freshness_of(const struct store *s, uint64_t now)
{
    if (!s->coherent)
        return NONE;
    if (rconn_is_ready(s->rconn))
        return now <= rconn_proven_ms(s->rconn) + COHERENCE_LEASE_MS && !is_doubted(s, CHANGE_ALL) ? FRESH
                                                                                                   : NONE;
    return now < s->lost_ms + s->options.stale_limit_ms ? STALE : NONE;
}

/* --- keys --- */

/* What is absent may be so because all of it is missing; until the check it is as if nothing were known. */
static bool is_told_for_sure(const struct store *s, const struct cache_entry *e)
{
    return !e->negative || catalogue_is_confirmed(s, e->value);
}

/* A remembered verdict is named by its epoch as well, so that a change of the set makes all of them
 * unreachable. */
struct verdict_key {
    struct digest digest;
    int64_t epoch;
};

static struct span name_of(const struct verdict_key *k)
{
    return (struct span){(const char *)k, sizeof *k};
}

static enum verdict verdict_of(struct store *s, const struct digest *key, enum freshness freshness,
                               uint64_t now)
{
    if (freshness == NONE || (freshness == STALE && now >= s->lost_ms + s->options.stale_keys_limit_ms))
        return VERDICT_UNKNOWN;
    if (is_doubted(s, CHANGE_KEYS))
        return VERDICT_UNKNOWN;
    if (!s->keys_large)
        return keyring_verdict(&s->keyring, key);
    const struct verdict_key name = {*key, s->verdict_epoch};
    const struct cache_entry *e = cache_find(&s->cache, CACHE_VERDICT, name_of(&name));
    if (e == NULL || !is_told_for_sure(s, e))
        return VERDICT_UNKNOWN;
    return e->negative ? VERDICT_REFUSED : VERDICT_VALID;
}

void memory_keep_verdict(struct store *s, const struct digest *key, bool valid)
{
    const struct verdict_key name = {*key, s->verdict_epoch};
    if (!s->keys_large || !coherence_keeps(s))
        return;
    if (valid)
        cache_put(&s->cache, CACHE_VERDICT, name_of(&name), NULL, 0);
    else
        cache_put_absent(&s->cache, CACHE_VERDICT, name_of(&name), (int64_t)catalogue_next_check(s));
}

/* --- cards, links, pages --- */

/* `e` may be NULL: nothing is known of the card. */
static bool answer_card(const struct store *s, const struct cache_entry *e, struct store_answer *answer)
{
    if (e == NULL || !is_told_for_sure(s, e))
        return false;
    answer->status = e->negative ? STORE_NOT_FOUND : STORE_FOUND;
    answer->body = e->negative ? NULL : blob_ref(e->body);
    return true;
}

/* Where the link leads is written to *q: what may follow is a question for the card alone. */
static bool link_from_memory(struct store *s, struct store_question *q, struct store_answer *answer)
{
    struct cache_entry *e = cache_find(&s->cache, CACHE_LINK, q->link);
    if (e == NULL || !is_told_for_sure(s, e))
        return false;
    if (e->negative) {
        answer->status = STORE_NOT_FOUND;
        return true;
    }
    *q = (struct store_question){.key = q->key, .target = STORE_CARD, .number = e->value};
    return answer_card(s, cache_find_linked(&s->cache, e), answer);
}

static bool compose(struct page_fetch *p, struct store_answer *answer)
{
    answer->body = page_fetch_compose(p, &answer->last_page);
    answer->status = answer->body != NULL ? STORE_FOUND : STORE_OUT_OF_MEMORY;
    page_fetch_free(p);
    return true;
}

/* Beyond the last page there is nothing to read, and nothing worth remembering. */
static bool page_beyond(struct store *s, int64_t number, struct store_answer *answer)
{
    if (!s->index_known || number <= page_last(s->index_entries))
        return false;
    struct page_fetch *p = page_fetch_new(s, number);
    if (p == NULL)
        return false;
    p->entries = s->index_entries;
    p->overtaken = true;
    return compose(p, answer);
}

/* The channels of a page whose body is not true any more, with the summaries that still are. */
static struct page_fetch *known_page(struct store *s, const struct cache_entry *e)
{
    struct page_fetch *p = page_fetch_new(s, e->page->info.page);
    if (p == NULL)
        return NULL;
    p->entries = s->index_entries;
    p->has_next = e->page->info.has_next;
    p->count = e->page->member_count;
    for (int i = 0; i < p->count; i++)
        p->id[i] = e->page->member[i];
    return p;
}

static bool page_from_memory(struct store *s, int64_t number, struct store_answer *answer,
                             struct page_fetch **known)
{
    if (is_doubted(s, CHANGE_INDEX))
        return false;
    const struct cache_entry *e = cache_find(&s->cache, CACHE_PAGE, cache_key_of(&number));
    if (e == NULL)
        return page_beyond(s, number, answer);
    if (e->body != NULL) {
        answer->status = STORE_FOUND;
        answer->body = blob_ref(e->body);
        answer->last_page = e->page->info.last;
        return true;
    }
    struct page_fetch *p = known_page(s, e);
    if (p == NULL)
        return false;
    if (page_fetch_gather(p) == 0)
        return compose(p, answer);
    *known = p;
    return false;
}

static bool target_from_memory(struct store *s, struct store_question *q, struct store_answer *answer,
                               struct page_fetch **known)
{
    switch (q->target) {
    case STORE_NOTHING:
        answer->status = STORE_FOUND;
        return true;
    case STORE_CARD:
        return answer_card(s, cache_find(&s->cache, CACHE_CARD, cache_key_of(&q->number)), answer);
    case STORE_CARD_BY_LINK:
        return link_from_memory(s, q, answer);
    case STORE_PAGE:
        return page_from_memory(s, q->number, answer, known);
    }
    return false;
}

bool memory_answer(struct store *s, struct store_question *q, struct store_answer *answer,
                   struct memory_gap *gap)
{
    *answer = (struct store_answer){0};
    *gap = (struct memory_gap){.needs_verdict = true};
    uint64_t now = clock_boot_ms();
    enum freshness freshness = freshness_of(s, now);
    enum verdict verdict = verdict_of(s, &q->key, freshness, now);
    if (verdict == VERDICT_UNKNOWN)
        return false;
    bool answered = verdict == VERDICT_REFUSED;
    struct store_question asked = *q;
    if (answered)
        answer->status = STORE_KEY_REFUSED;
    else
        answered = target_from_memory(s, &asked, answer, &gap->known);
    if (answered) {
        struct metrics *m = s->options.metrics;
        metric_add(freshness == FRESH ? &m->cache_hits_total : &m->cache_stale_total, 1);
        answer->source = freshness == FRESH ? STORE_SOURCE_MEMORY : STORE_SOURCE_STALE_MEMORY;
    } else if (freshness == FRESH) {
        gap->needs_verdict = false;
        gap->linked = asked.target != q->target;
        *q = asked;
    } else {
        page_fetch_free(gap->known);
        gap->known = NULL;
    }
    return answered;
}
