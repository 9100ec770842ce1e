/*
 * Reads the API key set: sends the commands that api_keys.c composes, one after the other, and commits the
 * set when a check has found a catalogue, since a Redis that lost its data has an empty set too. The check
 * has to be sent after the last reply: one that was under way before may be of the same turn of Redis, ahead
 * of an invalidation of what was just read.
 */
#ifndef CACHE_KEY_READER_H
#define CACHE_KEY_READER_H

#include "cache/api_keys.h"
#include "cache/invalidation.h"

/* All is borrowed while it lives; `send` is that of fetch_options. */
struct key_reader_options {
    struct api_keys *keys;
    struct invalidation *invalidation;
    int (*send)(void *arg, struct span command, cache_reply_fn fn, void *fn_arg);
    void *arg;
};

/* Embedded in the cache; private to key_reader.c. */
struct key_reader {
    struct key_reader_options options;
    struct buf command; /* that was sent last */
    uint64_t check;     /* the number of the check that commits the set */
};

static inline void key_reader_init(struct key_reader *r, const struct key_reader_options *options)
{
    *r = (struct key_reader){.options = *options};
}

static inline void key_reader_fini(struct key_reader *r)
{
    buf_fini(&r->command);
}

/* Reads the set, unless it is held or is being read; with `at_once` even if it was read a moment ago. */
void key_reader_read(struct key_reader *r, bool at_once);

/* A check of the catalogue has passed: commits the set, or begins another check. */
void key_reader_confirm(struct key_reader *r);

#endif
