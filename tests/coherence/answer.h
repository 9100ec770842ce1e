#ifndef COHERENCE_ANSWER_H
#define COHERENCE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coherence/world.h"

/*
 * Reading the bodies of answers. They are known to the byte but for the versions, ids and links in them;
 * anything else is broken.
 */

enum reading {
    READING_GOOD,
    READING_MIXED,  /* two versions in one channel */
    READING_BROKEN, /* not what a writer has ever written */
};

/* What an answer shows of one channel. */
struct sighting {
    int channel;
    int64_t version;
    int link; /* or CARD_WITHOUT_LINK */
};

struct page_sighting {
    int64_t page;
    bool has_next;
    int count;
    struct sighting item[WORLD_PAGE];
};

enum reading answer_read_card(const struct world *world, const char *body, size_t length,
                              struct sighting *sighting);
enum reading answer_read_page(const struct world *world, const char *body, size_t length,
                              struct page_sighting *page);

#endif
