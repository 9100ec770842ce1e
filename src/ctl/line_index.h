/*
 * The channels of a file: where the last line of each one is.
 *
 * A load applies the last line of each channel. So the file is read twice: the first time fills this index,
 * the second time reads the lines that it names. It takes 38 to 54 bytes per channel, whatever the length of
 * the lines and however many are about one channel.
 */
#ifndef CTL_LINE_INDEX_H
#define CTL_LINE_INDEX_H

#include "base/span.h"

#include <stdint.h>

/* A line that is not loaded has this offset. */
enum { LINE_REFUSED = -1 };

struct indexed_line {
    int64_t id;     /* of its channel */
    int64_t offset; /* where it begins, or LINE_REFUSED */
    int64_t number; /* in the file, from 1 */
    uint64_t link;  /* line_index_link_hash() of its link; 0: it has none */
};

/* Positions in `line`, each plus one, by open addressing; 0: free. At most three of four are used. */
struct index_slots {
    uint32_t *at; /* owned */
    size_t count; /* a power of two */
};

/* All zeros before the first use. */
struct line_index {
    struct indexed_line *line; /* owned; in the order in which the file first names the channels */
    size_t count, capacity;
    struct index_slots ids, links;
    uint64_t seed;
};

void line_index_init(struct line_index *x);
void line_index_fini(struct line_index *x);

/* Never 0, which stands for no link. */
uint64_t line_index_link_hash(const struct line_index *x, struct span link);

/* Makes the line the last one of its channel. Returns 1 if the channel is a new one, 0 if it had a line
 * before, or -ENOMEM. */
int line_index_put(struct line_index *x, const struct indexed_line *line) __attribute__((warn_unused_result));

/* The last line of a channel, borrowed until the next put, or NULL. */
struct indexed_line *line_index_find(const struct line_index *x, int64_t id);

/*
 * The links of the last lines: of several lines with one link, as far as the hash tells, the first in the
 * file is its owner. No line may be put in between. line_index_begin_links() returns 0 or -ENOMEM;
 * line_index_end_links() frees their memory.
 */
int line_index_begin_links(struct line_index *x) __attribute__((warn_unused_result));
struct indexed_line *line_index_link_owner(const struct line_index *x, uint64_t link);
void line_index_end_links(struct line_index *x);

#endif
