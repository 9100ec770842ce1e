/* Matching entity tags; see etag.h. A comma may stand inside a tag, so the list is walked by its quotes. */
#include "http/etag.h"

/* Takes one entity tag off the front, without its W/. Absent when none is there. */
static struct span take_tag(struct span *list)
{
    if (span_starts_with(*list, SPAN("W/")))
        *list = span_skip(*list, 2);
    if (list->len == 0 || list->data[0] != '"')
        return SPAN_ABSENT;
    size_t close = span_find(span_skip(*list, 1), '"') + 1;
    if (close >= list->len)
        return SPAN_ABSENT;
    struct span tag = {list->data, close + 1};
    *list = span_skip(*list, tag.len);
    return tag;
}

bool http_etag_listed(struct span if_none_match, struct span etag)
{
    struct span list = span_trim(if_none_match);
    if (span_equal(list, SPAN("*")))
        return true;
    while (list.len > 0) {
        if (list.data[0] == ',' || list.data[0] == ' ' || list.data[0] == '\t') {
            list = span_skip(list, 1);
            continue;
        }
        struct span tag = take_tag(&list);
        if (tag.data == NULL)
            return false;
        if (span_equal(tag, etag))
            return true;
    }
    return false;
}
