/* Which requests have a line in the access log; request ids and trace ids. */
#ifndef API_ACCESS_LOG_H
#define API_ACCESS_LOG_H

#include "base/hash.h"
#include "base/span.h"

/* Nothing, or the errors (statuses from 400 on) and a share of the other responses, in hundredths of a
 * percent. */
enum { ACCESS_LOG_OFF = -1, ACCESS_LOG_ERRORS = 0, ACCESS_LOG_ALL = 100 * 100 };

/* Parses "off", "errors", "all", or a share from "0.01%" to "100%". Returns 0 or -EINVAL. */
int access_log_parse(struct span text, int *share) __attribute__((warn_unused_result));

/* True if a response with this status is logged, where the log is not off. Each response of a share is drawn
 * by itself, from the series of *random (hash.h). */
static inline bool access_log_wants(int share, int status, uint64_t *random)
{
    return status >= 400 || random_next(random) % ACCESS_LOG_ALL < (uint64_t)share;
}

/* A request without a valid key, or over the rate of its key, could fill any disk. So each worker logs some
 * per second, and counts the others. Zero-initialised. */
enum { ACCESS_LOG_REFUSED_MAX = 100 };

struct access_log_budget {
    uint64_t second; /* by the monotonic clock */
    unsigned lines;  /* logged in that second */
    uint64_t suppressed;
};

/* True if this refused request is logged; *suppressed is then how many were not, since the last one. */
bool access_log_spend(struct access_log_budget *budget, uint64_t now_ns, uint64_t *suppressed);

/* Of a traceparent field; both absent when it is not valid (W3C Trace Context, "Versioning of traceparent").
 */
struct trace_ids {
    struct span trace, parent;
};
struct trace_ids trace_ids_parse(struct span traceparent);

/* A client's request id is echoed and logged if it is a name (text.h) of at most REQUEST_ID_MAX characters.
 * Makes one, which is in `out`, of the series of *random (hash.h). */
enum { REQUEST_ID_MAX = 128, REQUEST_ID_LEN = 32 };
struct span request_id_make(uint64_t *random, char out[REQUEST_ID_LEN]);

#endif
