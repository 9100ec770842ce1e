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
};

/* Zeroed, but for the first members, which are borrowed. Call card_reader_fini in every case. */
struct card_reader {
    const struct link_hosts *hosts;
    const char *file; /* its name, for messages: "FILE:LINE: FIELD: what is wrong" */
    struct report *report;

    /* Private from here on: of the last line. */
    int64_t line;
    struct yyjson_doc *doc; /* owned; NULL: none */
    char *history;          /* owned: as compact JSON; NULL: none */
    unsigned seen;          /* the fields so far, as bits */
    bool refused;
    bool is_out_of_memory;
};

/*
 * Reads the card of a line, whose number is for messages; its texts are borrowed until the next line is read.
 * Returns 0, -EINVAL after reporting everything that is wrong with the line, or -ENOMEM. With -EINVAL
 * `has_id` tells whether the card has at least its id.
 */
int card_read(struct card_reader *r, int64_t number, struct span line, struct card *out)
    __attribute__((warn_unused_result));

void card_reader_fini(struct card_reader *r);

/* What is wrong with the text of a field, absent or as Redis holds it: follows the value in a message. NULL:
 * it is valid. */
const char *card_check_value(const struct link_hosts *hosts, enum channel_field f, struct span text);

/* Of a link, in a card or as a key. */
#define CARD_INVALID_LINK \
    "is not https://HOST/<slug>, with the HOST of --channel-host and a slug of at most 256 bytes"
_Static_assert(LINK_SLUG_MAX == 256, "the message says so");

#endif
