/*
 * Selection: which server of those that Sentinels or the nodes of a cluster name is connected to, and until
 * when the one in use may be believed.
 *
 * The session passes every answer to this module, and every ROLE and error of the server in use. Evidence
 * against a server counts from the last moment at which it was known to be the right one. It sends nothing,
 * but looks names up: a replica may name its master differently from Sentinel.
 *
 * Times are by the boot clock (clock.h), in milliseconds; 0: never, or not so.
 */
#ifndef REDIS_SELECTION_H
#define REDIS_SELECTION_H

#include "redis/endpoint.h"
#include "redis/locator.h"
#include "redis/metrics.h"
#include "redis/resolver.h"

/* The replicas that have failed, in turn, before the master stands in for the others. */
enum { SELECTION_FAILED_MAX = 2 };

/* Whether two names of masters lead to a common address. */
struct selection_comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int lookups_due; /* look-ups that have not ended */
    bool failed;     /* one of them found nothing */
    bool equal;
    uint64_t made_ms; /* 0: never */
};

/* Embedded in the session; private to selection.c. */
struct selection {
    uv_loop_t *loop;
    const struct redis_endpoint *settings;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms;

    struct redis_address address; /* the selected server */
    bool is_master;
    struct redis_address master; /* the master that is named */
    struct redis_address owner;  /* the node that MOVED has named */
    uint64_t owner_ms;           /* when it did so; 0: it did not, or the node cannot be used */
    unsigned failed_count;       /* replicas in a row, since one has stayed in use */

    /* For the kind of a failover. */
    struct redis_address followed; /* the master when a server was last in use; port 0: none was */
    bool migrates;                 /* the slot has begun to leave it */

    /* Trust in the server in use. */
    uint64_t confirmed_ms;   /* when this master was last named, or the replica last followed it */
    uint64_t right_until_ms; /* until when the server was the right one, if another is named, or if a replica
                            follows another master, or one that cannot be compared */
    uint64_t down_ms;        /* since when the replica is reported as down */
    struct selection_comparison masters; /* `master`, and the master that the replica follows */
};

/* `settings` is borrowed while it lives. Where it need not be discovered, its server is the right one. */
void selection_init(struct selection *s, uv_loop_t *loop, const struct redis_endpoint *settings,
                    struct redis_metrics *metrics, uint64_t stale_limit_ms);

/* Cancels the look-ups of names. */
void selection_close(struct selection *s);

/* Selects the node that MOVED has named within the last five seconds. False: there is none, or it has failed.
 */
bool selection_take_owner(struct selection *s);

/*
 * Selects a server of the answer: replica number `turn`, modulo those. After SELECTION_FAILED_MAX failures of
 * replicas, and where none is wanted or listed, the master.
 */
void selection_take_answer(struct selection *s, const struct locator_answer *answer, unsigned turn);

/* The replicas from which one is selected. */
unsigned selection_replicas(const struct selection *s, const struct locator_answer *answer);

/* True for the master in place of a replica. */
bool selection_stands_in(const struct selection *s);

/* The selected server could not be used. */
void selection_failed(struct selection *s);

/* The selected server is in use, and then has stayed in use. */
void selection_used(struct selection *s);
void selection_stayed(struct selection *s);

/* Checks the selected server, in use or not, by an answer. Returns NULL, or the reason to use another one. */
const char *selection_check_answer(struct selection *s, const struct locator_answer *answer, bool in_use);

/* Checks the master of a replica by a ROLE that was sent at `sent_ms`. Returns NULL, or the reason likewise.
 */
const char *selection_check_master(struct selection *s, const struct redis_address *master, uint64_t sent_ms);

/* Takes an error of a node of a cluster. True for a MOVED: its owner, if it names one, is the next server. */
bool selection_take_error(struct selection *s, const struct redis_reply *error);

/* Until when the server is known to have been the right one; UINT64_MAX while it is. */
uint64_t selection_trusted_until_ms(const struct selection *s);

#endif
