#ifndef COHERENCE_REPLICAS_H
#define COHERENCE_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/proxy.h"
#include "support/redis.h"

/*
 * Replicas between the server that the writers change and channeld. The first replica follows that master,
 * and the second one follows the first. Each link passes through a proxy, where it can be cut. channeld reads
 * the source: the last replica, or the master if there is none.
 *
 * A change counts as acknowledged when a reply of the source shows that the source has applied it. The
 * changes that a replica has applied are a position in its master's stream. The position is the ID of the
 * stream and an offset, which INFO states at both. Hence the bound on the age of responses is the same as
 * without replicas, however long replication takes. The source queues the invalidations of the changes that
 * it applies at the end of the same iteration of its event loop. WAIT would not suffice, as a master does not
 * count the replicas of its replicas.
 */

enum { REPLICAS_MAX = 2 };

struct replicas {
    int count;
    struct redis *master; /* borrowed */
    struct redis node[REPLICAS_MAX];
    struct proxy *link[REPLICAS_MAX]; /* from the node to the one that it follows */
};

/* Arguments that the master needs. */
#define REPLICAS_MASTER_ARGS "--repl-diskless-sync-delay 0 --repl-ping-replica-period 1"

/* Starts `count` of them, 0 included, and waits until they are linked. `program` and `args` are of redis.h.
 */
void replicas_start(struct replicas *replicas, struct redis *master, int count, const char *program,
                    const char *const *args);
void replicas_stop(struct replicas *replicas);

struct redis *replicas_source(struct replicas *replicas);

/* Cuts the link of a node: it is reset, and refused until the link is restored. */
void replicas_cut(struct replicas *replicas, int node);

/* Waits until the source has applied what its master has applied now. */
void replicas_await(struct replicas *replicas);

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
