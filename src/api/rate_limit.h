/*
 * The rate limit of API keys, of all workers together, by GCRA, the generic cell rate algorithm: a token
 * bucket that holds one time instead of a number of tokens. In any time t, a key is granted at most burst + t
 * * requests / window_s requests. Further ones are refused and not counted.
 *
 * A full bucket means the same as no bucket, so it is reused for a key without one. Times are nanoseconds of
 * the monotonic clock.
 */
#ifndef API_RATE_LIMIT_H
#define API_RATE_LIMIT_H

#include "base/digest.h"
#include "http/response.h"

enum { RATE_REQUESTS_MAX = 1000000 };

struct rate_policy {
    uint32_t requests; /* per window, 1 to RATE_REQUESTS_MAX; 0: there is no limit */
    uint32_t window_s; /* 1, 60 or 3600 */
    uint32_t burst;    /* 1 to RATE_REQUESTS_MAX */
};

/*
 * Parses "100/s", "6000/m" or "1000/h", with or without ",burst=200"; without, the burst is the number of
 * requests. An empty text is no limit. Returns NULL, or the error.
 */
const char *rate_policy_parse(struct span text, struct rate_policy *out);

struct rate_limit;

/* Buckets of one set, and sets of a process: 2 MiB, of which only pages that are used are allocated. */
enum { RATE_LIMIT_WAYS = 7, RATE_LIMIT_SETS = 16384 };

/* `sets` is a power of two, `policy` not empty. Owned by the caller; NULL without memory. */
struct rate_limit *rate_limit_new(const struct rate_policy *policy, size_t sets);
void rate_limit_free(struct rate_limit *l);

enum rate_outcome {
    RATE_NONE,    /* the key has no bucket */
    RATE_GRANTED, /* and counted */
    RATE_REFUSED,
    RATE_UNCOUNTED /* granted, as no bucket was free */
};

struct rate_result {
    enum rate_outcome outcome;
    uint32_t remaining; /* RATE_GRANTED: requests that would be granted now; 0 for RATE_REFUSED */
    uint32_t wait_s;    /* both: seconds until there is one more, rounded up, at least 1 */
};

/* Counts a request of a key. `valid`: the key is known to be valid, and gets a bucket if it has none. */
struct rate_result rate_limit_count(struct rate_limit *l, const struct digest *key, bool valid, uint64_t now);

void rate_limit_remove(struct rate_limit *l, const struct digest *key);

/* Adds RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10), and Retry-After to a request
 * that is refused; nothing to one that was not counted. */
void rate_limit_add_fields(const struct rate_limit *l, const struct rate_result *result,
                           struct http_response *r);

#endif
