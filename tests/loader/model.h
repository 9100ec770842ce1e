#ifndef LOADER_MODEL_H
#define LOADER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "support/redis.h"

/*
 * What docs/schema.md promises of a load, as a state machine: which catalogue may follow which one by a
 * transaction of that load. Ids are 1 to 9, titles and links single letters.
 */

enum {
    MODEL_IDS = 10,
    MODEL_LINKS = 26,
    MODEL_LINES_MAX = 12,
    MODEL_HOLDER_MAX = 160,
    MODEL_LEASE_MS = 15000
};

/* A key of another type, at which the load of a damaged file must fail. */
#define MODEL_FOREIGN "channels:card:0"

/* 0: the field is null; without a title there is no card. */
struct model_card {
    char title, link, category;
};

struct model_order {
    int count;
    int id[MODEL_IDS];
};

/* What channeld reads. */
struct model_catalogue {
    struct model_card card[MODEL_IDS];
    int link[MODEL_LINKS]; /* the id that the link key holds; 0: there is none */
    struct model_order index;
};

/* All that Redis holds. */
struct model_state {
    struct model_catalogue catalogue;
    struct model_order next;
    char holder[MODEL_HOLDER_MAX]; /* the value of the lock; empty: it is free */
    int64_t expires_ms;            /* by the clock of Redis */
};

struct model_line {
    int id;
    struct model_card card;
};

/* A file of channels. */
struct model_file {
    const char *name;
    bool damaged; /* a load fails at its last line, because of MODEL_FOREIGN */
    int count;
    struct model_line line[MODEL_LINES_MAX];
};

/* How far a load has come, by what it has written. */
struct model_load {
    const struct model_file *file;
    bool replace;
    int channels; /* of the file are in the catalogue */
    bool replaced;
};

/* The file as text; owned. */
char *model_text(const struct model_file *file);

/* The catalogue that consists of the file. */
void model_fill(struct model_catalogue *out, const struct model_file *file);

/* A script that makes it the only content of Redis, with an API key; owned. */
char *model_script(const struct model_catalogue *c);

/* Reads what Redis holds; NULL, or what nobody may have written there (borrowed until the next call). */
const char *model_read(struct model_state *out, struct redis *from, int64_t now_ms);

bool model_equal(const struct model_catalogue *a, const struct model_catalogue *b);

/* True when they hold the same but for the lock. */
bool model_ends_alike(const struct model_state *a, const struct model_state *b);

/* One transaction of the load led from one catalogue to the other: NULL, or what is wrong with that. */
const char *model_step(struct model_load *l, const struct model_catalogue *before,
                       const struct model_catalogue *after);

/* True when the catalogue has the first channels of the file, given those that l->channels counts. */
bool model_has_channels(const struct model_load *l, const struct model_catalogue *c, int channels);

/* True when the index is that of the file, all of which is in the catalogue. */
bool model_is_replaced(const struct model_load *l, const struct model_catalogue *c);

/* True when the load has done all that its exit code 0 says. */
bool model_is_complete(const struct model_load *l, const struct model_catalogue *c);

/* True when verify must find nothing. */
bool model_is_sound(const struct model_state *s);

#endif
