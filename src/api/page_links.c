/* Writing Link; see page_links.h. */
#include "api/page_links.h"

static void write_link(struct buf *out, struct span base_path, int64_t page, const char *relation)
{
    buf_append_str(out, "<");
    buf_append_span(out, base_path);
    buf_append_str(out, "channels/?page=");
    buf_append_int(out, page);
    buf_append_str(out, ">; rel=\"");
    buf_append_str(out, relation);
    buf_append_char(out, '"');
}

void page_links_write(struct buf *out, struct span base_path, int64_t page, int64_t last)
{
    write_link(out, base_path, 1, "first");
    if (page > 1) {
        buf_append_str(out, ", ");
        write_link(out, base_path, page - 1 < last ? page - 1 : last, "prev");
    }
    if (page < last) {
        buf_append_str(out, ", ");
        write_link(out, base_path, page + 1, "next");
    }
    buf_append_str(out, ", ");
    write_link(out, base_path, last, "last");
}
