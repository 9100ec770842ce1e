/*
 * Asynchronous replication between simulated servers. Each server has a stream of the changes that it has
 * executed, with an ID and an offset. Its backlog is the end of the stream. A replica has a link to its
 * upstream, which may be a replica itself. Changes that arrive by the link wait like those of a writer, and
 * are executed in an event loop iteration of the replica. So the content of a replica at each moment is its
 * own history.
 *
 * A link is delayed, breaks, or stays silent while both ends believe it open. After that a replica continues
 * from its position, if the stream is the same and the backlog is long enough. Otherwise it starts with a
 * copy of all data (a full resync).
 */
#ifndef SIMULATION_REPLICA_H
#define SIMULATION_REPLICA_H

#include "simulation/bytes.h"
#include "simulation/catalogue.h"

struct redis;

enum { BACKLOG = 256 };

/* What INFO says of the role. */
enum replica_lie { LIE_NONE, LIE_MASTER, LIE_REPLICA, LIE_NONSENSE, LIES };

struct replication {
    /* The stream. */
    unsigned id, former_id; /* of one before it, up to an offset */
    int64_t offset, former_offset;
    struct change backlog[BACKLOG]; /* by the offset; it begins behind `backlog_from` */
    int64_t backlog_from;

    /* The link; of a replica. */
    struct redis *upstream; /* NULL: a master */
    uint64_t since_ns;      /* it is a replica of this one, or a master */
    enum { LINK_DOWN, LINK_SYNC, LINK_UP } link;
    unsigned number;   /* of the link */
    bool silent;       /* nothing arrives any more */
    uint64_t delay_ns; /* of each change, at most */
    uint64_t last_due_ns;
    uint64_t io_ns;          /* when something has arrived */
    int64_t next;            /* the offset to arrive next */
    uint64_t apart_until_ns; /* its upstream cannot be reached */
    uint64_t loading_until_ns;

    bool serves_stale;  /* replica-serve-stale-data */
    unsigned timeout_s; /* repl-timeout */
    enum replica_lie lie;
    bool has_lied;
    unsigned down_conn;    /* the last connection on which INFO has said that its link is down, */
    uint64_t down_said_ns; /* and when it was executed */
    bool ticks;            /* it has begun to do what Redis does once a second */
};

/* What a full resync gives it, in its turn; NULL: it has failed. */
const struct catalogue *replica_load(struct redis *r);

/* For cases: replicas name their masters data0.test and so on, also. */
void replica_announce_names(void);

/* Its name, or its address; valid until the next call. */
const char *replica_host(const struct redis *r, bool by_name);

/* Of a new server: it is a master. */
void replica_begin(struct redis *r);

/* `r` has executed this: its replicas get it. */
void replica_feed(struct redis *r, const struct change *c);

/* As a replica from the beginning, with all that its upstream has. */
void replica_join(struct redis *r, struct redis *upstream);

/* REPLICAOF: it becomes a replica of another server, or a master. */
void replica_follow(struct redis *r, struct redis *upstream);
void replica_promote(struct redis *r);

/* Faults of the link. */
void replica_break(struct redis *r, bool forgets); /* if it forgets its stream, a full resync follows */
void replica_silence(struct redis *r);
void replica_separate(struct redis *r, uint64_t until_ns); /* broken until then */

/* Whole again: one, or all, as replicas of the writer's master. */
void replica_heal(struct redis *r);
void replica_heal_all(void);

/* The master at the end of the links. */
const struct redis *replica_root(const struct redis *r);

/* The text of INFO replication. */
void replica_put_info(struct redis *r, unsigned conn, struct bytes *out);

/* Why commands that read are refused; NULL: they are not. */
const char *replica_error(const struct redis *r);

#endif
