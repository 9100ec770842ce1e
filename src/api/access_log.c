/* What the access log has lines for, and ids; see access_log.h. */
#include "api/access_log.h"

#include "base/text.h"

#include <errno.h>

enum { TRACE_ID_LEN = 32, PARENT_ID_LEN = 16 };

/* "12.5%" is 1250. */
static int access_log_parse_percent(struct span text, int *share)
{
    if (text.len == 0 || text.data[text.len - 1] != '%')
        return -EINVAL;
    struct span places = {text.data, text.len - 1};
    struct span whole = span_cut(&places, '.');
    int64_t value = 0;
    if (parse_int64(whole, &value) != 0 || whole.len > 3 || places.len > 2 ||
        (places.data != NULL && places.len == 0) || !span_all(places, ascii_is_digit))
        return -EINVAL;
    for (size_t i = 0; i < 2; i++)
        value = value * 10 + (i < places.len ? places.data[i] - '0' : 0);
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

struct span request_id_make(uint64_t *random, char out[REQUEST_ID_LEN])
{
    const uint64_t id[] = {random_next(random), random_next(random)};
    hex_write((const unsigned char *)id, sizeof id, out);
    return (struct span){out, REQUEST_ID_LEN};
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

struct trace_ids trace_ids_parse(struct span traceparent)
{
    static const struct span zeros = {"00000000000000000000000000000000", TRACE_ID_LEN};
    struct span rest = traceparent;
    struct span version = span_cut(&rest, '-');
    struct span trace = span_cut(&rest, '-');
    struct span parent = span_cut(&rest, '-');
    struct span flags = span_cut(&rest, '-');
    bool valid = version.len == 2 && trace.len == TRACE_ID_LEN && parent.len == PARENT_ID_LEN &&
                 flags.len == 2 && hex_valid(version) && hex_valid(trace) && hex_valid(parent) &&
                 hex_valid(flags) && !span_equal(version, SPAN("ff")) &&
                 !(span_equal(version, SPAN("00")) && rest.data != NULL) && !span_equal(trace, zeros) &&
                 !span_starts_with(zeros, parent);
    return valid ? (struct trace_ids){trace, parent} : (struct trace_ids){SPAN_ABSENT, SPAN_ABSENT};
}
