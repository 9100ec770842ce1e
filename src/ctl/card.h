/*
 * The cards in the input of channelctl load: a line is the JSON of a card as the API returns it, or a whole
 * response with one. Every field is checked: channeld shows each value of a card that passes as it was in the
 * file.
 */
#ifndef CTL_CARD_H
#define CTL_CARD_H

#include "ctl/terminal.h"
#include "model/channel.h"
#include "model/link.h"

/* A channel; a value that is null or missing is absent from the row. */
struct card {
    int64_t id;
    bool has_id; /* always true of a valid card */
    struct channel_row row;
    size_t bytes;           /* of its line */
    struct yyjson_doc *doc; /* owned, as is the next: the texts of the row */
    char *json;             /* of the history */
};

/*
 * Reads the card of a line, which the report begins with ("FILE:LINE"). Returns 0, and *out is owned
 * (card_fini); -EINVAL after reporting everything that is wrong with the line; or -ENOMEM. With -EINVAL
 * `has_id` tells whether the card has at least its id.
 */
int card_read(const struct link_hosts *hosts, struct report *report, struct span line, struct card *out)
    __attribute__((warn_unused_result));

void card_fini(struct card *card);

/* What is wrong with the text of a field, absent or as Redis holds it: follows the value in a message. NULL:
 * it is valid. */
const char *card_check_value(const struct link_hosts *hosts, enum channel_field f, struct span text);

/* Of a link, in a card or as a key. */
#define CARD_INVALID_LINK \
    "is not https://HOST/<slug>, with the HOST of --channel-host and a slug of at most 256 bytes"
_Static_assert(LINK_SLUG_MAX == 256, "the message says so");

#endif
