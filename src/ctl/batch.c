/* Channels that go to Redis together; see batch.h. */
#include "ctl/batch.h"

#include "ctl/lines.h"

#include <assert.h>
#include <stdlib.h>

_Static_assert((int)BATCH_BYTES_MAX >= (int)LINE_BYTES_MAX, "an empty batch must have room for any line");

struct batch *batch_new(void)
{
    struct batch *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    if (buf_reserve(&b->texts, BATCH_BYTES_MAX) == 0)
        return b;
    free(b);
    return NULL;
}

void batch_free(struct batch *b)
{
    if (b == NULL)
        return;
    batch_clear(b);
    buf_fini(&b->texts);
    free(b);
}

void batch_clear(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        freeReplyObject(b->entry[i].stored);
    b->count = 0;
    b->last_line = 0;
    buf_clear(&b->texts);
}

bool batch_has_room(const struct batch *b, size_t bytes)
{
    return b->count < BATCH_CHANNELS_MAX && BATCH_BYTES_MAX - b->texts.len >= bytes;
}

bool batch_has_link(const struct batch *b, struct span link)
{
    for (size_t i = 0; i < b->count; i++) {
        struct span own = card_link(&b->entry[i].card);
        if (!b->entry[i].refused && own.data != NULL && span_equal(own, link))
            return true;
    }
    return false;
}

bool batch_has_id(const struct batch *b, int64_t id)
{
    for (size_t i = 0; i < b->count; i++)
        if (!b->entry[i].refused && b->entry[i].card.id == id)
            return true;
    return false;
}

bool batch_conflicts(const struct batch *b, const struct card *card)
{
    return batch_has_id(b, card->id) || (card_link(card).data != NULL && batch_has_link(b, card_link(card)));
}

void batch_add(struct batch *b, const struct card *card, int64_t line)
{
    assert(b->count < BATCH_CHANNELS_MAX);
    b->entry[b->count++] = (struct batch_entry){.card = *card, .line = line};
    b->last_line = line;
}
