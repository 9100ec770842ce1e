/* Route matching; see routes.h. */
#include "api/routes.h"

static struct span without_last_slash(struct span s)
{
    if (s.len > 0 && s.data[s.len - 1] == '/')
        s.len--;
    return s;
}

enum route route_match(struct span base_path, struct span path, struct span *id)
{
    static const struct span by_id = {"channel/by-id/", 14};
    if (!span_starts_with(path, base_path))
        return ROUTE_NONE;
    struct span rest = without_last_slash(span_skip(path, base_path.len));
    if (span_equal(rest, SPAN("channels")))
        return ROUTE_LIST;
    if (span_equal(rest, SPAN("channel/by-link")))
        return ROUTE_CARD_BY_LINK;
    if (!span_starts_with(rest, by_id))
        return ROUTE_NONE;
    *id = span_skip(rest, by_id.len);
    bool one_segment = id->len > 0 && span_find(*id, '/') == id->len;
    return one_segment ? ROUTE_CARD_BY_ID : ROUTE_NONE;
}

const char *route_name(enum route r)
{
    static const char *const names[] = {"other", "list", "card_by_id", "card_by_link"};
    return names[r];
}
