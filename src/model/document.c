/* Response bodies; see document.h. */
#include "model/document.h"

#include "base/json.h"

int64_t page_last(int64_t entries)
{
    return entries <= 0 ? 1 : (entries - 1) / PAGE_SIZE + 1;
}

int64_t page_first_rank(int64_t page)
{
    int64_t farthest = INT64_MAX / PAGE_SIZE - 1;
    return (page - 1 < farthest ? page - 1 : farthest) * PAGE_SIZE;
}

void document_begin_card(struct buf *out)
{
    buf_append_str(out, "{\"success\":true,\"data\":");
}

void document_end_card(struct buf *out)
{
    buf_append_char(out, '}');
}

void document_begin_page(struct buf *out)
{
    buf_append_str(out, "{\"success\":true,\"data\":[");
}

void document_end_page(struct buf *out, const struct page_info *info)
{
    buf_append_str(out, "],\"pagination\":{\"page\":");
    buf_append_int(out, info->page);
    buf_append_str(out, ",\"per_page\":");
    buf_append_int(out, PAGE_SIZE);
    buf_append_str(out, ",\"count\":");
    buf_append_int(out, info->count);
    buf_append_str(out, info->has_next ? ",\"has_next\":true}}" : ",\"has_next\":false}}");
}

struct blob *document_error(const char *text)
{
    struct buf body = BUF_INIT;
    buf_append_str(&body, "{\"success\":false,\"error\":");
    json_write_string(&body, span_of(text));
    buf_append_char(&body, '}');
    struct blob *b = buf_error(&body) == 0 ? blob_new(buf_span(&body)) : NULL;
    buf_fini(&body);
    return b;
}
