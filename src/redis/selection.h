/*
 * Selection: which server of those that Sentinels or the nodes of a cluster name is connected to, and until
 * when the one in use may be believed.
 *
 * The session passes every answer to this module, and every role and error of the server in use. Evidence
 * against a server counts from the last moment at which it was known to be the right one. It sends nothing,
 * but looks names up: a replica may name its master differently from Sentinel.
 *
 * Times are by the boot clock (clock.h), in milliseconds; 0: never, or not so.
 */
#ifndef REDIS_SELECTION_H
#define REDIS_SELECTION_H

#include "redis/endpoint.h"
#include "redis/locator.h"
#include "redis/resolver.h"

/* Whether two names of masters lead to a common address. */
struct selection_comparison {
    struct redis_address of[2];
    struct resolver side[2];
    int lookups_due; /* look-ups that have not ended */
    uint64_t begun_ms;
    enum selection_result { SELECTION_NOT_KNOWN, SELECTION_SAME, SELECTION_DIFFERENT } result;
};

/* Embedded in the session. */
struct selection {
    uv_loop_t *loop;
    const struct redis_endpoint *settings;
    uint64_t grace_ms; /* how long a replica is used against which there is evidence */

    struct redis_address address; /* the selected server; port 0: none yet */
    bool is_master;
    struct redis_address master; /* the master that is named */
    struct redis_address owner;  /* the node that MOVED has named */
    uint64_t owner_ms;           /* when it did so; 0: it did not, or the node could not be used */

    /* Trust in the server in use. */
    uint64_t confirmed_ms;   /* when this master was last named, or the replica last followed it */
    uint64_t right_until_ms; /* until when the server was the right one, if another is named, or if a replica
                            follows another master, or one that cannot be compared */
    uint64_t down_ms;        /* since when the replica is reported as down */
    struct selection_comparison masters; /* `master`, and the master that the replica follows */
};

/* `settings` is borrowed while it lives. Where it need not be discovered, its server is the right one. */
void selection_init(struct selection *s, uv_loop_t *loop, const struct redis_endpoint *settings,
                    uint64_t stale_limit_ms);

/* Cancels the look-ups of names. */
void selection_close(struct selection *s);

/* Whether MOVED has named a node within the last five seconds, which could be used. */
bool selection_has_owner(const struct selection *s);

/* Selects that replica of this master; NULL: the master itself. */
void selection_select(struct selection *s, const struct redis_address *master,
                      const struct redis_address *replica);

/* The replicas from which one may be selected. */
unsigned selection_replicas(const struct selection *s, const struct locator_answer *answer);

/* True for the master in place of a replica. */
bool selection_stands_in(const struct selection *s);

/* Checks the selected server, in use or not, by an answer. Returns NULL, or the reason to use another one. */
const char *selection_check_answer(struct selection *s, const struct locator_answer *answer, bool in_use);

/* Checks the master of a replica by an INFO that was sent at `sent_ms`. Returns NULL, or the reason likewise.
 */
const char *selection_check_master(struct selection *s, const struct redis_address *master, uint64_t sent_ms);

/* Takes an error of a node that does not have the slot. True if it names the owner. */
bool selection_take_error(struct selection *s, const struct redis_reply *error);

/* Until when the server is known to have been the right one; UINT64_MAX while it is. */
uint64_t selection_trusted_until_ms(const struct selection *s);

#endif
