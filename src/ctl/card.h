/*
 * One line of a file of channels: the JSON of a card, checked field by field, as the row that Redis is to
 * hold.
 *
 * What passes here is never treated as absent by channeld later.
 */
#ifndef CTL_CARD_H
#define CTL_CARD_H

#include "ctl/report.h"
#include "model/channel.h"
#include "model/link.h"

struct card {
    int64_t id;
    struct channel_row row; /* absent: null in the file, or not there */
};

/* Where a line comes from, for messages: "FILE:LINE: field: what was expected". */
struct card_source {
    const char *file;
    int64_t line;
    struct report *report;
};

/*
 * Reads `line`. The row's texts are appended to `arena`, which needs room for line.len more bytes so that it
 * does not move. Returns 0, -EINVAL after reporting everything that is wrong with the line, or -ENOMEM.
 */
int card_read(const struct card_source *from, const struct link_hosts *hosts, struct span line,
              struct buf *arena, struct card *out) __attribute__((warn_unused_result));

#endif
