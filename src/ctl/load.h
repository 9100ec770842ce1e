/*
 * The input of channelctl load: a file of channels, one per line, each the JSON of a card as the API returns
 * it, or a whole response with one. Every field is checked: channeld shows each value of a card that passes
 * as it was in the file.
 */
#ifndef CTL_LOAD_H
#define CTL_LOAD_H

#include "ctl/lines.h"
#include "ctl/terminal.h"
#include "ctl/writer.h"
#include "model/link.h"

/* Where a line comes from, for messages: "FILE:LINE: FIELD: what is wrong". */
struct card_source {
    const char *file;
    int64_t line;
    struct report *report;
};

/*
 * Reads the card of a line. Its texts are appended to `texts`, which must have room for line.len bytes, so
 * that it does not move. Returns 0, -EINVAL after reporting everything that is wrong with the line, or
 * -ENOMEM. With -EINVAL `has_id` tells whether the card has at least its id.
 */
int card_read(const struct card_source *from, const struct link_hosts *hosts, struct span line,
              struct buf *texts, struct card *out) __attribute__((warn_unused_result));

#endif
