/*
 * GCRA in a set-associative table; see rate_limit.h. A bucket is a tag, the seeded hash of its key's digest,
 * and the time when it will be full, known as the theoretical arrival time (TAT). A key has its bucket in the
 * set that its tag selects, and only one, or it would have two limits.
 */
#include "api/rate_limit.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

static const uint64_t SECOND_NS = 1000000000;

enum { LOCKS = 64, FIELD_MAX = 64 };

struct bucket {
    uint64_t tag;  /* 0: of no key */
    uint64_t full; /* when it is */
};

struct bucket_set {
    uint64_t latest; /* time at which a thread gave a bucket to another key */
    struct bucket bucket[RATE_LIMIT_WAYS];
};

struct rate_limit {
    uint64_t interval_ns;  /* in which a bucket gains a request */
    uint64_t tolerance_ns; /* a request is granted at most this long before the bucket is full */
    uint64_t seed;
    size_t mask; /* tag & mask is the number of its set */
    char policy[FIELD_MAX];
    pthread_mutex_t lock[LOCKS]; /* that of a set by the number of the set */
    struct bucket_set set[];
};

/* In seconds; 0 for another unit. */
static uint32_t rate_limit_window_of(struct span unit)
{
    char c = unit.len == 1 ? *unit.data : '\0';
    return c == 's' ? 1 : c == 'm' ? 60 : c == 'h' ? 3600 : 0;
}

static bool rate_limit_parse_number(struct span text, uint32_t *out)
{
    int64_t number = 0;
    bool valid = parse_int64(text, &number) == 0 && number >= 1 && number <= RATE_REQUESTS_MAX;
    *out = (uint32_t)number;
    return valid;
}

const char *rate_policy_parse(struct span text, struct rate_policy *out)
{
    static const struct span prefix = {"burst=", 6};
    struct rate_policy p = {0};
    struct span rest = text;
    struct span unit = span_cut(&rest, ',');
    struct span requests = span_cut(&unit, '/');
    struct span burst = rest.data == NULL                ? requests
                        : span_starts_with(rest, prefix) ? span_skip(rest, prefix.len)
                                                         : SPAN_ABSENT;
    p.window_s = rate_limit_window_of(unit);
    if (text.len > 0 && (p.window_s == 0 || !rate_limit_parse_number(requests, &p.requests) ||
                         !rate_limit_parse_number(burst, &p.burst)))
        return "a rate such as 100/s, 6000/m or 100/s,burst=200 is expected, of 1 to 1000000 requests";
    *out = p;
    return NULL;
}

static uint64_t rate_limit_round_up(uint64_t n, uint64_t unit)
{
    return n / unit + (n % unit != 0);
}

/* --- the table --- */

static uint64_t rate_limit_tag_of(const struct rate_limit *l, const struct digest *key)
{
    uint64_t hash = digest_hash(key, l->seed);
    return hash != 0 ? hash : 1;
}

static struct bucket *rate_limit_find(struct bucket_set *s, uint64_t tag)
{
    for (int i = 0; i < RATE_LIMIT_WAYS; i++)
        if (s->bucket[i].tag == tag)
            return &s->bucket[i];
    return NULL;
}

/* Gives the tag a bucket that is full; NULL if there is none. */
static struct bucket *rate_limit_insert(struct bucket_set *s, uint64_t tag, uint64_t now)
{
    for (int i = 0; i < RATE_LIMIT_WAYS; i++)
        if (s->bucket[i].full <= now) {
            s->bucket[i] = (struct bucket){tag, now};
            return &s->bucket[i];
        }
    return NULL;
}

