/*
 * The commands of fetches, of which all but the key is always the same: that part is put together once.
 * Internal to the store.
 */
#ifndef CACHE_FETCH_COMMAND_H
#define CACHE_FETCH_COMMAND_H

#include "base/digest.h"
#include "model/channel.h"
#include "model/keyspace.h"

struct fetch_commands {
    struct {
        struct buf text;  /* the command without its key */
        size_t head;      /* so much of it comes before the key */
    } hmget[2];           /* by shape */
    struct buf sismember; /* up to its last word, a digest in hex */
};

/* Returns 0 or -ENOMEM; either way fetch_commands_fini gives back what it took. */
int fetch_commands_init(struct fetch_commands *c, const struct keyspace *k)
    __attribute__((warn_unused_result));
void fetch_commands_fini(struct fetch_commands *c);

/* Appends HMGET of all fields of a shape; a lack of memory in `key` becomes that of `out`. */
void fetch_command_hmget(const struct fetch_commands *c, struct buf *out, enum channel_shape shape,
                         const struct buf *key);

/* Appends SISMEMBER of an API key among those that are valid. */
void fetch_command_sismember(const struct fetch_commands *c, struct buf *out, const struct digest *key);

#endif
