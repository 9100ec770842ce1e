/* The access log: one line per request, request ids and trace ids. It shows only the start of a key's digest,
 * and the key's name. */
#ifndef API_ACCESS_LOG_H
#define API_ACCESS_LOG_H

#include "base/hash.h"
#include "cache/cache.h"
#include "http/exchange.h"

/* What is logged: nothing, or the errors, which are the statuses from 400 on, and a share of the other
 * responses, in hundredths of a percent. */
enum { ACCESS_LOG_OFF = -1, ACCESS_LOG_ERRORS = 0, ACCESS_LOG_ALL = 100 * 100 };

/* Parses "off", "errors", "all", or a share from "0.01%" to "100%". Returns 0 or -EINVAL. */
int access_log_parse(struct span text, int *share) __attribute__((warn_unused_result));

enum { ACCESS_LOG_KEY_DIGITS = 8 }; /* the hex digits of the key's digest that are shown */

struct access_record {
    enum http_method method;
    const char *route;
    int status;
    size_t bytes;         /* content only */
    uint64_t duration_us; /* from the complete request to its response */
    enum cache_source source;
    struct span client;     /* its address, or absent */
    struct span key;        /* start of the digest, or absent */
    struct span key_name;   /* or absent */
    struct span request_id; /* valid, or absent */
    struct span traceparent;
    uint64_t suppressed; /* lines that the budget suppressed before this one */
};

/* True if a response with this status is logged, where the log is not off. Each response of a share is drawn
 * by itself, from the series of *random (hash.h): no client, connection or order of requests is preferred. */
static inline bool access_log_wants(int share, int status, uint64_t *random)
{
    return status >= 400 || random_next(random) % ACCESS_LOG_ALL < (uint64_t)share;
}

/*
 * A request without a valid key, or over the rate of its key, is refused. It costs its client nothing and
 * could fill any disk. So each worker logs a limited number of refused requests per second, and counts the
 * others. Zero-initialised.
 */
enum { ACCESS_LOG_REFUSED_MAX = 100 };

struct access_log_budget {
    uint64_t second; /* by the monotonic clock */
    unsigned lines;  /* logged in that second */
    uint64_t suppressed;
};

/* True if this refused request is logged; *suppressed is then the number of requests that were not, since the
 * last one. */
bool access_log_spend(struct access_log_budget *budget, uint64_t now_ns, uint64_t *suppressed);

void access_log_write(const struct access_record *record);

/* True for 1 to 128 characters of A-Z a-z 0-9 _ . - : such a request id is echoed and logged. */
bool request_id_valid(struct span id);

/* Generator of request ids: 32 pseudo-random hexadecimal digits, different in each process. */
struct request_ids {
    uint64_t state[2];
    char text[32];
};

void request_ids_init(struct request_ids *ids);

/* Borrowed until the next call. */
struct span request_id_next(struct request_ids *ids);

#endif