static struct rate_result rate_limit_count_in(const struct rate_limit *l, struct bucket *b, uint64_t now)
{
    uint64_t ahead = b->full > now ? b->full - now : 0; /* until the bucket is full */
    uint64_t wait = 0;                                  /* until it has one more */
    struct rate_result result = {.outcome = RATE_REFUSED};
    if (ahead > l->tolerance_ns) {
        wait = ahead - l->tolerance_ns;
    } else {
        result.outcome = RATE_GRANTED;
        result.remaining = (uint32_t)((l->tolerance_ns - ahead) / l->interval_ns);
        ahead += l->interval_ns;
        b->full = now + ahead;
        wait = ahead % l->interval_ns;
    }
    result.wait_s = (uint32_t)rate_limit_round_up(wait > 0 ? wait : l->interval_ns, SECOND_NS);
    return result;
}

struct rate_result rate_limit_count(struct rate_limit *l, const struct digest *key, bool valid, uint64_t now)
{
    uint64_t tag = rate_limit_tag_of(l, key);
    struct rate_result result = {.outcome = RATE_NONE};
    struct bucket_set *s = &l->set[tag & l->mask];
    pthread_mutex_t *lock = &l->lock[tag & l->mask & (LOCKS - 1)];
    (void)pthread_mutex_lock(lock);
    struct bucket *b = rate_limit_find(s, tag);
    /* A bucket is given to another key at the latest time of all threads. A thread that has read the clock
     * earlier would give a key a new bucket before its old one was full. */
    if (b == NULL && valid) {
        result.outcome = RATE_UNCOUNTED;
        now = s->latest = MAX(s->latest, now);
        b = rate_limit_insert(s, tag, now);
    }
    if (b != NULL)
        result = rate_limit_count_in(l, b, now);
    (void)pthread_mutex_unlock(lock);
    return result;
}

/* The bucket belongs to no key then, and is free when it is full. */
void rate_limit_remove(struct rate_limit *l, const struct digest *key)
{
    uint64_t tag = rate_limit_tag_of(l, key);
    pthread_mutex_t *lock = &l->lock[tag & l->mask & (LOCKS - 1)];
    (void)pthread_mutex_lock(lock);
    struct bucket *b = rate_limit_find(&l->set[tag & l->mask], tag);
    if (b != NULL)
        b->tag = 0;
    (void)pthread_mutex_unlock(lock);
}

struct rate_limit *rate_limit_new(const struct rate_policy *policy, size_t sets)
{
    assert(policy->requests > 0 && policy->burst > 0 && sets > 0 && (sets & (sets - 1)) == 0);
    struct rate_limit *l = calloc(1, sizeof *l + sets * sizeof *l->set);
    if (l == NULL)
        return NULL;
    l->interval_ns = rate_limit_round_up(policy->window_s * SECOND_NS, policy->requests);
    l->tolerance_ns = (policy->burst - 1) * l->interval_ns; /* at most 3.6e18 */
    l->seed = random_seed(l);
    l->mask = sets - 1;
    for (int i = 0; i < LOCKS; i++)
        (void)pthread_mutex_init(&l->lock[i], NULL);
    (void)snprintf(l->policy, sizeof l->policy, "\"key\";q=%u;w=%u", policy->requests, policy->window_s);
    return l;
}

void rate_limit_free(struct rate_limit *l)
{
    if (l == NULL)
        return;
    for (int i = 0; i < LOCKS; i++)
        (void)pthread_mutex_destroy(&l->lock[i]);
    free(l);
}

/* --- fields --- */

void rate_limit_add_fields(const struct rate_limit *l, const struct rate_result *result,
                           struct http_response *r)
{
    char text[FIELD_MAX];
    if (result->outcome != RATE_GRANTED && result->outcome != RATE_REFUSED)
        return;
    char *at = span_put(SPAN("\"key\";r="), text);
    at += format_int64(result->remaining, at);
    at = span_put(SPAN(";t="), at);
    at += format_int64(result->wait_s, at);
    http_response_add(r, SPAN("RateLimit-Policy"), span_of(l->policy));
    http_response_add(r, SPAN("RateLimit"), (struct span){text, (size_t)(at - text)});
    if (result->outcome == RATE_REFUSED)
        http_response_add(r, SPAN("Retry-After"), (struct span){text, format_int64(result->wait_s, text)});
}
