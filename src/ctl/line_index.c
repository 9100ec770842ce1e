/* The index of the lines of a file; see line_index.h. */
#include "ctl/line_index.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { FIRST_LINES = 1024 };

/* --- Slots --- */

static void line_index_free_slots(struct index_slots *s)
{
    free(s->at);
    *s = (struct index_slots){0};
}

/* Empty slots for this many lines. What they held is lost. */
static int line_index_make_slots(struct index_slots *s, size_t lines)
{
    size_t count = FIRST_LINES;
    while (count / 4 * 3 < lines)
        count *= 2;
    line_index_free_slots(s);
    s->at = calloc(count, sizeof *s->at);
    if (s->at == NULL)
        return -ENOMEM;
    s->count = count;
    return 0;
}

/* The slot of the channel, or the free one where it belongs. */
static uint32_t *line_index_id_slot(const struct line_index *x, int64_t id)
{
    size_t mask = x->ids.count - 1;
    size_t at = hash_int64(id, x->seed) & mask;
    while (x->ids.at[at] != 0 && x->line[x->ids.at[at] - 1].id != id)
        at = (at + 1) & mask;
    return &x->ids.at[at];
}

/* The same for a link. */
static uint32_t *line_index_link_slot(const struct line_index *x, uint64_t link)
{
    size_t mask = x->links.count - 1;
    size_t at = link & mask;
    while (x->links.at[at] != 0 && x->line[x->links.at[at] - 1].link != link)
        at = (at + 1) & mask;
    return &x->links.at[at];
}

/* --- Lines --- */

void line_index_init(struct line_index *x)
{
    *x = (struct line_index){.seed = random_seed(x)};
}

void line_index_fini(struct line_index *x)
{
    line_index_free_slots(&x->ids);
    line_index_free_slots(&x->links);
    free(x->line);
    *x = (struct line_index){0};
}

uint64_t line_index_link_hash(const struct line_index *x, struct span link)
{
    return hash_bytes(link, x->seed) | 1;
}

/* Makes room for one more line. It fills the new slots from the lines, so that old and new slots never exist
 * at the same time. */
static int line_index_grow(struct line_index *x)
{
    if (x->count == UINT32_MAX)
        return -ENOMEM;
    if (x->count == x->capacity) {
        size_t capacity = x->capacity == 0 ? FIRST_LINES : 2 * x->capacity;
        struct indexed_line *line = realloc(x->line, capacity * sizeof *line);
        if (line == NULL)
            return -ENOMEM;
        x->line = line;
        x->capacity = capacity;
    }
    if (x->count < x->ids.count / 4 * 3)
        return 0;
    int err = line_index_make_slots(&x->ids, x->count + 1);
    for (size_t i = 0; i < x->count && err == 0; i++)
        *line_index_id_slot(x, x->line[i].id) = (uint32_t)i + 1;
    return err;
}

struct indexed_line *line_index_find(const struct line_index *x, int64_t id)
{
    uint32_t found = x->count > 0 ? *line_index_id_slot(x, id) : 0;
    return found > 0 ? &x->line[found - 1] : NULL;
}

int line_index_put(struct line_index *x, const struct indexed_line *line)
{
    struct indexed_line *known = line_index_find(x, line->id);
    if (known != NULL) {
        *known = *line;
        return 0;
    }
    int err = line_index_grow(x);
    if (err != 0)
        return err;
    assert(x->line != NULL);
    x->line[x->count++] = *line;
    *line_index_id_slot(x, line->id) = (uint32_t)x->count;
    return 1;
}

/* --- Links --- */

int line_index_begin_links(struct line_index *x)
{
    int err = line_index_make_slots(&x->links, x->count);
    for (size_t i = 0; i < x->count && err == 0; i++) {
        const struct indexed_line *line = &x->line[i];
        uint32_t *slot = line->link != 0 ? line_index_link_slot(x, line->link) : NULL;
        if (slot != NULL && (*slot == 0 || line->number < x->line[*slot - 1].number))
            *slot = (uint32_t)i + 1;
    }
    return err;
}

struct indexed_line *line_index_link_owner(const struct line_index *x, uint64_t link)
{
    return &x->line[*line_index_link_slot(x, link) - 1];
}

void line_index_end_links(struct line_index *x)
{
    line_index_free_slots(&x->links);
}
