/* Response bodies: the contract's envelope around channels and errors. */
#ifndef MODEL_DOCUMENT_H
#define MODEL_DOCUMENT_H

#include "base/blob.h"
#include "base/buf.h"

enum { PAGE_SIZE = 100 };

/* The position of a page: `page` from 1, `last` at least 1, `count` items on it (at most PAGE_SIZE). */
struct page_info {
    int64_t page;
    int64_t last;
    int count;
    bool has_next;
};

/* The number of the last page of an index of `entries` members; an empty index has one, empty page. */
int64_t page_last(int64_t entries);

/* The rank of the first item of `page` (from 1), limited to less than INT64_MAX - PAGE_SIZE. */
int64_t page_first_rank(int64_t page);

/* The beginning and the end of a body; the caller writes the data between them. */
void document_begin_card(struct buf *out);
void document_end_card(struct buf *out);
void document_begin_page(struct buf *out);
void document_end_page(struct buf *out, const struct page_info *info);

/* {"success":false,"error":"<text>"}. Owned by the caller; NULL when out of memory. */
struct blob *document_error(const char *text);

#endif
