#ifndef COHERENCE_WEATHER_H
#define COHERENCE_WEATHER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which faults were on and when, and hence what may be expected of an answer.
 *
 * In calm weather an answer knows every change that was acknowledged one bound before its request was sent.
 * While a fault is on that cuts channeld off from Redis, it may answer from memory and knows what was
 * acknowledged one bound before the fault began; but no longer than its stale limit, and after the lease of
 * what it last heard. Redis queues the invalidations of a turn of its loop at the turn's end. Where it hands
 * acknowledgements out before, an answer knows what was acknowledged one bound before the turn began, for the
 * rest of the turn, and at most for the lease. A fault ends when Redis answers again and every worker is
 * connected to it; one bound after this the weather is calm.
 */

enum fault_kind {
    FAULT_KILL,        /* CLIENT KILL of channeld's connections */
    FAULT_PAUSE,       /* CLIENT PAUSE 200 ALL */
    FAULT_PAUSE_WRITE, /* CLIENT PAUSE 200 WRITE */
    FAULT_STOP,        /* SIGSTOP of redis-server, 0.5 s */
    FAULT_STOP_LONG,   /* 4 s */
    FAULT_RESTART,     /* redis-server killed and started again with other data */
    FAULT_DOWN,        /* the same, and away for 3 s */
    FAULT_FLUSH,       /* FLUSHALL, and other data */
    FAULT_FREEZE,      /* SIGSTOP of channeld, 1 s */
    FAULT_FREEZE_LONG, /* 4 s */
    FAULT_SLOW,        /* a command that takes Redis 200 ms */
    FAULT_SCRIPT,      /* a script that runs for so long that Redis answers BUSY meanwhile, and other data */
    FAULT_KINDS,
};

/* What a fault permits. */
enum fault_rule {
    RULE_COHERENT, /* nothing: channeld stays in touch */
    RULE_CUT_OFF,  /* answers from memory, within the stale limit */
    RULE_LEASE,    /* answers from memory, within the lease */
};

enum { WEATHER_LEASE_MS = 3000, WEATHER_REQUEST_TIMEOUT_MS = 1000 };

struct weather_limits {
    int64_t bound;
    int64_t stale_limit;
};

struct weather;

/* Owned. */
struct weather *weather_new(const struct weather_limits *limits);
void weather_free(struct weather *weather);

const char *weather_fault_name(enum fault_kind kind);
bool weather_fault_is_quick(enum fault_kind kind);

/* ---- the thread that causes the faults, one at a time ---- */

/* To be called before anything is done. */
void weather_begin(struct weather *weather, enum fault_kind kind, enum fault_rule rule);

/* Nobody answers Redis' clients from now on, until the fault is lifted. */
void weather_go_dark(struct weather *weather);

/* To be called before what was done is undone. */
void weather_brighten(struct weather *weather);

/* It was undone: good answers can be expected from now on. */
void weather_lift(struct weather *weather);

/* Every worker was seen to be connected again. */
void weather_connected(struct weather *weather);

/* And has stayed so. */
void weather_end(struct weather *weather);

/* The catalogue is being lost (before it is), and has been written again. */
void weather_wipe(struct weather *weather);
void weather_reloaded(struct weather *weather);

/* How often there was a fault, and how long it took to recover. */
struct weather_record {
    int count;
    int64_t longest_wait;   /* from its lifting to the first good answer to a later request */
    int64_t longest_return; /* from its lifting to all workers being connected */
};
struct weather_record weather_record(struct weather *weather, enum fault_kind kind);

/* ---- any thread ---- */

struct outlook {
    int64_t since;         /* changes acknowledged by then must be known */
    bool calm;             /* by the plain bound */
    bool excused;          /* 500 is a fair answer */
    bool dark;             /* and the only one: memory must not be used any more */
    bool settled;          /* no part of the catalogue was missing meanwhile */
    enum fault_kind fault; /* when not calm or excused: which */
};

/* What can be expected of an answer to a request sent and answered then. */
struct outlook weather_look(struct weather *weather, int64_t sent, int64_t received);

/* A good answer to a request that was sent and answered then. */
void weather_note_good(struct weather *weather, int64_t sent, int64_t received);

/* The fault that is on, or NULL. */
const char *weather_now(struct weather *weather);

#endif
