#ifndef COHERENCE_REPLICA_H
#define COHERENCE_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "support/proxy.h"
#include "support/redis.h"

/*
 * A replica between the server that the writers change and channeld. Its link to that master passes through a
 * proxy, where it can be cut. channeld reads the source: the replica, or the master if there is none.
 *
 * A change counts as acknowledged when a reply of the source shows that the source has applied it. The
 * changes that a replica has applied are a position in its master's stream. The position is the ID of the
 * stream and an offset, which INFO states at both. Hence the bound on the age of responses is the same as
 * without a replica, however long replication takes. The source queues the invalidations of the changes that
 * it applies at the end of the same iteration of its event loop.
 */
struct replica {
    struct redis *master; /* borrowed */
    struct redis node;
    struct proxy *link; /* from the node to the master; NULL: there is no replica */
};

/* Arguments that the master needs. */
#define REPLICA_MASTER_ARGS "--repl-diskless-sync-delay 0 --repl-ping-replica-period 1"

/* Starts it, if it is wanted, and waits until it is linked. `program` and `args` are of redis.h. */
void replica_start(struct replica *replica, struct redis *master, bool wanted, const char *program,
                   const char *const *args);
void replica_stop(struct replica *replica);

struct redis *replica_source(struct replica *replica);

/* Cuts the link: it is reset, and refused until the link is restored. */
void replica_cut(struct replica *replica);

/* Waits until the source has applied what its master has applied now. */
void replica_await(struct replica *replica);

/* ---- positions; any thread ---- */

enum { STREAM_ID_SIZE = 48 };

struct position {
    char stream[STREAM_ID_SIZE];
    int64_t offset;
};

/* What the reply to INFO replication states; false when that is nothing. */
bool position_read(const char *info, struct position *out);

/* Whether a server at that position has applied what precedes the other; false for those of two streams. */
bool position_includes(const struct position *position, const struct position *other);

#endif
