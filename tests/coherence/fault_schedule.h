#ifndef COHERENCE_FAULT_SCHEDULE_H
#define COHERENCE_FAULT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The times of faults, and the responses that they permit.
 *
 * Between faults a response reflects every change that was acknowledged one bound before its request was
 * sent. While a fault disconnects channeld from Redis, it may answer from its cache. The response then
 * reflects what was acknowledged one bound before the fault began. It does so for at most its stale limit,
 * which counts at the latest from the end of the lease of its last input.
 *
 * Redis queues the invalidations of an event loop iteration at the iteration's end. If it sends
 * acknowledgements earlier, a response reflects what was acknowledged one bound before the iteration began.
 * This holds until the iteration ends, and at most for the lease. A fault ends when Redis answers again and
 * every worker is connected to it. One bound later the plain rule holds again.
 *
 * With a replica a change counts as acknowledged when the replica that channeld reads has applied it. So the
 * plain rule holds while that replica is behind its master. A replica without a master must not be read for
 * longer than permitted: this follows from the 500s that are due then.
 *
 * In a cluster the node that has the slot is read. A failover without order loses no acknowledged change:
 * before one, changes are acknowledged only when they are on the replica, too. After a failover by order
 * another node owns the slot. channeld may answer from its cache until it has learned of that.
 */

enum fault_kind {
    FAULT_KILL,        /* CLIENT KILL of channeld's connections */
    FAULT_PAUSE,       /* CLIENT PAUSE 200 ALL */
    FAULT_PAUSE_WRITE, /* CLIENT PAUSE 200 WRITE */
    FAULT_STOP,        /* SIGSTOP of redis-server, 0.5 s */
    FAULT_STOP_LONG,   /* 4 s */
    FAULT_RESTART,     /* redis-server killed and started again with other data */
    FAULT_DOWN,        /* the same, with 3 s in between */
    FAULT_FLUSH,       /* FLUSHALL, and other data */
    FAULT_FREEZE,      /* SIGSTOP of channeld, 1 s */
    FAULT_FREEZE_LONG, /* 4 s */
    FAULT_THROTTLE,    /* ten times 250 ms, and 20 ms between them: a container without processor time */
    FAULT_SLOW,        /* a command that takes Redis 200 ms */
    FAULT_SCRIPT,      /* a script that makes Redis answer BUSY until it ends, and other data */
    FAULT_ROTATE,      /* the password of channeld's user is replaced, in Redis and in channeld's file */

    /* With a replica. Those above concern the one that channeld reads, but for pauses and changes of data. */
    FAULT_MASTER_STOP,     /* SIGSTOP of the master, 1 s */
    FAULT_LINK_CUT,        /* the replica loses its link, 0.3 s */
    FAULT_LINK_LOST,       /* 4 s */
    FAULT_PROMOTION,       /* it is made a master, and a replica again */
    FAULT_RESYNC,          /* it gets all data anew */
    FAULT_REPLICA_RESTART, /* it is killed and started without data */
    FAULT_MASTER_SILENT,   /* nothing comes from the master over links that stay up, 20 s */

    /* In a cluster. Those above concern the node that has the slot. */
    FAULT_SLOT_MOVE,     /* the slot moves to another master, key by key */
    FAULT_SLOT_FAILOVER, /* the replica takes over, by order */
    FAULT_OWNER_KILL,    /* the node is killed, and its replica takes over */
    FAULT_OWNER_RETURN,  /* the one that was killed, or the replica, comes back */
    FAULT_OWNER_STALL,   /* SIGSTOP until its replica has taken over; then it goes on */
    FAULT_KINDS,
};

/* What a fault permits. */
enum fault_rule {
    RULE_COHERENT,     /* nothing: channeld stays connected */
    RULE_DISCONNECTED, /* cached responses, within the stale limit */
    RULE_LEASE,        /* cached responses, within the lease: Redis acknowledges before it invalidates */
};

enum { LEASE_MS = 3000, REQUEST_TIMEOUT_MS = 3000 };

/* For how long a replica may be read at most: after the loss of its link, and after its master fell silent.
 */
enum { LINK_LOST_MS = 2000, MASTER_SILENT_MS = 17000 };

/* For how long the former owner of the slot may be read. */
enum { SLOT_LOST_MS = 2000 };

struct schedule_limits {
    int64_t bound;
    int64_t stale_limit;
    bool replica;
};

struct fault_schedule;

/* Owned. */
struct fault_schedule *schedule_new(const struct schedule_limits *limits);
void schedule_free(struct fault_schedule *schedule);

const char *fault_name(enum fault_kind kind);
bool fault_is_quick(enum fault_kind kind);

/* Whether it can happen with a replica, or in a cluster. */
bool fault_applies(enum fault_kind kind, bool replica, bool cluster);

/* ---- for the thread that causes the faults, one at a time ---- */

/* To be called before the fault is caused. */
void schedule_begin(struct fault_schedule *schedule, enum fault_kind kind, enum fault_rule rule);

/* Redis answers nobody from now on, until the fault is undone. */
void schedule_redis_down(struct fault_schedule *schedule);

/* To be called before the fault is undone. */
void schedule_redis_up(struct fault_schedule *schedule);

/*
 * For a fault during which the connection becomes useless, by this moment. Until then no data is older than
 * the beginning of the fault. From then on the stale limit counts.
 */
void schedule_switching(struct fault_schedule *schedule);
void schedule_switched(struct fault_schedule *schedule);

/* The fault has been undone: successful responses can be expected from now on. */
void schedule_undone(struct fault_schedule *schedule);

/* Every worker was seen to be connected again. */
void schedule_connected(struct fault_schedule *schedule);

/* Every worker has stayed connected. */
void schedule_end(struct fault_schedule *schedule);

/* The catalogue is about to be lost; it has been written again. */
void schedule_data_lost(struct fault_schedule *schedule);
void schedule_data_restored(struct fault_schedule *schedule);

/* How often a fault happened, and how long recovery took. */
struct schedule_stats {
    int count;
    int64_t max_wait;      /* from its undoing to the first success of a later request */
    int64_t max_reconnect; /* from its undoing to all workers being connected */
};
struct schedule_stats schedule_stats(struct fault_schedule *schedule, enum fault_kind kind);

/* ---- for any thread ---- */

struct expectation {
    int64_t since;         /* changes acknowledged by then must be reflected */
    bool strict;           /* no fault loosens the plain bound */
    bool errors_allowed;   /* 500 is acceptable */
    bool expired;          /* nothing but 500 is: the cache must not be used any more */
    bool silent;           /* Redis answered nobody: what does not exist is not known */
    bool complete;         /* the whole catalogue was there all the time */
    enum fault_kind fault; /* when not strict or when errors are allowed: which */
};

/* What is expected of a response to a request that was sent and answered at these times. */
struct expectation schedule_expect(struct fault_schedule *schedule, int64_t sent, int64_t received);

/* Records a successful response. */
void schedule_note_success(struct fault_schedule *schedule, int64_t sent, int64_t received);

/* The name of the current fault, or NULL. */
const char *schedule_current(struct fault_schedule *schedule);

#endif
