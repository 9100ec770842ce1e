/* Writing Link; see page_links.h. */
#include "api/page_links.h"

/* Links in a field, and room for what each has beside the base path and its number. */
enum { LINKS_MAX = 4, LINK_BASE_MAX = 64 };

static char *put_link(char *at, struct span base_path, int64_t page, struct span relation)
{
    at = span_put(SPAN("<"), at);
    at = span_put(base_path, at);
    at = span_put(SPAN("channels/?page="), at);
    at += format_int64(page, at);
    at = span_put(SPAN(">; rel=\""), at);
    at = span_put(relation, at);
    return span_put(SPAN("\""), at);
}

void page_links_write(struct buf *out, struct span base_path, int64_t page, int64_t last)
{
    if (buf_reserve(out, LINKS_MAX * (LINK_BASE_MAX + base_path.len + INT64_DIGITS_MAX)) != 0)
        return;
    char *at = put_link(out->data + out->len, base_path, 1, SPAN("first"));
    if (page > 1) {
        at = span_put(SPAN(", "), at);
        at = put_link(at, base_path, page - 1 < last ? page - 1 : last, SPAN("prev"));
    }
    if (page < last) {
        at = span_put(SPAN(", "), at);
        at = put_link(at, base_path, page + 1, SPAN("next"));
    }
    at = span_put(SPAN(", "), at);
    at = put_link(at, base_path, last, SPAN("last"));
    out->len = (size_t)(at - out->data);
}
