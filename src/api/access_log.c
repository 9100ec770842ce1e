/* Access log lines; see access_log.h. */
#include "api/access_log.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>

enum { REQUEST_ID_MAX = 128, TRACE_ID_LEN = 32, PARENT_ID_LEN = 16 };

/* "12.5%" is 1250. */
static int access_log_parse_percent(struct span text, int *share)
{
    if (text.len == 0 || text.data[text.len - 1] != '%')
        return -EINVAL;
    struct span number = {text.data, text.len - 1};
    struct span whole = {number.data, span_find(number, '.')};
    struct span places = span_skip(number, whole.len); /* with the point */
    int64_t value = 0;
    if (parse_int64(whole, &value) != 0 || value < 0 || value > 100 || places.len == 1 || places.len > 3)
        return -EINVAL;
    value *= 100;
    for (size_t i = 1, unit = 10; i < places.len; i++, unit /= 10) {
        if (!ascii_is_digit(places.data[i]))
            return -EINVAL;
        value += (int64_t)unit * (places.data[i] - '0');
    }
    *share = (int)value;
    return value > 0 && value <= ACCESS_LOG_ALL ? 0 : -EINVAL;
}

int access_log_parse(struct span text, int *share)
{
    if (span_equal(text, SPAN("off")))
        *share = ACCESS_LOG_OFF;
    else if (span_equal(text, SPAN("errors")))
        *share = ACCESS_LOG_ERRORS;
    else if (span_equal(text, SPAN("all")))
        *share = ACCESS_LOG_ALL;
    else
        return access_log_parse_percent(text, share);
    return 0;
}

bool request_id_valid(struct span id)
{
    return name_valid(id, REQUEST_ID_MAX);
}

void request_ids_init(struct request_ids *ids)
{
    ids->state[0] = random_seed(&ids->state[0]);
    ids->state[1] = random_seed(&ids->state[1]);
}

struct span request_id_next(struct request_ids *ids)
{
    const uint64_t id[] = {random_next(&ids->state[0]), random_next(&ids->state[1])};
    hex_write((const unsigned char *)id, sizeof id, ids->text);
    return (struct span){ids->text, sizeof ids->text};
}

/* The trace id and parent id of a traceparent field, 32 and 16 hexadecimal digits; both absent when it is not
 * valid. In versions after 00 the first 55 characters are read, and more may follow behind a hyphen (W3C
 * Trace Context, "Versioning of traceparent"); ff is invalid. */
struct trace_ids {
    struct span trace, parent;
};

static struct trace_ids access_log_trace_ids_of(struct span t)
{
    static const struct trace_ids none = {{NULL, 0}, {NULL, 0}};
    static const struct span zeros = {"00000000000000000000000000000000", TRACE_ID_LEN};
    struct span rest = t;
    struct span version = span_cut(&rest, '-');
    struct span trace = span_cut(&rest, '-');
    struct span parent = span_cut(&rest, '-');
    struct span flags = span_cut(&rest, '-');
    if (version.len != 2 || trace.len != TRACE_ID_LEN || parent.len != PARENT_ID_LEN || flags.len != 2 ||
        span_equal(version, SPAN("ff")) || (span_equal(version, SPAN("00")) && rest.data != NULL))
        return none;
    if (!hex_valid(version) || !hex_valid(trace) || !hex_valid(parent) || !hex_valid(flags) ||
        span_equal(trace, zeros) || span_starts_with(zeros, parent))
        return none;
    return (struct trace_ids){trace, parent};
}

bool access_log_spend(struct access_log_budget *budget, uint64_t now_ns, uint64_t *suppressed)
{
    enum { SECOND_NS = 1000 * 1000 * 1000 };
    if (now_ns / SECOND_NS > budget->second) { /* a request that waited began in an earlier one */
        budget->second = now_ns / SECOND_NS;
        budget->lines = 0;
    }
    if (budget->lines == ACCESS_LOG_REFUSED_MAX) {
        budget->suppressed++;
        return false;
    }
    budget->lines++;
    *suppressed = budget->suppressed;
    budget->suppressed = 0;
    return true;
}

void access_log_write(const struct access_record *record)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "other"};
    static const char *const caches[CACHE_SOURCES] = {
        [CACHE_SOURCE_NONE] = "none",   [CACHE_SOURCE_HIT] = "hit",   [CACHE_SOURCE_TTL] = "ttl",
        [CACHE_SOURCE_STALE] = "stale", [CACHE_SOURCE_MISS] = "miss", [CACHE_SOURCE_COALESCED] = "coalesced"};
    struct log_line line;
    if (!log_begin(&line, LOG_ACCESS, "request"))
        return;
    log_str(&line, "method", span_of(methods[record->method]));
    log_str(&line, "route", span_of(record->route));
    log_int(&line, "status", record->status);
    log_int(&line, "bytes", (int64_t)record->bytes);
    log_int(&line, "duration_us", (int64_t)record->duration_us);
    log_str(&line, "cache", span_of(caches[record->source]));
    if (record->client.len > 0)
        log_str(&line, "client", record->client);
    if (record->key.data != NULL)
        log_str(&line, "key", record->key);
    if (record->key_name.len > 0)
        log_str(&line, "key_name", record->key_name);
    if (record->request_id.data != NULL)
        log_str(&line, "request_id", record->request_id);
    if (record->suppressed > 0)
        log_int(&line, "suppressed", (int64_t)record->suppressed);
    struct trace_ids ids = access_log_trace_ids_of(record->traceparent);
    if (ids.trace.data != NULL) {
        log_str(&line, "trace_id", ids.trace);
        log_str(&line, "parent_id", ids.parent);
    }
    log_end(&line);
}
