/* The Link header field of a list page (RFC 8288): where first, previous, next and last are. */
#ifndef API_PAGE_LINKS_H
#define API_PAGE_LINKS_H

#include "base/buf.h"

/*
 * Appends the field's value for `page` of `last` pages (both from 1; `page` may lie beyond the last). The
 * targets are relative to the host and hold nothing but the page number: the request's other parameters may
 * be a key.
 */
void page_links_write(struct buf *out, struct span base_path, int64_t page, int64_t last);

#endif
