/*
 * Answers from memory, and when memory may speak at all. See cache_internal.h.
 *
 * FRESH: connected, tracking, and the stream is proven whole within the lease. STALE: the connection was
 * lost, but not for long enough. NONE: Redis has to be asked. A fetch that was begun without asking about the
 * key rests on a fresh verdict: while the connection is away, or the lease has run out, each question asks
 * for its own.
 */
#include "cache/cache_internal.h"
#include "cache/page_builder.h"

#include "base/clock.h"

#include <stdlib.h>

enum freshness { NONE, STALE, FRESH };

/* Redis has told that it changed, and it is not known yet whether there is anything left. */
static bool is_doubted(const struct cache *s, unsigned changes)
{
    return (s->catalogue.changes & changes) != 0;
}

static enum freshness freshness_of(const struct cache *s, uint64_t now)
{
    if (!s->coherent)
        return NONE;
    if (redis_connection_is_ready(s->redis_connection))
        return now <= redis_connection_last_pong_ms(s->redis_connection) + CACHE_LEASE_MS &&
                       !is_doubted(s, CHANGE_ALL)
                   ? FRESH
                   : NONE;
    return now < s->lost_ms + s->options.stale_limit_ms ? STALE : NONE;
}

/* --- keys --- */

/* What is absent may be so because all of it is missing; until the check it is as if nothing were known. */
static bool is_told_for_sure(const struct cache *s, const struct entry *e)
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

static enum auth_result verdict_of(struct cache *s, const struct digest *key, enum freshness freshness,
                                   uint64_t now)
{
    if (freshness == NONE || (freshness == STALE && now >= s->lost_ms + s->options.stale_keys_limit_ms))
        return AUTH_RESULT_UNKNOWN;
    if (is_doubted(s, CHANGE_KEYS))
        return AUTH_RESULT_UNKNOWN;
    if (!s->keys_large)
        return api_keys_check(&s->api_keys, key);
    const struct verdict_key name = {*key, s->auth_epoch};
    const struct entry *e = entries_find(&s->entries, ENTRY_AUTH, name_of(&name));
    if (e == NULL || !is_told_for_sure(s, e))
        return AUTH_RESULT_UNKNOWN;
    return e->negative ? AUTH_RESULT_INVALID : AUTH_RESULT_VALID;
}

void lookup_store_auth(struct cache *s, const struct digest *key, bool valid)
{
    const struct verdict_key name = {*key, s->auth_epoch};
    if (!s->keys_large || !invalidation_may_store(s))
        return;
    if (valid)
        entries_put(&s->entries, ENTRY_AUTH, name_of(&name), NULL, 0);
    else
        entries_put_absent(&s->entries, ENTRY_AUTH, name_of(&name), (int64_t)catalogue_next_check(s));
}

/* --- cards, links, pages --- */

/* `e` may be NULL: nothing is known of the card. */
static bool answer_card(const struct cache *s, const struct entry *e, struct cache_result *answer)
{
    if (e == NULL || !is_told_for_sure(s, e))
        return false;
    answer->status = e->negative ? CACHE_NOT_FOUND : CACHE_FOUND;
    answer->body = e->negative ? NULL : blob_ref(e->body);
    return true;
}

/* Where the link leads is written to *q: what may follow is a question for the card alone. */
static bool link_from_memory(struct cache *s, struct cache_query *q, struct cache_result *answer)
{
    struct entry *e = entries_find(&s->entries, ENTRY_LINK, q->link);
    if (e == NULL || !is_told_for_sure(s, e))
        return false;
    if (e->negative) {
        answer->status = CACHE_NOT_FOUND;
        return true;
    }
    *q = (struct cache_query){.key = q->key, .target = QUERY_CARD, .number = e->value};
    return answer_card(s, entries_find_linked(&s->entries, e), answer);
}

static bool compose(struct page_builder *p, struct cache_result *answer)
{
    answer->body = page_builder_compose(p, &answer->last_page);
    answer->status = answer->body != NULL ? CACHE_FOUND : CACHE_OUT_OF_MEMORY;
    page_builder_free(p);
    return true;
}

/* Beyond the last page there is nothing to read, and nothing worth remembering. */
static bool page_beyond(struct cache *s, int64_t number, struct cache_result *answer)
{
    if (!s->index_known || number <= page_last(s->index_entries))
        return false;
    struct page_builder *p = page_builder_new(s, number);
    if (p == NULL)
        return false;
    p->entries = s->index_entries;
    p->invalidated = true;
    return compose(p, answer);
}

/* The channels of a page whose body is not true any more, with the summaries that still are. */
static struct page_builder *known_page(struct cache *s, const struct entry *e)
{
    struct page_builder *p = page_builder_new(s, e->page->info.page);
    if (p == NULL)
        return NULL;
    p->entries = s->index_entries;
    p->has_next = e->page->info.has_next;
    p->count = e->page->member_count;
    for (int i = 0; i < p->count; i++)
        p->id[i] = e->page->member[i];
    return p;
}

static bool page_from_memory(struct cache *s, int64_t number, struct cache_result *answer,
                             struct page_builder **known)
{
    if (is_doubted(s, CHANGE_INDEX))
        return false;
    const struct entry *e = entries_find(&s->entries, ENTRY_PAGE, entries_key_of(&number));
    if (e == NULL)
        return page_beyond(s, number, answer);
    if (e->body != NULL) {
        answer->status = CACHE_FOUND;
        answer->body = blob_ref(e->body);
        answer->last_page = e->page->info.last;
        return true;
    }
    struct page_builder *p = known_page(s, e);
    if (p == NULL)
        return false;
    if (page_builder_gather(p) == 0)
        return compose(p, answer);
    *known = p;
    return false;
}

static bool target_from_memory(struct cache *s, struct cache_query *q, struct cache_result *answer,
                               struct page_builder **known)
{
    switch (q->target) {
    case QUERY_AUTH_ONLY:
        answer->status = CACHE_FOUND;
        return true;
    case QUERY_CARD:
        return answer_card(s, entries_find(&s->entries, ENTRY_CARD, entries_key_of(&q->number)), answer);
    case QUERY_CARD_BY_LINK:
        return link_from_memory(s, q, answer);
    case QUERY_PAGE:
        return page_from_memory(s, q->number, answer, known);
    }
    return false;
}

bool cache_lookup(struct cache *s, struct cache_query *q, struct cache_result *answer, struct cache_miss *gap)
{
    *answer = (struct cache_result){0};
    *gap = (struct cache_miss){.needs_auth = true};
    uint64_t now = clock_boot_ms();
    enum freshness freshness = freshness_of(s, now);
    enum auth_result auth_result = verdict_of(s, &q->key, freshness, now);
    if (auth_result == AUTH_RESULT_UNKNOWN)
        return false;
    bool answered = auth_result == AUTH_RESULT_INVALID;
    struct cache_query asked = *q;
    if (answered)
        answer->status = CACHE_KEY_INVALID;
    else
        answered = target_from_memory(s, &asked, answer, &gap->known);
    if (answered) {
        struct cache_metrics *m = s->options.metrics;
        metric_add(freshness == FRESH ? &m->cache_hits_total : &m->cache_stale_hits_total, 1);
        answer->source = freshness == FRESH ? CACHE_SOURCE_HIT : CACHE_SOURCE_STALE;
    } else if (freshness == FRESH) {
        gap->needs_auth = false;
        gap->linked = asked.target != q->target;
        *q = asked;
    } else {
        page_builder_free(gap->known);
        gap->known = NULL;
    }
    return answered;
}
