#ifndef TEST_SUPPORT_FIELDS_H
#define TEST_SUPPORT_FIELDS_H

/*
 * The fields of a channel, for tests that store or expect whole channels: the table of the source, without
 * the code that reads it. A new field needs no change in those tests. unit.model_channel compares the table
 * with docs/openapi.json.
 */
#include "model/channel.h"

static const struct field {
    const char *name;
    enum channel_type type;
    bool in_summary;
} field_table[CHANNEL_FIELD_COUNT] = {
#define FIELD(name, type, in_summary) {#name, type, in_summary},
    CHANNEL_FIELDS(FIELD)
#undef FIELD
};

#endif
